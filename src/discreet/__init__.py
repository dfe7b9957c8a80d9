"""discreet: a differentially private data curator.

It is *discreet* about people, and every number it lets out is *discrete*: an
integer on a public lattice. Submodules load on first use, so that
``import discreet`` costs next to nothing.

>>> from discreet import mechanisms as m
>>> m.laplace(1000, sensitivity=1, epsilon="0.1").loss.epsilon()
0.1
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from discreet._lazy import load as _load

if TYPE_CHECKING:
    from discreet import (
        audit,
        errors,
        inference,
        lab,
        ledger,
        local,
        meaning,
        mechanisms,
        noise,
        policy,
        privacy,
        release,
    )
    from discreet.answer import Answer
    from discreet.curator import Curator
    from discreet.curator import open_curator as open  # noqa: A004 - dc.open is the public name

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "Curator",
    "__version__",
    "audit",
    "connect",
    "corr",
    "count",
    "count_distinct",
    "cov",
    "errors",
    "inference",
    "intercept",
    "lab",
    "ledger",
    "local",
    "max",
    "mean",
    "meaning",
    "mechanisms",
    "median",
    "min",
    "mode",
    "noise",
    "open",
    "policy",
    "privacy",
    "proportion",
    "quantile",
    "r2",
    "release",
    "slope",
    "std",
    "sum",
    "var",
]

_STATISTICS = (
    "corr", "count", "count_distinct", "cov", "intercept", "max", "mean", "median", "min", "mode",
    "proportion", "quantile", "r2", "slope", "std", "sum", "var",
)  # fmt: skip
_NAMES = {
    "Answer": ("answer", "Answer"),
    "Curator": ("curator", "Curator"),
    "connect": ("service", "connect"),
    "open": ("curator", "open_curator"),
    **{name: ("frame", name) for name in _STATISTICS},
}
_SUBMODULES = frozenset(__all__) - {"__version__", *_NAMES}


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return _load(f"discreet.{name}")
    if name in _NAMES:
        module, attribute = _NAMES[name]
        return getattr(_load(f"discreet.{module}"), attribute)
    raise AttributeError(f"module 'discreet' has no attribute {name!r}")


def load_ipython_extension(shell: object) -> None:
    """Make the cell magic ``%%discreet`` known: ``%load_ext discreet``."""
    _load("discreet.service").load_magic(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
