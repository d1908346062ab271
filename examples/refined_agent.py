"""Refinement inside an agent of LangChain's (extra `agents`): `python examples/refined_agent.py [MODEL]`.

The recorded model calls no tools. With tools the agent looks again before it answers anew.
`create_deep_agent` of deepagents takes the same `middleware=`, and so do its subagents.
"""

from __future__ import annotations

import sys
from typing import Any

from langchain.agents import create_agent
from langgraph.checkpoint.memory import InMemorySaver
from redraft import RefineMiddleware, Thread, chat_model, uses_words, verifier_critic


def main(model: str = "replay") -> None:
    """Ask, have the answer checked before it is given, and show what was said on the way."""
    middleware = RefineMiddleware([verifier_critic(uses_words("river", "sea"))], max_rounds=3)
    agent = create_agent(chat_model(model), middleware=[middleware], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "delta"}}
    out = agent.invoke({"messages": [("user", "Say in one sentence what a delta is.")]}, config)
    for event in Thread(agent, "delta").replay().output["events"]:
        if event["text"]:
            print(f"{event['round']} {event['kind']}: {event['text']}")
    answer = out["messages"][-1]
    about = answer.response_metadata["redraft"]
    print(f"{about['stop_reason']} after {about['rounds']} rounds: {answer.text}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
