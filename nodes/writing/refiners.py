"""Several refiners, of which one is chosen for each revision. Internal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from typing import TYPE_CHECKING, Any

from langchain_core.runnables import Runnable, RunnableConfig

from ..runtime.dual import Do, DualRunnable, calling
from .adaptive import AdaptiveWriter
from .prompts import Keep, Memory, Prompts, attempt_at_hand, is_prompt
from .writers import Writer, as_writer

if TYPE_CHECKING:
    from ...state.events import Event

    ChooseRefiner = Runnable[Any, str] | Callable[[Mapping[str, Any]], Any]

__all__ = ["Refiners", "as_refiner"]


class Refiners(DualRunnable["Mapping[str, Any]", str]):
    """Refiners by name. Run on the state, it returns the name of the one that is to write.

    Args:
        writers: By name, in order, what writes revisions.
        choose: A Runnable or callable that takes the state and returns a name. Default: the first whose name is that of
            a critic who did not accept the draft at hand, else the first of all.
        keep: Which draft is at hand.
        critics: Names of all critics of the graph, where they are known: a refiner that no critic could choose is
            refused.

    Raises:
        ValueError: There is no refiner, a name is no text, or a refiner could never be chosen. At build.
        TypeError: `choose` can't be called, or a refiner chooses for itself. At build.
    """

    def __init__(
        self,
        writers: Mapping[str, Writer],
        choose: ChooseRefiner | None = None,
        *,
        keep: Keep = "best",
        critics: Collection[str] | None = None,
    ) -> None:
        self.name = "choose_refiner"
        self.writers = dict(writers)
        self._choose = choose
        self._keep: Keep = keep
        if not self.writers:
            raise ValueError("refine= is an empty mapping: give a refiner, or several by their names")
        for name, writer in self.writers.items():
            if not isinstance(name, str) or not name.strip():
                raise ValueError(f"the names of refiners are texts, not {name!r}")
            if isinstance(writer, AdaptiveWriter):
                raise TypeError(f"refine[{name!r}] is an AdaptiveWriter, which chooses for itself: give it as refine=")
        if choose is not None and not isinstance(choose, Runnable) and not callable(choose):
            raise TypeError(f"choose_refiner is a callable over the state that returns a name, not {choose!r}")
        never = [name for name in [*self.writers][1:] if critics is not None and name not in critics]
        if choose is None and never:
            raise ValueError(
                f"refine= has a refiner {never[0]!r} that nothing would choose: choose_refiner= takes the state and "
                f"returns a name; without it a refiner has the name of a critic, and these are {sorted(critics or [])}"
            )

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, str]:  # noqa: A002
        choose = self._choose
        if choose is None:
            return self._by_critic(input["events"])
        if isinstance(choose, Runnable):
            name = yield Do(choose.invoke, choose.ainvoke, (input, config))
        else:
            name = yield calling(choose, input)
        if not isinstance(name, str) or name not in self.writers:
            raise ValueError(f"choose_refiner returned {name!r}; the refiners are {', '.join(map(repr, self.writers))}")
        return name

    def _by_critic(self, events: list[Event]) -> str:
        attempt = attempt_at_hand(events, self._keep)
        objecting = [one for one in attempt.critiques if one.get("accepted") is not True] if attempt else []
        named = {name for one in objecting for name in (one.get("critic"), one["by"])}
        return next((name for name in self.writers if name in named), next(iter(self.writers)))


def as_refiner(
    given: Writer | Prompts | Mapping[str, Writer | Prompts],
    choose: ChooseRefiner | None,
    asked: Callable[[Prompts, str], Writer],
    *,
    keep: Keep,
    memory: Memory,
    critics: Collection[str] | None,
) -> Writer:
    """Return the writer of revisions: from a writer or a prompt, or from several by their names.

    Args:
        given: As `refine=` of `build_refine_graph`.
        choose: Chooses among several.
        asked: Makes a writer of a prompt and the name that errors have for it.
        keep: Which draft is revised.
        memory: What is shown of earlier ones.
        critics: As of `Refiners`.

    Raises:
        ValueError: As of `Refiners`, or `choose` stands beside a single one. At build.
        TypeError: As of `Refiners`, or one can't be called. At build.
    """

    def writer(one: Any, what: str) -> Writer:
        return asked(one, what) if is_prompt(one) else as_writer(one, keep=keep, memory=memory)

    if isinstance(given, Mapping):
        writers = {name: writer(one, f"refine_prompt of {name!r}") for name, one in given.items()}
        return Refiners(writers, choose, keep=keep, critics=critics)
    if choose is not None:
        raise ValueError("choose_refiner= chooses among several: give refine= as a mapping from names to refiners")
    return writer(given, "refine_prompt")
