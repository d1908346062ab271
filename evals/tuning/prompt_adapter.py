"""Adapter between gepa and our methods: runs a set of prompts on problems, and collects the feedback. Internal.

The reflection model sees, of rows of the training part: the prompt that it is to improve, what a call with that prompt
was asked, the reply, whether the reply was right, and what critics said of it. It never sees a gold answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass, field, replace
from string import Formatter
from typing import TYPE_CHECKING, Any

from ...nodes.writing.prompt_files import check_prompt
from ...state.events import CRITIQUE_KINDS, Event
from ...state.summary import attempts, current_run
from ..run.runner import run_problem
from .call_ledger import Call, CallLedger, TuningBudgetSpentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from langchain_core.language_models import BaseChatModel

    from ..datasets.dataset import Dataset, Problem
    from ..run.methods import Method

__all__ = ["PromptAdapter", "Trial", "prompts_key"]


@dataclass(frozen=True)
class Trial:
    """A problem that was run with some prompts."""

    problem: Problem
    thread: str
    right: bool
    tokens: int
    events: Sequence[Event] = field(repr=False)
    error: bool = False


def prompts_key(prompts: Mapping[str, str]) -> str:
    """Return the name of a set of prompts in thread ids."""
    text = "\0".join(f"{name}\0{prompts[name]}" for name in sorted(prompts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class PromptAdapter:
    """gepa's adapter: evaluates a candidate, shows what happened, and proposes a new text for one prompt.

    A problem is run once with the same prompts, however often gepa asks: its thread keeps the answer, also over a kill.

    Args:
        data: Judges the answers.
        build: From prompts to the method; its graph gets the saver below.
        untuned: The prompts that the method has of itself.
        saver: Keeps the threads.
        runner: The event loop of all calls.
        ledger: Counts them.
        reflection_model: Proposes.
        limits: Budgets of a problem.
        concurrency: Problems at once.
        shown_characters: Of calls and what was said of them, for one proposal: a small context holds few.
    """

    def __init__(
        self,
        data: Dataset,
        build: Callable[[Mapping[str, str]], Method],
        untuned: Mapping[str, str],
        *,
        saver: Any,
        runner: asyncio.Runner,
        ledger: CallLedger,
        reflection_model: BaseChatModel,
        limits: Mapping[str, Any],
        concurrency: int,
        shown_characters: int,
    ) -> None:
        self.data = data
        self.build = build
        self.untuned = dict(untuned)
        self.ledger = ledger
        self.iteration = 0
        self.idle = 0
        """Iterations in a row for which nothing was paid."""
        self.refused: list[dict[str, Any]] = []
        self.failure: Exception | None = None
        """Why the reflection model could not answer; gepa goes on without a proposal, and we must not."""
        self._saver = saver
        self._runner = runner
        self._model = reflection_model
        self._limits = dict(limits)
        self._concurrency = concurrency
        self._shown = shown_characters
        self._longest = max(200, shown_characters // 6)
        self._known: dict[tuple[str, str], Trial] = {}

    # gepa's protocol

    def evaluate(self, batch: list[Problem], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """Run the problems with the candidate's prompts; right is 1, wrong 0.

        Raises:
            TuningBudgetSpentError: The budget was spent on the way; what is finished is kept.
            RuntimeError: All of several problems failed: the model is not there, say.
        """
        from gepa.core.adapter import EvaluationBatch

        trials = self.trials(candidate, batch)
        return EvaluationBatch(
            outputs=[{"right": trial.right, "tokens": trial.tokens} for trial in trials],
            scores=[float(trial.right) for trial in trials],
            trajectories=trials if capture_traces else None,
        )

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, Any]]]:
        """Return, for each prompt, its calls, their replies and the feedback on them; failures first."""
        shown = {}
        for name in components_to_update:
            trials = sorted(eval_batch.trajectories, key=lambda trial: trial.right)
            records = [record for trial in trials for record in self._records(candidate, name, trial)]
            size = 0
            fitting: list[dict[str, Any]] = []
            for record in records:
                size += len(str(record))
                if fitting and size > self._shown:
                    break
                fitting.append(record)
            shown[name] = fitting
        return shown

    def propose_new_texts(
        self,
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        """Return the reflection model's new texts; the model hears why one that breaks a template was refused."""
        texts = {}
        for name in components_to_update:
            records = reflective_dataset.get(name)
            if records and (text := self._proposed(name, candidate[name], records)):
                texts[name] = text
        return texts

    def get_adapter_state(self) -> dict[str, Any]:
        """Return the adapter's part of gepa's state."""
        return {"refused": list(self.refused), "idle": self.idle}

    def set_adapter_state(self, state: dict[str, Any]) -> None:
        """Go on from what gepa kept."""
        self.refused = list(state.get("refused", ()))
        self.idle = state.get("idle", 0)

    # Running

    def trials(self, prompts: Mapping[str, str], problems: Sequence[Problem]) -> list[Trial]:
        """Run problems with these prompts, each once, and return their trials.

        Raises:
            TuningBudgetSpentError: The budget was spent on the way.
            RuntimeError: All of several problems failed.
        """
        self._runner.run(self._run(prompts, problems))
        trials = [trial for problem in problems if (trial := self.known(prompts, problem))]
        if self.ledger.uncounted:
            raise ValueError("the model's server reports no tokens, so a token budget can't hold")
        if len(trials) < len(problems):
            raise TuningBudgetSpentError
        if len(trials) > 1 and all(trial.error for trial in trials):
            raise RuntimeError(f"all of {len(trials)} problems failed; the last one: {self._last_error}")
        return trials

    def known(self, prompts: Mapping[str, str], problem: Problem) -> Trial | None:
        """Return the trial where it has been run in this process."""
        return self._known.get((prompts_key(prompts), problem.id))

    async def _run(self, prompts: Mapping[str, str], problems: Sequence[Problem]) -> None:
        key = prompts_key(prompts)
        waiting = [problem for problem in problems if (key, problem.id) not in self._known]
        if not waiting:
            return
        method = self.build(prompts)
        graph = method.graph.copy({"checkpointer": self._saver}).with_config(callbacks=[self.ledger])
        bound = replace(method, graph=graph)
        limits = {**self._limits, "max_rounds": method.rounds}
        free = asyncio.Semaphore(self._concurrency)

        async def solve(problem: Problem) -> None:
            thread = f"{key}/{problem.id}"
            config: Any = {"configurable": {"thread_id": thread}}
            async with free:
                if self.ledger.spent >= self.ledger.limit and await self._saver.aget_tuple(config) is None:
                    return
                outcome = await run_problem(bound, problem.task, limits=limits, thread_id=thread)
            if thread in self.ledger.refused:
                # What it came to without the refused call says nothing; a resumed run goes on there.
                self.ledger.refused.discard(thread)
                return
            output = outcome["output"]
            failed = output is None or output["stop_reason"] == "failed"
            if failed:
                failures = [event["text"] for event in (output or {}).get("events", ()) if event["kind"] == "failure"]
                self._last_error = outcome["error"] or (failures[-1] if failures else "unknown")
            answer = "" if output is None else output["answer"]
            # Hidden tests run in the sandbox, which would hold up all other problems.
            right = bool(answer) and await asyncio.to_thread(self.data.is_correct, problem, answer)
            events = [] if output is None else current_run(output["events"])
            tokens = outcome["usage"]["total_tokens"]
            self._known[key, problem.id] = Trial(problem, thread, right, tokens, events, error=failed)

        async with asyncio.TaskGroup() as group:
            for problem in waiting:
                group.create_task(solve(problem))

    _last_error = ""

    # Telling

    def next_prompt(
        self, state: Any, trajectories: list[Trial], scores: list[float], candidate_idx: int, candidate: dict[str, str]
    ) -> list[str]:
        """Return the prompt whose turn it is among those that the rows at hand asked with: no other can be learnt."""
        shapes = _shapes(candidate)
        used = {_name_of(call, shapes)[0] for trial in trajectories for call in self.ledger.of(trial.thread)}
        names = [name for name in candidate if name in used]
        return [names[state.i % len(names)]] if names else []

    def _records(self, candidate: Mapping[str, str], name: str, trial: Trial) -> list[dict[str, Any]]:
        shapes = _shapes(candidate)
        records: list[dict[str, Any]] = []
        for call in self.ledger.of(trial.thread):
            by, inputs = _name_of(call, shapes)
            if by == name:
                shown = {variable: self._cut(text) for variable, text in inputs.items()}
                feedback = self._feedback(name, inputs, call.reply, trial)
                records.append({"Inputs": shown, "Generated Outputs": self._cut(call.reply), "Feedback": feedback})
        return records[:MOST_CALLS]

    def _feedback(self, name: str, inputs: Mapping[str, str], reply: str, trial: Trial) -> str:
        """Return right or wrong, and the critics' words; nothing else of the gold answer."""
        lines = []
        drafts = {event.text.strip(): event for event in attempts(trial.events)}
        judged = drafts.get(reply.strip())
        if name == "critic":
            about = self.data.is_correct(trial.problem, inputs.get("draft", ""))
            lines.append(f"The draft that it judged is {_word(about)}.")
        elif judged is not None:
            lines.append(f"The answer in this reply is {_word(self.data.is_correct(trial.problem, reply))}.")
        critiques = judged.critiques if judged else [event for event in trial.events if event["kind"] in CRITIQUE_KINDS]
        if name != "critic":
            lines += [
                f"{critique.get('critic', critique['by'])} said of it: {self._cut(critique['text'])}"
                for critique in critiques
                if critique.get("text")
            ]
        lines.append(f"The answer that the whole run came to is {_word(trial.right)}.")
        return "\n".join(lines)

    def _cut(self, text: str) -> str:
        return text if len(text) <= self._longest else f"{text[: self._longest]} …"

    # Proposing

    def _proposed(self, name: str, current: str, records: Sequence[Mapping[str, Any]]) -> str | None:
        from gepa.strategies.instruction_proposal import InstructionProposalSignature as Signature

        variables = " ".join("{" + variable + "}" for variable in _variables(self.untuned[name]))
        template = REFLECTION_PROMPT.replace("VARIABLES", variables).replace("NAME", name)
        request = Signature.prompt_renderer(
            {"current_instruction_doc": current, "dataset_with_feedback": records, "prompt_template": template}
        )
        refusal, last = "", None
        for number in range(TRIES):
            try:
                reply = self._reflect(f"{request}{refusal}", f"reflection/{self.iteration}/{name}/{number}")
            except TuningBudgetSpentError:
                return None
            except Exception as error:
                self.failure = error
                raise
            text: str = Signature.output_extractor(reply.strip())["new_instruction"]
            fault = self._fault(name, text, current, records)
            if fault is None:
                return text
            self.refused.append({"iteration": self.iteration, "prompt": name, "why": fault, "text": self._cut(text)})
            if text == last:
                return None  # the model heard what is wrong with it, and has nothing else to propose
            last = text
            refusal = f"\n\nYou proposed this:\n```\n{self._cut(text)}\n```\nIt was refused, and not tried: {fault}."
        return None

    def _fault(self, name: str, text: str, current: str, records: Sequence[Mapping[str, Any]]) -> str | None:
        """Return the reason why a text can't be the prompt; `None` where it can."""
        if not text or text == current.strip():
            return "it is the prompt as it was"
        if not any(literal.strip() for literal in _literals(text)):
            return "it holds no instruction"
        if len(text) > MOST_CHARACTERS:
            return f"it has {len(text)} characters, and {MOST_CHARACTERS} is the most"
        if any(task in text for record in records if (task := record["Inputs"].get("task"))):
            return "it holds a task that it was shown, and must serve for others"
        try:
            check_prompt(name, text, self.untuned[name])
        except ValueError as error:
            return str(error)
        return None

    def _reflect(self, asked: str, thread: str) -> str:
        """Return the reflection model's reply; one that was paid before a kill is not asked for again."""
        for call in self.ledger.of(thread):
            if call.asked == asked:
                return call.reply
        config: Any = {"callbacks": [self.ledger], "metadata": {"thread_id": thread}}
        self._runner.run(self._model.ainvoke(asked, config))
        return self.ledger.of(thread)[-1].reply


