"""Code in replies is read and run against the tests that its task shows."""

from __future__ import annotations

from typing import Any

import pytest
from redraft.evals import passes_hidden_tests
from redraft.nodes.verify.code_checks import passes_visible_tests
from redraft.nodes.verify.code_replies import code_task, find_entry_point, read_code
from redraft.nodes.verify.visible_tests import given_tests, visible_tests
from redraft.sandbox import Sandbox, SandboxResult
from redraft.state.critique import Critique, Verifier

PROMPT = '''import math


def half(x):
    """Half of a number."""
    return x / 2


def quarters(items: list) -> list:
    """A quarter of each number.
    >>> quarters([])
    []
    >>> quarters([8, 2])
    [2.0, 0.5]
    """
'''
BODY = "    return [half(half(item)) for item in items]\n"
WHOLE = "def quarters(items: list) -> list:\n" + BODY
ROW = {
    "prompt": PROMPT,
    "entry_point": "quarters",
    "canonical_solution": BODY,
    "test": "def check(candidate):\n    assert candidate([100, half(8)]) == [25.0, 1.0]\n",
}
TASK = "Write a function `ratio(a, b)`: a divided by b, and 0 when b is 0.\nassert ratio(6, 3) == 2\nratio(1, 0) => 0"


def judged(verifier: Verifier, task: str, draft: str) -> Critique:
    """The verdict, where there must be one."""
    critique = verifier(task, draft)
    assert critique
    return critique


@pytest.mark.parametrize(
    "reply",
    [
        f"Here it is:\n```python\n{WHOLE}```\nIt halves twice.",
        f"```\n{PROMPT}{BODY}```",
        f"~~~py\n{WHOLE}~~~\nFor example:\n```python\nprint(quarters([4]))\n```",
        f"1. This:\n   ```python\n   {WHOLE.replace(chr(10), chr(10) + '   ')}\n   ```",
        f"```python\n{WHOLE}",
        f"<think>def quarters(items): return items</think>\nSure. Here is the code:\n\n{WHOLE}\nIt halves twice.",
        BODY,
        f"```python\n{BODY}```",
        BODY.strip(),
        "    found = []\n    for item in items:\n        found.append(half(half(item)))\n    return found",
        "```python\nfor item in items:\n        pass\n    return [item / 4 for item in items]\n```",
        "```python\nfrom __future__ import annotations\n\nquarters = lambda items: [item / 4 for item in items]\n```",
    ],
)
def test_code_is_found_in_replies_as_models_write_them(sandbox: Sandbox, reply: str) -> None:
    """Fenced, indented, unfinished, bare, or a body only: what does the task passes its tests."""
    verdict = judged(passes_visible_tests(sandbox), PROMPT, reply)
    assert (verdict.accepted, verdict.score, verdict.text) == (True, 1.0, "All 2 visible tests pass.")


@pytest.mark.parametrize("reply", ["", "I cannot do this.", "```python\n```", "From the task I import little."])
def test_a_reply_without_code_is_told_what_to_reply(sandbox: Sandbox, reply: str) -> None:
    """Prose is rejected with the form that is wanted."""
    assert read_code(reply, PROMPT) == ""
    verdict = judged(passes_visible_tests(sandbox), PROMPT, reply)
    assert (verdict.accepted, verdict.score) == (False, 0.0)
    assert verdict.text == "The reply holds no Python code. Reply with one code block that defines quarters."


@pytest.mark.parametrize(
    ("code", "score", "says"),
    [
        ("def ratio(a, b):\n    return a // b if b else None", 0.5, "ratio(1, 0) should give 0, but gives None"),
        (
            "def ratio(a, b):\n    return a / b",
            0.5,
            "ratio(1, 0) should give 0, but raises ZeroDivisionError: division by zero (in ratio: return a / b)",
        ),
        ("def ratio(a, b):\n    return a / (b", 0.0, "The code can't be tested: SyntaxError: '(' was never closed"),
        ("def rate(a, b):\n    return a / b", 0.0, "NameError: the code does not define ratio"),
        ("import sys\nsys.nope\ndef ratio(a, b): ...", 0.0, "AttributeError"),
    ],
)
def test_a_failure_says_what_was_expected_and_what_came(sandbox: Sandbox, code: str, score: float, says: str) -> None:
    """The refiner reads the call, the result wanted, and the result or the exception with its line."""
    verdict = judged(passes_visible_tests(sandbox), TASK, f"```python\n{code}\n```")
    assert (verdict.accepted, verdict.score) == (False, score)
    assert says in verdict.text


