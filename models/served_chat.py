"""`ChatOpenAI` for servers that are not OpenAI's, which may read control tokens in the texts that they are sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .control_tokens import without_control_tokens
from .whole_replies import WholeChat

if TYPE_CHECKING:
    from langchain_core.language_models import LanguageModelInput

__all__ = ["ServedChat"]


class ServedChat(WholeChat):
    """Sends every message without control tokens; see `redraft.models.control_tokens`."""

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        return {**payload, "messages": without_control_tokens(payload["messages"])}
