"""How far a batch of runs is: a bar on a terminal, a line now and then elsewhere. Internal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .wording import money, percent, seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...graphs.many import BatchProgress
    from .console import Screen

__all__ = ["batch_bar"]


@contextmanager
def batch_bar(screen: Screen, name: str, good: str) -> Iterator[Callable[[BatchProgress, Any], None]]:
    """Give a function that shows how far a batch is.

    Args:
        screen: Where.
        name: What stands before it.
        good: The word for a result that is right, or accepted.
    """
    if not screen.progress.is_terminal:

        def line(progress: BatchProgress, result: Any) -> None:
            tenth = max(progress.total // 10, 1)
            if result is None or progress.done == progress.total or progress.done % tenth == 0:
                screen.line((f"{name}  {progress.done}/{progress.total}  {_facts(progress, good)}", "dim"))

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[facts]}"))
    with Progress(*columns, console=screen.progress) as bar:
        task = bar.add_task(name, total=None, facts="")

        def show(progress: BatchProgress, _: Any) -> None:
            bar.update(task, total=progress.total, completed=progress.done, facts=_facts(progress, good))

        yield show


def _facts(progress: BatchProgress, good: str) -> str:
    parts = [] if progress.share is None else [f"{good} {percent(progress.share)}"]
    parts += [f"{progress.failed} failed"] if progress.failed else []
    parts += [f"{progress.at_once} at once"] if progress.at_once else []
    parts += [f"{progress.hedged} calls asked twice"] if progress.hedged else []
    parts += [f"{progress.tokens_per_second:.0f} tokens/s", money(progress.cost_usd)] if progress.tokens else []
    if progress.eta_s is not None and progress.done < progress.total:
        parts.append(f"{seconds(progress.eta_s)} left")
    return " · ".join(parts)
