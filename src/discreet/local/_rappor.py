r"""RAPPOR: strings from many devices, again and again, behind two layers of coins.

Guarantee
---------
A value sets h bits of a Bloom filter of k bits (which ones depends on the device's
cohort). **Permanent**: each bit flips with probability f/2, once; the device
remembers the result for that value. **Instantaneous**: each report sends a set bit as 1 with
probability q and a clear one with probability p.

Two values differ in at most 2h bits, whatever the hash, so for one device and value

* any number of reports is ε∞-DP, e^{ε∞} = ((1−f/2)/(f/2))^{2h};
* one report is ε₁-DP. A bit is 1 with probability q* = ½f(p+q) + (1−f)q or
  p* = ½f(p+q) + (1−f)p, and e^{ε₁} = (q*(1−p*)/(p*(1−q*)))^h: of the 2h bits, h rise
  and h fall, and each pair contributes the ratio once.

The published setting f = ½, p = ½, q = ¾, h = 2 gives ε∞ = ln 81 = 4.39445 and
ε₁ = ln(5929/2025) = 1.07429 (Erlingsson, Pihur, Korolova, CCS 2014). Their paper's ε∞
is this formula; leaving out h, as one package does, understates ε₁ by half.

ε(m) for m reports of one memoised value lies between and is nearly ε∞ after a week:
:meth:`Rappor.epsilon_after`. Each *new* value costs ε∞ again; a new device or a lost
memo does, too. ε∞ compares two *constant* values, or two histories with the *same pattern of
equal values* (at any two times one device holds equal values if and only if the other does:
v, w, v and u, x, u, but not u, x, y): that a value changed, or came back, shows in the
reports, and no ε bounds how much. The permanent
bits are a fingerprint and are never sent. Knowing the cohort helps nobody: it is drawn
independently of the value, and the bounds hold for any hash.

Assumptions: the memo is kept; the cohort is drawn once, independently of the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet import privacy as p_
from discreet._dataclass import dataclass
from discreet._exact import Number
from discreet.errors import Hint, ParameterError
from discreet.local import _bits, _decode, _draws
from discreet.local._aggregator import Tally
from discreet.local._bits import Counts, Words
from discreet.local._draws import Rng
from discreet.local._frequency import line_variance, read_shares
from discreet.local._intervals import Floats, bits_variance
from discreet.local._protocol import Client, LocalProtocol
from discreet.local._rationals import log_up, read_mark, read_probability, read_whole
from discreet.local._wire import Columns, Field, Reports

UNIT = "device whose pattern of equal values is known"
"""Whom the loss of a device with a memo is about."""


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class Rappor(LocalProtocol):
    """RAPPOR, complete: Bloom filters, cohorts, permanent and instantaneous coins.

    ``randomize`` draws a cohort and both layers afresh for each value: right for one report per
    person. Devices that report repeatedly use :meth:`client`, which remembers.

    Parameters
    ----------
    bits, hashes, cohorts
        Size of the Bloom filter, hash functions, groups of devices.
    f
        Permanent: chance that a bit is replaced by a fair coin (once).
    p, q
        Instantaneous: chance to send 1 for a clear and for a set bit.
    campaign
        Public name of the collection; separates its hashes from others'.

    Examples
    --------
    >>> from discreet import local
    >>> rappor = local.Rappor(bits=128, hashes=2, cohorts=64, f="0.5", p="0.5", q="0.75")
    >>> round(rappor.epsilon_permanent, 5), round(rappor.epsilon_instant, 5)
    (4.39445, 1.07429)
    """

    name: ClassVar[str] = "rappor"
    stated: ClassVar[tuple[str, ...]] = (
        "bits", "hashes", "cohorts", "f", "p", "q", "campaign", "hash",
    )  # fmt: skip
    options: ClassVar[tuple[str, ...]] = ("candidates", "confidence")
    bits: int
    hashes: int
    cohorts: int
    f: Fraction
    p: Fraction
    q: Fraction
    campaign: str
    odds_instant: Fraction
    rates: tuple[Fraction, Fraction]
    """q* and p*: chance that a set and a clear Bloom bit is reported as 1."""

    def __init__(
        self,
        bits: int = 128,
        hashes: int = 2,
        cohorts: int = 64,
        *,
        f: Number = "0.5",
        p: Number = "0.5",
        q: Number = "0.75",
        campaign: str = "",
    ) -> None:
        flip, low, high = (read_probability(x, n) for x, n in ((f, "f"), (p, "p"), (q, "q")))
        if low >= high:
            raise ParameterError(
                "q must exceed p: set bits are sent as 1 more often", hint=Hint("q", "0.75")
            )
        h = read_whole(hashes, "hashes", most=32)
        k = read_whole(bits, "bits", least=2, most=1 << 16)
        groups = read_whole(cohorts, "cohorts", most=1 << 16)
        permanent = ((1 - flip / 2) / (flip / 2)) ** (2 * h)
        coin = flip * (low + high) / 2
        one, zero = coin + (1 - flip) * high, coin + (1 - flip) * low
        self._set(
            claimed=log_up(permanent), odds=permanent, rates=(one, zero),
            odds_instant=(one * (1 - zero) / (zero * (1 - one))) ** h,
            bits=k, hashes=h, cohorts=groups, f=flip, p=low, q=high, campaign=str(campaign),
            fields=(Field("cohort", limit=groups), Field("bits", bits=k)),
            state_shape=(groups, k + 1),  # ones per cohort and bit, and reports per cohort
        )  # fmt: skip

    # -- what it promises -------------------------------------------------------

    @property
    def epsilon_permanent(self) -> float:
        """ε∞: any number of reports about one value from one device with a memo."""
        return self.epsilon

    @property
    def epsilon_instant(self) -> float:
        """ε₁: a single report."""
        return p_.Pure(log_up(self.odds_instant)).epsilon()

    def epsilon_after(self, reports: int) -> float:
        """Return ε of `reports` reports about one memoised value, between ε₁ and ε∞.

        Given the permanent bit, a bit's reports matter through their sum s alone;
        ε is h times the range of its log-likelihood ratio, at s = 0 and s = m.
        """
        m = read_whole(reports, "reports", most=1 << 20)
        f, p, q = float(self.f), float(self.p), float(self.q)
        keep, flip = math.log1p(-f / 2), math.log(f / 2)

        def ratio(log_q: float, log_p: float) -> float:
            one = np.logaddexp(keep + m * log_q, flip + m * log_p)
            return float(one - np.logaddexp(flip + m * log_q, keep + m * log_p))

        sides = (math.log(q), math.log(p)), (math.log1p(-q), math.log1p(-p))
        spread = ratio(*sides[0]) - ratio(*sides[1])
        # where p and q are close the ratios cancel: allow for errors of what was subtracted
        size = 1 - flip + m * max(-x for side in sides for x in side)
        return min(self.hashes * (spread + size * 2.0**-46), self.epsilon_permanent)

    def variance(
        self,
        frequency: Any = 0,
        n: int = 1,
        *,
        of: str = "respondents",
        candidates: Sequence[Any] | None = None,
    ) -> Any:
        """Return the exact variance of one Bloom bit's share in a cohort of `n` reports.

        Parameters
        ----------
        frequency, n, of
            See :meth:`KaryResponse.variance`; `frequency` is the share whose bit is set.
        candidates
            Instead: the exact variances of these values' decoded shares (unrestricted least
            squares), `frequency` being their true shares, for `n` people drawn from a population
            and spread evenly over the cohorts.
        """
        if candidates is None:
            return line_variance(*self.rates, frequency, n, of)
        design = self._design(self.parse(list(candidates))[0])
        people = read_whole(n, "n", most=1 << 62) / self.cohorts
        one, zero = (float(r) for r in self.rates)
        reading = np.linalg.pinv(design) / (people * (one - zero))
        return bits_variance(
            np.split(reading, self.cohorts, axis=1), [people] * self.cohorts,
            np.split(design, self.cohorts), read_shares(frequency, design.shape[1]), (one, zero),
        )  # fmt: skip

    @property
    def gain(self) -> float:
        """Shift of one bit's share in a cohort, per unit share of fake clients in that cohort.

        Fakes choose their cohort: a few, all in one, shift it by up to `cohorts` times as much.
        """
        one, zero = self.rates
        return float((1 - zero) / (one - zero))

    # -- client -----------------------------------------------------------------

    def parse(self, values: Any) -> tuple[Words, bool]:
        return _bits.read_words(values, self.campaign)

    def positions(self, words: Words, cohorts: NDArray[Any]) -> NDArray[Any]:
        """Return the Bloom bits of values in cohorts, one column per hash."""
        seeds = _bits.seed_words(self.cohorts * self.hashes, self.campaign)
        rows = seeds.reshape(self.cohorts, self.hashes)[cohorts]
        return _bits.hash_words(words[:, None], rows, self.bits)

    def draw(self, flat: Words) -> Columns:
        """Draw both layers at once: a bit is 1 with probability q* or p*."""
        n = len(flat)
        one, zero = self.rates
        cohorts = np.asarray(noise.uniform_many(self.cohorts, n)).astype(self.fields[0].dtype)
        bits = _bits.coin_rows(zero, n, self.bits)
        places = self.positions(flat, cohorts)
        coins = np.asarray(noise.bernoulli_many(one, places.size)).reshape(places.shape)
        # hashes may share a bit: the later draw replaces the earlier one
        for i in range(self.hashes):
            _bits.put_bits(bits, places[:, i], coins[:, i])
        return cohorts, bits

    def client(
        self, *, max_reports: int = 1 << 20, memo: Mapping[str, Any] | None = None
    ) -> RapporClient:
        """Return a device with a cohort and a memo of its own, or one that resumes.

        Parameters
        ----------
        max_reports
            Reports it may send in all.
        memo
            What :meth:`RapporClient.to_dict` returned; left out: a new device.
        """
        return RapporClient(self, max_reports=max_reports, memo=memo)

    # -- server -----------------------------------------------------------------

    def possible(self, state: Counts, n: int) -> bool:
        """No group has more ones than reports."""
        return _bits.possible_groups(state, n)

    def tally(self, state: Counts, columns: Columns) -> None:
        """Count ones per cohort and bit."""
        _bits.grouped_sums(state, *columns)

    def simulate_state(self, counts: Counts, rng: Rng, values: Any = None) -> Counts:
        """Draw from the joint law: people over cohorts; bits are independent given the values."""
        words, every = self.parse(values)[0], np.arange(self.cohorts)
        marked = np.zeros((self.cohorts, self.bits + 1), dtype=np.int64)
        for word, count in zip(words, counts.tolist(), strict=True):
            some = _draws.over_groups(count, self.cohorts, rng)
            marked[:, -1] += some
            places = self.positions(np.full(self.cohorts, word), every)
            for i in range(self.hashes):
                # hashes may share a bit: it is marked once
                new = (places[:, :i] != places[:, i : i + 1]).all(axis=1)
                marked[every, places[:, i]] += some * new
        ones, people = marked[:, :-1], marked[:, -1:]
        one, zero = (float(r) for r in self.rates)
        sums = rng.binomial(ones, one) + rng.binomial(people - ones, zero)
        return np.hstack([sums, people])

    def read(
        self,
        tally: Tally,
        candidates: Sequence[Any] | None = None,
        confidence: Number = 0.95,
    ) -> _decode.Decoded | _decode.BitShares:
        """Decode the shares of candidate values, or of the Bloom bits themselves.

        Parameters
        ----------
        tally
            What was tallied.
        candidates
            Values that may occur; unknown ones alias onto them (see ``unexplained``).
        confidence
            Level of the family of significance tests (Bonferroni).
        """
        shares = self._bit_shares(tally)
        if candidates is None:
            return shares
        names = list(candidates)
        words, _ = _bits.read_words(names, self.campaign)
        return _decode.decode(shares, self._design(words), tuple(names), confidence)

    def _bit_shares(self, tally: Tally) -> _decode.BitShares:
        one, zero = (float(r) for r in self.rates)
        ones, people = tally.state[:, :-1], tally.state[:, -1:]
        some = np.maximum(people, 1)
        rate = ones / some
        # the true rate lies between p* and q*, whatever the people hold
        likely = np.clip(rate, zero, one)
        error = np.sqrt(likely * (1 - likely) / some)
        share = np.where(people > 0, (rate - zero) / (one - zero), np.nan)
        return _decode.BitShares(self, tally, share, error / (one - zero), (one, zero))

    def _design(self, words: Words) -> Floats:
        """Return the (cohorts·bits) × candidates matrix of Bloom bits."""
        out = np.zeros((self.cohorts, self.bits, len(words)))
        items = np.arange(len(words))
        for cohort in range(self.cohorts):
            places = self.positions(words, np.full(len(words), cohort))
            for i in range(self.hashes):
                out[cohort, places[:, i], items] = 1.0
        return out.reshape(self.cohorts * self.bits, len(words))

    # -- laws, for audits ---------------------------------------------------------

    def law(self, bloom: Sequence[int], *, instant: bool = True) -> dict[tuple[int, ...], Fraction]:
        """Return the exact law of one report (or of the permanent bits) of a Bloom filter."""
        one, zero = self.rates if instant else (1 - self.f / 2, self.f / 2)
        return _bits.bits_law(one if bit else zero for bit in bloom)


class RapporClient(Client):
    """A device: one cohort for life, and a memo of permanent bits, one row per value.

    The memo is private to the device. It is keyed by value and never by time:
    a fresh memo every day would be a fresh ε∞ every day.

    Examples
    --------
    >>> from discreet import local
    >>> device = local.Rappor(cohorts=8).client()
    >>> device.randomize("www.example.org").protocol.bits
    128
    >>> len(device.to_dict()["permanent"])
    1
    """

    __slots__ = ("cohort", "permanent", "tainted")

    protocol: Rappor

    def __init__(
        self, protocol: Rappor, *, max_reports: int, memo: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(protocol, max_reports=max_reports)
        self.permanent: dict[int, bytes] = {}
        self.tainted = noise.is_deterministic()
        if memo is None:
            self.cohort = int(noise.uniform_below(protocol.cohorts))
            return
        if not isinstance(memo, Mapping) or memo.get("spec") != protocol.spec_id.hex():
            raise ParameterError("this memo belongs to another protocol or other parameters")
        try:
            self.cohort = read_whole(memo["cohort"], "cohort", least=0, most=protocol.cohorts - 1)
            self.sent = read_whole(memo["sent"], "sent", least=0, most=1 << 40)
            self.permanent = {int(k): bytes.fromhex(v) for k, v in memo["permanent"].items()}
            self.tainted |= read_mark(memo)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise ParameterError("this memo is damaged") from None
        if any(len(row) != protocol.fields[1].width for row in self.permanent.values()):
            raise ParameterError("this memo is damaged")

    @property
    def loss(self) -> p_.PrivacyLoss | None:
        """ε∞ for each value that was ever reported; None before the first.

        It compares devices with the same pattern of equal values, and its unit says so: the
        copies of one memo are alike, so *whether* a value changed or came back shows (two
        reports of the published setting tell it with odds beyond e^{ε∞}, more with any odds).
        """
        if not self.permanent:
            return None
        total = p_.Pure(self.protocol.claimed * len(self.permanent))
        return total.under(p_.Neighbours.CHANGE_ONE, UNIT)

    def randomize(self, value: Any) -> Reports:
        """Report a value through its permanent bits."""
        words, scalar = self.protocol.parse(value)
        if not scalar:
            raise ParameterError("a client randomises one value at a time")
        with self._lock:
            self._check()
            self.sent += 1
            # a memo of test noise marks all that is ever copied from it
            self.tainted |= noise.is_deterministic()
            word = int(words[0])
            if word not in self.permanent:
                self.permanent[word] = self._permanent(words)
            raw = np.frombuffer(self.permanent[word], dtype=np.uint8)[None, :]
        memo = _bits.unpack(raw, self.protocol.bits)[0].astype(bool)
        high = np.asarray(noise.bernoulli_many(self.protocol.q, self.protocol.bits))
        low = np.asarray(noise.bernoulli_many(self.protocol.p, self.protocol.bits))
        report = np.where(memo, high, low)
        cohort = np.array([self.cohort], dtype=self.protocol.fields[0].dtype)
        return Reports(
            self.protocol,
            (cohort, _bits.pack(report[None, :])),
            scalar=True,
            tainted=self.tainted,
        )

    def _permanent(self, words: Words) -> bytes:
        bits = np.zeros((1, self.protocol.bits), dtype=bool)
        bits[0, self.protocol.positions(words, np.array([self.cohort]))[0]] = True
        bits ^= np.asarray(noise.bernoulli_many(self.protocol.f / 2, self.protocol.bits))
        return _bits.pack(bits).tobytes()

    def to_dict(self) -> dict[str, Any]:
        """Return cohort, memo and count, to be kept on the device."""
        with self._lock:
            return {
                "spec": self.protocol.spec_id.hex(),
                "cohort": self.cohort,
                "sent": self.sent,
                "permanent": {str(k): v.hex() for k, v in self.permanent.items()},
                "tainted": self.tainted,
            }