def test_code_that_never_ends_is_stopped_once() -> None:
    """After a limit is met the other tests are not run, and the score counts them as failed."""

    class Slow:
        calls = 0

        def check(self, *_: Any, **__: Any) -> SandboxResult:
            self.calls += 1
            return SandboxResult(status="timeout", error="the time limit was reached")

    slow: Any = Slow()
    verdict = judged(passes_visible_tests(slow), TASK, "def ratio(a, b):\n    while True: pass")
    assert (slow.calls, verdict.accepted, verdict.score) == (1, False, 0.0)
    assert "ratio(6, 3): the time limit was reached" in verdict.text
    assert "not run" in verdict.text


def test_what_the_sandbox_can_not_tell_is_left_open(sandbox: Sandbox) -> None:
    """A test that a sandbox can't run for its own reasons rejects nothing and accepts nothing."""
    code = "def apply(f):\n    return f(1)"
    assert passes_visible_tests(sandbox)("assert apply(lambda m: m + 1) == 2", code) is None
    assert (
        passes_visible_tests(sandbox)(
            "import numpy\n\ndef f(x):\n    ...\nassert f(1) == 1", "import numpy\ndef f(x):\n    return 1"
        )
        is None
    )


UNTESTABLE = [
    "def f(x):\n    yield x",
    "def f(x):\n    return (y for y in [x])",
    "def f(x):\n    return object()",
    "def f(x):\n    return f",
    "async def f(x):\n    return 1",
    "import nowhere\ndef f(x):\n    return 1",
    "def f(x):\n    import nowhere",
    "def f(x):\n    raise ModuleNotFoundError('x')",
    "def f(x):\n    raise NotImplementedError",
    "def f(x):\n    raise type('NameError', (Exception,), {})('x')",
    "def f(x):\n    raise NameError(\"name 'x' is not defined\")",
    "def f(x):\n    y = []\n    y.append(y)\n    return y",
    "class f(dict):\n    def __init__(s, x): ...\n    def items(s): raise ModuleNotFoundError",
    "class f:\n    def __init__(s, x): ...\n    @property\n    def __class__(s): raise ModuleNotFoundError",
    "class f(int):\n    def __int__(s): raise ImportError",
]


@pytest.mark.parametrize("code", UNTESTABLE)
def test_a_draft_that_makes_itself_untestable_has_failed(code: str, sandbox: Sandbox) -> None:
    """No draft gets to a model's opinion by returning or importing what the tests can't judge."""
    verdict = judged(passes_visible_tests(sandbox), "Write f.\nassert f(1) == 1", code)
    assert (verdict.accepted, verdict.score) == (False, 0.0)


@pytest.mark.parametrize(
    ("name", "task", "code"),
    [
        ("abs", "abs(-1.5) == 1.5", "def abs(x):\n    return 0.0"),
        ("isinstance", "isinstance(2.5, 1) == 3.5", "def isinstance(a, b):\n    return 2.5"),
        ("len", "len([1.5]) == [1.5, 2.0]", "def len(a):\n    return [9.0, 1.0]"),
        ("all", "all([1.5]) == [2.5]", "def all(a):\n    return [9.0]"),
        ("zip", "zip(1, 2) == [1.5]", "def zip(*a):\n    return []"),
        ("max", "max(1.5, 2.5) == 2.5", "def max(*a):\n    return 1e9"),
        ("type", "type(1) == [2.5]", "def type(a):\n    return 2"),
        ("float", "float(1) == 1.0", "def float(a):\n    return 3"),
    ],
)
def test_a_function_called_as_a_builtin_is_not_its_own_judge(name: str, task: str, code: str, sandbox: Sandbox) -> None:
    """Tests compare with the functions of Python, also where the task is to write one of that name."""
    verdict = judged(passes_visible_tests(sandbox, entry_point=name), task, code)
    assert verdict.accepted is False


def test_without_a_visible_test_code_must_run_and_is_not_accepted(sandbox: Sandbox) -> None:
    """Code that merely runs is nobody's proof; code that does not run is rejected."""
    verifier = passes_visible_tests(sandbox)
    task = "Write a function called twice that doubles."
    assert verifier(task, "def twice(x):\n    return 2 * x") is None

    for code, says in (("def thrice(x):\n    return 3 * x", "does not define twice"), ("def twice(x:", "SyntaxError")):
        rejected = judged(verifier, task, code)
        assert (rejected.accepted, rejected.score) == (False, 0.0)
        assert says in rejected.text