def _literals(prompt: str) -> list[str]:
    """Return the text around the fields of a prompt; of one that is no template, the whole."""
    try:
        return [literal for literal, _, _, _ in Formatter().parse(prompt)]
    except ValueError:
        return [prompt]


def _variables(prompt: str) -> list[str]:
    return list(dict.fromkeys(name for _, name, _, _ in Formatter().parse(prompt) if name))


def _shapes(prompts: Mapping[str, str]) -> list[tuple[str, re.Pattern[str]]]:
    """Return a pattern for each prompt, that with most own text first: `{task}` alone would match any call."""
    shapes = []
    for name, prompt in prompts.items():
        pattern, fixed, seen = "", 0, set[str]()
        for literal, variable, _, _ in Formatter().parse(prompt):
            pattern += re.escape(literal)
            fixed += len(literal)
            if variable:
                pattern += f"(?P={variable})" if variable in seen else f"(?P<{variable}>.*?)"
                seen.add(variable)
        shapes.append((fixed, name, re.compile(pattern, re.DOTALL)))
    return [(name, pattern) for _, name, pattern in sorted(shapes, key=lambda shape: -shape[0])]


def _name_of(call: Call, shapes: Sequence[tuple[str, re.Pattern[str]]]) -> tuple[str, dict[str, str]]:
    """Return the name of the prompt that a call asked with, and what its variables stood for."""
    for name, pattern in shapes:
        if match := pattern.fullmatch(call.asked):
            return name, match.groupdict()
    return "", {}


def _word(right: bool) -> str:
    return "right" if right else "wrong"


TRIES = 3
MOST_CALLS = 3
MOST_CHARACTERS = 6_000

REFLECTION_PROMPT = """\
A language model is given this prompt, named NAME, where each word in braces is filled in:
```
<curr_param>
```

Here is what it was asked with, what it replied, and what was found:

<side_info>

Write a better prompt. From the replies and what was found, see which instructions would have prevented the mistakes, \
and keep what works. It must serve for other tasks of this sort too, so put no task and no answer from above into it. \
Keep the form that the replies must have. Keep it short.

It must hold each of these once, as they stand, in single braces: VARIABLES
Other braces are not allowed.

Reply with the whole new prompt between two lines of ``` and nothing else."""
