"""Share of a run's prompts that the embedded model reads from its cache, from the second round on.

The real loop with its own prompts runs on an embedded model, which reads every prompt; what it would reply is
scripted, so that every run asks the same. Beside the share that its usage reports stands the one of a cache that holds
every earlier prompt of the run: that is what the order of the prompts' parts allows.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import sys
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr
from rows import Row, add_options, at_least, at_most, finish, left_out

__all__ = ["main"]

WORDS = (  # noqa: SIM905  one name a line would hide the list
    "river lamp night water stone light tree bird field house winter summer road bridge letter story number answer"
).split()
FIRST_ROUND = 3
"""A draft, a critique and a revision."""


def words(characters: int, seed: int) -> str:
    """Return a text that no other seed gives."""
    pick = random.Random(seed)
    return " ".join(pick.choice(WORDS) for _ in range(characters // 5))[:characters]


class Reading(BaseChatModel):
    """Has another model read each prompt, and replies with a text of its own; objects whenever it is to judge."""

    inner: Any
    draft: int
    critique: int
    seed: int
    _asked: list[str] = PrivateAttr(default_factory=list)
    _read: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "reading"

    def _generate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        raise NotImplementedError

    async def _agenerate(self, messages: list[Any], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        reply = await self.inner.ainvoke(messages)
        self._asked.append(messages[-1].content)
        self._read.append(reply.usage_metadata)
        judges = "reply with exactly these words" in messages[-1].content
        text = words(self.critique if judges else self.draft, 1000 * self.seed + len(self._asked))
        message = AIMessage(text, usage_metadata=reply.usage_metadata)
        return ChatResult(generations=[ChatGeneration(message=message)])

    def possible(self) -> float:
        """Return the share of later prompts that an earlier one begins with."""
        held = [max(shared(text, one) for one in self._asked[:at]) for at, text in enumerate(self._asked) if at]
        return sum(held[FIRST_ROUND - 1 :]) / sum(map(len, self._asked[FIRST_ROUND:]))


def summed(models: list[Reading], first: int) -> tuple[int, int]:
    """Return the tokens of all prompts from this one of each run on, and how many of them came from no cache."""
    told = [one for model in models for one in model._read[first:]]
    tokens = sum(one["input_tokens"] for one in told)
    cached = sum((one.get("input_token_details") or {}).get("cache_read") or 0 for one in told)
    return tokens, tokens - cached


def shared(one: str, other: str) -> int:
    """Return how many characters two texts begin with alike."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


async def runs(inner: Any, given: argparse.Namespace, task: int) -> list[Reading]:
    """Run the loop so many times at once, and return the models that read."""
    from redraft import build_refine_graph, model_critic

    models = [Reading(inner=inner, draft=given.draft, critique=given.critique, seed=n) for n in range(given.together)]
    limits = {"max_rounds": given.rounds}
    graphs = [build_refine_graph(one, critics=[model_critic(one, structured=False)], limits=limits) for one in models]
    await asyncio.gather(*[graph.ainvoke({"task": words(task, -n)}) for n, graph in enumerate(graphs, 1)])
    return models


def main(arguments: list[str] | None = None) -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--model", default="local", help="local, or gguf:FILE")
    parser.add_argument("--task", type=int, nargs="+", default=[400, 4000], help="characters of the task")
    parser.add_argument("--draft", type=int, default=400, help="characters of a draft")
    parser.add_argument("--critique", type=int, default=200, help="characters of a critique")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--together", type=int, default=1, help="runs at once")
    parser.add_argument("--slots", nargs="+", default=["1", "2"], help="of the embedded server")
    given = parser.parse_args(arguments)
    if given.quick:
        given.slots = ["2"]

    from redraft.models import chat_model

    rows: list[Row] = []
    for task in given.task:
        for slots in given.slots:
            os.environ["REDRAFT_LOCAL_SLOTS"] = slots
            what = f"prompts after round 1 out of the cache, task of {task:,} characters, {slots} slots"
            try:
                inner = chat_model(given.model, max_output_tokens=1, temperature=0)
            except (ImportError, RuntimeError) as error:  # no llama.cpp, or no weights and no network
                rows.append(left_out(what, str(error)))
                continue
            models = asyncio.run(runs(inner, given, task))
            (tokens, computed), (whole, read) = (summed(models, first) for first in (FIRST_ROUND, 0))
            possible = sum(one.possible() for one in models) / len(models)
            note = f"{computed:,} of {tokens:,} tokens computed, {read:,} of {whole:,} in the whole run"
            longest = max(one["input_tokens"] for model in models for one in model._read)
            note += f"; earlier prompts hold {possible:.2f}; the longest has {longest:,} tokens"
            share = 1 - computed / tokens
            if slots != "1" and task >= 4000 and given.draft <= 400:
                rows.append(at_least(what, share, 0.7, note=note))
            else:
                rows.append(at_most(what, share, None, unit="share", note=note))
            print(rows[-1], file=sys.stderr, flush=True)
    return finish(rows, given.json, packages=["xllamacpp"])


if __name__ == "__main__":
    sys.exit(main())
