"""Settings that deployed systems have published, ready to run.

Figures are those of the published descriptions; ε is per report unless said
otherwise. What a person loses in all depends on how many reports a day the vendor
accepts, which is not part of a protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from discreet._dataclass import dataclass
from discreet.local._protocol import LocalProtocol
from discreet.local._rappor import Rappor
from discreet.local._sketch import CountMeanSketch, HadamardSketch


@dataclass(frozen=True, slots=True)
class Setting:
    """A published deployment."""

    name: str
    source: str
    build: Callable[[], LocalProtocol]

    @property
    def protocol(self) -> LocalProtocol:
        """The protocol with the published parameters."""
        return self.build()


_APPLE: Final = "Apple, Learning with privacy at scale, 2017"
_GOOGLE: Final = "Erlingsson, Pihur, Korolova, RAPPOR, CCS 2014"


PUBLISHED: Final[Mapping[str, Setting]] = {
    s.name: s
    for s in (
        Setting("rappor", _GOOGLE, lambda: Rappor(128, 2, 64, campaign="rappor")),
        Setting("apple-emoji", _APPLE, lambda: CountMeanSketch(4, None, 1024, 65536, "emoji")),
        Setting("apple-health", _APPLE, lambda: CountMeanSketch(2, None, 256, 65536, "health")),
        Setting("apple-safari", _APPLE, lambda: HadamardSketch(4, None, 32768, 1024, "safari")),
        Setting("apple-autoplay", _APPLE, lambda: HadamardSketch(8, None, 32768, 1024, "autoplay")),
    )
}
"""RAPPOR's and Apple's published settings, by name."""
