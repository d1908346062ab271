"""A server that lives for weeks gives back the memory of large blocks, however many it has read."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

AFTER_A_LARGE_ONE = """
import ctypes, sys
from redraft.faces.large_blocks import give_back_large_blocks

class Usage(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd u f uo fo keep".split()]

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes, libc.mallinfo2.restype = ctypes.c_void_p, [ctypes.c_void_p], Usage
if sys.argv[1] == "given back":
    assert give_back_large_blocks()
libc.free(libc.malloc(4 * 2**20))
before = libc.mallinfo2().hblks
block = libc.malloc(256 * 2**10)
print(libc.mallinfo2().hblks - before)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="glibc 2.33 or newer tells"
)
@pytest.mark.parametrize(("how", "of_the_system"), [("given back", 1), ("plain", 0)])
def test_large_blocks_stay_out_of_the_heap(how: str, of_the_system: int) -> None:
    """A block of 256 KB comes from the system, and goes back there, also after a larger one was freed."""
    words = [sys.executable, "-c", AFTER_A_LARGE_ONE, how]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert int(done.stdout) == of_the_system
