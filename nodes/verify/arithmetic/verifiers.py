"""Verifiers of worked solutions: that each sum holds, and that the last line is an answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ....state.critique import Critique
from ..named import named
from ..numeric_answers import NUMBER
from .sums import find_sums

if TYPE_CHECKING:
    from ....state.critique import Verifier

__all__ = ["arithmetic_holds", "ends_with_answer"]


def ends_with_answer() -> Verifier:
    """Return a verifier that accepts a worked solution whose last line is `#### ` and a number."""

    def check(task: str, draft: str, /) -> Critique:
        lines = draft.strip().splitlines() or [""]
        fine = bool(ANSWER_LINE.fullmatch(lines[-1].strip()))
        return Critique("" if fine else "The last line must be '#### ' and the answer as a number.", fine)

    return named(check, "ends_with_answer", wants="Its last line is '#### ' and the answer as a number.")


def arithmetic_holds(*, required: bool = True) -> Verifier:
    r"""Return a verifier that recomputes every `a op b = c` in a draft, exactly.

    It reads chains (`2 + 3 * 4 = 14`, `3 * 4 = 12 = 10 + 2`), brackets, powers, percents (`20% of 50`), fractions,
    currencies, thousands separators, units between the numbers and LaTeX. A sum that holds after rounding or cutting to
    the digits shown is right. What can't be read with certainty, such as algebra or a conversion of measures, is left
    alone, never counted wrong. The score is the share of the sums that are not wrong.

    Args:
        required: Whether a draft without any sum is rejected.
    """

    def check(task: str, draft: str, /) -> Critique:
        sums = find_sums(draft)
        if not sums:
            text = "Show each step as a sum, such as 3 * 4 = 12." if required else ""
            return Critique(text, accepted=not required, score=float(not required))
        wrong = [one.problem for one in sums if one.verdict == "wrong"]
        more = [f"And {len(wrong) - MOST_SHOWN} more sums are wrong."] if len(wrong) > MOST_SHOWN else []
        return Critique("\n".join(wrong[:MOST_SHOWN] + more), not wrong, (len(sums) - len(wrong)) / len(sums))

    return named(check, "arithmetic_holds", wants="It shows each step as a sum, such as 3 * 4 = 12.")


MOST_SHOWN = 10
ANSWER_LINE = re.compile(rf"####\s*[$€£]?{NUMBER}\s*%?\.?")
