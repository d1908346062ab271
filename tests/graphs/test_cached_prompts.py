"""The parts of a prompt that stay come before those that change, and what a provider's cache saves is counted."""

from __future__ import annotations

from os.path import commonprefix
from typing import Any

import pytest
from redraft.graphs.loop import build_refine_graph
from redraft.models import PriceTable, ScriptedModel, chat_model
from redraft.nodes.critics.critics import model_critic
from redraft.state import Critique

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
    asked: list[str] = []

    class Listening(ScriptedModel):
        def _generate(self, messages: list[Any], *args: Any, **kwargs: Any) -> Any:
            asked.append(messages[-1].content)
            return super()._generate(messages, *args, **kwargs)

    replies = [f"{'a draft ' if number % 2 else 'an error '}{number} " * 40 for number in range(1, 9)]
    model = Listening(replies)
    graph = build_refine_graph(model, critics=[model_critic(model)], limits={"max_rounds": 3})
    graph.invoke({"task": "Write about a river and a lamp. " * 125})
    shared = [max(_shared(text, earlier) for earlier in asked[:at]) for at, text in enumerate(asked) if at]
    late = slice(3, None)  # a draft, a critique and a revision make the first round
    assert sum(shared[2:]) >= 0.7 * sum(map(len, asked[late]))


def _objects(task: str, draft: str, history: Any) -> Critique:
    return Critique("Not good enough.", accepted=False, score=0.2)


def _shared(one: str, other: str) -> int:
    return len(commonprefix([one, other]))  # noqa: RUF071  # characters are meant
