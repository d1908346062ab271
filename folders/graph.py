"""The loop over folders: a draft is a tree of files, judged by commands. Internal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from langchain_core.language_models import BaseChatModel

from ..graphs.loop import TASK_ONLY, RefineGraph, build_refine_graph
from ..nodes.critics.critics import verifier_critic
from ..nodes.human import HumanCritic
from ..state.summary import attempts
from .boxed import Box
from .checks import EDITED, Check, TreeVerifier, command
from .drafts import draft_text
from .trees import Trees
from .writers import CommandWriter, FolderWriter, ModelWriter, Worker

if TYPE_CHECKING:
    from ..state.critique import Critique
    from ..state.events import Event

__all__ = ["build_folder_graph", "build_watch_graph", "judges_of"]


class FolderState(TypedDict, total=False):
    """What a thread about a folder keeps beside the loop's own state."""

    base_tree: str
    """The user's folder, as it was read when the task began."""
    left_out: list[str]
    """What of it is in no tree."""
    found: str
    """What failed in it: the first draft is told."""
    hidden: list[dict[str, Any]]
    """What the hidden checks said of the answer, once the run had ended."""


HOW_TO_EDIT = f"{EDITED.capitalize()} Write it out, change the files there, and give the draft as `folder PATH`."


@dataclass(frozen=True)
class EditedFolder:
    """The type of a draft that a person writes: it names a folder, in which the files are as they are to be."""

    trees: Trees
    base: str

    def text(self, edited: Any) -> str:
        """Return the draft of the folder that an edit names."""
        word, _, place = str(edited).strip().partition(" ")
        if word != "folder" or not place or "\n" in place:
            raise ValueError(HOW_TO_EDIT)
        folder = Path(place.strip()).expanduser()
        if not folder.is_absolute():
            raise ValueError(f"name the folder from the root on, not {place.strip()!r}. {HOW_TO_EDIT}")
        return draft_text(self.trees, self.base, self.trees.snapshot(folder, base=self.base).tree)


@dataclass(frozen=True)
class FolderPerson(HumanCritic):
    """A person who is asked about a folder, and edits files, not the text that shows them."""

    trees: Trees = field(kw_only=True)

    def __call__(  # type: ignore[override]  # it is given the state too
        self, task: str, draft: str, history: Sequence[Event], /, *, state: Mapping[str, Any]
    ) -> Critique:
        edits: Any = EditedFolder(self.trees, state["base_tree"])
        return HumanCritic(self.name, edits)(task, draft, history)


def build_folder_graph(
    writer: BaseChatModel | Worker | str,
    *,
    root: str | Path,
    trees: str | Path,
    checks: Sequence[Check | str],
    protect: Sequence[str] = (),
    critics: Sequence[Any] = (),
    files: Sequence[str] = (),
    hidden: Sequence[Check | str] = (),
    plain: bool = False,
    **options: Any,
) -> RefineGraph:
    """Return the loop over a folder: a writer works in private copies of it, and commands judge what came out.

    The folder is read when a task begins, and never written: `apply` does that, when the run has ended. A draft's text
    names its tree, and shows what changed; the files are in `trees`.

    Args:
        writer: A chat model; `(instruction, folder)`, which works in the folder it is given, async or not; or a command
            with `{prompt}` in it. `AgentInFolder` makes one of an agent.
        root: The folder.
        trees: Where trees are kept: a folder that is made, beside the database say.
        checks: Commands that all must pass, cheapest first; a text is `command(text)`. They run in a sandbox without a
            network, where only the copy is writable.
        protect: Patterns of files that are put back as they were after each round: `tests/**`.
        critics: Who else judges a draft: a person, or a model that reads the diff. A person who edits a draft replies
            with `folder PATH`, the whole path of a folder with the files as they are to be.
        files: Patterns of the files that a chat model is shown; default: those that a failure names, and what fits.
        hidden: Commands that are run when a run ends, on its answer alone. They decide nothing, no writer is told of
            them, and what they say is in the state's `hidden`: `[{"check", "accepted", "score", "text"}]`. A run that
            ended as `failed` is not put to them.
        plain: Run commands without a sandbox.
        options: Everything else that `build_refine_graph` takes: `limits`, `checkpointer`, `keep`.

    Raises:
        ImportError: At run: the extra `folders` is not installed.
        FolderError: At run: the folder can't be read, or is too large.
        UnboxedError: At run: there is no sandbox here, and `plain` was not asked for.
        ValueError: Nothing judges, or as in `build_refine_graph`.

    Example:
        >>> from redraft.folders import build_folder_graph
        >>> from redraft.models import ScriptedModel
        >>> graph = build_folder_graph(ScriptedModel(["…"]), root=".", trees="trees", checks=["pytest -q"])
        >>> graph.get_name()
        'folder'
    """
    store, place = Trees(trees), Path(root).expanduser().resolve()
    if not checks and not critics:
        raise ValueError('nothing judges the folder: give checks=["pytest -q"], or critics')
    keep = options.get("keep", "best")
    inside = FolderWriter(_worker(writer, files, protect, plain=plain), store, protect=protect, keep=keep)
    judges = judges_of(checks, critics, store, place, plain=plain)
    oracles = [_critic(one, store, place, plain=plain, oracle=True) for one in hidden]

    def read(state: Mapping[str, Any]) -> dict[str, Any]:
        """Read the user's folder, and run the checks on it, once a task."""
        made = store.snapshot(place)
        failures = [judge.verifier.found(made.tree) for judge in judges[: len(checks)]]
        return {
            "base_tree": made.tree,
            "left_out": list(made.left_out),
            "found": "\n\n".join(text for text in failures if text),
        }

    def ended(state: Mapping[str, Any]) -> dict[str, Any]:
        """Run the hidden checks on the answer."""
        said = [(one.name, one.verifier(state["task"], state["answer"], state)) for one in oracles]
        return {
            "hidden": [
                {"check": name, "accepted": made.accepted, "score": made.score, "text": made.text}
                for name, made in said
            ]
        }

    wiring = {**TASK_ONLY, "generate": inside, "refine": inside, "critics": judges, "prepare": read}
    if oracles:
        wiring["finish"] = ended
    return build_refine_graph(**{"name": "folder", "state_schema": FolderState, **wiring, **options})


