"""Tasks in the format of HumanEval: a prompt, a solution that completes it, a `check`, and an entry point."""

from __future__ import annotations

import pytest
from redraft.sandbox import Sandbox

TASKS = {
    "longest_run": (
        'from typing import List\n\n\ndef longest_run(items: List[int]) -> int:\n    """Length of the longest run of '
        'equal neighbours.\n    >>> longest_run([1, 1, 2])\n    2\n    """\n',
        "    best = run = 0\n    last = None\n    for item in items:\n        run = run + 1 if item == last else 1\n"
        "        last, best = item, max(best, run)\n    return best\n",
        "METADATA = {'author': 'redraft'}\n\n\ndef check(candidate):\n    assert candidate([]) == 0\n"
        "    assert candidate([1, 1, 2]) == 2\n    assert candidate([1, 2, 2, 2, 1]) == 3\n",
    ),
    "decode_steps": (
        'def encode_steps(text: str) -> str:\n    """Each letter moved on by its place."""\n'
        '    return "".join(chr((ord(c) - 97 + i) % 26 + 97) for i, c in enumerate(text))\n\n\n'
        "def decode_steps(text: str) -> str:\n"
        '    """The text that encode_steps made this of."""\n',
        '    return "".join(chr((ord(c) - 97 - i) % 26 + 97) for i, c in enumerate(text))\n',
        "def check(candidate):\n    for text in ['', 'abc', 'zebra' * 9]:\n"
        "        assert candidate(encode_steps(text)) == text\n",
    ),
    "mean_and_spread": (
        'import math\n\n\ndef mean_and_spread(values):\n    """Mean and standard deviation, as a tuple."""\n',
        "    mean = sum(values) / len(values)\n"
        "    return mean, math.sqrt(sum((v - mean) ** 2 for v in values) / len(values))\n",
        "def check(candidate):\n    mean, spread = candidate([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0])\n"
        "    assert abs(mean - 5.0) < 1e-9 and abs(spread - 2.0) < 1e-9, 'example'\n"
        "    assert candidate([1.0]) == (1.0, 0)\n",
    ),
    "count_words": (
        'def count_words(text):\n    """How often each word occurs, in any case, words parted by blanks."""\n',
        "    counts = {}\n    for word in text.lower().split():\n        counts[word] = counts.get(word, 0) + 1\n"
        "    return counts\n",
        "def check(candidate):\n    assert candidate('A rose is a rose') == {'a': 2, 'rose': 2, 'is': 1}\n"
        "    assert candidate('') == {}\n",
    ),
}


@pytest.mark.parametrize("entry_point", TASKS)
def test_a_canonical_solution_passes(entry_point: str, sandbox: Sandbox) -> None:
    """A right completion passes the task's own check, in every layer."""
    prompt, solution, tests = TASKS[entry_point]
    assert (verdict := sandbox.check(prompt + solution, tests, entry_point, helpers=prompt)).ok, verdict


@pytest.mark.parametrize("entry_point", TASKS)
def test_an_empty_completion_fails(entry_point: str, sandbox: Sandbox) -> None:
    """A completion that does nothing is a failure of the code, in every layer."""
    prompt, _, tests = TASKS[entry_point]
    assert sandbox.check(f"{prompt}    return None\n", tests, entry_point, helpers=prompt).status == "failed"
