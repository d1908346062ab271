"""Chat models by name, such as `openai:gpt-5-mini`, `local` or `gguf:model.gguf`. Internal."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import re
from dataclasses import dataclass
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .batches import BATCHES

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from .http_clients import Route

__all__ = ["ACCEPTED", "PROVIDERS", "Provider", "as_model", "chat_model", "model_name", "redact"]


ACCEPTED = (
    '"openai:NAME" or another "PROVIDER:NAME", "http://HOST:PORT/v1#NAME" (any OpenAI-compatible server), '
    '"gguf:PATH", "local", "replay", "scripted:FILE", "replay:DB" or "replay:DB#NAME", or a LangChain chat model'
)

_LOCAL_MAX_OUTPUT_TOKENS = 512

_OPTIONS = ("temperature", "max_output_tokens", "seed")


def chat_model(
    spec: str | BaseChatModel,
    *,
    temperature: float | None = None,
    max_output_tokens: int | None = None,
    seed: int | None = None,
    max_retries: int = 4,
    timeout_s: float = 600.0,
    record: str | os.PathLike[str] | None = None,
) -> BaseChatModel:
    """Return a chat model from its name; a model that is one already is given back as it is.

    Retries happen in one place, the provider's own SDK (OpenAI's honours `Retry-After` and repeats no refused request).
    All models that speak OpenAI's protocol share one HTTP client for sync and one for async calls, and take nothing for
    a reply that is not whole: see `redraft.models.openai_chat`.

    Args:
        spec: `openai:NAME` (key in OPENAI_API_KEY) or another `PROVIDER:NAME` whose LangChain package is installed;
            `http://HOST:PORT/v1#NAME` or `https://…#NAME` for any OpenAI-compatible server (key in REDRAFT_API_KEY,
            if it wants one; no other key is ever sent there); `gguf:PATH` for a model file run inside this process;
            `local` for the small embedded one; `replay` for what a model of 1.5B parameters replied to the examples of
            README, docs and notebooks; `scripted:FILE` for replies from a file, in order; `replay:DB` for replies that
            `record` kept, `replay:DB#NAME` for those of one of several models.
        temperature: Sampling temperature, 0 up; the provider's default when not given.
        max_output_tokens: The most tokens in one reply; the provider's default when not given, 512 for `local`.
        seed: Seed for sampling, where the provider takes one.
        max_retries: How often a call that failed for a passing reason is sent again.
        timeout_s: Seconds that an attempt may wait, from the connection to the last byte of the reply, streamed or not.
            By OpenAI's protocol it holds for all of them together, so that a byte now and then does not prolong it;
            other providers' packages may count from byte to byte.
        record: Keep every reply in this SQLite file, for `replay:`.

    Raises:
        ValueError: The spec or an option is wrong, a key is missing, or a named file is no such model.
        ImportError: The package that the spec needs is not installed; the message says which.
        RuntimeError: The weights of `local` can't be fetched.

    Example:
        >>> from pathlib import Path
        >>> from redraft import chat_model
        >>> _ = Path("replies.jsonl").write_text('"Hello."')
        >>> chat_model("scripted:replies.jsonl").invoke("Say hello.").content
        'Hello.'
    """
    options = {
        "temperature": temperature,
        "max_output_tokens": max_output_tokens,
        "seed": seed,
        "max_retries": max_retries,
        "timeout_s": timeout_s,
    }
    _check_options(options)
    model = _build(spec, options) if isinstance(spec, str) else _given(spec, options)
    if (batches := BATCHES.get()) is not None:
        from .batched import batched

        model = batched(model, batches)
    if record is None:
        return model
    from .recordings import RecordingModel

    return RecordingModel(model, record)


def as_model(given: BaseChatModel | str, *, what: str = "model") -> BaseChatModel:
    """Return the model that a builder was given: that of a spec, as `chat_model` makes it, or one that is there.

    Raises:
        TypeError: It is neither a text nor a Runnable.
        ValueError: As `chat_model`.
    """
    from langchain_core.runnables import Runnable

    if not isinstance(given, str | Runnable):
        raise TypeError(f"{what} is a chat model, or a text that names one as 'openai:gpt-5-mini' does, not {given!r}")
    return chat_model(given) if isinstance(given, str) else given


def redact(spec: object) -> str:
    """Return the spec as it may be shown or stored: without user name, password, query or anything like a key."""
    if not isinstance(spec, str):
        return type(spec).__name__
    clean = re.sub(r"(?<=//)[^/#\s]*@", "***@", spec)
    clean = re.sub(r"\?[^#]*", "?***", clean) if "://" in clean else clean
    return re.sub(r"\b(sk|pk|key|gsk|xai|hf|lsv2)[-_][\w-]{8,}", r"\1-***", clean)


def _build(spec: str, options: dict[str, Any]) -> BaseChatModel:
    kind, colon, rest = spec.partition(":")
    if spec not in ("local", "replay") and (not colon or not rest.strip() or kind != kind.strip()):
        raise ValueError(f"model {redact(spec)!r} is not known; accepted are {ACCEPTED}")
    if spec == "local" or kind == "gguf":
        return _embedded(rest, options)
    if kind in ("http", "https"):
        return _remote(spec, options)
    if kind == "scripted":
        from .scripted import ScriptedModel

        return ScriptedModel.from_file(rest)
    if kind == "replay":
        from .recordings import ReplayModel

        path, _, name = rest.partition("#")
        return ReplayModel(path or None, model=name or None, settings={option: options[option] for option in _OPTIONS})
    return _provider_model(kind, rest, options)


def _embedded(path: str, options: dict[str, Any]) -> BaseChatModel:
    """Return the model in the GGUF file at `path`; without one, the small model that is fetched once."""
    from .embedded import require_llama, serve_gguf
    from .openai_chat import served_model

    if path:
        server = serve_gguf(path)
    else:
        from .weights import smollm2_path

        require_llama()  # before 93 MB are fetched
        server = serve_gguf(smollm2_path(), model_name="smollm2-135m-instruct")
        # A model this small sometimes never stops by itself.
        options = options | {"max_output_tokens": options["max_output_tokens"] or _LOCAL_MAX_OUTPUT_TOKENS}
    address = (server.model_name, server.base_url, server.api_key)
    return served_model(*address, route="direct", control_tokens=server.control_tokens, **options)


def _remote(spec: str, options: dict[str, Any]) -> BaseChatModel:
    from .openai_chat import served_model
    from .server_replies import check_key

    masked_spec = redact(spec)
    try:
        url = urlsplit(spec)
        host, _ = url.hostname, url.port
    except ValueError as error:
        raise ValueError(f"model {masked_spec!r} has a wrong address: {error}") from None
    if url.username is not None or url.password is not None or url.query:
        raise ValueError(
            f"model {masked_spec!r} carries a user, key or query in its address; put the key in REDRAFT_API_KEY instead"
        )
    if not host:
        raise ValueError(f"model {masked_spec!r} names no host; write http://HOST:PORT/v1#NAME")
    if not url.fragment:
        raise ValueError(f"model {masked_spec!r} names no model; write {masked_spec.rstrip('#') + '#NAME'!r}")
    base_url = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
    # OpenAI's client wants a key also where the server needs none.
    key = check_key(os.environ.get("REDRAFT_API_KEY") or "none", name="REDRAFT_API_KEY")
    route: Route = "direct" if host in ("127.0.0.1", "localhost", "::1") else "default"
    return served_model(url.fragment, base_url, key, route=route, **options)


def _given(spec: Any, options: dict[str, Any]) -> BaseChatModel:
    from langchain_core.language_models import BaseChatModel

    if not isinstance(spec, BaseChatModel):
        raise ValueError(f"model {spec!r:.120} is neither a name nor a LangChain chat model; accepted are {ACCEPTED}")  # noqa: TRY004
    if named := [name for name in _OPTIONS if options[name] is not None]:
        raise ValueError(f"{named[0]} can't be set on a {type(spec).__name__} that is built already; set it there")
    return spec


_NUMBER = (int, float)
_BOUNDS: dict[str, tuple[tuple[type, ...], float, str]] = {
    "temperature": (_NUMBER, 0, "a number from 0 up"),
    "max_output_tokens": ((int,), 1, "a whole number from 1 up"),
    "seed": ((int,), -math.inf, "a whole number"),
    "max_retries": ((int,), 0, "a whole number from 0 up"),
    "timeout_s": (_NUMBER, math.ulp(0.0), "a number of seconds above 0"),
}
"""The types of each option, its least value, and both in words."""


def _check_options(options: dict[str, Any]) -> None:
    for name, (types, least, words) in _BOUNDS.items():
        value = options[name]
        if value is None and name in _OPTIONS:
            continue
        right_type = isinstance(value, types) and not isinstance(value, bool)  # to Python True is 1
        if not right_type or not least <= value < math.inf:
            raise ValueError(f"{name} must be {words}, not {value!r}")


@dataclass(frozen=True)
class Provider:
    """LangChain package of a paid provider, and its names for our options (`None`: it takes no such option)."""

    package: str
    class_name: str
    max_output_tokens: str | None = "max_tokens"
    seed: str | None = None
    max_retries: str | None = "max_retries"
    timeout_s: str | None = "timeout"


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


def _provider_model(kind: str, name: str, options: dict[str, Any]) -> BaseChatModel:
    """Return the chat model `name` of provider `kind`, with our options under that provider's names.

    Raises:
        ValueError: The provider is unknown, has no such option, or refuses what it was given (a missing key).
        ImportError: The provider's package is not installed; the message names it.
    """
    if kind == "openai":
        from .openai_chat import openai_model

        return openai_model(name, **options)
    spec = f"{kind}:{name}"
    if provider := PROVIDERS.get(kind):
        return _listed(spec, name, provider, options)
    if kind.isidentifier() and importlib.util.find_spec("langchain") is not None:
        named = {"temperature": options["temperature"], "max_tokens": options["max_output_tokens"]}
        init = importlib.import_module("langchain.chat_models").init_chat_model
        try:
            return init(name, model_provider=kind, **_present(named))  # type: ignore[no-any-return]
        except ValueError as error:
            raise ValueError(f"model {spec!r} can't be built: {error}; accepted are {ACCEPTED}") from error
    names = ", ".join(sorted([*PROVIDERS, "openai"]))
    raise ValueError(f"model {spec!r} has the unknown provider {kind!r} (known: {names}); accepted are {ACCEPTED}")


def _listed(spec: str, name: str, provider: Provider, options: dict[str, Any]) -> BaseChatModel:
    named: dict[str, Any] = {"model": name, "temperature": options["temperature"]}
    for option in ("max_output_tokens", "seed", "max_retries", "timeout_s"):
        theirs = getattr(provider, option)
        if theirs is not None:
            named[theirs] = options[option]
        elif option in _OPTIONS and options[option] is not None:
            raise ValueError(f"model {spec!r} takes no {option}, so {options[option]!r} can't be kept to")
    module = provider.package.replace("-", "_")
    if importlib.util.find_spec(module) is None:
        raise ImportError(f"model {spec!r} needs a package: pip install {provider.package}", name=module)
    build = getattr(importlib.import_module(module), provider.class_name)
    return build(**_present(named))  # type: ignore[no-any-return]


def _present(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def model_name(spec: str) -> str:
    """Return the name of a model without the address that serves it, or the folder that its file lies in."""
    kind, _, rest = spec.partition(":")
    place, _, name = rest.partition("#")
    if kind in ("http", "https", "replay") and name:
        return name
    # A path of Windows may be read elsewhere; its rules split both kinds.
    return PureWindowsPath(place).name or spec if kind in ("gguf", "scripted", "replay") else spec
