"""Many problems side by side, each under its own budget: `python examples/many_problems.py [MODEL]`.

For datasets, resumable runs and statistics there is `redraft eval`; this is the same from Python.
"""

from __future__ import annotations

import asyncio
import sys

from redraft import Limits, build_refine_graph, chat_model, open_checkpointer, uses_words, verifier_critic

WORDS = [("moon", "boat"), ("bread", "window"), ("rain", "train"), ("salt", "letter")]


async def main(model: str = "local") -> None:
    """Write a sentence for each pair of words, and show each as it comes."""
    writer = chat_model(model)
    async with open_checkpointer("memory") as saver:

        async def one(words: tuple[str, str]) -> None:
            critics = [verifier_critic(uses_words(*words))]
            graph = build_refine_graph(writer, critics=critics, limits=Limits(max_rounds=2), checkpointer=saver)
            config = {"configurable": {"thread_id": "-".join(words)}}
            out = await graph.ainvoke({"task": f"Write one short sentence with {' and '.join(words)}."}, config)
            tokens = out["usage"]["total_tokens"]
            print(f"{' and '.join(words)}: {out['stop_reason']}, {tokens} tokens: {out['answer']}")

        await asyncio.gather(*map(one, WORDS))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
