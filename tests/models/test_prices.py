"""Costs are right where a price is known, and unknown otherwise."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.language_models import FakeListChatModel
from redraft.models import Price, PriceTable, RecordingModel, chat_model, provider_of
from redraft.models.prices import discount

if TYPE_CHECKING:
    from pathlib import Path

MILLION = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}


def test_a_known_provider_is_priced_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paid model's cost comes from the bundled list, without opening a connection."""

    def refuse(*_: Any) -> None:
        raise AssertionError("went to the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    cost = PriceTable().cost_usd("gpt-5-mini", provider="openai", **MILLION)
    assert cost == pytest.approx(0.25 + 2.0)


def test_cached_input_is_cheaper() -> None:
    """Tokens read from the provider's cache cost what the provider asks for them."""
    table = PriceTable()
    full = table.cost_usd("gpt-5-mini", provider="openai", input_tokens=1000, output_tokens=0)
    cached = table.cost_usd("gpt-5-mini", provider="openai", input_tokens=1000, output_tokens=0, cache_read_tokens=900)
    assert full is not None
    assert cached is not None
    assert cached < full / 2


def test_tokens_written_to_a_cache_have_their_own_price() -> None:
    """Input that a provider charges more for, to keep it, costs more; without its own price it is like the rest."""
    claude: Any = {"model": "claude-sonnet-4-5", "provider": "anthropic", "input_tokens": 1000, "output_tokens": 0}
    full, kept = PriceTable().cost_usd(**claude), PriceTable().cost_usd(**claude, cache_write_tokens=1000)
    assert kept == pytest.approx((full or 0) * 1.25)
    prices = {"dear": {"input_per_mtok": 1, "output_per_mtok": 9, "cache_write_per_mtok": 2}, "plain": FLAT}
    tokens: Any = {"input_tokens": 10**6, "output_tokens": 0, "cache_read_tokens": 10**5, "cache_write_tokens": 10**6}
    assert PriceTable(prices).cost_usd("dear", **tokens) == pytest.approx(1.9)
    assert PriceTable(prices).cost_usd("plain", **tokens) == pytest.approx(1)


FLAT = {"input_per_mtok": 1, "output_per_mtok": 9}


@pytest.mark.parametrize(
    ("model", "provider"),
    [
        ("smollm2-135m-instruct", None),
        ("smollm2-135m-instruct", "openai"),
        ("gpt-5-mini", None),
        ("gpt-oss-20b", None),
        ("mistral-7b", None),
        ("gpt-5-mini", "nobody"),
        ("gpt-99", "openai"),
        ("gpt-5-mini", "http://127.0.0.1:8080/v1"),
        ("scripted", None),
    ],
)
def test_an_unknown_price_is_none(model: str, provider: str | None) -> None:
    """A model that nobody has a price for, or that no known provider serves, costs None and never 0."""
    assert PriceTable().cost_usd(model, provider=provider, **MILLION) is None


def test_own_prices_win() -> None:
    """A user's own entry needs no provider and stands above the bundled list."""
    table = PriceTable({"gpt-5-mini": Price(input_per_mtok=1, output_per_mtok=10, cache_read_per_mtok=0.5)})
    assert table.cost_usd("gpt-5-mini", provider="openai", **MILLION) == pytest.approx(11)
    assert table.cost_usd("gpt-5-mini", cache_read_tokens=1_000_000, **MILLION) == pytest.approx(10.5)


def test_own_prices_from_a_file(tmp_path: Path) -> None:
    """Prices can be kept in a JSON file."""
    path = tmp_path / "prices.json"
    path.write_text(json.dumps({"mine": {"input_per_mtok": 0.5, "output_per_mtok": 1.5}}))
    assert PriceTable.from_file(path).cost_usd("mine", **MILLION) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "can't be read as JSON"),
        ("[]", "must map model names to prices"),
        ('{"mine": 3}', "entry 'mine'"),
        ('{"mine": {"input_per_mtok": 1}}', "output_per_mtok"),
        ('{"mine": {"input_per_mtok": -1, "output_per_mtok": 1}}', "input_per_mtok"),
        ('{"mine": {"input_per_mtok": NaN, "output_per_mtok": 1}}', "input_per_mtok"),
        ('{"mine": {"input_per_mtok": 1, "output_per_mtok": 1, "input": 2}}', "input"),
        ('{"m": {"input_per_mtok": true, "output_per_mtok": 1}}', "'m'"),
        ('{"m": {"input_per_mtok": "0.5", "output_per_mtok": 1}}', "'m'"),
        (f'{{"m": {{"input_per_mtok": 1{"0" * 400}, "output_per_mtok": 1}}}}', "'m'"),
    ],
)
def test_wrong_prices_are_named(tmp_path: Path, text: str, said: str) -> None:
    """A wrong entry in a price file is named."""
    path = tmp_path / "prices.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=said):
        PriceTable.from_file(path)


def test_own_prices_can_be_plain_dicts() -> None:
    """A price given by its fields is a price, as it is in a file."""
    table = PriceTable({"mine": {"input_per_mtok": 0.5, "output_per_mtok": 1.5}})
    assert table.cost_usd("mine", **MILLION) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({"mine": {"input_per_mtok": 1}}, "entry 'mine' is wrong: output_per_mtok"),
        ({"mine": {"input_per_mtok": -1, "output_per_mtok": 1}}, "entry 'mine' is wrong: input_per_mtok"),
        ({"mine": 3}, "entry 'mine' is wrong"),
        ({"mine": None}, "entry 'mine' is wrong"),
        ({3: Price(input_per_mtok=1, output_per_mtok=1)}, "3 is no model's name"),
        ([], "must map model names to prices"),
    ],
)
def test_wrong_own_prices_are_named_before_any_call(extra: Any, said: str) -> None:
    """A wrong entry is refused when the table is built, not in the first paid call."""
    with pytest.raises(ValueError, match=said):
        PriceTable(extra)


def test_who_is_paid(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only a call that really goes to a known provider is priced, however a model calls itself."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    paid = chat_model("openai:gpt-5-mini")
    assert provider_of(paid) == "openai"
    assert provider_of(RecordingModel(paid, tmp_path / "calls.sqlite")) == "openai"
    assert provider_of(paid.bind(stop=["x"])) == "openai"
    assert provider_of(chat_model("http://127.0.0.1:9/v1#gpt-5-mini")) is None
    assert provider_of(chat_model("https://api.groq.com/openai/v1#llama")) == "groq"
    assert provider_of(FakeListChatModel(responses=["x"])) is None
    assert provider_of(lambda: None) is None


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("metadata", "share"),
    [
        ({"service_tier": "batch"}, 0.5),
        ({"usage": {"service_tier": "batch", "input_tokens": 3}}, 0.5),
        ({"service_tier": "default", "usage": None}, 1.0),
        ({"usage": "3 tokens"}, 1.0),
        ({}, 1.0),
    ],
    ids=str,
)
def test_a_reply_in_a_batch_costs_half(metadata: dict[str, Any], share: float) -> None:
    """The discount is read off the reply, as either provider marks it, so a resumed run counts it as well."""
    assert discount(metadata) == share
