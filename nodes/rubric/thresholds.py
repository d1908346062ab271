"""Quality thresholds that follow the complexity of a task."""

from __future__ import annotations

import re

__all__ = ["adapted_threshold", "task_complexity"]


def task_complexity(task: str) -> float:
    """Return how much a task asks for, 0 (one plain wish) to 1: its length, and its demands one by one.

    A demand is a question, a line of a list, a number, or a word that adds a condition. A rough guess by design: it
    costs nothing and gives the same for the same task.
    """
    words = len(task.split())
    demands = sum(len(pattern.findall(task)) for pattern in DEMANDS)
    return 0.5 * min(1.0, words / MANY_WORDS) + 0.5 * min(1.0, demands / MANY_DEMANDS)


def adapted_threshold(task: str, threshold: float) -> float:
    """Return the threshold for this task: a little higher for a simple one, lower for a complex one.

    A short answer to one question can be flawless; where a dozen things are asked for, the same threshold would spend
    every round on the last of them.

    Args:
        task: What is asked for.
        threshold: That of a task of middling complexity, 0–1.
    """
    shifted = threshold + SPREAD * (0.5 - task_complexity(task))
    return min(1.0, max(0.0, round(shifted, 3)))


SPREAD = 0.15
"""From the simplest task to the most complex one."""
MANY_WORDS = 120
MANY_DEMANDS = 10
DEMANDS = (
    re.compile(r"\?"),
    re.compile(r"^\s*(?:[-*•]|\d+[.)])\s", re.MULTILINE),
    re.compile(r"\d+(?:[.,]\d+)*"),
    re.compile(
        r"\b(?:and|but|also|must|should|without|unless|except|compare|each|every|under|within)\b", re.IGNORECASE
    ),
)
