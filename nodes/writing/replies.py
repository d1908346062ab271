"""Replies of models as text, and whether a revision is one. Internal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, BaseMessage

from ...models.thoughts import without_thought
from .gate import LONGEST, bare, no_draft, opened, opened_json

if TYPE_CHECKING:
    from ..verify.answer_type import AnswerType

__all__ = [
    "cut_off",
    "gated",
    "is_stop_phrase",
    "marked_refusal",
    "read_text",
    "reasoning_only",
    "refused",
    "rejection",
    "reply_in",
    "same_text",
]


def read_text(result: Any) -> str:
    """Return the text of what a model, a chain, an agent or a graph returned, without the thought that it opens with.

    Args:
        result: A string, a message, or a mapping that holds a `draft`, an `answer`, or an agent's `messages` (the last
            message of the model counts).

    Raises:
        TypeError: It is none of these.
    """
    return without_thought(_whole_text(result))


def reasoning_only(result: Any) -> bool:
    """Return True if a reply has no text besides reasoning, in its text, in blocks of its own or counted as tokens."""
    if read_text(result).strip():
        return False
    if _whole_text(result).strip():
        return True
    message = reply_in(result)
    if message is None:
        return False
    blocks = [block.get("type") for block in message.content if isinstance(block, Mapping)]
    usage = message.usage_metadata
    counted = usage and usage.get("output_token_details", {}).get("reasoning")
    apart = [message.additional_kwargs.get(key) for key in ("reasoning_content", "reasoning")]
    return bool({"reasoning", "thinking", "redacted_thinking"} & set(blocks) or any(apart) or counted)


def reply_in(result: Any) -> AIMessage | None:
    """Return the last message of a model in what an agent or a model returned."""
    messages = result.get("messages") if isinstance(result, Mapping) else [result]
    replies = [message for message in messages or [] if isinstance(message, AIMessage)]
    return replies[-1] if replies else None


def _whole_text(result: Any) -> str:
    if isinstance(result, str):
        return result
    if isinstance(result, BaseMessage):
        return str(result.text)
    if isinstance(result, Mapping):
        for key in ("draft", "answer"):
            if isinstance(result.get(key), str):
                return str(result[key])
        if isinstance(result.get("messages"), list):
            reply = reply_in(result)
            return "" if reply is None else str(reply.text)
    keys = f" with keys {sorted(map(str, result))}" if isinstance(result, Mapping) else ""
    raise TypeError(
        f"a draft must come as a string, a message, or a mapping with 'draft', 'answer' or 'messages', "
        f"not {type(result).__name__}{keys}"
    )


def cut_off(message: Any) -> bool:
    """Return True if a provider says that a reply met its limit of output tokens, each in its own word."""
    if not isinstance(message, AIMessage):
        return False
    metadata = message.response_metadata
    details = metadata.get("incomplete_details")
    reasons = [metadata.get("finish_reason"), metadata.get("stop_reason"), metadata.get("done_reason")]
    reasons += [details.get("reason")] if isinstance(details, Mapping) else []
    return any(isinstance(reason, str) and reason.casefold() in CUT_OFF for reason in reasons)


CUT_OFF = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})


def is_stop_phrase(reply: str, phrase: str) -> bool:
    """Return True if the whole reply is the phrase, ignoring case, Markdown, marks that approve, final punctuation.

    The published methods look for the phrase anywhere in the reply, which accepts "no issues with style, but the total
    is wrong" and every reply that quotes the phrase. This is a deliberate deviation.
    """
    wanted = bare(phrase, len(phrase))
    return bool(phrase.strip()) and bare(reply, len(wanted)) == wanted


def rejection(
    text: str, *, earlier: Iterable[str], result: Any = None, critique: str = "", known: Iterable[str] = ()
) -> str:
    """Return the reason why a revision is not a draft, or an empty string when it is one.

    Args:
        text: The revision.
        earlier: The drafts so far.
        result: What the model returned; a provider that marks a refusal marks it here.
        critique: The feedback on the draft that it revises.
        known: That draft, and the task.

    Returns:
        As of `no_draft`, which first drafts are held to as well; `empty`, `repeat` (it repeats an earlier draft, after
        whitespace) or `meta` (it says that nothing is to be changed, or copies the critique).
    """
    if why := "refused" if marked_refusal(result) else no_draft(text):
        return why
    if not text.strip():
        return "empty"
    if any(same_text(text, draft) for draft in earlier):
        return "repeat"
    return "meta" if _META.fullmatch(bare(text, LONGEST)) or _copies(text, critique, known) else ""


def _copies(text: str, critique: str, known: Iterable[str]) -> bool:
    """Return True if a text is made of a critique's own words, and not of what was known.

    Compared are runs of three words. What the critique quotes or proposes, a program say, may stand in a revision and
    is left out on both sides. A short answer may well occur in a critique, so it never counts.
    """
    of_critique = _runs(critique)
    for size in (len(critique) // 2 + 100, 2 * len(critique) + LONGEST):
        # Where its beginning has more that are new than the whole may have, a text is read no further. One may be so
        # only since the last word is cut.
        if len(_runs(text[:size]) - of_critique) - 1 > (1 / MADE_OF - 1) * len(of_critique):
            return False
    runs = _runs(text)
    own = runs.difference(*map(_runs, _proposed(critique)))
    if len(own) < FEWEST_RUNS or len(own & of_critique) < MADE_OF * len(own):
        return False
    return not any(len(runs & _runs(one)) >= SHARED * len(runs) for one in known)


def _proposed(critique: str) -> list[str]:
    """Return the passages that a critique quotes, or proposes after a colon."""
    # Behind the last closing mark no quote ends: each opening one there would be followed to the end of the text.
    end = max(map(critique.rfind, QUOTE_ENDS)) + 1
    return _PROPOSED.findall(critique[:end] + critique[end:].translate(UNQUOTED))


def _runs(text: str) -> set[tuple[str, ...]]:
    """Return the runs of three words in a text."""
    words = WORD.findall(text.casefold())
    return set(zip(words, words[1:], words[2:], strict=False))


WORD = re.compile(r"\w+")
FEWEST_RUNS = 4
MADE_OF = 0.8
SHARED = 0.3
"""A revision that keeps so much of its draft, or of the task, is one, whatever the critique says word by word."""
_PROPOSED = re.compile(r"```[\s\S]*?(?:```|\Z)|[\"“«][\s\S]*?[\"”»]|(?<=: ).+|(?<=:\n)(?:.+\n?)+")
QUOTE_ENDS = ('"', "”", "»")
UNQUOTED = str.maketrans("“«", "  ")


def gated(text: str, result: Any = None, answer: AnswerType | None = None) -> dict[str, Any]:
    """Return the fields of a draft's event after the gate: its text, what was stripped, why it is none.

    Args:
        text: The text of a reply.
        result: What the model returned, as of `rejection`.
        answer: The type of the draft, where it has one.
    """
    draft = opened(text) if answer is None else opened_json(text)
    why = "refused" if marked_refusal(result) else no_draft(draft.text)
    written = draft.text if answer is None else answer.canonical(draft.text)
    fields: dict[str, Any] = {"text": written, "stripped": draft.stripped, "rejected": why}
    return {name: value for name, value in fields.items() if value or name == "text"}


def refused(text: str, result: Any = None) -> bool:
    """Return True if the model declined to answer: marked so by the provider, or in so many words and nothing else."""
    return bool(marked_refusal(result)) or no_draft(text) == "refused"


def marked_refusal(result: Any) -> str:
    """Return the provider's words where it marks a refusal, and an empty string where it marks none."""
    if not isinstance(result, AIMessage):
        return ""
    if result.response_metadata.get("finish_reason") == "content_filter":
        return "its provider's filter withheld it"
    return str(result.additional_kwargs.get("refusal") or "")


