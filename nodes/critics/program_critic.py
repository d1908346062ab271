"""Program critic. Internal.

A model writes a program that solves the problem, a sandbox runs it, and the answers must agree.

A model that is asked whether its own solution is right says yes nearly always. A program that it writes without seeing
the solution goes wrong in other places than prose does, so where the two agree both are probably right.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from langgraph.constants import TAG_NOSTREAM

from ...models.specs import as_model
from ...state.critique import Critique, DualCritic
from ...state.dual import Do, DualCallable, at_once
from ...state.events import Event, clean
from ...state.summary import attempts, current_run
from ..arguments import checked_count
from ..runtime.meter import METER
from ..verify.numeric_answers import extract_number, same_number
from ..writing.prompts import Prompts, attempt_at_hand, chat_prompt, reseeded
from ..writing.replies import read_text
from ..writing.sampling import sampled
from ..writing.writers import EvidenceWriter

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence
    from decimal import Decimal

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import BaseMessage
    from langchain_core.runnables import RunnableConfig

    from ..programs import ProgramResult, ProgramRunner

__all__ = ["PROGRAM_PROMPTS", "AdoptingWriter", "Computed", "ProgramCritic", "program_critic", "read_program"]


class ProgramCritic(DualCritic):
    """A critic that accepts a solution only if programs written independently give the same number.

    Programs are written until one answer leads every other by two votes of drafts and programs: the first program
    decides where it agrees with the solution. Where the programs' answer leads, the refiner is told what they compute.
    A revision that says what a draft or program said before it is no vote of its own.

    Args:
        model: Writes the programs.
        sandbox: Runs them; nothing that a model wrote runs anywhere else.
        prompts: Templates over `task`, one style of program each, taken in turn. They never see the draft.
        programs: How many are written at most about the first draft; each later draft with an answer of its own may
            have one more. 1 or more.
        temperature: Of programs in a style that was asked for before, so that they can differ; see
            `redraft.nodes.writing.sampling.sampled`.
        name: How events name it.

    Raises:
        TypeError: At build: `model` or `sandbox` is none.
        ValueError: At build: a prompt uses unknown variables, `programs` is no whole number of 1 or more, or
            `temperature` is below 0 or no number.
    """

    def __init__(
        self,
        model: BaseChatModel | str,
        sandbox: ProgramRunner,
        *,
        prompts: Prompts | None = None,
        programs: int = 3,
        temperature: float = 0.7,
        name: str = "program",
    ) -> None:
        model = as_model(model)
        _check(sandbox, programs, temperature)
        self.name = name
        self.sandbox = sandbox
        self.programs = programs
        self.templates = chat_prompt(PROGRAM_PROMPTS if prompts is None else prompts, what="prompts")
        self._model = model
        self._later = sampled(model, temperature)

    @property
    def ahead(self) -> _FirstProgram:
        """What it can ask before there is a draft."""
        return _FirstProgram(self)

    def logic(
        self, task: str, draft: str, history: Sequence[Event], /, state: Mapping[str, Any] | None = None
    ) -> Generator[Do, Any, Critique]:
        """Write and run programs until they decide, and compare; the first may have been asked for ahead."""
        begun = (state or {}).get("asked_ahead")
        votes = _Votes(draft, history, known=self._known(history))
        # Each later draft may have one more, so that a problem without any agreement stays affordable.
        left = self.programs + max(0, len(votes.drafts) - 1) - len(votes.known)
        while left > 0 and (lacking := votes.lacking()):
            number = len(votes.programs)
            if begun and not number:
                replies = [begun["reply"]]
                if meter := METER.get():
                    meter.take_over(begun["usage"], begun["model"])
            else:
                # Side by side those that are needed whatever they say.
                numbers = range(number, number + min(left, lacking))
                replies = [read_text(reply) for reply in (yield at_once([self.asking(task, one) for one in numbers]))]
            left -= len(replies)
            for program in map(read_program, replies):
                ran = (yield Do(self.sandbox.run, self.sandbox.arun, (program,))) if program else None
                votes.written.append(Computed.of(program, ran))
        return self._compared(votes)

    def asking(self, task: str, number: int, **config: Any) -> Do:
        """Return the call that asks for the program of this number."""
        # A style that is asked for again is sampled.
        model, messages = self._model if number < len(self.templates) else self._later, self.messages(task, number)
        writer = reseeded(model, number, messages)
        return Do(writer.invoke, writer.ainvoke, (messages, *filter(None, [config])))

    def messages(self, task: str, number: int) -> list[BaseMessage]:
        """Return the messages that ask for the program of this number, from 0; the model never sees the draft."""
        template = self.templates[number % len(self.templates)]
        return template.format_messages(task=task, draft="", feedback="", history="", round=number, context="")

    def sent(
        self, task: str, draft: str, history: Sequence[Event], critique: Event, state: Mapping[str, Any]
    ) -> list[list[BaseMessage]]:
        """Return the messages that ask for the programs of a critique in the record."""
        known = len(self._known(history))
        return [self.messages(task, known + number) for number, _ in enumerate(critique["evidence"]["programs"])]

    def _compared(self, votes: _Votes) -> Critique:
        """Return the verdict: accepted only if a program agrees, and the answer leads every other by two.

        The score is the share of all answers so far that agree with this draft's: where nothing is ever accepted, the
        answer is the majority's.
        """
        prose, programs = votes.prose, votes.programs
        evidence: dict[str, Any] = {} if prose is None else {"answer": str(prose)}
        evidence["programs"] = [
            {"program": one.program, "answer": one.shown, "output": one.output} for one in votes.written
        ]
        if votes.accept():
            every = "A program" if len(programs) == 1 else f"{_agreeing(prose, programs)} of {len(programs)} programs"
            text = f"{every} written for the problem, without seeing the solution, gave {prose} too."
            return Critique(text, accepted=True, score=votes.share(), evidence=evidence)
        if (agreed := votes.against()) is not None:
            evidence[OUTVOTED] = str(agreed)
        return Critique(self._objection(prose, programs), accepted=False, score=votes.share(), evidence=evidence)

    def _objection(self, prose: Decimal | None, programs: Sequence[Computed]) -> str:
        ran = [one for one in programs if one.number is not None]
        if prose is None:
            return "No answer was found in the solution. End it with a line '#### ' and the number."
        if not ran:
            trouble = programs[-1].trouble if programs else "none was written"
            return f"The solution says {prose}, and no program could confirm it ({trouble}). Check every step."
        # Reversed, so that of equals the newest program is shown: `max` takes the first.
        against = max(reversed(ran), key=lambda one: _agreeing(one.number, ran) * (not same_number(one.number, prose)))
        count = _agreeing(against.number, ran)
        objection = SEVERAL_DISAGREE if count > 1 else DISAGREEMENT
        return objection.format(prose=prose, computed=against.number, program=against.program, count=count)

    def _known(self, history: Sequence[Event]) -> list[Computed]:
        """Return the programs that earlier critiques rest on."""
        return [
            Computed(str(one.get("program") or ""), extract_number(one["answer"]) if one.get("answer") else None)
            for attempt in attempts(history)
            for critique in attempt.critiques
            if critique["by"] == self.name
            for one in critique.get("evidence", {}).get("programs", ())
        ]


class _FirstProgram(DualCallable[[str], Any]):
    """Asks for the first program, which no draft is shown; whoever reads the run's words is not shown it either."""

    def __init__(self, critic: ProgramCritic) -> None:
        self.critic = critic

    def logic(self, task: str) -> Generator[Do, Any, Any]:
        return (yield self.critic.asking(task, 0, tags=[TAG_NOSTREAM]))


