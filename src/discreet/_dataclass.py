"""The standard library's dataclasses, made in less than half of the time.

Python 3.11 compiles six functions for each frozen class, one by one. Of a fresh process's first
answer that was a quarter. Here only ``__init__`` is compiled; the others are closures over the
names of the fields. Classes mean the same: fields, defaults, equality, hashes, ``replace``,
copies and pickles. A class and its bases must be made alike. ``replace`` is ours as well: every
question takes some thirty of them, and the standard library's looks at each field each time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, asdict, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

__all__ = ["asdict", "dataclass", "field", "fields", "replace"]
_STORE: Final = object.__setattr__
_UNSET: Final = object()


def _dataclass(
    cls: type | None = None,
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - named as in the standard library
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
) -> Any:
    """Make a class as :func:`dataclasses.dataclass` does."""

    def make(plain: type) -> type:
        own = plain.__dict__
        if plain.__doc__ is None:
            plain.__doc__ = plain.__name__  # else its signature is looked up, which takes long
        methods: dict[str, Any] = {}
        kind: type = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots)(plain)
        if init:
            methods["__init__"] = _init(kind, frozen=frozen)
        if repr:
            methods["__repr__"] = _repr
        if eq:
            methods |= _equality(kind, frozen=frozen)
        if frozen:
            methods |= _fence(kind) | ({"__setstate__": _setstate} if slots else {})
        for name, method in methods.items():
            # an own __eq__ leaves None for a hash behind, which nobody wrote
            if own.get(name) is None:
                setattr(kind, name, method)
        return kind

    return make if cls is None else make(cls)


def _init(cls: type, *, frozen: bool) -> Callable[..., None]:
    """Compile the one function whose speed is worth it."""
    namespace: dict[str, Any] = {"_store": _STORE, "_unset": _UNSET}
    lines = [line for f in fields(cls) if (line := _assignment(f, namespace, cls, frozen=frozen))]
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = sorted((f for f in fields(cls) if f.init), key=lambda f: bool(f.kw_only))
    words = [_parameter(f) for f in parameters]
    first = next((i for i, f in enumerate(parameters) if f.kw_only), None)
    if first is not None:
        words.insert(first, "*")
    body = "\n ".join(lines or ["pass"])
    exec(f"def __init__({', '.join(['self', *words])}):\n {body}", namespace)  # noqa: S102 - of names in the source
    function: Callable[..., None] = namespace["__init__"]
    function.__annotations__ = {f.name: f.type for f in parameters} | {"return": None}
    return function


def _parameter(f: Field[Any]) -> str:
    if f.default is not MISSING:
        return f"{f.name}=_default_{f.name}"
    return f.name if f.default_factory is MISSING else f"{f.name}=_unset"


def _assignment(f: Field[Any], namespace: dict[str, Any], cls: type, *, frozen: bool) -> str:
    """Line that gives a field its value, if it gets one here."""
    value = f.name
    if f.default_factory is not MISSING:
        namespace[f"_make_{f.name}"] = f.default_factory
        value = f"_make_{f.name}()" + (f" if {f.name} is _unset else {f.name}" if f.init else "")
    elif f.default is not MISSING:
        namespace[f"_default_{f.name}"] = f.default
        if not f.init:
            if "__slots__" not in cls.__dict__:
                return ""  # it stands in the class
            value = f"_default_{f.name}"
    elif not f.init:
        return ""
    return f"_store(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}"


def _repr(self: Any) -> str:
    values = ", ".join([f"{f.name}={getattr(self, f.name)!r}" for f in fields(self) if f.repr])
    return f"{type(self).__qualname__}({values})"


def _equality(cls: type, *, frozen: bool) -> dict[str, Any]:
    values = _values([f.name for f in fields(cls) if f.compare])

    def equal(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    # what is equal and may change is no key of a mapping
    return {"__eq__": equal, "__hash__": (lambda self: hash(values(self))) if frozen else None}


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    of: Callable[[Any], Any] = attrgetter(*names)
    return of if len(names) > 1 else lambda self: (of(self),)


def _fence(cls: Any) -> dict[str, Any]:
    """Refuse to change fields, and everything in the class itself."""
    names = frozenset(f.name for f in fields(cls))

    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": assign, "__delattr__": delete}


def _setstate(self: Any, state: Any) -> None:
    """Put a copy's fields where they were: a frozen class lets nobody else do it."""
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            _STORE(self, name, value)


_PARAMETERS: Final[dict[type, tuple[str, ...]]] = {}
"""Fields that constructors of classes take."""


def _replace(old: Any, /, **changes: Any) -> Any:
    """Make an object like `old` but for some fields, by its constructor."""
    kind = type(old)
    names = _PARAMETERS.get(kind)
    if names is None:
        if not all(f.init for f in fields(old)):
            return dataclasses.replace(old, **changes)  # it refuses those that are not given
        names = _PARAMETERS[kind] = tuple([f.name for f in fields(old)])
    for name in names:
        if name not in changes:
            changes[name] = getattr(old, name)
    return kind(**changes)


if TYPE_CHECKING:
    from dataclasses import dataclass, replace
else:
    dataclass, replace = _dataclass, _replace
