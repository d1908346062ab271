"""`ChatOpenAI` objects, for OpenAI itself and for every other server that speaks its protocol."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from .clients import async_client, sync_client
from .echoes import check_key
from .plain_calls import PlainCompletions

if TYPE_CHECKING:
    from langchain_openai import ChatOpenAI

    from .clients import Route

__all__ = ["openai_model", "served_model", "shared_clients"]


def openai_model(
    name: str,
    *,
    temperature: float | None,
    max_output_tokens: int | None,
    seed: int | None,
    max_retries: int,
    timeout_s: float,
) -> ChatOpenAI:
    """OpenAI's own model `name`, with the key in OPENAI_API_KEY.

    Raises:
        ValueError: The key is missing.
    """
    if not os.environ.get("OPENAI_API_KEY"):
        raise ValueError(
            f"model 'openai:{name}' needs a key in the environment variable OPENAI_API_KEY; "
            "without one, use the embedded model: 'local'"
        )
    check_key(os.environ["OPENAI_API_KEY"], name="OPENAI_API_KEY")
    from .whole_replies import WholeChat

    limit: dict[str, Any] = {} if max_output_tokens is None else {"max_tokens": max_output_tokens}
    # With a proxy of its own, ChatOpenAI builds its own clients and refuses others.
    clients = {} if os.environ.get("OPENAI_PROXY") else shared_clients("default")
    model = WholeChat(
        model=name,
        **clients,
        **limit,
        **_common(temperature, seed, max_retries, timeout_s),
    )
    model.async_client = PlainCompletions(model.root_async_client)
    return model


def served_model(
    name: str,
    base_url: str,
    api_key: str,
    *,
    route: Route,
    temperature: float | None,
    max_output_tokens: int | None,
    seed: int | None,
    max_retries: int,
    timeout_s: float,
) -> ChatOpenAI:
    """The model `name` of the server at `base_url`, which is sent `api_key` and nothing else about who asks."""
    from pydantic import SecretStr

    from .served_chat import ServedChat

    # ChatOpenAI renames max_tokens to max_completion_tokens, which many compatible servers do not know.
    body: dict[str, Any] = {"extra_body": {"max_tokens": max_output_tokens}} if max_output_tokens is not None else {}
    model = ServedChat(
        model=name,
        base_url=base_url,
        api_key=SecretStr(api_key),
        openai_proxy=None,
        use_responses_api=False,
        **body,
        **shared_clients(route),
        **_common(temperature, seed, max_retries, timeout_s),
    )
    # The SDK reads these from OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_CUSTOM_HEADERS: OpenAI's business only.
    for client in (model.root_client, model.root_async_client):
        client.organization = client.project = None
        client._custom_headers = {}
    model.async_client = PlainCompletions(model.root_async_client)
    return model


def shared_clients(route: Route) -> dict[str, Any]:
    """The HTTP clients of this process, as LangChain's OpenAI classes take them."""
    return {"http_client": sync_client(route), "http_async_client": async_client(route)}


def _common(temperature: float | None, seed: int | None, max_retries: int, timeout_s: float) -> dict[str, Any]:
    settings = {"temperature": temperature, "seed": seed}
    return {
        **{name: value for name, value in settings.items() if value is not None},
        "max_retries": max_retries,
        "timeout": timeout_s,
        # Else a pause of two minutes between tokens ends a slow local model's reply; timeout_s holds for streams too.
        "stream_chunk_timeout": None,
        "stream_usage": True,
    }
