"""Cache points: where the part of a prompt ends that later rounds send again. Internal.

Most providers find by themselves what prompts begin with alike. Anthropic's read from the cache, and write to it, only
up to where a request says so (`cache_control`); a write costs a quarter more than other input, a read a tenth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.language_models import BaseChatModel

from ...models.prices import innermost
from .prompt_injection import fenced_messages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.messages import BaseMessage
    from langchain_core.prompts import BaseChatPromptTemplate

__all__ = ["prompt_messages"]


def prompt_messages(template: BaseChatPromptTemplate, values: Mapping[str, Any], *, model: object) -> list[BaseMessage]:
    """Return the messages of a prompt as `fenced_messages` does, with a cache point where the model takes them.

    Args:
        template: The prompt.
        values: What its variables stand for.
        model: Who is asked, also with arguments bound, or recorded.
    """
    messages = fenced_messages(template, values)
    asked = innermost(model)
    if not isinstance(asked, BaseChatModel) or asked._llm_type != "anthropic-chat":
        return messages  # one with fallbacks included: another provider would refuse the mark
    # What the same prompt looks like in every round, up to the first variable that does not stay.
    changing = dict.fromkeys(CHANGING, "\0")
    said = [str(message.text) for message in fenced_messages(template, {**values, **changing})]
    at = next((at for at, text in enumerate(said) if "\0" in text), 0)
    stays = said[at].partition("\0")[0] if "\0" in said[at] else ""
    if at and not stays.strip():
        at, stays = at - 1, said[at - 1]
    whole = messages[at].content
    if len(stays) < SHORTEST or not isinstance(whole, str) or not whole.startswith(stays):
        return messages
    blocks: list[Any] = [{"type": "text", "text": stays, "cache_control": {"type": "ephemeral"}}]
    rest = whole[len(stays) :]
    if rest.strip():  # Anthropic refuses a block of white space
        blocks.append({"type": "text", "text": rest})
    return [*messages[:at], messages[at].model_copy(update={"content": blocks}), *messages[at + 1 :]]


CHANGING = ("draft", "feedback", "history")
"""The variables whose text is another in the next round."""
SHORTEST = 1024
"""Characters. Nothing below 1,024 tokens is cached, and hardly a token is shorter than a character."""