def test_examples_are_read_in_all_their_forms() -> None:
    """Examples with set-up, exceptions, comments or arrows, asserts and plain calls all become tests."""
    task = '''
    def f(x):
        """f(n) is f(n - 1) + 1, so f(0) = 0
        >>> data = [1]
        >>> f(data)  # the first
        2
        >>> f(None)
        Traceback (most recent call last):
        TypeError: no number
        >>>f("a") == 'b'
        f([1,
           2]) ==> [3, 4]
        f("(") returns ")". f(5) -> 19 - 5
        """
    - assert f(7) > 3
    1. `assert f(8) == (
           9)`
    '''
    found = {(test.shown, test.wanted) for test in visible_tests(task, entry_point="f")}
    assert found == {
        ("f(data)", "2"),
        ("f(None)", "raise TypeError: no number"),
        ("f('a')", "'b'"),
        ("f(0)", "0"),
        ("f([1,\n           2])", "[3, 4]"),
        ("assert f(7) > 3", ""),
        ("f(8)", "9"),
    }


def test_examples_run_as_doctest_would_run_them(sandbox: Sandbox) -> None:
    """Set-up, arguments changed in place, printed lines, exceptions and float noise are judged as a reader would."""
    task = """>>> data = [3, 1]
>>> order(data)
>>> data
[1, 3]
>>> print(order([]), 1)
None 1
>>> order(5)
Traceback (most recent call last):
TypeError: 'int' object is not iterable
>>> order([0.1, 0.2], add=True)
0.3
"""
    code = "def order(items, add=False):\n    if add:\n        return sum(items)\n    items[:] = sorted(items)"
    verdict = judged(passes_visible_tests(sandbox), task, code)
    assert verdict.text == "All 5 visible tests pass."


@pytest.mark.parametrize(
    "tests",
    [
        "assert double(2) == 4",
        ["import math\nassert math.isclose(double(0.1), 0.2)", "assert 6 == double(3)"],
        "def test_double():\n    for n in range(9):\n        assert double(n) == n + n",
        "def check(candidate):\n    assert candidate(4) == 8",
        ">>> double(2)\n4\n",
        "\n".join(f"assert double({n}) == {2 * n}" for n in range(50)),
    ],
)
def test_tests_can_be_given(sandbox: Sandbox, tests: Any) -> None:
    """Asserts, test functions, a HumanEval check and examples all judge, whatever the task says."""
    verifier = passes_visible_tests(sandbox, tests=tests)
    for body, accepted in (("2 * x", True), ("98 if x == 49 else 1", False)):
        reply = f"```python\ndef double(x):\n    return {body}\n```"
        assert judged(verifier, "Double it.", reply).accepted is accepted


@pytest.mark.parametrize("tests", ["", "assert f(1) ==", "x = 1", ["assert f(1)", "print(1)"]])
def test_tests_that_test_nothing_are_refused(sandbox: Sandbox, tests: Any) -> None:
    """A typo in the tests shows when the verifier is built, not as a verdict."""
    with pytest.raises(ValueError, match="tests must"):
        passes_visible_tests(sandbox, tests=tests)


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (PROMPT, "quarters"),
        ("Write a function `add(a, b)` that adds.", "add"),
        ("Write a Python function called foo_bar, please", "foo_bar"),
        ("We have a function mul(x, y).", "mul"),
        ("Finish this:\n```python\ndef g(x):\n```\n", "g"),
        ("Write a function that returns its argument.", ""),
    ],
)
def test_the_function_to_write_is_found_in_the_task(task: str, name: str) -> None:
    """One graph serves tasks that name their function in different ways."""
    assert find_entry_point(task) == name


def test_a_humaneval_row_shows_its_prompt_only(sandbox: Sandbox) -> None:
    """The task holds neither tests nor solution, and names its function even where the prompt's last one is another."""
    assert code_task(ROW) == PROMPT
    other = code_task({**ROW, "entry_point": "half"})
    assert find_entry_point(other) == "half"
    assert "candidate" not in other
    with pytest.raises(ValueError, match="'entry_point'"):
        code_task({"prompt": PROMPT})


def test_hidden_tests_judge_an_answer(sandbox: Sandbox) -> None:
    """An answer that fits the examples alone fails the hidden tests; a right one passes them."""
    cheat = "```python\ndef quarters(items):\n    return [2.0, 0.5][: len(items)]\n```"
    assert judged(passes_visible_tests(sandbox), PROMPT, cheat).accepted is True
    assert passes_hidden_tests(ROW, f"```python\n{WHOLE}```", sandbox).ok
    assert passes_hidden_tests(ROW, cheat, sandbox).status == "failed"
    assert passes_hidden_tests(ROW, "I don't know.", sandbox).error == "the answer holds no code"


def test_given_tests_keep_their_set_up() -> None:
    """What stands before an assert runs before it."""
    [test] = given_tests("limit = 3\nassert f(limit) == 4")
    assert "limit = 3" in test.code
    assert test.names == ("f",)