program_critic = ProgramCritic
"""A critic that compares a draft with programs written for the same problem."""


class AdoptingWriter(EvidenceWriter):
    """Takes the number on which programs agree against a draft, and asks nobody; else asks as an `EvidenceWriter`.

    Told that number, a model of 1.5B wrote it down in 22 of 32 revisions that were right, and taking it is right as
    often, for no tokens (`benchmarks/same_evidence.py`).
    """

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, Any]:  # noqa: A002
        attempt = attempt_at_hand(input["events"], self.keep)
        evidence = [one["evidence"].get(OUTVOTED) for one in self.objections(attempt)]
        agreed = next((said for said in evidence if isinstance(said, str)), None)
        if agreed is None or (attempt and attempt.requirements):  # more is asked for than the number
            return (yield from super().logic(input, config))
        written = [
            one for event in current_run(input["events"]) for one in event.get("evidence", {}).get("programs", ())
        ]
        agreeing = [one["program"] for one in written if same_number(one["answer"], agreed)]
        return ADOPTED.format(count=len(agreeing), number=agreed, program=agreeing[-1])


@dataclass(frozen=True)
class Computed:
    """A program, the number that it printed last, and the reason where there is none."""

    program: str
    number: Decimal | None
    trouble: str = "it gave no number"
    output: str = ""
    """Its output, the end of it where that is long, or the error that ended it."""

    @property
    def shown(self) -> str | None:
        """Number as text, or `None`."""
        return None if self.number is None else str(self.number)

    @classmethod
    def of(cls, program: str, ran: ProgramResult | None) -> Computed:
        """Return the result of a program; `ran` is `None` where the reply held none."""
        if ran is None:
            return cls(program, None, "the reply held no program")
        output = clean(ran.stdout if ran.ok else ran.error or ran.stdout)[-MOST_KEPT:]
        lines = [line for line in ran.stdout.splitlines() if line.strip()]
        number = extract_number(lines[-1]) if ran.ok and lines else None
        trouble = "" if number is not None else ran.error or "it printed no number"
        return cls(program, number, trouble, output)


