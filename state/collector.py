"""Garbage collection with many runs in flight. Internal."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["RUNNING", "StepCount", "tuned_gc"]

LOG = logging.getLogger("redraft")
THRESHOLDS = (50_000, 50, 100)
"""Objects made before the youngest are looked at, and collections of one generation before one of the next."""
_entered = 0
_before = gc.get_threshold()
_lock = threading.Lock()


@contextmanager
def tuned_gc() -> Iterator[None]:
    """Collect garbage rarely, and skip what is alive now, for as long as the block lasts.

    A run in flight holds thousands of objects. With Python's own settings the collector looks through those of all
    runs again and again, which takes a third of the CPU with a thousand in flight. The batch runner and `redraft serve`
    do this for themselves; a service of one's own enters it once, around its event loop or in its lifespan. It holds
    for the whole process. Entered again inside, it changes nothing, and the outermost block puts back what was.

    Example:
        >>> from redraft import build_refine_graph, tuned_gc
        >>> from redraft.models import ScriptedModel
        >>> with tuned_gc():
        ...     graph = build_refine_graph(ScriptedModel(["Rain on a roof.", "no issues"]))
        ...     graph.invoke({"task": "Write about rain."})["answer"]
        'Rain on a roof.'
    """
    global _entered, _before  # noqa: PLW0603
    with _lock:
        _entered += 1
        if _entered == 1:
            _before = gc.get_threshold()
            gc.collect()
            # What is alive now lives as long as the block: no collection need look at it.
            gc.freeze()
            gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        with _lock:
            _entered -= 1
            if not _entered:
                gc.set_threshold(*_before)
                gc.unfreeze()


class StepCount:
    """The steps at work in this process; a hint is logged, once, where `tuned_gc` would help.

    Args:
        many: How many at once a step gives the hint for.
    """

    def __init__(self, many: int = 300) -> None:
        self.many = many
        self.now = 0
        self.hinted = False

    def hint(self) -> None:
        """Log the hint, unless it was logged or somebody has set the collector."""
        if not self.hinted:
            self.hinted = True
            # Whoever set it otherwise, or turned it off, knows.
            if gc.isenabled() and gc.get_threshold()[0] < THRESHOLDS[0] // 10 and not gc.get_freeze_count():
                LOG.warning(HINT, self.now)


HINT = (
    "%d steps are at work at once: with `with redraft.tuned_gc():` around them the garbage collector, which looks "
    "through all that they hold again and again, takes up to a third less of the CPU"
)
RUNNING = StepCount()
"""Steps of all graphs."""
