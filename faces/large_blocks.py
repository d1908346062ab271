"""Memory of a process that lives for weeks: what a large block took is given back when it is free.

An event loop reads what comes over a connection into a block of 256 KB, and cuts it down to what came. The C library of
Linux takes such blocks from the system until a larger one has been freed, and from then on from its heap, where what is
cut off keeps the next large block from fitting: the heap grows by up to a megabyte in a thousand runs, though nothing
is kept (`benchmarks/soak.py --plain`).
"""

from __future__ import annotations

import ctypes
import sys

__all__ = ["LARGE", "give_back_large_blocks"]

LARGE = 128 * 1024
"""In bytes: the C library's own first choice."""
M_MMAP_THRESHOLD = -3


def give_back_large_blocks() -> bool:
    """Take blocks of `LARGE` and more from the system from now on, in the whole process; return whether that is so.

    What the environment variable `MALLOC_MMAP_THRESHOLD_=131072` does when a process is started with it. Elsewhere than
    on Linux with glibc nothing is changed.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and bool(mallopt(M_MMAP_THRESHOLD, LARGE))