def _check(sandbox: Any, programs: Any, temperature: Any) -> None:
    if not hasattr(sandbox, "run"):
        raise TypeError(f"sandbox must be a Sandbox, not {sandbox!r}")
    checked_count("programs", programs, least=1)
    if isinstance(temperature, bool) or not isinstance(temperature, int | float) or not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be a number, 0 or more, not {temperature!r}")


class _Votes:
    """The answers about a task so far: those of programs, and of drafts that do not repeat an earlier answer."""

    def __init__(self, draft: str, history: Sequence[Event], *, known: list[Computed]) -> None:
        self.prose = extract_number(draft)
        """The answer of the draft that is judged."""
        self.known = known
        """Programs written for earlier drafts."""
        self.written: list[Computed] = []
        """Programs written for this one."""
        self.drafts: list[Decimal | None] = []
        for attempt in attempts(history):
            number = extract_number(attempt.text)
            # A revision was shown programs, and may have copied an answer; a fresh sample saw none.
            copied = attempt.base is not None and any(
                same_number(one, number) for one in (*self.drafts, *(one.number for one in known))
            )
            if not copied:
                self.drafts.append(number)
        self.drafts = self.drafts or [self.prose]

    @property
    def programs(self) -> list[Computed]:
        return [*self.known, *self.written]

    def accept(self) -> bool:
        """Return True if a program agrees with the draft, and its answer leads by two."""
        return _agreeing(self.prose, self.programs) > 0 and self._lead(self.prose) >= LEAD

    def lacking(self) -> int:
        """Return how many votes are needed at least until an answer leads every other by two."""
        return max(0, LEAD - max(map(self._lead, self._answers()), default=0))

    def against(self) -> Decimal | None:
        """Return the answer that several programs give, and that leads every other; `None` where it is the draft's."""
        several = (one.number for one in self.programs if _agreeing(one.number, self.programs) > 1)
        return next((one for one in several if self._lead(one) > 0 and not same_number(one, self.prose)), None)

    def share(self) -> float:
        """Return the share of all answers that are the draft's, 0–1."""
        answers = self._answers()
        return self._count(self.prose) / len(answers) if answers else 0.0

    def _answers(self) -> list[Decimal]:
        return [one for one in (*self.drafts, *(one.number for one in self.programs)) if one is not None]

    def _count(self, number: Decimal | None) -> int:
        return sum(same_number(one, number) for one in self._answers())

    def _lead(self, number: Decimal | None) -> int:
        """Return by how many votes an answer leads every other."""
        others = [self._count(one) for one in self._answers() if not same_number(one, number)]
        return self._count(number) - max(others, default=0)


def _agreeing(number: Decimal | None, programs: Sequence[Computed]) -> int:
    return sum(same_number(one.number, number) for one in programs)


def read_program(reply: str) -> str:
    """Return the program in a reply: its last fenced block of code, or the reply itself where it is code; else ''."""
    blocks = FENCED.findall(reply)
    if blocks:
        return str(blocks[-1]).strip()
    return reply.strip() if re.search(r"^[^\S\n]*+(?:print\(|answer\s*=|def )", reply, re.MULTILINE) else ""


FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:\n```|\Z)", re.DOTALL | re.IGNORECASE)

MOST_KEPT = 2000
"""Characters of a program's output in the record."""

OUTVOTED = "outvoted"
"""Key of the evidence against a draft: the other answer, on which several programs agree, and which leads."""

LEAD = 2
"""Votes by which an answer must lead. Of 200 word problems, 120 were decided by this, 13 of them wrongly; of the 158
where two agreed, 34 (`benchmarks/same_evidence.py`)."""

DISAGREEMENT = """\
The solution says {prose}. A program written independently for the same problem gives {computed}:
```python
{program}
```
One of the two is wrong. Read the problem again, find out which, and why."""

SEVERAL_DISAGREE = """\
The solution says {prose}, which is probably wrong: {count} programs written independently for the same problem give \
{computed}. One of them:
```python
{program}
```
Take the same steps as the program, unless one contradicts the problem."""

ADOPTED = """\
{count} programs, written for this problem without seeing a solution, give {number}. The last of them:
```python
{program}
```
#### {number}"""

PROGRAM_PROMPTS = (
    """\
Write a short Python program that computes the answer to this problem. Name every quantity in the problem as a \
variable, compute step by step, and print only the final number. Reply with one code block and nothing else.

{task}""",
    """\
Solve this problem with a Python function solve() that returns the answer as a number, then print(solve()). Put a \
comment before each line that says which sentence of the problem it follows. Reply with one code block and nothing else.

{task}""",
)
