"""Agent card: what an assistant can do, where it is, and how to be let in. Internal."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)

if TYPE_CHECKING:
    from ..engine.assistants import Assistant

__all__ = ["agent_card"]


def agent_card(assistant: Assistant, *, url: str, guarded: bool) -> AgentCard:
    """Return the card of an assistant.

    Args:
        assistant: The agent.
        url: Where it is reached.
        guarded: Whether a token is needed.
    """
    skill = AgentSkill(
        id=assistant.id,
        name=assistant.id,
        description=assistant.served.line,
        tags=["draft", "critique", "refine"],
    )
    card = AgentCard(
        name=f"redraft {assistant.id}",
        description=f"{assistant.served.line} The artifact's metadata say who accepted the answer, if anybody did.",
        version=version("redraft"),
        # Older clients speak 0.3 at the same address.
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version=spoken) for spoken in ("1.0", "0.3")
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain"],
        skills=[skill],
    )
    if guarded:
        bearer = HTTPAuthSecurityScheme(scheme="bearer")
        card.security_schemes["token"].CopyFrom(SecurityScheme(http_auth_security_scheme=bearer))
        card.security_requirements.append(SecurityRequirement(schemes={"token": StringList()}))
    return card
