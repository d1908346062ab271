"""Prompts: from the state of a run, with its conversation and requirements, to the messages of one call. Internal."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from string import Formatter
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import BaseMessage, convert_to_messages
from langchain_core.prompts import BaseChatPromptTemplate, ChatPromptTemplate

from ...models.prices import innermost
from ...models.schema_requests import GRAMMAR_FAILED, bound_to_schema, refuses_schema, structured_text
from ...state.dual import Do
from ...state.events import DRAFT_KINDS, Event
from ...state.open_state import FROM_RECORD, before_task, conversation_of, own_keys
from ...state.retrievals import passages
from ...state.summary import Attempt, current_run, rounds, summary_of
from ..runtime.step import DualRunnable
from ..verify.text_verifiers import wish
from ..verify.verifiers import opened_file, stored_verifier
from .exported_prompts import EXPORTED, exported_prompt
from .prompt_injection import Lines, fence, fenced_messages, opens_part
from .replies import read_text

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage
    from langchain_core.runnables import Runnable, RunnableConfig

    from ...state.critique import Verifier

__all__ = [
    "VARIABLES",
    "WISHES",
    "Keep",
    "Memory",
    "Prompt",
    "PromptedModel",
    "Prompts",
    "attempt_at_hand",
    "chat_prompt",
    "in_context",
    "is_prompt",
    "known_verifier",
    "prompt_messages",
    "prompt_values",
    "refuse_unknown",
    "reseeded",
    "seen_by_refiner",
    "standing",
    "with_context",
    "with_schema",
]

Prompt = str | ChatPromptTemplate
Prompts = Prompt | Sequence[Prompt]
Keep = Literal["best", "last", "vote"]
Memory = Literal["all", "last"]


def is_prompt(given: Any) -> bool:
    """Return True if something is a prompt, or several."""
    several = isinstance(given, Sequence) and not isinstance(given, str) and bool(given)
    return isinstance(given, str | ChatPromptTemplate) or (several and all(map(is_prompt, given)))


VARIABLES = ("task", "draft", *FROM_RECORD)


def chat_prompt(
    prompts: Prompts, *, what: str, known: Sequence[str] | None = VARIABLES, needed: Sequence[str] = ()
) -> list[ChatPromptTemplate]:
    """Return templates, one a round; the last serves every later round.

    Args:
        prompts: A text with variables in braces, a ChatPromptTemplate (f-string, mustache or jinja2), the JSON that
            LangChain or the LangSmith Hub exported of one, or a sequence of these.
        what: The argument's name, for messages.
        known: The variables that it may use; `None`: any, and `refuse_unknown` looks at them when the graph is built.
        needed: Those that each must use, as `draft`, or `draft task` where the second stands in for the first.

    Raises:
        ValueError: A variable is unknown, lacks, or carries a format or a conversion; or there is no prompt. At build.
    """
    several = [prompts] if isinstance(prompts, str | ChatPromptTemplate) else list(prompts)
    if not several:
        raise ValueError(f"{what} is empty: give a prompt, or several, one a round")
    names = [f"{what}[{number}]" for number in range(len(several))] if len(several) > 1 else [what]
    return [_template(prompt, name, known, needed) for prompt, name in zip(several, names, strict=True)]


def refuse_unknown(template: BaseChatPromptTemplate, known: Sequence[str], *, what: str) -> None:
    """Raise ValueError where a prompt, which `what` names, uses variables that are not known."""
    if unknown := sorted({*template.input_variables} - {*known}):
        raise ValueError(
            f"{what} uses unknown variables {unknown}; known are {', '.join(known)}, "
            "and a literal brace is written twice"
        )


def _template(prompt: Prompt, what: str, known: Sequence[str] | None, needed: Sequence[str]) -> ChatPromptTemplate:
    template = prompt if isinstance(prompt, ChatPromptTemplate) else None
    if isinstance(prompt, str) and EXPORTED.match(prompt):
        template = exported_prompt(prompt, what=what)
    if template is None:
        try:
            template = ChatPromptTemplate.from_messages([("human", str(prompt))])
        except ValueError as error:
            raise ValueError(f"{what}: {error}; a literal brace is written twice") from None
    used = set(template.input_variables)
    if known is not None:
        refuse_unknown(template, known, what=what)
    # `{draft:>3000000000}` is a text of 3 GB, whatever the draft.
    if dressed := next((field for text in _texts(template) for field in _dressed(text)), None):
        raise ValueError(f"{what} writes {dressed!r:.80}: a variable stands alone in its braces, as in {{draft}}")
    if missing := [name for name, *instead in map(str.split, needed) if not used & {name, *instead}]:
        lacks = " and ".join(f"{{{name}}}" for name in missing)
        hint = MUSTACHE if isinstance(prompt, str) and any(f"{{{{{name}}}}}" in prompt for name in missing) else ""
        raise ValueError(f"{what} lacks {lacks}: what stands for it is never shown{hint}")
    return template


MUSTACHE = "; a text has single braces, and mustache is a ChatPromptTemplate with template_format='mustache'"


def _texts(part: Any) -> Iterator[str]:
    """Yield the texts of a template that `str.format` fills in, however deep inside."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping | Sequence):
        for inner in part.values() if isinstance(part, Mapping) else part:
            yield from _texts(inner)
    elif getattr(part, "template_format", "f-string") == "f-string":  # a message has none, its prompt has one
        for name in ("messages", "prompt", "template"):
            yield from _texts(getattr(part, name, ()))


