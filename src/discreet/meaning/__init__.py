"""What ε means: odds, risks, attacks, and how to choose it from a stated tolerance.

>>> from discreet import meaning
>>> meaning.epsilon_for(increase=1.25)
0.111572 (against a world without one person's data; everything released about them counted)
"""

from __future__ import annotations

from discreet.meaning._attacker import Attacker, attacker
from discreet.meaning._blowfish import Blowfish
from discreet.meaning._choose import Epsilon, SecretSample, epsilon_for, secret_sample
from discreet.meaning._html import html
from discreet.meaning._odds import Against, Belief, RiskTable, odds_bound, posterior, risk_table
from discreet.meaning._page import page
from discreet.meaning._pufferfish import Pufferfish, SecretPair
from discreet.meaning._spending import Meaning, of

__all__ = [
    "Against",
    "Attacker",
    "Belief",
    "Blowfish",
    "Epsilon",
    "Meaning",
    "Pufferfish",
    "RiskTable",
    "SecretPair",
    "SecretSample",
    "attacker",
    "epsilon_for",
    "html",
    "odds_bound",
    "of",
    "page",
    "posterior",
    "risk_table",
    "secret_sample",
]
