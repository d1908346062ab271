"""Prices of model calls in US dollars. Internal."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .._files import read_file

__all__ = ["BATCH", "Price", "PriceTable", "discount", "innermost", "provider_of"]

_PER_MTOK = 1_000_000

BATCH = "batch"
"""Service tier of a reply in a batch, as Anthropic says it."""


def discount(metadata: Mapping[str, Any]) -> float:
    """Return the share of the listed price that a reply costs, by its metadata: half where it came in a batch.

    See OpenAI's guide to its Batch API and Anthropic's to Message Batches.
    """
    usage = metadata.get("usage")
    of_anthropic = usage.get("service_tier") if isinstance(usage, Mapping) else None
    return 0.5 if BATCH in (metadata.get("service_tier"), of_anthropic) else 1.0


class Price(BaseModel):
    """Dollars per million tokens; where a price of the cache is `None`, such input costs what any other input does."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    input_per_mtok: float = Field(ge=0, allow_inf_nan=False)
    output_per_mtok: float = Field(ge=0, allow_inf_nan=False)
    cache_read_per_mtok: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    cache_write_per_mtok: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def cost_usd(
        self, *, input_tokens: int, output_tokens: int, cache_read_tokens: int = 0, cache_write_tokens: int = 0
    ) -> float:
        """Return the dollars for one call; cached tokens are part of `input_tokens`, as LangChain counts them."""
        dollars = (input_tokens - cache_read_tokens - cache_write_tokens) * self.input_per_mtok
        for tokens, price in (
            (cache_read_tokens, self.cache_read_per_mtok),
            (cache_write_tokens, self.cache_write_per_mtok),
        ):
            dollars += tokens * (self.input_per_mtok if price is None else price)
        return (dollars + output_tokens * self.output_per_mtok) / _PER_MTOK


class PriceTable:
    """Prices by model name: the user's own entries first, then the list bundled with `genai-prices`, offline."""

    def __init__(self, extra: Mapping[str, Price | Mapping[str, float | None]] | None = None) -> None:
        """Keep `extra` (model name → `Price` or its fields), which wins over the bundled list and needs no provider.

        Raises:
            ValueError: An entry is wrong; the message names it.
        """
        self._extra = _entries({} if extra is None else extra, where="prices")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Return a table of a JSON file's entries: `{"my-model": {"input_per_mtok": 0.5, "output_per_mtok": 1.5}}`.

        Raises:
            ValueError: The file can't be read, is no such JSON, or an entry is wrong; the message names the entry.
        """
        try:
            entries = json.loads(read_file(path))
        except (OSError, ValueError, RecursionError) as error:
            raise ValueError(f"prices {str(path)!r} can't be read as JSON: {error}") from error
        return cls(_entries(entries, where=f"prices {str(path)!r}"))

    def cost_usd(
        self,
        model: str,
        *,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        provider: str | None = None,
    ) -> float | None:
        """Return the dollars for one call, or `None` when the price is unknown; never 0 for want of a price.

        Args:
            model: The model's name as the provider writes it, e.g. `"gpt-5-mini"`.
            input_tokens: Tokens read, cached ones included.
            output_tokens: Tokens written.
            cache_read_tokens: How many of the input tokens came from the provider's cache.
            cache_write_tokens: How many of them it wrote to its cache, which some providers charge more for.
            provider: Who served the call, as `provider_of(model)` says, or the address that served it. Without it only
                the user's own entries count: a name alone proves nothing, since any server may call its free model
                `gpt-oss-20b`.
        """
        # A provider that counts them beside the input would make the rest negative.
        read = min(cache_read_tokens, input_tokens)
        tokens = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_tokens": read,
            "cache_write_tokens": min(cache_write_tokens, input_tokens - read),
        }
        if model in self._extra:
            return self._extra[model].cost_usd(**tokens)
        if provider and "://" in provider:
            provider = _listed_provider(None, provider)
        if not provider:
            return None
        from genai_prices import Usage, calc_price

        try:
            return float(calc_price(Usage(**tokens), model, provider_id=provider).total_price)
        except LookupError:
            return None


def provider_of(model: object) -> str | None:
    """Return the provider that is paid for a chat model's calls (`"openai"`, `"anthropic"` …), or `None`.

    A `ChatOpenAI` pointed at another server is not OpenAI's, whatever its response metadata says; its address decides.
    """
    seen = innermost(model)
    if base_url := getattr(seen, "openai_api_base", None):
        return _listed_provider(None, str(base_url))
    if recorded := getattr(seen, "recorded_provider", None):
        return str(recorded)
    params = getattr(seen, "_get_ls_params", None)
    name = params().get("ls_provider") if callable(params) else None
    return str(name) if name and _listed_provider(str(name)) else None


def innermost(model: object, *, within: Sequence[str] = ("bound", "inner")) -> object:
    """Return the model that answers, inside of what binds its arguments (`bound`) or records it (`inner`)."""
    while (inner := next(filter(None, (_held(model, name) for name in within)), None)) is not None:
        model = inner
    return model


def _held(model: object, name: str) -> object:
    # Pydantic takes long to find that there is none, and this is asked for each prompt.
    plain = getattr(type(model), "__getattr__", None) is getattr(BaseModel, "__getattr__", ...)
    return vars(model).get(name) if plain else getattr(model, name, None)


def _entries(entries: object, *, where: str) -> dict[str, Price]:
    if not isinstance(entries, Mapping):
        raise ValueError(f"{where} must map model names to prices, not {entries!r:.80}")  # noqa: TRY004
    prices = {}
    for name, entry in entries.items():
        if not isinstance(name, str) or not name.strip():
            raise ValueError(f"{where}: {name!r} is no model's name")
        try:
            prices[name] = Price.model_validate(dict(entry) if isinstance(entry, Mapping) else entry)
        except ValidationError as error:
            wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'entry'}: {e['msg']}" for e in error.errors())
            right = "{'input_per_mtok': 0.5, 'output_per_mtok': 1.5}"
            raise ValueError(f"{where}: entry {name!r} is wrong: {wrong}; right is {right}, say") from None
    return prices


@lru_cache(maxsize=1024)  # the bundled list does not change, and every call of a model asks
def _listed_provider(name: str | None, url: str | None = None) -> str | None:
    from genai_prices.data_snapshot import get_snapshot

    try:
        return str(get_snapshot().find_provider(None, name, url).id)
    except LookupError:
        return None
