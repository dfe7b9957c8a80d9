"""Nets: what a wide corpus of calls gives today, recorded, so that no number moves unnoticed.

What a net proves, and what it does not
---------------------------------------
A net holds hundreds of small calls, in families, of the modules on which privacy rests. Beside it
stands what each call gave when it was last written down. A test that compares the two proves
that *nothing has changed unnoticed*. It does not prove that anything is right: a wrong number,
once written down, is guarded as well as a right one. That they are right is what the oracles,
proofs and audits of the other tests are for. So:

* a net fails, and the change was not meant: it has found a fault;
* a net fails, and the change was meant: look at what moved (``--show``), see that the tests which
  know the truth still pass, and write it anew (``--write``) in the same commit.

::

    python -m tests.snapshots                       # compare everything
    python -m tests.snapshots --show privacy:zcdp   # what a family of cases gives now, in full
    python -m tests.snapshots --write [privacy]     # write it down

How it is written down
----------------------
A line of ``<net>.txt`` is one case: its name, a hash of everything exact (integers, short
rationals, texts, verdicts, the signs of other numbers), and one number that stands for all
doubles, :math:`\\sum w_i\\ln|x_i|`, which moves by about as much as any of them does, relative to
itself.
Doubles are compared to ten digits: the last bits of ``exp`` and ``log`` are the machine's. No case
depends on the hash seed, the locale, the time zone or the clock.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from fractions import Fraction
from pathlib import Path
from types import FunctionType

import numpy as np

NETS = ("noise", "mechanisms", "privacy", "plan", "verify", "ledger", "engines")
HERE = Path(__file__).parent
CLOSE = 1e-10
"""How far a double may move, relative to itself."""
_LONG = 64
"""Bits of a rational beyond which it is a rounded double, not a number that somebody wrote."""

Case = Callable[[], object]
Families = Mapping[str, Callable[[], Iterable[tuple[str, Case]]]]
"""Cases by family; a family is made when it is asked for, and is one test."""


def families(net: str) -> Families:
    """Families of a net by their names."""
    found: Families = importlib.import_module(f"tests.snapshots._{net}").FAMILIES
    return found


def recorded(net: str, family: str) -> dict[str, str]:
    """What was written down, by the name of the case."""
    lines = (HERE / f"{net}.txt").read_text("utf-8").splitlines()
    rows = (line.split("  ") for line in lines if line.startswith(f"{family}/"))
    return {name.partition("/")[2]: what for name, what in rows}


def measured(net: str, family: str) -> dict[str, str]:
    """What the cases give now."""
    return {name: digest(outcome(case)) for name, case in families(net)[family]()}


def outcome(case: Case) -> object:
    """What a case gives; a refusal is an outcome as well."""
    try:
        return case()
    except Exception as refusal:
        hint = getattr(refusal, "hint", None)
        return "refused", type(refusal).__name__, str(refusal), None if hint is None else str(hint)


def changed(net: str, family: str) -> list[str]:
    """Cases that differ from what was written down, and how."""
    before, now = recorded(net, family), measured(net, family)
    told = []
    for name in [*before, *(n for n in now if n not in before)]:
        old, new = before.get(name), now.get(name)
        if old is None or new is None:
            told.append(f"{net}:{family}/{name} is {'new' if old is None else 'gone'}")
        elif (said := _difference(old, new)) is not None:
            told.append(f"{net}:{family}/{name} {said}")
    return told


def _difference(old: str, new: str) -> str | None:
    (before, first), (after, second) = (text.split(" ") for text in (old, new))
    if before != after:
        return "says something else"
    moved = abs(float(first) - float(second))
    # a difference of infinities or of no numbers is one of hashes
    return f"has moved by {moved:.2g} of itself" if moved > CLOSE * 10 else None


class Rough(float):
    """A double whose last digits are rounding, magnified: compared to four digits.

    What is left of a sum that cancels, or comes out of a transform, differs from one kind of
    processor to the next by far more than its last bit.
    """


def rough(value: object, least: float = 0.0) -> object:
    """Doubles of a value as rough ones; those below the least count as nothing."""
    if isinstance(value, np.ndarray | list | tuple):
        return [rough(x, least) for x in np.asarray(value, dtype=object).ravel().tolist()]
    small = isinstance(value, float) and abs(value) < least
    return Rough(0.0 if small else value) if isinstance(value, float) else value


# -- what is exact, and what is a double ------------------------------------------------


def digest(value: object) -> str:
    """Hash of what is exact, and the number that stands for all doubles."""
    words, doubles = flat(value)
    exact = hashlib.sha256("\x1f".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:12]
    total = math.fsum((1 + i * 0.6180339887498949 % 1) * math.log(x) for i, x in enumerate(doubles))
    return f"{exact} {total / max(math.sqrt(len(doubles)), 1):.13g}"


def flat(value: object) -> tuple[list[str], list[float]]:
    """Words and sizes of doubles that a value is made of, in order."""
    words: list[str] = []
    doubles: list[float] = []
    for part in _parts(value):
        if isinstance(part, float):
            sign = "+" if part > 0 else "-" if part < 0 else "0"
            usual = math.isfinite(part) and abs(part) > 1e-290
            words.append(
                f"#{sign}" if usual else "tiny" if math.isfinite(part) and part else repr(part)
            )
            # of a rough one the logarithm counts a millionth: see `Rough`
            size = abs(part) ** 1e-6 if isinstance(part, Rough) else abs(part)
            doubles += [size] if usual else []
        else:
            words.append(part)
    return words, doubles


def _parts(value: object) -> Iterator[str | float]:  # noqa: PLR0912 - one case for each type
    match value:
        case None | bool() | str() | bytes() | Enum():
            yield f"{type(value).__name__} {value}"
        case int() | np.integer() | np.bool_():
            yield f"int {int(value)}"
        case Rough():
            yield value
        case float() | np.floating():
            yield float(value)
        case Fraction():
            long = value.numerator.bit_length() + value.denominator.bit_length() > _LONG
            yield float(value) if long and abs(value) < 1e300 else f"rational {value}"
        case np.ndarray():
            yield f"array {value.shape} {value.dtype}"
            for x in np.asarray(value).ravel().tolist():
                yield from _parts(x)
        case Mapping():
            yield f"{{{len(value)}"
            for key, x in value.items():
                yield from _parts(key)
                yield from _parts(x)
        case set() | frozenset():
            yield from _parts(sorted(value, key=str))
        case tuple() | list():
            yield f"{type(value).__name__} {len(value)}"
            for x in value:
                yield from _parts(x)
        case FunctionType() | type():
            yield value.__qualname__
        case _ if dataclasses.is_dataclass(value):
            yield type(value).__name__
            for field in dataclasses.fields(value):
                if field.name.startswith("__"):
                    continue
                yield from _parts(getattr(value, field.name))
        case BaseException():
            yield f"{type(value).__name__} {value}"
        case _:
            yield re.sub(r" at 0x[0-9a-f]+", "", repr(value))


@contextmanager
def quiet() -> Iterator[None]:
    """Floating-point warnings of extreme cases are part of nothing."""
    with np.errstate(all="ignore"):
        yield
