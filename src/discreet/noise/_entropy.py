"""The one source of randomness: AES-256 in counter mode, keyed by the system.

Guarantee
---------
Every word handed out is a fresh output of AES-256-CTR under a key that nothing
else uses, so telling it from a uniform word means breaking AES or the
operating system's generator.

* **Fast key erasure** [1]_: each refill of the small buffer first yields the
  next key and then the words; the old key is dropped. Words are erased from
  the buffer as they are handed out, so a later look at the memory shows
  nothing of what was drawn.
* **Fresh entropy at each refill**: the next key is XORed with 32 bytes from
  :func:`os.urandom`, so a machine restored twice from one snapshot repeats at
  most the rest of one 64 KiB buffer.
* **Fork**: a child drops the buffer and the key before its first draw.
* **Threads**: the buffer is guarded by a lock. A large request takes a key of
  its own under the lock and generates outside it.

Assumptions: AES-256 is a pseudo-random permutation, the system's generator is
sound, and nobody reads this process's memory. Nothing here takes a seed.

References
----------
.. [1] D. J. Bernstein, "Fast-key-erasure random-number generators", 2017.
"""

from __future__ import annotations

import os
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words: TypeAlias = NDArray[np.uint64]

_ZEROS = memoryview(bytes(1 << 18))
_BUFFER_WORDS = 1 << 13
_KEY_WORDS = 4


class WordSource(Protocol):
    """Anything that yields independent uniform words."""

    def words(self, n: int) -> Words:
        """Return `n` fresh words."""


class Stream(WordSource, Protocol):
    """A sequence of words for one large request."""

    def fill(self, out: Words) -> None:
        """Overwrite `out` with fresh words."""


class Source(WordSource, Protocol):
    """Where words come from: the system, or the test-only deterministic source."""

    tainted: bool

    def stream(self) -> Stream:
        """Return a stream for one large request."""


class KeyStream:
    """AES-256-CTR under one key that is used nowhere else."""

    __slots__ = ("_encryptor",)

    def __init__(self, key: bytes) -> None:
        self._encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def fill(self, out: Words) -> None:
        """Overwrite `out` with fresh words."""
        if not out.size:
            return
        target = out.data.cast("B")
        for start in range(0, len(target), len(_ZEROS)):
            part = target[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS[: len(part)], part)

    def words(self, n: int) -> Words:
        """Return `n` fresh words."""
        out: Words = np.empty(n, dtype=np.uint64)
        self.fill(out)
        return out


class SystemSource:
    """Process-wide source; see the module's head for what it promises."""

    tainted = False

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Drop key and buffer, so that the next draw starts from the system's entropy."""
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._key = bytes(32)
        self._buffer: Words = np.zeros(_BUFFER_WORDS, dtype=np.uint64)
        self._next = _BUFFER_WORDS

    def words(self, n: int) -> Words:
        """Return `n` fresh words; safe to call from any thread."""
        if n > _BUFFER_WORDS // 4:
            return self.stream().words(n)
        # at_fork hooks do not run for a fork made outside Python
        if self._pid != os.getpid():
            self.forget()
        with self._lock:
            if self._next + n > _BUFFER_WORDS:
                self._refill()
            part = self._buffer[self._next : self._next + n]
            out = part.copy()
            part[:] = 0
            self._next += n
        return out

    def stream(self) -> Stream:
        """Return a stream under a fresh key, for one large request."""
        return KeyStream(self.words(_KEY_WORDS).tobytes())

    def _refill(self) -> None:
        fresh = os.urandom(32)
        key = bytes(a ^ b for a, b in zip(self._key, fresh, strict=True))
        KeyStream(key).fill(self._buffer)
        self._key = self._buffer[:_KEY_WORDS].tobytes()
        self._buffer[:_KEY_WORDS] = 0
        self._next = _KEY_WORDS


_SYSTEM = SystemSource()
if hasattr(os, "register_at_fork"):  # where nothing forks there is nothing to forget
    os.register_at_fork(after_in_child=_SYSTEM.forget)

OVERRIDE: ContextVar[Source | None] = ContextVar("discreet_noise_source", default=None)
"""Set by the test-only deterministic source, and by nothing else."""


def current() -> Source:
    """Return the source this context draws from."""
    return OVERRIDE.get() or _SYSTEM


def word() -> int:
    """Return one fresh 64-bit word."""
    return int(current().words(1)[0])


def bits(n: int) -> int:
    """Return a uniform integer of `n` bits."""
    words = -(-n // 64)
    return int.from_bytes(current().words(words).tobytes(), "little") >> (64 * words - n)
