"""Tools for a critic that looks things up before it judges: a calculator, code in a sandbox, and a search."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import TYPE_CHECKING

from langchain_core.tools import StructuredTool, ToolException, create_retriever_tool

from ..verify.arithmetic.expressions import Expression, Sense, tokenize
from ..verify.notation import plain_notation

if TYPE_CHECKING:
    from fractions import Fraction

    from langchain_core.retrievers import BaseRetriever
    from langchain_core.tools import BaseTool

    from ..sandbox import Sandbox, SandboxResult

__all__ = ["calculator_tool", "python_tool", "search_tool"]


def calculator_tool(*, name: str = "calculate") -> BaseTool:
    """Return a tool that computes one arithmetic expression exactly. Nothing is evaluated as code.

    It reads `+ - * / ^`, brackets, percents, fractions and thousands separators. What it can't read with certainty, it
    says so.
    """

    def calculate(expression: str) -> str:
        """Compute an arithmetic expression exactly, such as (3 + 4) * 12.5 / 7 or 15% of 80."""
        return _computed(expression)

    return StructuredTool.from_function(calculate, name=name, handle_tool_error=True)


def python_tool(sandbox: Sandbox, *, name: str = "run_python") -> BaseTool:
    """Return a tool that runs a Python script in the sandbox and returns what it printed, or its error.

    Args:
        sandbox: Runs it; nothing that a model wrote runs anywhere else.
        name: Of the tool.
    """

    def run_python(code: str) -> str:
        """Run a Python script that uses only the standard library, and return what it prints."""
        return _told(sandbox.run(code))

    async def arun_python(code: str) -> str:
        return _told(await sandbox.arun(code))

    return StructuredTool.from_function(run_python, arun_python, name=name, handle_tool_error=True)


def search_tool(retriever: BaseRetriever, *, name: str = "search", about: str = "documents") -> BaseTool:
    """Return a tool that searches with any LangChain retriever and returns the passages found.

    Args:
        retriever: What is searched, and how many passages are found.
        name: Of the tool.
        about: What can be found, in a few words, for the model.
    """
    return create_retriever_tool(retriever, name, f"Search {about}: returns the passages that fit a query best.")


def _computed(text: str) -> str:
    tokens = list(tokenize(plain_notation(text.strip())[: LONGEST + 1]))
    if not tokens or len(text) > LONGEST:
        raise ToolException(f"Give one arithmetic expression of at most {LONGEST} characters.")
    found = Expression(tokens, 0, Sense())
    if found.by_zero:
        raise ToolException("That divides by zero.")
    if found.value is None or found.at < len(tokens):
        raise ToolException(
            f"{text!r} can't be read as one arithmetic expression: use numbers, + - * / ^ and brackets."
        )
    return _shown(found.value.exact)


def _shown(exact: Fraction) -> str:
    """Return a number with all its digits where they end, else as a fraction with its first digits."""
    if exact.denominator == 1:
        return str(Decimal(exact.numerator))
    rest = exact.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    with localcontext(prec=60) as context:
        if rest == 1:
            return f"{Decimal(exact.numerator) / Decimal(exact.denominator):f}"
        context.prec = 12
        return f"{exact.numerator}/{exact.denominator}, about {Decimal(exact.numerator) / Decimal(exact.denominator)}"


def _told(result: SandboxResult) -> str:
    if not result.ok:
        raise ToolException(f"{result.stdout}\n{result.error or result.status}".strip())
    printed = result.stdout.strip()
    value = f"value: {result.value!r}" if result.value is not None else ""
    return "\n".join(part for part in (printed, value) if part) or "It ran, and printed nothing."


LONGEST = 300
