"""The ladder of ways to mend a draft that programs rejected: another is taken where one brought nothing. Internal.

An edit by program costs no call and comes first. Then the model is asked: to mend what one check found, to write anew
with the rejected draft out of sight, or for a fresh sample. `docs/loop.md` has what each is worth.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...state.dual import Do, at_once
from ...state.stopping import SAMPLE, Arm
from ...state.summary import Attempt, current_run
from ...state.typed_answer import ANSWER_TYPE
from ..critics.critics import VerifierCritic, own_checks
from ..runtime.killable import beside
from ..verify.text_verifiers import hint, wish
from ..writing.gate import no_draft, opened
from ..writing.prompts import WISHES, Keep, PromptedModel, Prompts, attempt_at_hand, chat_prompt, known_verifier
from ..writing.replies import read_text
from ..writing.writers import EDIT, AdaptiveWriter, Drafts
from .edits import edited, extended

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping, Sequence

    from langchain_core.messages import AIMessage
    from langchain_core.prompts import ChatPromptTemplate
    from langchain_core.runnables import Runnable, RunnableConfig

    from ...state.events import Event

__all__ = ["LADDER", "MEND_PROMPT", "REWRITE_PROMPT", "WISHES", "Ladder", "accepted_edit", "wished", "wishes"]

MEND, REWRITE = "mend", "rewrite"
LADDER = (Arm(MEND, tries=1), Arm(REWRITE, tries=1), Arm(SAMPLE, tries=3))
"""The rungs that ask a model, in order."""


def _arm(text: str) -> Arm:
    """Return the rung that `NAME` or `NAME:TRIES` stands for."""
    name, colon, tries = text.partition(":")
    arm = next((arm for arm in LADDER if arm.name == name), Arm(name, tries=1))
    if not colon:
        return arm
    if not tries.isdecimal() or not int(tries):
        raise ValueError(f"a rung is a name, or a name and how often it may bring nothing: sample:3, not {text!r}")
    return arm._replace(tries=int(tries))


def wished(critics: Iterable[Any]) -> list[str]:
    """Return what each verifier among critics wants of a text, where it says it; an oracle tells nothing."""
    checks = [critic for critic in critics if isinstance(critic, VerifierCritic) and not critic.oracle]
    return [text for check in checks if (text := check.wants or wish(check.verifier))]


def wishes(critics: Iterable[Any]) -> str:
    """Return what the verifiers among critics want, to be put behind the task; empty where none says it."""
    texts = wished(critics)
    return "".join([WISHES, *(f"\n- {text}" for text in texts)]) if texts else ""


class Ladder(AdaptiveWriter):
    """Writes revisions by rungs, as `check` chooses them; whatever is written, the verifiers may choose an edit of it.

    Args:
        model: Writes; sampled, since a model that is sure of itself writes the same again.
        checks: The verifiers, by the names that their critiques have. Of an edit all of them must accept the text.
        revise_prompt: Of a draft that others than these verifiers object to.
        generate_prompt: Of fresh samples.
        told: What the verifiers want, put behind the task.
        keep: Whether the best or the latest draft is mended.
        arms: Rungs in order; by its name alone one has the tries that it has in `LADDER`.
        own: Keys of the state that the prompts may name.

    Raises:
        ValueError: A prompt makes no sense, or a rung is not known. At build.
    """

    def __init__(
        self,
        model: Runnable[Any, AIMessage],
        checks: Mapping[str, VerifierCritic],
        *,
        revise_prompt: Prompts,
        generate_prompt: Prompts,
        told: str = "",
        keep: Keep = "best",
        arms: Sequence[Arm | str] = LADDER,
        own: Collection[str] = (),
    ) -> None:
        rungs = [_arm(arm) if isinstance(arm, str) else arm for arm in arms]
        seen: dict[str, Any] = {"told": told, "keep": keep, "memory": "last", "own": own}
        writers = {
            MEND: MendingModel(model, revise_prompt, checks, **seen),
            REWRITE: AdvisedModel(model, REWRITE_PROMPT, checks, **seen),
            SAMPLE: PromptedModel(model, generate_prompt, what="generate_prompt", **seen),
        }
        if unknown := [arm.name for arm in rungs if arm.name not in writers]:
            raise ValueError(f"there is no rung {unknown[0]!r}; known are {', '.join(writers)}")
        super().__init__({arm.name: writers[arm.name] for arm in rungs}, rungs)
        self.checks = checks
        self.keep: Keep = keep
        self.model = model
        self.templates = [template for writer in writers.values() for template in writer.templates]

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, Drafts]:  # noqa: A002
        base = attempt_at_hand(input["events"], self.keep)
        if base is not None and _rejected_by_program(base):
            text = yield beside(self._edited, input, base.text)
            # What was no draft then, for whatever reason, is none now.
            if text and all(event.get("text") != text for event in current_run(input["events"])):
                return Drafts([text], fresh=False, arm=EDIT)
        drafts = yield from super().logic(input, config)
        written = [read_text(reply) for reply in drafts.replies]
        texts = yield at_once([beside(self._edited, input, text) for text in written])
        replies = [
            reply.model_copy(update={"content": text}) if text else reply
            for reply, text in zip(drafts.replies, texts, strict=True)
        ]
        return replace(drafts, replies=replies, edited=[bool(text) for text in texts])

    def _edited(self, state: Mapping[str, Any], text: str) -> str:
        if ANSWER_TYPE in self.checks:
            return ""  # cut until it fits, data would be other data
        text = opened(text).text
        own = {one.name: VerifierCritic(known_verifier(one.name), one.name) for one in own_checks(state["events"])}
        return "" if no_draft(text) else accepted_edit({**self.checks, **own}, state["task"], text, state)


def accepted_edit(
    checks: Mapping[str, VerifierCritic], task: str, text: str, state: Mapping[str, Any] | None = None
) -> str:
    """Return an edit of a text that every verifier accepts; empty where there is none, or no need of one.

    Args:
        checks: The verifiers. One that raises accepts nothing: `feedback` records its error.
        task: The task of the text.
        text: The text.
        state: Of the run, for verifiers that take it.
    """
    until = monotonic() + MOST_SECONDS

    def judged(one: str) -> tuple[bool, float]:
        if monotonic() > until:
            return False, -1.0
        try:
            critiques = [check(task, one, (), {**(state or {}), "draft": one}) for check in checks.values()]
        except Exception:
            return False, 0.0
        told = [critique for critique in critiques if not isinstance(critique, list)]
        return all(one.accepted is True for one in told), fmean([one.score or 0.0 for one in told] or [0.0])

    shapes = [getattr(check.verifier, "shape", "") for check in checks.values()]
    return "" if not text.strip() or judged(text)[0] else edited(text, judged, shapes=shapes)


def _rejected_by_program(draft: Attempt) -> bool:
    return any(critique.get("verifier") and critique.get("accepted") is False for critique in draft.critiques)


def objections(attempt: Attempt) -> list[Event]:
    """Return the critiques of those who did not accept a draft."""
    return [critique for critique in attempt.critiques if critique.get("accepted") is not True]


class AdvisedModel(PromptedModel):
    """Is told what to do about each objection to a draft: a verifier's advice, or else the critique as it is.

    Args:
        model: The model.
        prompts: Over `feedback`, the advice.
        checks: The verifiers, by name.
        options: As of `PromptedModel`.
    """

    def __init__(
        self, model: Runnable[Any, AIMessage], prompts: Prompts, checks: Mapping[str, VerifierCritic], **options: Any
    ) -> None:
        super().__init__(model, prompts, what="refine_prompt", **options)
        self.checks = checks

    def question(self, attempt: Attempt | None) -> tuple[list[ChatPromptTemplate], str]:
        """Return the templates, and what to do about a draft, a line for each objection."""
        texts = [self.advice(one, attempt.text) for one in objections(attempt)] if attempt else []
        return self.templates, "\n".join(f"- {text}" for text in texts if text)

    def check(self, objection: Event) -> VerifierCritic | None:
        """Return the verifier that objects to a draft, one of a requirement included; `None` for anybody else."""
        if objection.get("verifier") and objection.get("requirements"):
            return VerifierCritic(known_verifier(objection["by"]), objection["by"])
        return self.checks.get(objection["by"])

    def advice(self, objection: Event, draft: str) -> str:
        """Return what to do about one objection to a draft."""
        check = self.check(objection)
        return (check and hint(check.verifier, "advises", draft)) or objection["text"]


class MendingModel(AdvisedModel):
    """Asks for one thing: what a check lacks, to be added, a sentence at fault anew, else what the first check advises.

    Where others than verifiers object, they are told all that those say.

    Args:
        model: The model.
        prompts: For what others say.
        checks: The verifiers, by name.
        options: As of `PromptedModel`.
    """

    def __init__(
        self, model: Runnable[Any, AIMessage], prompts: Prompts, checks: Mapping[str, VerifierCritic], **options: Any
    ) -> None:
        super().__init__(model, prompts, checks, **options)
        self._mend = chat_prompt(MEND_PROMPT, what="refine_prompt")
        self._add = chat_prompt(ADD_PROMPT, what="refine_prompt")
        self._anew = chat_prompt(SENTENCE_PROMPT, what="prompt")

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        reply = yield from super().logic(input, config)
        attempt = attempt_at_hand(input["events"], self.keep)
        templates, asked = self.question(attempt)
        part = opened(read_text(reply)).text
        if attempt is None or templates not in (self._add, self._anew) or no_draft(part):
            return reply
        sentence = asked.partition(BEFORE_SENTENCE)[2]
        whole = attempt.text.replace(sentence, part, 1) if templates is self._anew else extended(attempt.text, part)
        return reply.model_copy(update={"content": whole if part.strip() else ""})

    def question(self, attempt: Attempt | None) -> tuple[list[ChatPromptTemplate], str]:
        """Return the templates and the one thing to do, or all that is said where others than verifiers object."""
        against = objections(attempt) if attempt else []
        # A wish with verifiers of its own is mended as these advise.
        covered = {text for one in against for text in one.get("requirements", ()) if one.get("verifier")}
        against = [one for one in against if one["text"] not in covered]
        if attempt is None or not all(map(self.check, against)):
            return PromptedModel.question(self, attempt)
        # A sentence behind JSON would make it none.
        judges = (
            [] if self.schema is not None else [(one, check.verifier) for one in against if (check := self.check(one))]
        )
        if text := next(filter(None, (hint(judge, "adds", attempt.text) for _, judge in judges)), ""):
            return self._add, text
        for one, judge in judges:
            if sentence := hint(judge, "faulty", attempt.text):
                return self._anew, f"{self.advice(one, attempt.text)}{BEFORE_SENTENCE}{sentence}"
        texts = (self.advice(one, attempt.text) for one in against)
        text = next(filter(None, texts), "")
        return (self._mend, text) if text else PromptedModel.question(self, attempt)


MOST_SECONDS = 2
"""For the edits of one text: a verifier may be slow."""
MEND_PROMPT = """\
Text:
{draft}

Rewrite this text. {feedback}

Reply with the new text only: no preface, no comment."""
ADD_PROMPT = """\
Text:
{draft}

Write {feedback}

Reply with the new text only: no preface, no comment."""
SENTENCE_PROMPT = """\
Rewrite one sentence of a text, so that this holds: {feedback}

Reply with the new sentence only: no preface, no comment."""
BEFORE_SENTENCE = " The sentence now:\n"
REWRITE_PROMPT = """\
{task}

What to take care of, since an earlier text failed there:
{feedback}

Reply with the text only: no preface, no comment."""
