"""Chat models by name: a paid provider, any OpenAI-compatible server, an embedded model, a script or a record.

`chat_model("openai:gpt-5-mini")`, `chat_model("local")`, `chat_model("replay:calls.sqlite")` … all return an ordinary
LangChain `BaseChatModel`. Nothing heavy is imported before a name below is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .prices import Price, PriceTable, provider_of
    from .recordings import RecordingModel, ReplayModel
    from .scripted import ScriptedModel
    from .server_replies import BrokenReplyError
    from .specs import chat_model, redact

__all__ = [
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

_HOME = {
    "BrokenReplyError": "server_replies",
    "Price": "prices",
    "PriceTable": "prices",
    "RecordingModel": "recordings",
    "ReplayModel": "recordings",
    "ScriptedModel": "scripted",
    "chat_model": "specs",
    "provider_of": "prices",
    "redact": "specs",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
