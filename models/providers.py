"""Chat models of paid providers: which LangChain package has them, and what each calls our options."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["PROVIDERS", "Provider", "provider_model"]


@dataclass(frozen=True)
class Provider:
    """Where a provider's chat model is, and its names for our options (`None`: it takes no such option)."""

    package: str
    class_name: str
    max_output_tokens: str | None = "max_tokens"
    seed: str | None = None
    max_retries: str | None = "max_retries"
    timeout_s: str | None = "timeout"

    @property
    def module(self) -> str:
        """The module that the package installs."""
        return self.package.replace("-", "_")


PROVIDERS = {
    "anthropic": Provider("langchain-anthropic", "ChatAnthropic"),
    "bedrock": Provider("langchain-aws", "ChatBedrockConverse", max_retries=None, timeout_s=None),
    "cohere": Provider("langchain-cohere", "ChatCohere", timeout_s="timeout_seconds", max_retries=None),
    "deepseek": Provider("langchain-deepseek", "ChatDeepSeek", seed="seed"),
    "fireworks": Provider("langchain-fireworks", "ChatFireworks"),
    "google_genai": Provider(
        "langchain-google-genai", "ChatGoogleGenerativeAI", max_output_tokens="max_output_tokens", seed="seed"
    ),
    "groq": Provider("langchain-groq", "ChatGroq"),
    "mistralai": Provider("langchain-mistralai", "ChatMistralAI", seed="random_seed"),
    "ollama": Provider(
        "langchain-ollama", "ChatOllama", max_output_tokens="num_predict", seed="seed", max_retries=None, timeout_s=None
    ),
    "together": Provider("langchain-together", "ChatTogether", seed="seed"),
    "xai": Provider("langchain-xai", "ChatXAI", seed="seed"),
}
"""The providers known by name beside `openai`; with the `langchain` package installed, whatever it knows works too."""

_REQUIRED = ("max_output_tokens", "seed")


def provider_model(kind: str, name: str, *, accepted: str, **options: Any) -> BaseChatModel:
    """The chat model `name` of provider `kind`, with our options under that provider's names.

    Raises:
        ValueError: The provider is unknown, has no such option, or refuses what it was given (a missing key).
        ImportError: The provider's package is not installed; the message names it.
    """
    if kind == "openai":
        from .openai_style import openai_model

        return openai_model(name, **options)
    provider = PROVIDERS.get(kind)
    if provider is not None:
        return _listed(kind, name, provider, options)
    if kind.isidentifier() and importlib.util.find_spec("langchain") is not None:
        given = {"temperature": options["temperature"], "max_tokens": options["max_output_tokens"]}
        init = importlib.import_module("langchain.chat_models").init_chat_model
        try:
            return init(name, model_provider=kind, **_present(given))  # type: ignore[no-any-return]
        except ValueError as error:
            raise ValueError(f"model '{kind}:{name}' can't be built: {error}; accepted are {accepted}") from error
    known = ", ".join(sorted([*PROVIDERS, "openai"]))
    raise ValueError(
        f"model '{kind}:{name}' has the unknown provider {kind!r} (known: {known}); accepted are {accepted}"
    )


def _listed(kind: str, name: str, provider: Provider, options: dict[str, Any]) -> BaseChatModel:
    named: dict[str, Any] = {"model": name, "temperature": options["temperature"]}
    for option in ("max_output_tokens", "seed", "max_retries", "timeout_s"):
        theirs = getattr(provider, option)
        if theirs is not None:
            named[theirs] = options[option]
        elif option in _REQUIRED and options[option] is not None:
            raise ValueError(f"model '{kind}:{name}' takes no {option}, so {options[option]!r} can't be kept to")
    if importlib.util.find_spec(provider.module) is None:
        raise ImportError(
            f"model '{kind}:{name}' needs a package: pip install {provider.package}", name=provider.module
        )
    build = getattr(importlib.import_module(provider.module), provider.class_name)
    return build(**_present(named))  # type: ignore[no-any-return]


def _present(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
