"""Tasks in the format of HumanEval: what of a row a model may see, and the hidden tests for those who measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..sandbox.result import SandboxResult
from .code_replies import find_entry_point, read_code

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..sandbox import Sandbox

__all__ = ["code_task", "passes_hidden_tests"]


def code_task(row: Mapping[str, Any]) -> str:
    """Return the task of a HumanEval row: its prompt, and nothing of its tests or its solution.

    Where the prompt's last function is not the one to write, a comment at the end names it.

    Raises:
        ValueError: The row has no text `prompt` or no `entry_point`.
    """
    prompt, name = _text(row, "prompt"), _text(row, "entry_point")
    return prompt if find_entry_point(prompt) == name else f"{prompt.rstrip()}\n\n# Write the function {name}.\n"


def passes_hidden_tests(row: Mapping[str, Any], answer: str, sandbox: Sandbox) -> SandboxResult:
    """Return what became of an answer under the row's hidden tests; `.ok` says whether it passes them.

    An oracle, for evaluations: no graph calls it.

    Args:
        row: With `prompt`, `entry_point` and `test`.
        answer: What the model replied, as the graph's `answer` holds it.
        sandbox: Runs code and tests.

    Raises:
        ValueError: The row lacks one of the three.
    """
    prompt, name, tests = (_text(row, key) for key in ("prompt", "entry_point", "test"))
    code = read_code(answer, prompt, entry_point=name)
    if not code:
        return SandboxResult(status="failed", error="the answer holds no code")
    return sandbox.check(code, tests, name, helpers=prompt)


def _text(row: Mapping[str, Any], key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"a HumanEval row needs a text {key!r}, not {value!r}")
    return value
