"""Answers that samples vote on, by the kind of the problems. Internal.

Apart from the methods, since a report counts votes again and has no use for graphs.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ...nodes.verify.numeric_answers import extract_number

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

__all__ = ["VOTED_ANSWERS"]


def last_line(solution: str) -> str | None:
    """Return the last line of a solution without what marks it as the answer."""
    lines = [line.strip() for line in solution.splitlines() if line.strip()]
    return re.sub(r"^(?:####|(?:the )?(?:final )?answer(?: is)?\s*:?)\s*", "", lines[-1], flags=re.I) if lines else None


VOTED_ANSWERS: Mapping[str, Callable[[str], Hashable | None]] = {"numeric": extract_number, "exact": last_line}
"""Reader of the answer that a sample votes for, by the kind of problems; other kinds have no vote."""
