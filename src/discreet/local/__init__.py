"""The untrusted curator: people randomise their own answers before they send them.

Every protocol is two halves with a wire format between them: a client
(``protocol.randomize(values)``, or ``protocol.client()`` for one person) and an aggregator
(``protocol.aggregator()``: ``update``, ``merge``, ``estimate``). Each states exactly
what one report costs (``epsilon``, ``loss``, ``odds``) and how well it estimates
(``variance``).

>>> from discreet import local
>>> survey = local.RandomizedResponse(p="0.5")
>>> round(survey.epsilon, 6)
1.098612
>>> estimate = survey.aggregator().update(survey.randomize([1, 0, 0] * 10_000)).estimate()
>>> low, high = estimate.interval("0.999999999999")
>>> bool(low[1] < 1 / 3 < high[1])
True

====================  ===========================================================
shares of few items   :class:`RandomizedResponse`, :class:`KaryResponse`
shares of items       :class:`SymmetricUnary`, :class:`OptimizedUnary`,
                      :class:`SubsetSelection`
large domains         :class:`LocalHashing`, :class:`HadamardResponse`
unknown strings       :class:`Rappor`, :class:`CountMeanSketch`,
                      :class:`HadamardSketch`, :class:`HeavyHitters`
numbers               :class:`LocalMean`, :class:`LocalVector`, :class:`KeyValue`
ordered values        :class:`SquareWave`, :class:`Hierarchy`
====================  ===========================================================

:func:`best` chooses, :func:`simulate` plans, :func:`shuffle` and :func:`secret_sample`
amplify, :func:`manipulation` says what fake clients can do.
"""

from __future__ import annotations

from discreet.local._aggregator import Aggregator, Tally
from discreet.local._amplification import Shuffled, sample_epsilon, secret_sample, shuffle
from discreet.local._best import Candidate, Choice, best
from discreet.local._categorical import (
    KaryResponse,
    OptimizedUnary,
    RandomizedResponse,
    SymmetricUnary,
)
from discreet.local._decode import BitShares, Decoded
from discreet.local._estimate import Estimate
from discreet.local._frequency import BinaryEstimate, FrequencyEstimate, FrequencyProtocol
from discreet.local._hadamard import HadamardResponse
from discreet.local._hashing import LocalHashing
from discreet.local._heavy import HeavyEstimate, HeavyHitters
from discreet.local._intervals import Interval
from discreet.local._keyvalue import KeyValue, KeyValueEstimate
from discreet.local._manipulation import Gain, manipulation
from discreet.local._mean import LocalMean, MeanEstimate
from discreet.local._ordinal import DistributionEstimate, Hierarchy
from discreet.local._postprocess import bits_likelihood, kary_likelihood, norm_sub
from discreet.local._protocol import Client, LocalProtocol, protocol_from_spec
from discreet.local._published import PUBLISHED, Setting
from discreet.local._rappor import Rappor, RapporClient
from discreet.local._simulate import error_chart, simulate
from discreet.local._sketch import CountMeanSketch, HadamardSketch
from discreet.local._subset import SubsetSelection
from discreet.local._vector import LocalVector, VectorEstimate
from discreet.local._wave import SquareWave
from discreet.local._wire import Reports

__all__ = [
    "PUBLISHED",
    "Aggregator",
    "BinaryEstimate",
    "BitShares",
    "Candidate",
    "Choice",
    "Client",
    "CountMeanSketch",
    "Decoded",
    "DistributionEstimate",
    "Estimate",
    "FrequencyEstimate",
    "FrequencyProtocol",
    "Gain",
    "HadamardResponse",
    "HadamardSketch",
    "HeavyEstimate",
    "HeavyHitters",
    "Hierarchy",
    "Interval",
    "KaryResponse",
    "KeyValue",
    "KeyValueEstimate",
    "LocalHashing",
    "LocalMean",
    "LocalProtocol",
    "LocalVector",
    "MeanEstimate",
    "OptimizedUnary",
    "RandomizedResponse",
    "Rappor",
    "RapporClient",
    "Reports",
    "Setting",
    "Shuffled",
    "SquareWave",
    "SubsetSelection",
    "SymmetricUnary",
    "Tally",
    "VectorEstimate",
    "best",
    "bits_likelihood",
    "error_chart",
    "kary_likelihood",
    "manipulation",
    "norm_sub",
    "protocol_from_spec",
    "sample_epsilon",
    "secret_sample",
    "shuffle",
    "simulate",
]
