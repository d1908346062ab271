"""Writes a database as the redraft on the path writes it: run once for each format, and keep what comes out.

    PYTHONPATH=… python tests/state/data/write.py tests/state/data/formatN-COMMIT.sqlite.gz

`PYTHONPATH` names a folder with a `redraft` of that release. It uses nothing that the oldest release lacks.
"""

import contextlib
import gzip
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

from langchain_core.language_models import FakeListChatModel
from redraft.graphs.loop import build_refine_graph
from redraft.state import Critique, Thread, open_checkpointer

try:
    from redraft.nodes import human_critic, uses_words, verifier_critic
except ImportError:
    from redraft.nodes.critics import verifier_critic
    from redraft.nodes.verifiers import uses_words

    try:
        from redraft.nodes.human import human_critic
    except ImportError:
        human_critic = None

try:
    from redraft.graphs.branching import build_branching_graph
    from redraft.graphs.pipeline import build_pipeline_graph
except ImportError:
    build_branching_graph = build_pipeline_graph = None

TASK = "Write one sentence about a river and a lamp."
DRAFTS = ["A dark path.", "A path by the river.", "A lamp by the river."]


class Failing(FakeListChatModel):
    """Answers with its replies, then raises."""

    def _call(self, *args, **kwargs):
        if self.responses == ["gone"]:
            raise RuntimeError("the model is gone")
        reply = self.responses[0]
        self.responses = self.responses[1:] or ["gone"]
        return reply


def opinion(task, draft, history):
    return Critique(f"{len(draft)} characters, say more", accepted=False, score=len(draft) / 100)


def main(target: Path) -> None:
    words = verifier_critic(uses_words("river", "lamp"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "old.sqlite"
        with open_checkpointer(place) as saver:

            def run(thread_id, model, limits=None, **options):
                graph = build_refine_graph(model, checkpointer=saver, **options)
                given = {"task": TASK, **({"limits": limits} if limits else {})}
                # Before the first draft an error is raised, and the thread resumes from there.
                with contextlib.suppress(RuntimeError):
                    graph.invoke(given, {"configurable": {"thread_id": thread_id}}, durability="sync")
                return Thread(graph, thread_id)

            run("accepted", FakeListChatModel(responses=DRAFTS), critics=[words])
            stopped = run("stopped", FakeListChatModel(responses=DRAFTS), {"max_rounds": 1}, critics=[opinion])
            stopped.fork(at=0, feedback="Name the lamp.", thread_id="forked")
            run("failed", Failing(responses=DRAFTS[:1]), critics=[words])
            run("undrafted", Failing(responses=["gone"]), critics=[words])
            if human_critic:
                run("asked", FakeListChatModel(responses=DRAFTS), critics=[human_critic()])
            if build_branching_graph:
                model = FakeListChatModel(responses=DRAFTS)
                search = build_branching_graph(model, critics=[words], depth=1, checkpointer=saver)
                search.invoke({"task": TASK}, {"configurable": {"thread_id": "searched"}})
                steps = f"SetTopic('{TASK}') | UseRefinementLoop('1')"
                piped = build_pipeline_graph(steps, model, checkpointer=saver)
                piped.invoke({}, {"configurable": {"thread_id": "piped"}})
        with closing(sqlite3.connect(place)) as connection, connection:
            connection.executescript("PRAGMA journal_mode = delete; PRAGMA page_size = 1024; VACUUM")
        target.write_bytes(gzip.compress(place.read_bytes(), mtime=0))


main(Path(sys.argv[1]))