def build_watch_graph(
    root: str | Path, *, trees: str | Path, checks: Sequence[Check | str], plain: bool = False, **options: Any
) -> RefineGraph:
    """Return a loop over a folder that somebody else works in: a draft is the folder as it is, judged once a run.

    Args:
        root: The folder.
        trees: Where trees are kept.
        checks: Commands that must pass, on a copy.
        plain: Run commands without a sandbox.
        options: As of `build_refine_graph`.
    """
    store, place = Trees(trees), Path(root).expanduser().resolve()

    def read(state: Mapping[str, Any]) -> dict[str, Any]:
        return {"base_tree": store.snapshot(place).tree}

    def session(state: Mapping[str, Any]) -> str:
        base = state["base_tree"]
        # Numbered, so that a folder in which nothing was done since is judged once more.
        number = 1 + len(attempts(state["events"]))
        return f"{draft_text(store, base, store.snapshot(place, base=base).tree)}\n(stop {number})"

    once = [command(one, confirm=1) if isinstance(one, str) else one for one in checks]
    looking = {"generate": session, "refine": session, "prepare": read, "keep": "last"}
    worker: Any = session  # not asked: what is there is the draft
    return build_folder_graph(worker, root=place, trees=trees, checks=once, plain=plain, **{**looking, **options})


def judges_of(
    checks: Sequence[Check | str], critics: Sequence[Any], trees: Trees, root: Path, *, plain: bool
) -> list[Any]:
    """Return who judges a folder: its checks, then the other critics, of whom people edit files."""
    others = [
        FolderPerson(one.name, ask=one.ask, trees=trees) if isinstance(one, HumanCritic) else one for one in critics
    ]
    return [*(_critic(one, trees, root, plain=plain) for one in checks), *others]


def _critic(check: Check | str, trees: Trees, root: Path, *, plain: bool, oracle: bool = False) -> Any:
    made = command(check) if isinstance(check, str) else check
    judge = TreeVerifier(made, trees, Box(plain, hidden=(str(root),)), oracle)
    return verifier_critic(judge, name=judge.name, wants=f"`{made.command}` passes.")


def _worker(writer: Any, files: Sequence[str], protect: Sequence[str], *, plain: bool) -> Worker:
    if isinstance(writer, BaseChatModel):
        return ModelWriter(writer, tuple(files), tuple(protect))
    if isinstance(writer, str):
        made = CommandWriter(writer)
        return CommandWriter(writer, Box(True, timeout_s=made.box.timeout_s)) if plain else made
    if not callable(writer):
        raise TypeError(f"a writer is a chat model, (instruction, folder), or a command, not {writer!r:.200}")
    return cast("Worker", writer)
