"""The loop as a node of a bigger graph: `python examples/bigger_graph.py [MODEL]`."""

from __future__ import annotations

import sys
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from redraft import build_refine_graph, chat_model, open_checkpointer, uses_words, verifier_critic


class Letter(TypedDict, total=False):
    """What the bigger graph knows."""

    about: str
    task: str
    answer: str
    sent: str


def ask(state: Letter) -> Letter:
    """Turn a topic into a task."""
    return {"task": f"Write one short sentence about {state['about']} that uses the word thank."}


def send(state: Letter) -> Letter:
    """Do something with the answer."""
    return {"sent": f"To Ann: {state['answer']}"}


def main(model: str = "replay") -> None:
    """Run the loop between two nodes; its steps are checkpoints of the same thread."""
    loop = build_refine_graph(chat_model(model), critics=[verifier_critic(uses_words("thank"))])
    letter = StateGraph(Letter)
    letter.add_node("ask", ask)
    letter.add_node("refine_it", loop)
    letter.add_node("send", send)
    for start, end in ((START, "ask"), ("ask", "refine_it"), ("refine_it", "send"), ("send", END)):
        letter.add_edge(start, end)
    with open_checkpointer("memory") as saver:
        graph = letter.compile(checkpointer=saver)
        config = {"configurable": {"thread_id": "letter"}}
        for where, update in graph.stream({"about": "the garden"}, config, stream_mode="updates", subgraphs=True):
            print("  " * len(where) + ", ".join(update))
        print(graph.get_state(config).values["sent"])


if __name__ == "__main__":
    main(*sys.argv[1:2])
