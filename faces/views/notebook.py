"""Views of graphs and threads: `show(thread)` in a notebook's cell, `print(show(thread))` in a terminal. Internal.

Each returns an object that a notebook shows as HTML, with drawings inside it, and that prints as text elsewhere. None
of them runs a script or fetches anything, and what a model wrote is shown as text, whatever it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...state import Thread
from ...state.dual import drive
from ...state.threads.kind import compared, kind_of
from ...state.threads.snapshots import snapshots
from .console import one_line, printed
from .documents import Display
from .drafts import diff_facts, diff_text, read_values
from .drawing import Drawing, Taken, draw, path_taken
from .rounds import score_facts, score_text
from .timeline import timeline_facts, timeline_text, tree_facts, tree_table
from .watching import MODES, watching

__all__ = ["Display", "alive", "diff", "live", "scores", "show", "timeline", "tree"]

LONGEST_PATH = 60
"""Steps of a path that are listed."""


def show(graph_or_thread: Any, *, xray: bool = False) -> Display:
    """Return the drawing of a graph; of a thread, with the path that its last run took, each step counted.

    Args:
        graph_or_thread: A compiled graph, also one that is not ours, or a `Thread`.
        xray: Whether graphs that are nodes of it are drawn open.

    Raises:
        TypeError: It is neither.
        UnknownThreadError: There is no such thread.
    """
    thread = graph_or_thread if isinstance(graph_or_thread, Thread) else None
    graph = thread.graph if thread else graph_or_thread
    if not hasattr(graph, "get_graph") or not hasattr(graph, "get_name"):
        hint = ": compile it first" if hasattr(graph, "compile") else ""
        raise TypeError(f"show() takes a compiled graph or a Thread, not {type(graph).__name__}{hint}")
    drawing = draw(graph, xray=xray)
    taken = None
    if thread is not None:
        read_values(thread)  # an unknown thread is named
        taken = path_taken(drive(snapshots(thread.graph, thread.config)), frozenset(drawing.edges))
    ran = taken or Taken()
    text = drawing.plain()
    facts: dict[str, Any] = {
        "name": drawing.name,
        "thread_id": thread.thread_id if thread else None,
        "mermaid": drawing.mermaid,
        "ascii": text,
        "order": ran.order[:LONGEST_PATH],
        "cut_order": len(ran.order) > LONGEST_PATH,
        "waiting": list(ran.waiting),
        "elsewhere": sorted(node for node in ran.nodes if node not in drawing.ids and node != "__start__"),
    }
    if thread is not None:
        path = " → ".join(map(one_line, facts["order"])) + (" …" if facts["cut_order"] else "")
        waiting = f"; next: {', '.join(map(one_line, facts['waiting']))}" if facts["waiting"] else ""
        text += f"\n\npath of thread {one_line(thread.thread_id)}: {path or 'nothing yet'}{waiting}"
    return Display("show", facts, text, pictures=lambda: _drawn(drawing, taken))


def timeline(thread: Thread) -> Display:
    """Return the steps of a thread: who acted, tokens, seconds, verdict. It works with any graph.

    Raises:
        UnknownThreadError: There is no such thread.
    """
    facts = timeline_facts(thread.thread_id, thread.history())
    return Display("timeline", facts, timeline_text(facts))


def diff(
    thread: Thread, *, before: int | None = None, after: int | None = None, other: Thread | None = None
) -> Display:
    """Compare two drafts word by word, with the critiques that led from one to the other.

    Args:
        thread: The thread of the draft that is compared.
        before: Its round; default: the first, or the best where `other` is given.
        after: Round of the draft that it is compared with; default: the best.
        other: The thread that `after` is taken from; default: the same.

    Raises:
        UnknownThreadError: There is no such thread.
        ValueError: There is no such draft.
    """
    facts = diff_facts(thread, other, before=before, after=after)
    return Display("diff", facts, diff_text(facts))


def tree(thread: Thread) -> Display:
    """Return the branches that a thread is part of, each with its score and why it stopped.

    Raises:
        UnknownThreadError: There is no such thread.
    """
    facts = tree_facts(thread.tree(), thread.thread_id)
    return Display("tree", facts, printed(tree_table(facts)))


def scores(thread_or_threads: Thread | Iterable[Thread]) -> Display:
    """Return the score of each draft and the tokens spent, round by round, of one thread or of several: a curve each.

    Raises:
        UnknownThreadError: There is no such thread.
        ValueError: There is no thread at all, or one has no record of ours.
    """
    threads = [thread_or_threads] if isinstance(thread_or_threads, Thread) else list(thread_or_threads)
    if not threads:
        raise ValueError("scores() needs at least one thread")
    records: dict[str, Any] = {}
    for thread in threads:
        events = read_values(thread).get("events")
        if not events:
            raise ValueError(f"the thread {thread.thread_id!r} holds no record of a refinement run")
        name, number = thread.thread_id, 2
        while name in records:  # another database may hold a thread of the same id
            name, number = f"{thread.thread_id} ({number})", number + 1
        records[name] = events
    facts = score_facts(records)
    return Display("scores", facts, score_text(facts))


def live(graph: Any, input: Any = None, config: Mapping[str, Any] | None = None) -> Any:  # noqa: A002  # LangGraph's word
    """Run a graph, showing each step as it happens, and return its output, as `invoke` does.

    Args:
        graph: A compiled graph, also one that is not ours; or a `Thread`, which is then resumed, as `resume` does it.
        input: As `invoke` takes it.
        config: As `invoke` takes it.

    Raises:
        BusyThreadError: The `Thread` is being run right now.
        GraphDrained: LangGraph's own: someone asked the `Thread` to `stop`.
    """
    if isinstance(graph, Thread):
        with graph.stoppable() as control:
            return _followed(graph.graph, graph.ready(), compared(graph.config), control=control)
    return _followed(graph, input, config)


async def alive(graph: Any, input: Any = None, config: Mapping[str, Any] | None = None) -> Any:  # noqa: A002
    """Async twin of `live`."""
    if isinstance(graph, Thread):
        async with graph.astoppable() as control:
            return await _afollowed(graph.graph, await graph.aready(), compared(graph.config), control=control)
    return await _afollowed(graph, input, config)


def _followed(running: Any, graph_input: Any, config: Mapping[str, Any] | None, **control: Any) -> Any:
    with watching(running.get_name(), ours=kind_of(running).keeps_record) as watch:
        for part in running.stream(graph_input, config, **_options(running), **control):
            watch.take(part)
        return watch.output()


async def _afollowed(running: Any, graph_input: Any, config: Mapping[str, Any] | None, **control: Any) -> Any:
    with watching(running.get_name(), ours=kind_of(running).keeps_record) as watch:
        async for part in running.astream(graph_input, config, **_options(running), **control):
            watch.take(part)
        return watch.output()


def _options(graph: Any) -> dict[str, Any]:
    """Return the options of a stream that yields the output of `invoke` too and saves each step as it ends."""
    saving = {"durability": "sync"} if graph.checkpointer else {}
    return {"stream_mode": list(MODES), "output_keys": graph.output_channels, **saving}


def _drawn(drawing: Drawing, taken: Taken | None) -> dict[str, Any]:
    """Return the SVG, or why there is none: the Mermaid text is there in any case."""
    from markupsafe import Markup

    try:
        return {"svg": Markup(drawing.svg(taken)), "problem": ""}  # noqa: S704  # its labels were escaped
    except (ImportError, ValueError) as error:
        return {"svg": "", "problem": f"No drawing: {error}"}
