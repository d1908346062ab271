"""A deep agent whose report is refined, a file and all: `pip install deepagents ".[agents]"` in a checkout, then
`python examples/deep_agent.py [MODEL]`.

Without an argument a script stands in for the model. A model that is named must be able to call tools.
"""

from __future__ import annotations

import sys
from typing import Any

from deepagents import create_deep_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from redraft import RefineMiddleware, Thread, chat_model, uses_words, verifier_critic


class Script(GenericFakeChatModel):
    """Says what it is told to, whatever tools it is offered."""

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def call(tool: str, **args: str) -> AIMessage:
    """Return a reply that calls a tool."""
    return AIMessage("", tool_calls=[{"name": tool, "args": args, "id": f"call-{tool}"}])


REPLIES = [
    call("write_file", file_path="/report.md", content="A delta is land at the mouth of a river."),
    AIMessage("The report is in /report.md."),
    call("edit_file", file_path="/report.md", old_string="land at", new_string="land made of mud at"),
    AIMessage("The report now says what a delta is made of."),
]


def main(model: str = "") -> None:
    """Have a report written, checked with its file, and mended by the agent with its own tools."""
    writer = chat_model(model) if model else Script(messages=iter(REPLIES))
    refining = RefineMiddleware([verifier_critic(uses_words("river", "mud"))], files="/report.md", max_rounds=3)
    agent = create_deep_agent(writer, middleware=[refining], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "delta"}}
    out = agent.invoke({"messages": [("user", "Write /report.md: what is a delta, in one sentence?")]}, config)
    for event in Thread(agent, "delta").replay().output["events"]:
        for step in event.get("steps", ()):
            if step["step"] == "tool_call":
                print(f"{event['round']} called {step['tool']}")
        if event["kind"] in ("draft", "critique", "revision"):
            print(f"{event['round']} {event['kind']}: {' '.join(event['text'].split())}")
    about = out["messages"][-1].response_metadata["redraft"]
    print(f"{about['stop_reason']} after {about['rounds']} rounds: {out['files']['/report.md']['content']}")


if __name__ == "__main__":
    main(*sys.argv[1:2])
