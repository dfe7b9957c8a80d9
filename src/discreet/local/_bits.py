"""Bits, hashes and transforms that clients and aggregators share.

The hash is public and part of the wire format (``splitmix64-1``): the mixing function
of splitmix64 keyed by XOR, its top 32 bits scaled to the range (bias ≤ range/2³²).
Privacy never rests on it: for every seed a report is a k-ary response on the
hashed value. A poor hash costs accuracy only. Strings become 64-bit numbers by BLAKE2b,
personalised by the public name of the collection.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet import noise
from discreet.errors import ParameterError

HASH = "splitmix64-1"
"""Name and version of the hash, as specs carry it."""

Words = NDArray[np.uint64]
Counts = NDArray[np.int64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_BLOCK = 255
"""Rows summed in bytes before they could overflow."""

_MASKS = np.array([1 << i for i in range(8)], dtype=np.uint8)
_CACHE = 1 << 15
"""Packed bytes taken apart at once: unpacked they still fit a core's cache."""


def mix(z: Words) -> Words:
    """Mix 64-bit words by the finaliser of splitmix64 (a bijection)."""
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


def top_halves(z: Words) -> Words:
    """Return the top 32 bits of :func:`mix`, overwriting `z`: the server's inner loop."""
    spare = z >> np.uint64(30)
    z ^= spare
    z *= _FIRST
    np.right_shift(z, np.uint64(27), out=spare)
    z ^= spare
    z *= _SECOND
    np.right_shift(z, np.uint64(31), out=spare)
    z ^= spare
    z >>= np.uint64(32)
    return z


def item_words(items: NDArray[Any]) -> Words:
    """Spread item numbers over 64 bits, once for many seeds."""
    return mix(items.astype(np.uint64) * _GAMMA + _GAMMA)


def hash_words(words: Words, seeds: Words, size: int) -> NDArray[np.uint32]:
    """Hash spread items under seeds to 0, …, size − 1 (broadcasts)."""
    return hash_places(words, seeds, size).astype(np.uint32)


def hash_places(words: Words, seeds: Words, size: int) -> Counts:
    """Hash as :func:`hash_words` does, to integers that index an array as they are."""
    z = top_halves(words ^ seeds)
    z *= np.uint64(size)
    z >>= np.uint64(32)
    return z.view(np.int64)


@lru_cache(maxsize=16)
def seed_words(count: int, campaign: str) -> Words:
    """Return the public seeds 0, …, count − 1 of a collection (read-only)."""
    place = np.arange(count, dtype=np.uint64) * _GAMMA
    seeds = mix(place ^ np.uint64(string_word("", campaign)))
    seeds.flags.writeable = False
    return seeds


def string_word(value: str | bytes, campaign: str = "") -> int:
    """Return the 64-bit number of a string within a collection.

    >>> string_word("a") == string_word("a"), string_word("a") == string_word("a", "other")
    (True, False)
    """
    # lone surrogates have bytes, too: an error would carry the text
    raw = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else bytes(value)
    name = campaign.encode("utf-8", "surrogatepass")
    person = hashlib.blake2b(name, digest_size=16).digest()
    return int.from_bytes(hashlib.blake2b(raw, digest_size=8, person=person).digest(), "little")


def pack(bits: NDArray[Any]) -> NDArray[np.uint8]:
    """Pack rows of bits, bit i of the row at bit i % 8 of byte i // 8."""
    return np.packbits(bits, axis=1, bitorder="little")


