"""A verifier of code: it runs the tests that the task shows, in a sandbox, and says which fail and why. Internal."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ...state.critique import Critique, Verifier
from .code_replies import DEFINITION, find_entry_point, given_code, read_code
from .text_verifiers import named
from .visible_tests import VisibleTest, bound_names, given_tests, visible_tests, with_harness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..programs import ProgramResult, ProgramRunner

__all__ = ["passes_visible_tests"]


def passes_visible_tests(
    sandbox: ProgramRunner, *, tests: str | Sequence[str] | None = None, entry_point: str | None = None
) -> Verifier:
    """Return a verifier that accepts a reply whose code passes every test that the task shows.

    Its score is the share of the tests that pass; from a limit of time, memory or output on, the rest count as failed.
    It can't tell (`None`) where there is no test and the code merely runs, or where the sandbox can't run a test and
    no other fails; code that can't be tested for what it imports or returns has failed. It may take seconds: in an
    async graph it runs in a thread.

    Args:
        sandbox: Runs the code; nothing that a model wrote runs anywhere else.
        tests: More tests, beside those in the task: asserts, `test_…` functions, `check(candidate)`, or examples.
        entry_point: The function to write; default: as the task, else its first test, names it.

    Raises:
        ValueError: `tests` are not Python or hold none, or `entry_point` is no name. At build.
    """
    if entry_point is not None and not entry_point.isidentifier():
        raise ValueError(f"entry_point must be the name of a function, not {entry_point!r}")
    extra = given_tests(tests) if tests is not None else []

    def check(task: str, draft: str, /) -> Critique | None:
        name = entry_point or find_entry_point(task)
        tests = [*extra, *visible_tests(task, entry_point=name)]
        name = name or next((test.names[0] for test in tests if test.names), "")
        code = read_code(draft, task, entry_point=name)
        if not code:
            wanted = f" that defines {name}" if name else ""
            return Critique(f"The reply holds no Python code. Reply with one code block{wanted}.", False, 0.0)
        name = name or ["", *DEFINITION.findall(code)][-1]
        helpers = given_code(task)
        runnable = _runnable(tests, name, bound_names(helpers) - {name})
        if not runnable:
            return _only_runs(sandbox, code, name, helpers)
        return _judged(runnable, _results(sandbox, code, runnable, helpers), sandbox, code)

    return named(check, "visible_tests")


def _runnable(tests: Sequence[VisibleTest], name: str, known: set[str]) -> list[VisibleTest]:
    """Return the tests with the functions that the code must define; those beyond the cap are put together as one."""
    runnable = []
    for test in tests:
        needed = [one for one in test.names if one not in known] if test.names else [name]
        if needed and all(needed):
            runnable.append(replace(test, names=tuple(sorted(needed, key=lambda one: one != name))))
    if len(runnable) <= MOST_TESTS:
        return runnable
    return [*runnable[: MOST_TESTS - 1], _together(runnable[MOST_TESTS - 1 :])]


def _results(sandbox: ProgramRunner, code: str, tests: Sequence[VisibleTest], helpers: str) -> list[ProgramResult]:
    """Return the results up to the first that says how all others will end."""
    results = []
    helpers = with_harness(helpers)
    for test in tests:
        results.append(sandbox.check(code, test.code, test.names, helpers=helpers))
        if results[-1].status in LIMITS or _undefined(results[-1]):
            break
        rest = tests[1:]
        if (
            len(results) == 1
            and results[0].ok
            and len(rest) > 1
            and sum("def check(" in test.code for test in rest) < 2
        ):
            together = _together(rest)  # a check takes two processes, and most code that passes once passes always
            if (result := sandbox.check(code, together.code, together.names, helpers=helpers)).ok:
                return [*results, *(result for _ in rest)]
    return results


def _together(tests: Sequence[VisibleTest]) -> VisibleTest:
    names = tuple(dict.fromkeys(name for test in tests for name in test.names))
    return VisibleTest(f"{len(tests)} more tests", "", "\n".join(test.code for test in tests), names)


def _judged(
    tests: Sequence[VisibleTest], results: Sequence[ProgramResult], sandbox: ProgramRunner, code: str
) -> Critique | None:
    passed, total = sum(result.ok for result in results), len(tests)
    evidence = {"passed": passed, "tests": total}
    ran = list(zip(tests, results, strict=False))
    failed = [
        (test, result) for test, result in ran if not result.ok and (result.status != "unsupported" or result.by_code)
    ]
    if not failed and passed == total:
        every = "The visible test passes." if total == 1 else f"All {total} visible tests pass."
        return Critique(every, accepted=True, score=1.0, evidence=evidence)
    if not failed:
        return None
    if _undefined(results[-1]):
        text = f"The code can't be tested: {_first_line(results[-1])}{_where(results[-1].error or '')}"
    else:
        text = "\n".join(
            [
                f"{passed} of {total} visible tests pass." if total > 1 else "The visible test fails.",
                *(f"- {_why(test, result, sandbox, code)}" for test, result in failed[:MOST_SHOWN]),
                *([f"- {len(failed) - MOST_SHOWN} more fail."] if len(failed) > MOST_SHOWN else []),
                *(["The tests after it were not run."] if len(results) < total else []),
            ]
        )
    return Critique(text[:LONGEST], accepted=False, score=passed / total, evidence=evidence)


def _only_runs(sandbox: ProgramRunner, code: str, name: str, helpers: str) -> Critique | None:
    """Reject code without tests unless it runs and defines its function; that alone proves nothing, so `None`."""
    result = sandbox.run(f"{code}\n\n\ncallable({name})" if name else f"{code}\n\n\nNone")
    needed = not result.by_code or sandbox.names_module(helpers, result.error or "")
    if (result.status == "unsupported" and needed) or (result.ok and (not name or result.value is True)):
        return None
    undefined = result.ok or (result.error or "").startswith(f"NameError: name '{name}' is not defined")
    reason = f"it does not define {name}" if undefined else f"{_first_line(result)}{_where(result.error or '')}"
    return Critique(f"The code does not run: {reason}"[:LONGEST], accepted=False, score=0.0)


def _why(test: VisibleTest, result: ProgramResult, sandbox: ProgramRunner, code: str) -> str:
    error, message = result.error or "", _first_line(result)
    last = error.rpartition("\nlast call: ")[2] if "\nlast call: " in error else ""
    if result.status in LIMITS:
        return f"{_cut(test.shown)}: {message}"
    wrong = re.match(r"AssertionError: got (.*)", error)
    if wrong and test.wanted:
        return f"{_cut(test.shown)} should give {_cut(test.wanted)}, but gives {wrong[1]}"
    if last.endswith(f" raised {message.partition(':')[0]}"):
        wanted = f" should give {_cut(test.wanted)}, but" if test.wanted else ""
        again = sandbox.run(f"{code}\n\n\n{last.rpartition(' raised ')[0]}")
        same = _first_line(again) == message
        return f"{_cut(test.shown)}{wanted} raises {message}{_where(again.error or '') if same else ''}"
    seen = f": {last}" if last else f": {message}"
    return f"{_cut(test.shown)} fails{seen}"


def _undefined(result: ProgramResult) -> bool:
    """Return True if the code failed before any test called it, and so will for every test."""
    error = result.error or ""
    if result.by_code and error.startswith("ModuleNotFoundError"):
        return True
    called = "\nlast call: " in error or error.startswith(("AssertionError", "the tests ran to the end"))
    return result.status == "failed" and not called


def _first_line(result: ProgramResult) -> str:
    return (result.error or result.status).partition("\n")[0][:300]


def _where(error: str) -> str:
    """Return the last line of the code that led to an error; its number would count lines that the model never saw."""
    lines = re.findall(r"^  line \d+, in (\S+): (.+)$", error, re.MULTILINE)
    return f" (in {lines[-1][0]}: {lines[-1][1]})".replace("in <module>: ", "at: ") if lines else ""


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} …"


LIMITS = ("timeout", "memory", "output")
MOST_TESTS = 20
MOST_SHOWN = 3
LONGEST = 2_000
LONGEST_SHOWN = 300
