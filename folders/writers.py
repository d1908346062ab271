"""Who works in a folder: a chat model, an agent with tools, or a program such as a coding agent. Internal."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.messages.ai import add_usage

from ..nodes.writing.prompts import attempt_at_hand, standing
from ..nodes.writing.replies import read_text
from ..state.dual import Do, DualCallable, calling
from ..state.summary import attempts
from .boxed import Box, words_of
from .drafts import draft_text, read_draft
from .edits import FORMAT, apply_edits
from .trees import FolderError, Trees, is_secret, matches, shortened, shown, unlock

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.runnables import Runnable

    from ..nodes.writing.prompts import Keep

__all__ = ["AgentInFolder", "CommandWriter", "FolderWriter", "ModelWriter", "Worker", "stored"]

STATE_OF_AGENTS: tuple[str, ...] = ("~/.claude", "~/.claude.json", "~/.codex", "~/.aider", "~/.cache")
"""Where coding agents keep their sessions."""

Worker = Callable[[str, Path], Any]
"""`(instruction, folder)`: works in the folder, a private copy. What it returns is read as its notes (a list of texts)
or its usage (an `AIMessage`), or is of no account."""


class FolderWriter(DualCallable[[Mapping[str, Any]], AIMessage]):
    """The writer of drafts and of revisions: it lets a worker into a copy of the best tree, and stores what came out.

    Args:
        worker: Works there.
        trees: Where trees are kept.
        protect: Patterns of files that are to stay as they are.
        keep: Which draft is revised.
    """

    def __init__(self, worker: Worker, trees: Trees, *, protect: Sequence[str] = (), keep: Keep = "best") -> None:
        self.worker, self.trees, self.protect, self.keep = worker, trees, tuple(protect), keep

    def logic(self, state: Mapping[str, Any], /) -> Generator[Do, Any, AIMessage]:
        """Return the draft: its tree, and what changed since the user's folder was read.

        Files that were tried before are no progress: then it is let into the user's files once more, and told what
        failed in them, since what it sees of its own work is what it repeats.
        """
        base = state["base_tree"]
        task = state["task"] + standing(state["events"])
        tried = {read_draft(one.text).tree for one in attempts(state["events"])}
        ways = [(base, state.get("found", ""))]
        if (attempt := attempt_at_hand(state["events"], self.keep)) is not None:
            ways.insert(0, (read_draft(attempt.text).tree, attempt.feedback))
        notes: list[str] = []
        made, used, model = base, None, ""
        for tree, feedback in ways:
            with self.trees.copy(tree) as folder:
                result = yield calling(self.worker, instruction_for(task, feedback, self.protect), folder)
                unlock(folder)
                try:
                    made, told = yield calling(stored, self.trees, folder, tree, base, self.protect)
                except FolderError as error:  # more than a tree may hold
                    made, told = tree, [f"nothing of it was kept: {error}"]
            notes = [note for note in result if isinstance(note, str)] if isinstance(result, list) else []
            notes += told
            if isinstance(result, AIMessage):
                used = add_usage(used, result.usage_metadata)
                model = str(result.response_metadata.get("model_name") or "")
            if made not in tried:
                break
        reply: dict[str, Any] = {"usage_metadata": used, "response_metadata": {"model_name": model}}
        return AIMessage(draft_text(self.trees, base, made, notes), **reply)


def stored(trees: Trees, folder: Path, tree: str, base: str, protect: Sequence[str]) -> tuple[str, list[str]]:
    """Return the tree of a folder that somebody worked in, and what they are to know; protected files are put back.

    Args:
        trees: Where it is kept.
        folder: Is written where a protected file differs.
        tree: What it was before.
        base: What has the protected files as they are to be.
        protect: Their patterns.
    """
    snapshot = trees.snapshot(folder, base=tree)
    notes = [f"{path} is named like a secret, and was left out" for path in snapshot.left_out if is_secret(path)]
    if put_back := trees.put_back(snapshot.tree, base, protect, folder):
        notes.append(f"protected files were put back as they were: {', '.join(map(shown, put_back))}")
        snapshot = trees.snapshot(folder, base=base)
    return snapshot.tree, notes


def instruction_for(task: str, feedback: str, protect: Sequence[str]) -> str:
    """Return what a worker is told: the task, what failed, and what is to stay."""
    parts = [task]
    if feedback:
        parts.append(f"This fails now:\n\n{feedback}")
    if protect:
        parts.append(f"Do not change these files: {', '.join(protect)}.")
    return "\n\n".join(parts)


@dataclass(frozen=True)
class ModelWriter(DualCallable[[str, Path], list[str]]):
    """A chat model that is shown the files that matter, and answers with files or search-and-replace blocks.

    Args:
        model: Is asked once a round.
        files: Patterns of the files to show. Default: those that the task or a failure names, then the others, while
            they fit.
        protect: Patterns of files that it may not change; it is shown them.
        context: Characters of files to show.
    """

    model: BaseChatModel
    files: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    context: int = 24_000

    def logic(self, instruction: str, folder: Path, /) -> Generator[Do, Any, list[str]]:
        """Ask for edits, make them, and return what could not be done."""
        shown = self._shown(instruction, folder)
        fixed = {path for path in shown if matches(path, self.protect)}
        listed = "\n\n".join(
            f"FILE: {path}{' (not to be changed)' if path in fixed else ''}\n```\n{text.rstrip()}\n```"
            for path, text in shown.items()
        )
        prompt = f"{instruction}\n\nThe files:\n\n{listed or '(none yet)'}\n\n{FORMAT}"
        reply = yield Do(self.model.invoke, self.model.ainvoke, ([HumanMessage(prompt)],))
        return apply_edits(read_text(reply), folder, shown.keys() - fixed, self.protect)

    def _shown(self, instruction: str, folder: Path) -> dict[str, str]:
        texts = dict(sorted(_texts(folder)))
        if self.files:
            texts = {path: text for path, text in texts.items() if matches(path, self.files)}
        named = [path for path in texts if path in instruction or path.rpartition("/")[2] in instruction]
        shown: dict[str, str] = {}
        room = self.context
        for path in [*named, *sorted(texts.keys() - {*named}, key=lambda path: len(texts[path]))]:
            if len(texts[path]) <= room:
                shown[path] = texts[path]
                room -= len(texts[path])
        return dict(sorted(shown.items()))


def _texts(folder: Path) -> list[tuple[str, str]]:
    """Return the text files of a copy, whose secrets were left out when the user's folder was read."""
    found = []
    for place in folder.rglob("*"):
        name = place.relative_to(folder).as_posix()
        if name.isprintable() and place.is_file() and not place.is_symlink() and place.stat().st_size <= 1 << 20:
            try:
                found.append((name, place.read_text(encoding="utf-8")))
            except UnicodeDecodeError:
                continue
    return found


