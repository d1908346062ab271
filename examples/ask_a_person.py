"""A run pauses for a person, and goes on in another process: `python examples/ask_a_person.py [MODEL]`.

Reply with `accept`, `stop`, or what you would like changed. End it with Ctrl-C and call it again: it asks the same.
Without a model of yours the replies are recorded, and the only wish that they know is `Say by how much: half an hour.`
"""

from __future__ import annotations

import sys

from redraft import Thread, build_refine_graph, chat_model, human_critic, open_checkpointer


def main(model: str = "replay", database: str = "letter.sqlite") -> None:
    """Begin the thread, or answer its question."""
    with open_checkpointer(database) as saver:
        graph = build_refine_graph(chat_model(model), critics=[human_critic()], checkpointer=saver)
        thread = Thread(graph, "letter")
        if thread.thread_id not in [run.thread_id for run in saver.runs.list()]:
            graph.invoke({"task": "Write to Ann, in one sentence, that we will be late for dinner."}, thread.config)
        question = thread.question()
        while question is not None:
            print(question["draft"])
            reply = input("accept, stop, or what to change: ").strip()
            if reply == "accept":
                thread.answer(accept=True)
            elif reply == "stop":
                thread.answer(stop=True)
            else:
                thread.answer(feedback=reply)
            question = thread.question()
        out = thread.resume()
        print(f"{out['stop_reason']}, accepted by {out['accepted_by'] or 'nobody'}: {out['answer']}")


if __name__ == "__main__":
    main(*sys.argv[1:3])
