"""A disk that has no more room, as far as this process writes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def room_for(most: int) -> Iterator[None]:
    """Let no file grow beyond so many bytes: of a line that does not fit, what fits is written.

    That holds for every file of this process, that of the log too: nothing should be logged meanwhile.
    """
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