@dataclass(frozen=True)
class AgentInFolder(DualCallable[[str, Path], Any]):
    """An agent with file tools on the copy.

    Args:
        make: `(folder) -> agent`, a Runnable that takes `messages`; of deepagents, say, with
            `backend=FilesystemBackend(root_dir=folder, virtual_mode=True)`.
    """

    make: Callable[[Path], Runnable[Any, Any]]

    def logic(self, instruction: str, folder: Path, /) -> Generator[Do, Any, Any]:
        """Let it work; its calls are counted as they come."""
        agent = self.make(folder)
        yield Do(agent.invoke, agent.ainvoke, ({"messages": [HumanMessage(instruction)]},))
        return None


@dataclass(frozen=True)
class CommandWriter:
    """A program that works in the copy, a coding agent say.

    It has the network and sees the user's home, and writes the copy alone, and what `box` says.

    Args:
        command: Its words, with `{prompt}` where the instruction belongs: `"claude -p {prompt} --output-format json"`.
            Without it the instruction is the last word.
        box: How it is kept in the copy.
    """

    command: str
    box: Box = field(default_factory=lambda: Box(network=True, timeout_s=1800, writable=STATE_OF_AGENTS))

    def __post_init__(self) -> None:
        program = words_of(self.command, "")[0]
        if "/" not in program and shutil.which(program) is None:
            raise ValueError(f"there is no program {program!r}, which was to work in the folder")

    def __call__(self, instruction: str, folder: Path) -> Any:
        """Run it; what it prints as JSON of its tokens is counted, and an error is a note."""
        command = self.command if "{prompt}" in self.command else f"{self.command} {{prompt}}"
        done = self.box.run(words_of(command, instruction), folder)
        if done.code or done.ended:
            why = done.ended or f"it ended with {done.code}"
            return [f"`{self.command}`: {why}: {shortened(done.output.strip(), 500)}"]
        return _told(done.output)


def _told(output: str) -> Any:
    """Return the usage in the last line of JSON that a coding agent printed, as a message; else nothing."""
    for line in reversed(output.strip().splitlines()):
        try:
            said = json.loads(line)
        except ValueError:
            continue
        usage = said.get("usage") if isinstance(said, dict) else None
        if not isinstance(usage, dict):
            continue
        sent = sum(int(usage.get(key) or 0) for key in SENT)
        written = int(usage.get("output_tokens") or usage.get("completion_tokens") or 0)
        counts = {"input_tokens": sent, "output_tokens": written, "total_tokens": sent + written}
        return AIMessage("", usage_metadata=counts, response_metadata={"model_name": str(said.get("model") or "")})
    return None


SENT = ("input_tokens", "prompt_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