def same_text(one: str, other: str) -> bool:
    """Return True if two texts are the same but for whitespace."""
    return one.split() == other.split()


# It matches whole texts only: a letter may well say that its writer is done.
_META = re.compile(
    r"(?:(?:there are |i see |i found )?no (?:further |more |other )?"
    r"(?:changes?|revisions?|edits?|improvements?|corrections?|issues?|problems?|errors?|mistakes?)"
    r"(?: (?:are|is|were|was))?(?: (?:needed|required|necessary|found|to (?:make|fix|report)))?"
    r"|(?:the |this |your |my )?(?:draft|text|answer|response|solution|sentence|code|it)(?:'s| is| looks)? "
    r"(?:already )?"
    r"(?:correct|perfect|fine|good|great|complete|ok|okay)(?: as (?:it )?is)?"
    r"|(?:it |this |that |everything |all )?looks (?:good|great|fine|correct|perfect)(?: to me| as is)?"
    r"|nothing (?:needs |need )?to (?:change|be changed|fix|revise|improve)"
    r"|nothing needs? (?:changing|fixing|to change)"
    r"|unchanged|same as (?:before|above)|see above"
    r"|(?:here is|here's|below is) (?:the |my |a |your )?(?:revised|improved|updated|corrected|final|new)?"
    r" ?(?:draft|version|text|answer|response|solution|sentence|code)"
    r"|(?:sure|certainly|of course|okay|ok)[,!.]? (?:here it is|i can do that|i will|i'll do that)"
    r"|i have (?:revised|updated|improved|corrected) (?:the|my|your) "
    r"(?:draft|text|answer|response|solution|sentence|code)"
    r")"
)