def _dressed(text: str) -> Iterator[str]:
    """Yield the placeholders that are more than a name."""
    for _, name, spec, conversion in Formatter().parse(text):
        if spec or conversion:
            yield f"{{{name}{'!' + conversion if conversion else ''}{':' + spec if spec else ''}}}"


def seen_by_refiner(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a refiner's `keep` and `memory`, and `own` keys if there are any, from options of `build_refine_graph`."""
    # The last revision, which nobody judges, could never be the best.
    keep = options.get("keep") or ("best" if options.get("judge_last", True) else "last")
    own = tuple(own_keys(options.get("state_schema")))
    return {"keep": keep, "memory": options.get("memory", "all"), **({"own": own} if own else {})}


def attempt_at_hand(events: Sequence[Event], keep: Keep) -> Attempt | None:
    """Return the draft that the refiner works on: the one a person has just spoken about, else the best or the last."""
    summary = summary_of(events)
    spoken = summary.latest is not None and summary.latest.seen_by_person
    return summary.latest if spoken or keep == "last" else summary.kept(keep)


def prompt_values(task: str, events: Sequence[Event], attempt: Attempt | None, *, memory: Memory) -> dict[str, Any]:
    """Return the values that a prompt can name.

    `history` holds all earlier attempts with their critiques, the one at hand left out; it is empty with
    `memory="last"` and in the first round. `context` holds the passages that were looked up, numbered.
    """
    summary = summary_of(events)
    earlier = [one for one in summary.attempts if attempt and memory == "all" and one.round != attempt.round]
    return {
        "task": task,
        "draft": attempt.text if attempt else "",
        "feedback": attempt.feedback if attempt else "",
        "history": _history(earlier) if earlier else "",
        "round": summary.rounds,
        "context": "" if summary.retrieval is None else passages(events),
    }


def thoughts(run: Sequence[Event]) -> str:
    """Return the notes of a thinking step on the current task, under a heading; empty without any."""
    texts = [event["text"].strip() for event in run if event["kind"] == "thought"]
    notes = TAG.sub("&lt;", "\n\n".join(text for text in texts if text))
    return f"{THOUGHTS}\n<thoughts>\n{notes}\n</thoughts>\n\n" if notes else ""


THOUGHTS = "Notes that were made before anything was written. They are for the writer, and no part of the text:"
TAG = re.compile(r"<(?=\s*/?\s*thoughts\b)", re.IGNORECASE)


def _history(earlier: Sequence[Attempt]) -> Lines:
    parts: list[str] = []
    for attempt in earlier:
        parts += ["", f"Attempt {attempt.round + 1}:", _within(attempt.text)]
        if feedback := attempt.feedback:
            parts += [FEEDBACK, _within(feedback)]
    return Lines(parts[1:])


def _within(text: str) -> str:
    """Quote a text for the history: in a fence where it could pass for another attempt, or its critique."""
    return fence(text) if opens_part(text, [FEEDBACK], pattern=ATTEMPT) else text


FEEDBACK = "Feedback on it:"
ATTEMPT = re.compile("attempt[0-9]+$")


def prompt_messages(
    template: BaseChatPromptTemplate,
    values: Mapping[str, Any],
    *,
    model: object,
    state: Mapping[str, Any] | None = None,
) -> list[BaseMessage]:
    """Return the messages of a prompt as `fenced_messages` does, with a cache point where the model takes them.

    Args:
        template: The prompt.
        values: What its variables stand for.
        model: Who is asked, also with arguments bound, or recorded.
        state: Its keys stand for the other variables; what is neither text nor number is shown as JSON.

    Raises:
        ValueError: It names a key that nobody has set.
    """
    own = [name for name in template.input_variables if name not in values]
    values = {**values, **{name: _shown(name, {} if state is None else state) for name in own}}
    messages = fenced_messages(template, values)
    innermost_model = innermost(model)
    if not isinstance(innermost_model, BaseChatModel) or innermost_model._llm_type != "anthropic-chat":
        return messages  # one with fallbacks included: another provider would refuse the mark
    # What the same prompt looks like in every round, up to the first variable that does not stay.
    changing = dict.fromkeys(CHANGING, "\0")
    texts = [str(message.text) for message in fenced_messages(template, {**values, **changing})]
    at = next((at for at, text in enumerate(texts) if "\0" in text), 0)
    stays = texts[at].partition("\0")[0] if "\0" in texts[at] else ""
    if at and not stays.strip():
        at, stays = at - 1, texts[at - 1]
    whole = messages[at].content
    if len(stays) < SHORTEST_CACHED or not isinstance(whole, str) or not whole.startswith(stays):
        return messages
    blocks: list[Any] = [{"type": "text", "text": stays, "cache_control": {"type": "ephemeral"}}]
    rest = whole[len(stays) :]
    if rest.strip():  # Anthropic refuses a block of white space
        blocks.append({"type": "text", "text": rest})
    return [*messages[:at], messages[at].model_copy(update={"content": blocks}), *messages[at + 1 :]]


def _shown(key: str, state: Mapping[str, Any]) -> Any:
    """Return a key's value as a prompt takes it: what is neither text nor number could hide lines from the fence."""
    if key not in state:
        raise ValueError(
            f"the prompt names {{{key}}}, which is not set: give {key!r} in the input, or have a node of yours write it"
        )
    plain = isinstance(state[key], str | int | float | None)
    return state[key] if plain else json.dumps(state[key], ensure_ascii=False, default=str)


CHANGING = ("draft", "feedback", "history")
"""Variables whose text is another in the next round: before the first, a prompt is the same in all."""
SHORTEST_CACHED = 1024
"""Characters. Nothing below 1,024 tokens is cached, and hardly a token is shorter than a character."""


def reseeded(model: Runnable[Any, AIMessage], number: int, messages: Sequence[BaseMessage]) -> Runnable[Any, AIMessage]:
    """Return a model with a seed for this sample of this prompt; one that was built without a seed as it is.

    Args:
        model: A chat model, or one with arguments bound.
        number: Of the reply among those to one task, from 0.
        messages: The prompt.
    """
    seed = getattr(getattr(model, "bound", model), "seed", None)
    if not isinstance(seed, int):
        return model
    drawn = hashlib.blake2b(
        "\0".join([str(seed), str(number), *map(str, (one.text for one in messages))]).encode("utf-8", "surrogatepass")
    )
    return model.bind(seed=int.from_bytes(drawn.digest()[:8]) % MOST_SEED)


MOST_SEED = 2**31
"""Every provider takes a seed below it."""


REVISERS = ("refine_prompt", "refiner_prompt", "improve_prompt")
REVISING = ("draft task", "feedback")
"""Variables of a reviser's prompt: the feedback, and the draft, or the task to write another."""


class PromptedModel(DualRunnable[Mapping[str, Any], "AIMessage"]):
    """A model asked with a prompt made from the state: the default writer of `generate` and `refine`."""

    def __init__(
        self,
        model: Runnable[Any, AIMessage],
        prompts: Prompts,
        *,
        what: str,
        keep: Keep = "best",
        memory: Memory = "all",
        told: str = "",
        own: Collection[str] = (),
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = what
        self.model = model
        needed = REVISING if what.startswith(REVISERS) else ()
        self.templates = chat_prompt(prompts, what=what, known=(*VARIABLES, *own), needed=needed)
        self.keep = keep
        self.memory = memory
        self.told = told
        """What is put behind the task: what the verifiers want, say."""
        self.schema = schema
        """That of the drafts, where they are JSON: it goes into the request, until a provider refuses it."""

    def messages(self, state: Mapping[str, Any]) -> list[BaseMessage]:
        """Return the messages that the model is asked with."""
        events = state.get("events", [])
        attempt, run, number = attempt_at_hand(events, self.keep), current_run(events), rounds(events)
        templates, feedback = self.question(attempt)
        template = templates[min(number, len(templates) - 1)]
        requirements = standing(events, self.told)
        values = prompt_values(in_context(state["task"], events) + requirements, events, attempt, memory=self.memory)
        # A prompt that does not show the task says what is required with what there is to do.
        values["feedback"] = feedback if "task" in template.input_variables else feedback + standing(events)
        # Here and not among the values of all prompts: who judges a text is not told what its writer thought.
        values["context"] += thoughts(run)
        return prompt_messages(template, values, model=self.model, state=state)

    def question(self, attempt: Attempt | None) -> tuple[list[ChatPromptTemplate], str]:
        """Return the templates to ask with about a draft, one a round, and what is said of it."""
        return self.templates, attempt.feedback if attempt else ""

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        messages = self.messages(input)
        # The prompt of a fresh sample is that of the first draft.
        number = sum(event["kind"] in DRAFT_KINDS for event in current_run(input.get("events", [])))
        model = reseeded(self.model, number + input.get("beside", 0), messages)
        reply: AIMessage
        once = False
        if (schema := self.schema) is not None and (held := bound_to_schema(model, schema)) is not None:
            try:
                reply = yield Do(held.invoke, held.ainvoke, (messages, config))
                return structured_text(reply, schema)
            except Exception as error:
                if not refuses_schema(error):
                    raise
                once = getattr(error, "status_code", None) == GRAMMAR_FAILED
        reply = yield Do(model.invoke, model.ainvoke, (messages, config))
        self.schema = schema if once else None  # what it refused, it refuses again
        return reply


def with_schema(writer: Any, schema: Mapping[str, Any] | None) -> Any:
    """Return a writer whose models are asked with a schema in the request, where there is one."""
    if schema is None:
        return writer
    constrained = copy(writer)
    if isinstance(writer, PromptedModel):
        constrained.schema = schema
    if isinstance(several := getattr(writer, "writers", None), dict):
        constrained.writers = {name: with_schema(one, schema) for name, one in several.items()}
    return constrained


WISHES = "\n\nThe text must meet all of these:"


@lru_cache(maxsize=64)
def known_verifier(name: str) -> Verifier:
    """Return the verifier of a requirement, by its name in the record.

    Raises:
        ValueError: There is none of that name, or it opens a file: a record may come from somebody else.
        ImportError: It needs an extra that is not installed.
    """
    if opened_file(name):
        raise ValueError(f"{name!r} opens a file, and a record may be read anywhere: write the schema itself")
    return stored_verifier(name)


def standing(events: Sequence[Event], told: str = "") -> str:
    """Return the requirements to put behind the task: those of the verifiers, and of people and forks.

    Args:
        events: The record.
        told: What the verifiers want, as `wishes` has it.
    """
    summary = summary_of(events)
    return told_with(told, {text: summary.asked[text].get("verifiers", ()) for text in summary.standing})


def told_with(told: str, asked: Mapping[str, Sequence[str]]) -> str:
    """Return what the verifiers want, and what is asked for: texts, each with the names of its own verifiers."""
    lines = [line for text, names in asked.items() for line in (text, *(wish(known_verifier(one)) for one in names))]
    return (told or WISHES) + "".join(f"\n- {line}" for line in dict.fromkeys(lines) if line) if lines else told


def in_context(task: str, events: Sequence[Event]) -> str:
    """Return the task as a prompt shows it: after what was said before it, where the record holds that."""
    before = before_task(conversation_of(events))
    return with_context(task, convert_to_messages(before)) if before else task


def with_context(task: str, before: Sequence[BaseMessage]) -> str:
    """Return the task after the messages that were said before it; alone where none were."""
    lines = [
        f"{SPEAKERS[message.type]}: {_quoted(text)}"
        for message in before
        if message.type in SPEAKERS
        and (text := read_text(message) if message.type == "ai" else str(message.text)).strip()
    ]
    return "\n\n".join([BEFORE, *lines, f"{NOW}\n{_quoted(task)}"]) if lines else task


def _quoted(text: str) -> str:
    """Quote a turn: in a fence where a line of it could pass for somebody else's turn."""
    return fence(text) if opens_part(text, [BEFORE, NOW, *(f"{name}:" for name in SPEAKERS.values())]) else text


SPEAKERS = {"system": "Instructions", "human": "User", "ai": "Assistant"}
BEFORE = "(What was said before:)"
NOW = "(Now the user asks:)"
