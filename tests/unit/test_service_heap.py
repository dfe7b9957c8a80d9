"""Threads of a service share one heap: what one of them lets go, another one can use."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.races

HEAPS = """
import ctypes, sys, threading
from discreet.service._serve import share_heap
library = ctypes.CDLL(None)
if sys.argv[2] == "shared":
    share_heap()
together = threading.Barrier(8)
def fill():
    kept = [bytes(2000) for _ in range(100)]
    together.wait()
threads = [threading.Thread(target=fill) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
library.fopen.restype = ctypes.c_void_p
file = ctypes.c_void_p(library.fopen(sys.argv[1].encode(), b"w"))
library.malloc_info(0, file)
library.fclose(file)
"""


def _heaps(folder, how):
    path = folder / how
    words = [sys.executable, "-c", HEAPS, str(path), how]
    subprocess.run(words, check=True, timeout=60)
    return path.read_text().count("<heap nr=")


def test_threads_share_one_heap(tmp_path):
    """Eight threads that hold two hundred kilobytes each, as the C library itself counts them."""
    assert _heaps(tmp_path, "shared") == 1
    assert _heaps(tmp_path, "apart") > 1
