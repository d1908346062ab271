"""Many problems side by side, each under its own budget: `python examples/many_problems.py [MODEL]`.

For datasets, resumable runs and statistics there is `redraft eval`; this is the same from Python.
"""

from __future__ import annotations

import asyncio
import sys

from redraft import Critique, Limits, build_refine_graph, chat_model, open_checkpointer, verifier_critic

NOTICES = {
    "Ask the team, in one sentence, to send their timesheets.": ("Friday", "Say by which day: by Friday."),
    "Tell the staff, in one sentence, that the kitchen is closed.": ("Monday", "Say until when: until Monday."),
    "Invite the neighbours, in one sentence, to a summer party.": ("garden", "Say where: in the garden."),
    "Remind the guests, in one sentence, to return their keys.": ("desk", "Say where: at the front desk."),
}
"""Each task with a word that its text must have, and what to say where it has not."""


async def main(model: str = "replay") -> None:
    """Write the notices, and show each as it comes."""
    writer = chat_model(model)
    async with open_checkpointer("memory") as saver:

        async def one(task: str, word: str, wish: str) -> None:
            def says(_: str, draft: str, /) -> Critique:
                return Critique("" if word in draft else wish, accepted=word in draft)

            critics = [verifier_critic(says, name=word)]
            graph = build_refine_graph(writer, critics=critics, limits=Limits(max_rounds=2), checkpointer=saver)
            out = await graph.ainvoke({"task": task}, {"configurable": {"thread_id": word}})
            print(f"{word}: {out['stop_reason']}, {out['usage']['total_tokens']} tokens: {out['answer']}")

        await asyncio.gather(*(one(task, *wish) for task, wish in NOTICES.items()))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:2]))
