"""Would one budget over all problems be better spent than by problem? A replay of recorded runs; no model is asked.

    python benchmarks/one_budget.py [--share 0.6]

Every record has the tokens of each draft and whether it was right. Of all the tokens that a method took, only a share
is given, by three rules that need to know nothing beforehand. Each problem answers with its last draft by then:

    share     what is left, by the problems that are left: easy ones leave more to those after them
    breadth   the next draft always to the problem that has had the fewest tokens
    depth     first drafts of all, then problem by problem to its end, as far as it goes

The goal was to lose at most 2 points at 60% of the tokens. Intervals are Tango's, of the paired difference.
"""

from __future__ import annotations

import argparse
import heapq
import json
from pathlib import Path
from typing import Any

from redraft.evals.analysis.paired import paired

RESULTS = Path(__file__).resolve().parents[1] / "evals/results"
GOAL_POINTS = 2.0
Course = list[tuple[int, bool]]
"""Of one problem: for each draft the tokens until then, and whether it is right."""


def recorded() -> dict[str, list[Course]]:
    """Return the courses of every recorded method that made a second draft, by dataset and method."""
    found: dict[str, list[Course]] = {}
    for path in sorted(RESULTS.glob("*/*/results.jsonl")):
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            drafts = [(step.get("tokens_used") or 0, step.get("is_correct")) for step in row["iterations_log"]]
            # What followed the last draft, a check say, belongs to it.
            course = [*_course(drafts)[:-1], (row["total_tokens"], bool(row["is_correct"]))]
            found.setdefault("/".join(path.parts[-3:-1]), []).append(course)
    for path in sorted((RESULTS / "map").glob("*.jsonl")):
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            drafts = [(draft["tokens"] or 0, draft["right"]) for draft in row["drafts"]]
            found.setdefault(f"map, {path.stem}/{row['method']}", []).append(_course(drafts))
    return {name: courses for name, courses in found.items() if max(map(len, courses)) > 1}


def _course(steps: list[tuple[int, Any]]) -> Course:
    """Add up steps, of which those with a verdict are drafts."""
    course, tokens = [], 0
    for used, right in steps:
        tokens += used
        if right is not None:
            course.append((tokens, bool(right)))
    return course


def by_share(courses: list[Course], budget: float) -> list[bool]:
    """Give each problem its share of what is left; a draft that was begun is finished, as with `--token-budget`."""
    answers = []
    for number, course in enumerate(courses):
        most = budget / (len(courses) - number)
        tokens, right = ([step for step in course if step[0] <= most] or course[:1])[-1]
        answers.append(right)
        budget -= tokens
    return answers


def by_breadth(courses: list[Course], budget: float) -> list[bool]:
    """Give the next draft to the problem with the fewest tokens, as long as there are some."""
    answers, waiting = [False] * len(courses), [(0, number, 0) for number in range(len(courses))]
    while waiting:
        spent, number, step = heapq.heappop(waiting)
        tokens, right = courses[number][step]
        budget -= tokens - spent
        if budget < 0:
            break
        answers[number] = right
        if step + 1 < len(courses[number]):
            heapq.heappush(waiting, (tokens, number, step + 1))
    return answers


def by_depth(courses: list[Course], budget: float) -> list[bool]:
    """Give every problem its first draft, and then one after the other all it takes."""
    budget -= sum(course[0][0] for course in courses)
    answers = []
    for course in courses:
        budget -= course[-1][0] - course[0][0]
        answers.append(course[-1 if budget >= 0 else 0][1])
    return answers


RULES = {"share": by_share, "breadth": by_breadth, "depth": by_depth}


def main() -> None:
    """Print a line for each recorded method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.6, help="of the tokens that the whole took")
    share = parser.parse_args().share
    print(f"with {share:.0%} of the tokens: points less than with all of them (95%)")
    print(f"{'':40}{'n':>4} {'first':>6} {'all':>6}" + "".join(f"{rule:>26}" for rule in RULES))
    kept = dict.fromkeys(RULES, 0)
    methods = recorded()
    for name, courses in methods.items():
        whole = [course[-1][1] for course in courses]
        first = sum(course[0][1] for course in courses) / len(courses)
        line = f"{name:40}{len(courses):4} {first:6.1%} {sum(whole) / len(whole):6.1%}"
        for rule, answers in RULES.items():
            change = paired(whole, answers(courses, share * sum(course[-1][0] for course in courses)))
            points, low, high = (100 * (value or 0.0) for value in (change.diff, *change.diff_ci95))
            kept[rule] += points >= -GOAL_POINTS
            line += f"{points:+10.1f} ({low:+5.1f} to {high:+5.1f})"
        print(line)
    print(
        f"at most {GOAL_POINTS:g} points lost: {', '.join(f'{rule} {n} of {len(methods)}' for rule, n in kept.items())}"
    )


if __name__ == "__main__":
    main()
