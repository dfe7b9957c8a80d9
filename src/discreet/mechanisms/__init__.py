"""Mechanisms: private answers in three lines, exactly as noisy as they say.

Each call returns an object with ``.value``, the noise ``.law``, the privacy ``.loss`` of the
law actually drawn, and ``.interval(confidence)``.

=====================  ==================================================  ==============
function               releases                                            cost
=====================  ==================================================  ==============
laplace                numbers, L1 sensitivity                             ε
geometric              integers, L1 sensitivity                            ε
gaussian               numbers, L2 sensitivity                             (ε, δ) or ρ
exponential            a choice by score                                   ε (ε²/8-zCDP)
permute_and_flip       a choice by score, more accurate at the same ε      ε
noisy_max              the index of the largest value                      ε
sparse_vector          which values exceed a threshold                     ε
randomized_response    one's own answer, randomised                        ε per person
threshold_keys         groups nobody listed beforehand, and their counts   (ε, δ)
smooth_median          a median, with noise fitted to the data             ε or (ε, δ)
=====================  ==================================================  ==============

:func:`sensitivity` computes Δ for linear queries under either neighbour relation.

Examples
--------
>>> from discreet import mechanisms as m
>>> answer = m.laplace(1000, sensitivity=1, epsilon="0.1")
>>> low, high = answer.interval(0.95)
>>> low < answer.value < high
True
"""

from discreet.mechanisms._additive import gaussian, geometric, laplace
from discreet.mechanisms._calls import Call, Norm, Recorder, recorded, recording
from discreet.mechanisms._exponential import Exponential, exponential, permute_and_flip
from discreet.mechanisms._linear import sensitivity
from discreet.mechanisms._median import (
    local_sensitivity_median,
    smooth_median,
    smooth_sensitivity_median,
)
from discreet.mechanisms._noisy_max import noisy_max
from discreet.mechanisms._randomized_response import (
    Estimate,
    RandomizedResponse,
    Responses,
    randomized_response,
)
from discreet.mechanisms._release import Interval, Release, Selection
from discreet.mechanisms._sparse_vector import SparseVector, sparse_vector
from discreet.mechanisms._thresholds import (
    Keys,
    KeyThreshold,
    interval_given_release,
    threshold_keys,
)

__all__ = [
    "Call",
    "Estimate",
    "Exponential",
    "Interval",
    "KeyThreshold",
    "Keys",
    "Norm",
    "RandomizedResponse",
    "Recorder",
    "Release",
    "Responses",
    "Selection",
    "SparseVector",
    "exponential",
    "gaussian",
    "geometric",
    "interval_given_release",
    "laplace",
    "local_sensitivity_median",
    "noisy_max",
    "permute_and_flip",
    "randomized_response",
    "recorded",
    "recording",
    "sensitivity",
    "smooth_median",
    "smooth_sensitivity_median",
    "sparse_vector",
    "threshold_keys",
]
