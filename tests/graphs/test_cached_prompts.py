"""The parts of a prompt that stay come before those that change, and what a provider's cache saves is counted."""

from __future__ import annotations

import json
from os.path import commonprefix
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import PrivateAttr
from redraft.graphs.loop import build_refine_graph
from redraft.models import PriceTable, ScriptedModel, chat_model
from redraft.nodes.critics.critics import model_critic
from redraft.state import Critique

if TYPE_CHECKING:
    from pathlib import Path

PRICE = {"input_per_mtok": 1.0, "output_per_mtok": 0.0, "cache_read_per_mtok": 0.1, "cache_write_per_mtok": 2.0}


def test_tokens_from_a_cache_are_counted_and_priced(run: Any, serve: Any) -> None:
    """A run says how many of its tokens came out of the provider's cache or went into it, and pays their price."""
    told = [{"cache_write_tokens": 80}, {"cached_tokens": 80, "audio_tokens": None}, {"cached_tokens": 10**6}]
    texts = ["a lamp", "a river", "a river, a lamp"]
    server = serve(
        [
            {"text": text, "input_tokens": 100, "output_tokens": 5, "prompt_tokens_details": details}
            for text, details in zip(texts, told, strict=True)
        ]
    )
    model = chat_model(server.spec)
    name = server.spec.rpartition("#")[2]
    graph = build_refine_graph(model, critics=[_objects], prices=PriceTable({name: PRICE}), limits={"max_rounds": 2})
    output = run(graph, {"task": "Write."})
    usage = output["usage"]
    # No more than was sent can have come out of a cache.
    assert (usage["input_tokens"], usage["cache_read_tokens"], usage["cache_write_tokens"]) == (300, 180, 80)
    assert usage["cost_usd"] == pytest.approx((40 * 1.0 + 180 * 0.1 + 80 * 2.0) / 1e6)
    drafts = [event["usage"] for event in output["events"] if event["kind"] in ("draft", "revision")]
    assert [one.get("cache_read_tokens") for one in drafts] == [None, 80, 100]


def test_most_of_a_prompt_was_sent_before() -> None:
    """From round 2 on, prompts of critic and refiner begin with 70% of what an earlier one began with."""
    model = Listening(REPLIES)
    refining(model).invoke({"task": TASK})
    asked = [message.content for message in model._heard]
    shared = [max(_shared(text, earlier) for earlier in asked[:at]) for at, text in enumerate(asked) if at]
    late = slice(3, None)  # a draft, a critique and a revision make the first round
    assert sum(shared[2:]) >= 0.7 * sum(map(len, asked[late]))


def test_a_model_of_anthropics_is_told_where_the_task_ends(tmp_path: Path) -> None:
    """What later rounds send again is one block with a cache point, the same words as for any other model."""
    plain, claude = Listening(REPLIES), Claude(REPLIES)
    recording = chat_model(claude, record=tmp_path / "tape.sqlite")
    outputs = [refining(model).invoke({"task": TASK}) for model in (plain, recording)]
    first, *rest = claude._heard
    assert first.content == TASK  # no later prompt begins with a first draft's
    for asked in (rest[::2], rest[1::2]):
        stays = {json.dumps(message.content[0]) for message in asked}
        assert len(stays) == 1
        assert json.loads(stays.pop())["cache_control"] == {"type": "ephemeral"}
        assert all(TASK in message.content[0]["text"] and len(message.content) == 2 for message in asked)
    assert [message.text for message in claude._heard] == [message.content for message in plain._heard]
    # A tape of either kind of model answers for both.
    outputs.append(refining(chat_model(f"replay:{tmp_path / 'tape.sqlite'}")).invoke({"task": TASK}))
    assert len({output["answer"] for output in outputs}) == 1
    claude = Claude(REPLIES)
    refining(claude).invoke({"task": "Write."})
    assert all(isinstance(message.content, str) for message in claude._heard)  # too short for any cache


TASK = "Write about a river and a lamp. " * 125
REPLIES = [f"{'a draft ' if number % 2 else 'an error '}{number} " * 40 for number in range(1, 9)]


class Listening(ScriptedModel):
    _heard: list[Any] = PrivateAttr(default_factory=list)

    def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
        self._heard.append(messages[-1])
        return super()._generate(messages, *args, **kwargs)


class Claude(Listening):
    @property
    def _llm_type(self) -> str:
        return "anthropic-chat"


def refining(model: Any) -> Any:
    return build_refine_graph(model, critics=[model_critic(model)], limits={"max_rounds": 3})


def _objects(task: str, draft: str, history: Any) -> Critique:
    return Critique("Not good enough.", accepted=False, score=0.2)


def _shared(one: str, other: str) -> int:
    return len(commonprefix([one, other]))  # noqa: RUF071  # characters are meant
