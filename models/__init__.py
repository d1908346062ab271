"""Chat models by name: a paid provider, any OpenAI-compatible server, an embedded model, a script or a record.

`chat_model("openai:gpt-5-mini")`, `chat_model("local")`, `chat_model("replay:calls.sqlite")` … all return an ordinary
LangChain `BaseChatModel`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .batches import Batches
    from .prices import Price, PriceTable, provider_of
    from .recordings import RecordingModel, ReplayModel
    from .scripted import ScriptedModel
    from .server_replies import BrokenReplyError
    from .specs import chat_model, redact
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "redraft.models.batches": ["Batches"],
            "redraft.models.prices": ["Price", "PriceTable", "provider_of"],
            "redraft.models.recordings": ["RecordingModel", "ReplayModel"],
            "redraft.models.scripted": ["ScriptedModel"],
            "redraft.models.server_replies": ["BrokenReplyError"],
            "redraft.models.specs": ["chat_model", "redact"],
        },
    )

__all__ = [
    "Batches",
    "BrokenReplyError",
    "Price",
    "PriceTable",
    "RecordingModel",
    "ReplayModel",
    "ScriptedModel",
    "chat_model",
    "provider_of",
    "redact",
]
