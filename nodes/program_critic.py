"""A critic that solves the problem its own way: a model writes a program, a sandbox runs it, the answers must agree.

A model that is asked whether its own solution is right says yes nearly always. A program that it writes without seeing
the solution goes wrong in other places than prose does, so where the two agree both are probably right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..state.critique import Critique
from ..state.folds import attempts
from .numeric_answers import extract_number, same_number
from .prompts import Prompts, chat_prompt
from .replies import read_text
from .sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage

    from ..state.critique import Verifier
    from ..state.events import Event
    from .sandbox import Sandbox, SandboxResult

__all__ = ["PROGRAM_PROMPTS", "Computed", "ProgramCritic", "program_critic", "read_program"]


class ProgramCritic:
    """A critic that compares a draft's answer with a program's; see `program_critic`."""

    def __init__(
        self,
        model: BaseChatModel,
        sandbox: Sandbox,
        *,
        prompts: Prompts,
        steps: Verifier | None,
        temperature: float,
        name: str,
    ) -> None:
        self.name = name
        self.sandbox = sandbox
        self.steps = steps
        self.templates = chat_prompt(prompts, what="prompts")
        self._model = model
        self._later = sampled(model, temperature)

    def __call__(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Write and run a program, and compare."""
        asked = self._asked(history)
        program = read_program(read_text(self._writer(asked).invoke(self.messages(task, asked))))
        ran = self.sandbox.run(program) if program else None
        return self.compare(task, draft, Computed.of(program, ran), history)

    async def acall(self, task: str, draft: str, history: Sequence[Event], /) -> Critique:
        """Write and run a program, and compare, without blocking."""
        asked = self._asked(history)
        program = read_program(read_text(await self._writer(asked).ainvoke(self.messages(task, asked))))
        ran = await self.sandbox.arun(program) if program else None
        return self.compare(task, draft, Computed.of(program, ran), history)

    def messages(self, task: str, asked: int) -> list[BaseMessage]:
        """Return what the model is asked after `asked` programs; it never sees the draft."""
        template = self.templates[asked % len(self.templates)]
        return template.format_messages(task=task, draft="", feedback="", history="", round=asked, context="")

    def compare(self, task: str, draft: str, computed: Computed, history: Sequence[Event]) -> Critique:
        """Return the verdict: accepted only if both have an answer and the answers agree.

        The score is the share of all answers so far, of drafts and programs alike, that agree with this draft's: where
        nothing is ever accepted, the answer is the majority's.
        """
        prose, number = extract_number(draft), computed.number
        votes = [vote for vote in (*self._votes(history), number) if vote is not None]
        score = sum(same_number(vote, prose) for vote in votes) / len(votes) if votes and prose is not None else 0.0
        evidence = {"program": computed.program, "answer": None if number is None else str(number)}
        if prose is not None and same_number(prose, number):
            said = f"A program written for the problem gives {number} too."
            return Critique(said, accepted=True, score=score, evidence=evidence)
        if prose is None:
            said = "No answer was found in the solution. End it with a line '#### ' and the number."
        elif number is None:
            said = f"The solution says {prose}, and no program could confirm it ({computed.trouble}). Check every step."
        else:
            said = DISAGREEMENT.format(prose=prose, computed=number, program=computed.program)
        slips = self.steps(task, draft) if self.steps else None
        said = f"{said}\n\n{slips.text}" if slips and slips.text else said
        return Critique(said, accepted=False, score=score, evidence=evidence)

    def _writer(self, asked: int) -> Any:
        return self._model if asked == 0 else self._later

    def _asked(self, history: Sequence[Event]) -> int:
        return sum(critique["by"] == self.name for attempt in attempts(history) for critique in attempt.critiques)

    def _votes(self, history: Sequence[Event]) -> list[Any]:
        """Return the answers of all drafts, and of the programs that earlier critiques name."""
        found: list[Any] = []
        for attempt in attempts(history):
            found.append(extract_number(attempt.text))
            said = [one.get("evidence", {}).get("answer") for one in attempt.critiques if one["by"] == self.name]
            found += [extract_number(answer) for answer in said if answer]
        return found


def program_critic(
    model: BaseChatModel,
    sandbox: Sandbox,
    *,
    prompts: Prompts | None = None,
    steps: Verifier | None = None,
    temperature: float = 0.7,
    name: str = "program",
) -> ProgramCritic:
    """Return a critic that accepts a solution only if a program written independently gives the same number.

    Args:
        model: Writes the programs.
        sandbox: Runs them; nothing that a model wrote runs anywhere else.
        prompts: Templates over `task`, one style of program each, taken in turn. They never see the draft.
        steps: Checks the steps that a rejected draft shows; what it finds is told to the refiner, and decides nothing.
        temperature: Of the second and later programs, so that they can differ; see `redraft.nodes.sampling.sampled`.
        name: How events name it.

    Raises:
        ValueError: At build: a prompt uses unknown variables.
    """
    prompts = PROGRAM_PROMPTS if prompts is None else prompts
    return ProgramCritic(model, sandbox, prompts=prompts, steps=steps, temperature=temperature, name=name)


@dataclass(frozen=True)
class Computed:
    """A program, the number that it printed last, and why there is none."""

    program: str
    number: Decimal | None
    trouble: str = ""

    @classmethod
    def of(cls, program: str, ran: SandboxResult | None) -> Computed:
        """Return what became of a program; `ran` is `None` where the reply held none."""
        if ran is None:
            return cls(program, None, "the reply held no program")
        lines = [line for line in ran.stdout.splitlines() if line.strip()]
        number = extract_number(lines[-1]) if ran.ok and lines else None
        return cls(program, number, "" if number is not None else ran.error or "it printed no number")


def read_program(reply: str) -> str:
    """Return the program in a reply: its last fenced block of code, or the reply itself where it is code; else ''."""
    blocks = FENCED.findall(reply)
    if blocks:
        return str(blocks[-1]).strip()
    return reply.strip() if re.search(r"^\s*(?:print\(|answer\s*=|def )", reply, re.MULTILINE) else ""


FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL | re.IGNORECASE)

DISAGREEMENT = """\
The solution says {prose}. A program written independently for the same problem gives {computed}:
```python
{program}
```
One of the two is wrong. Read the problem again, find out which, and why."""

PROGRAM_PROMPTS = (
    """\
Write a short Python program that computes the answer to this problem. Name every quantity in the problem as a \
variable, compute step by step, and print only the final number. Reply with one code block and nothing else.

{task}""",
    """\
Solve this problem with a Python function solve() that returns the answer as a number, then print(solve()). Put a \
comment before each line that says which sentence of the problem it follows. Reply with one code block and nothing else.

{task}""",
    """\
What exactly does the last sentence of this problem ask for? Write Python code that works backwards from it: list as \
comments what must be known first, then compute each from the numbers given, and print only the final number. Reply \
with one code block and nothing else.

{task}""",
)