def unpack(rows: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Undo :func:`pack`."""
    return np.unpackbits(rows, axis=1, count=size, bitorder="little")


def coin_rows(p: Fraction, n: int, size: int) -> NDArray[np.uint8]:
    """Draw `n` packed rows of `size` coins, each 1 with probability exactly `p`."""
    width = -(-size // 8)
    words = np.asarray(noise.bernoulli_bits(p, -(-n * width // 8)))
    rows = words.astype("<u8", copy=False).view(np.uint8)[: n * width].reshape(n, width)
    if size % 8:
        rows[:, -1] &= np.uint8((1 << size % 8) - 1)
    return rows


def respond(kappa: Fraction, own: NDArray[Any], symbols: int) -> NDArray[Any]:
    """Keep each symbol with probability exactly κ, replace it by a uniform one otherwise."""
    keep = np.asarray(noise.bernoulli_many(kappa, len(own)))
    return np.where(keep, own, np.asarray(noise.uniform_many(symbols, len(own))))


def bits_law(chances: Iterable[Fraction]) -> dict[tuple[int, ...], Fraction]:
    """Return the exact law of independent bits, each 1 with its own chance."""
    out: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for one in chances:
        out = {(*y, b): w * (one if b else 1 - one) for y, w in out.items() for b in (0, 1)}
    return out


def put_bits(rows: NDArray[np.uint8], places: NDArray[Any], bits: NDArray[np.bool_]) -> None:
    """Set one bit of each packed row."""
    where, mask = _places(rows, places)
    flat = rows.reshape(-1)
    flat[where] = (flat[where] & ~mask) | (mask * bits)


def flip_bits(rows: NDArray[np.uint8], places: NDArray[Any]) -> None:
    """Flip one bit of each packed row."""
    where, mask = _places(rows, places)
    rows.reshape(-1)[where] ^= mask


def _places(rows: NDArray[np.uint8], places: NDArray[Any]) -> tuple[Counts, NDArray[np.uint8]]:
    """Return the byte that holds a bit of each row, and the bit's mask in it."""
    seven = places.dtype.type(7)
    where = np.arange(0, rows.size, rows.shape[1])
    where += places >> places.dtype.type(3)
    return where, _MASKS[places & seven]


def column_sums(rows: NDArray[np.uint8], size: int) -> Counts:
    """Count the ones in each column of packed rows."""
    width = rows.shape[1]
    total = np.zeros(width * 8, dtype=np.int64)
    blocks = max(1, _CACHE // (_BLOCK * width))
    whole = len(rows) // _BLOCK * _BLOCK
    for start in range(0, whole, blocks * _BLOCK):
        part = rows[start : min(start + blocks * _BLOCK, whole)].reshape(-1, _BLOCK, width)
        bits = np.unpackbits(part, axis=2, bitorder="little")
        total += np.add.reduce(bits, axis=1, dtype=np.uint8).sum(axis=0, dtype=np.int64)
    rest = np.unpackbits(rows[whole:], axis=1, bitorder="little")
    total += np.add.reduce(rest, axis=0, dtype=np.uint8)
    return total[:size]


def grouped(
    rows: NDArray[np.uint8], group: NDArray[Any]
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Yield each group that occurs, and its packed rows."""
    order = np.argsort(group, kind="stable")
    present, first = np.unique(group[order], return_index=True)
    yield from zip(present.tolist(), np.split(rows[order], first[1:]), strict=True)


def grouped_sums(state: Counts, group: NDArray[Any], rows: NDArray[np.uint8]) -> None:
    """Add, for each group, the ones in each column of packed rows, and their number at the end."""
    for which, part in grouped(rows, group):
        state[which, :-1] += column_sums(part, state.shape[1] - 1)
        state[which, -1] += len(part)


def possible_groups(state: Counts, n: int) -> bool:
    """Tell whether `n` reports may give these ones, and numbers of reports at the end, by group."""
    within = (state >= 0).all() and (state[:, :-1] <= state[:, -1:]).all()
    return bool(within) and adds_up(state[:, -1], n)


def adds_up(cells: Counts, n: int) -> bool:
    """Tell whether counts have the sum `n`, without being fooled by an overflow."""
    near = cells.sum(dtype=np.float64) < 2.0**62
    return bool((cells >= 0).all() and near and cells.sum() == n)


def row_ones(rows: NDArray[np.uint8]) -> NDArray[Any]:
    """Count the ones of each packed row."""
    if rows.shape[1] % 8 == 0:  # whole words are counted eight bytes at a time
        ones = np.bitwise_count(np.ascontiguousarray(rows).view(np.uint64))
        return np.asarray(ones[:, 0] if ones.shape[1] == 1 else ones.sum(axis=1, dtype=np.int64))
    return np.asarray(np.bitwise_count(rows).sum(axis=1, dtype=np.int64))


def stray_bits(rows: NDArray[np.uint8], size: int) -> NDArray[np.bool_]:
    """Tell which packed rows have bits set beyond `size`."""
    spare = 8 * rows.shape[1] - size
    return (
        np.asarray(rows[:, -1] >> np.uint8(8 - spare) != 0) if spare else np.zeros(len(rows), bool)
    )


def hadamard(counts: NDArray[Any]) -> NDArray[Any]:
    """Return the Walsh–Hadamard transform of each row; integers stay integers.

    >>> hadamard(np.array([[3, 1]])).tolist()
    [[4, 2]]
    """
    out = counts
    rows, n = out.shape
    half = 1
    while half < n:
        pairs = out.reshape(rows, n // (2 * half), 2, half)
        out = np.stack(
            (pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2
        ).reshape(rows, n)
        half *= 2
    return out


def parity(x: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the parity of the number of ones in each word."""
    return np.asarray(np.bitwise_count(x) & np.uint8(1))


def read_array(values: Any, kind: Any = None) -> NDArray[Any]:
    """Turn values into an array; a refusal neither says nor carries what they were."""
    # raised outside of the handler: NumPy's own error names the value
    with suppress(TypeError, ValueError):
        if not np.ma.is_masked(values):
            return np.asarray(values, dtype=kind)
    raise ParameterError("values must be numbers or texts of one kind, none missing", hint="[0, 1]")


def read_words(values: Any, campaign: str = "") -> tuple[Words, bool]:
    """Turn values into 64-bit words: whole numbers, or strings of a collection.

    The refusal never says which value was wrong.
    """
    if isinstance(values, str | bytes):
        return np.array([string_word(values, campaign)], dtype=np.uint64), True
    array = read_array(values)
    if array.dtype.kind in "OUST":
        flat = array.reshape(-1).tolist()
        if array.ndim > 1 or not all(isinstance(v, str | bytes) for v in flat):
            raise ParameterError("values must be whole numbers, or strings", hint='["a", "b"]')
        words = {v: string_word(v, campaign) for v in set(flat)}
        return np.array([words[v] for v in flat], dtype=np.uint64), array.ndim == 0
    items, scalar = read_items(array, 1 << 62)
    return item_words(items), scalar


def read_items(values: Any, domain: int) -> tuple[NDArray[Any], bool]:
    """Parse item numbers 0, …, domain − 1: a number, or a one-dimensional array of them.

    The refusal never says which value was wrong.
    """
    array = read_array(values)
    scalar = array.ndim == 0
    if array.ndim > 1:
        raise ParameterError(f"values must be one-dimensional, got shape {array.shape}")
    flat = array.reshape(-1)
    if flat.dtype.kind == "b" or not flat.size:
        flat = flat.astype(np.uint8)
    whole = flat.dtype.kind in "iu"
    if not whole or (flat.size and not 0 <= int(flat.min()) <= int(flat.max()) < domain):
        raise ParameterError(
            f"values must be whole numbers from 0 to {domain - 1}", hint=f"randomize({domain - 1})"
        )
    return flat.astype(np.min_scalar_type(domain - 1), copy=False), scalar
