"""What a call cost in US dollars, or `None` where nobody knows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

__all__ = ["Price", "PriceTable", "provider_of"]

_PER_MTOK = 1_000_000


class Price(BaseModel):
    """Dollars per million tokens; `cache_read_per_mtok=None` charges cached input like any other input."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input_per_mtok: float = Field(ge=0, allow_inf_nan=False)
    output_per_mtok: float = Field(ge=0, allow_inf_nan=False)
    cache_read_per_mtok: float | None = Field(default=None, ge=0, allow_inf_nan=False)

    def cost_usd(self, *, input_tokens: int, output_tokens: int, cache_read_tokens: int = 0) -> float:
        """Dollars for one call; `cache_read_tokens` are part of `input_tokens`, as in LangChain's usage metadata."""
        cached = self.input_per_mtok if self.cache_read_per_mtok is None else self.cache_read_per_mtok
        fresh = input_tokens - cache_read_tokens
        dollars = fresh * self.input_per_mtok + cache_read_tokens * cached + output_tokens * self.output_per_mtok
        return dollars / _PER_MTOK


class PriceTable:
    """Prices by model name: the user's own entries first, then the list bundled with `genai-prices`, offline."""

    def __init__(self, extra: Mapping[str, Price] | None = None) -> None:
        """Keep `extra` (model name → `Price`), which wins over the bundled list and needs no provider."""
        self._extra = dict(extra or {})

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """A table with the entries of a JSON file: `{"my-model": {"input_per_mtok": 0.5, "output_per_mtok": 1.5}}`.

        Raises:
            ValueError: The file can't be read, is no such JSON, or an entry is wrong; the message names the entry.
        """
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"prices {str(path)!r} can't be read as JSON: {error}") from error
        if not isinstance(found, dict):
            raise ValueError(f"prices {str(path)!r} must be a JSON object of model name → price, not {found!r:.80}")  # noqa: TRY004
        return cls({name: _price(name, entry, path) for name, entry in found.items()})

    def cost_usd(
        self,
        model: str,
        *,
        input_tokens: int,
        output_tokens: int,
        cache_read_tokens: int = 0,
        provider: str | None = None,
    ) -> float | None:
        """Dollars for one call, or `None` when the price is unknown; never 0 for want of a price.

        Args:
            model: The model's name as the provider writes it, e.g. `"gpt-5-mini"`.
            input_tokens: Tokens read, cached ones included.
            output_tokens: Tokens written.
            cache_read_tokens: How many of the input tokens came from the provider's cache.
            provider: Who served the call, as `provider_of(model)` says, or the address that served it. Without it only
                the user's own entries count: a name alone proves nothing, since any server may call its free model
                `gpt-oss-20b`.
        """
        tokens = {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_tokens": min(cache_read_tokens, input_tokens),
        }
        if model in self._extra:
            return self._extra[model].cost_usd(**tokens)
        if provider and "://" in provider:
            provider = _provider_at(provider)
        return _bundled_cost(model, provider, tokens) if provider else None


def provider_of(model: object) -> str | None:
    """Who is paid for a chat model's calls (`"openai"`, `"anthropic"` …), or `None` where nobody known is.

    A `ChatOpenAI` pointed at another server is not OpenAI's, whatever its response metadata says; its address decides.
    """
    seen = model
    while (inner := getattr(seen, "bound", None) or getattr(seen, "inner", None)) is not None:
        seen = inner
    base_url = getattr(seen, "openai_api_base", None)
    if base_url:
        return _provider_at(str(base_url))
    recorded = getattr(seen, "recorded_provider", None)
    if recorded:
        return str(recorded)
    params = getattr(seen, "_get_ls_params", None)
    name = params().get("ls_provider") if callable(params) else None
    return str(name) if name and _known_provider(str(name)) else None


def _price(name: str, entry: object, path: object) -> Price:
    try:
        return Price.model_validate(entry)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'entry'}: {e['msg']}" for e in error.errors())
        raise ValueError(f"prices {str(path)!r}: entry {name!r} is wrong: {wrong}") from None


def _snapshot() -> Any:
    from genai_prices.data_snapshot import get_snapshot

    return get_snapshot()


def _provider_at(url: str) -> str | None:
    try:
        return str(_snapshot().find_provider(None, None, url).id)
    except LookupError:
        return None


def _known_provider(name: str) -> bool:
    try:
        return bool(_snapshot().find_provider(None, name, None))
    except LookupError:
        return False


def _bundled_cost(model: str, provider: str, tokens: dict[str, int]) -> float | None:
    from genai_prices import Usage, calc_price

    try:
        return float(calc_price(Usage(**tokens), model, provider_id=provider).total_price)
    except LookupError:
        return None
