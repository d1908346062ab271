"""Housekeeping of a saver: threads copied, pruned, and taken from one database to another in a file. Internal."""

from __future__ import annotations

import base64
import json
import math
import reprlib
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from itertools import chain
from typing import TYPE_CHECKING, Any

from langgraph.checkpoint.base import CheckpointTuple

from ..checked_values import bare, naming
from ..dual import in_db_executor
from ..events import broken_links
from ..langgraph_internals import DeltaSnapshot
from .journal import KeptReply
from .seal import Seal, record_in
from .trust import LARGEST_VALUE, OWN_ANCESTOR, PlainSerializer, checked, own_ancestor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from langchain_core.runnables import RunnableConfig


__all__ = [
    "FORMAT",
    "Housekeeping",
    "StoredThread",
    "StoredWrite",
    "held_versions",
    "own_snapshots",
    "place_of",
    "read_thread_file",
    "thread_lines",
]

FORMAT = 1
"""Of a thread's file. Readers refuse a later one."""

LONGEST_LINE = 4 * LARGEST_VALUE
"""Characters of one line of it: a checkpoint, and what a step wrote there."""
LAST_INDEX = 2**31 - 1
"""Of what a task wrote; PostgreSQL counts so far."""

Place = tuple[str, str]
"""Namespace and id of a checkpoint."""


@dataclass(frozen=True)
class StoredWrite:
    """One value that a task wrote."""

    task_id: str
    task_path: str
    index: int
    channel: str
    value: Any


@dataclass(frozen=True)
class StoredThread:
    """All that is kept of a thread, the oldest checkpoint first."""

    thread_id: str
    checkpoints: Sequence[CheckpointTuple]
    writes: Mapping[Place, Sequence[StoredWrite]]
    replies: Mapping[str, KeptReply] = field(default_factory=dict)


class Housekeeping(ABC):
    """Operations on whole threads that every saver of `open_checkpointer` has: LangGraph's contract, and files."""

    if TYPE_CHECKING:  # of the saver that this is mixed into
        runs: Any
        journal: Any
        db_executor: Any
        list: Any
        delete_thread: Any

    seal: Seal | None = None
    """Seals checkpoints; `None` where none is sealed."""
    data_error: type[Exception]
    """Raised by the database for a value that it can't hold."""

    @abstractmethod
    def _stored(self, thread_id: str) -> StoredThread:
        """Return the checkpoints and writes of a thread; none where there is no such thread."""

    @abstractmethod
    def _keep(self, thread: StoredThread) -> None:
        """Write the checkpoints, writes and replies of a thread, and its row, in one transaction.

        Raises:
            BusyThreadError: Somebody runs the thread right now.
        """

    @abstractmethod
    def _drop(self, thread_id: str, places: Sequence[Place]) -> None:
        """Delete checkpoints and their writes, and bring the thread's row up to date."""

    @abstractmethod
    def sizes(self, thread_ids: Sequence[str]) -> dict[str, int]:
        """Return the bytes that are kept of each of these threads, its journal with them and without indexes."""

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, with its checkpoints, its record and its journal. One that is not there gives none.

        Raises:
            ValueError: There is a thread of the new name already; or checkpoints are sealed, and its record is not
                whole.
        """
        thread = self._whole(source_thread_id)
        if thread.checkpoints:
            self._keep_new(thread, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete threads (`"delete"`), or all but the newest checkpoint of each namespace (`"keep_latest"`).

        Raises:
            TypeError: `thread_ids` is a text.
            ValueError: The strategy is unknown.
            NotImplementedError: `"keep_latest"`, and a thread is kept as differences from one checkpoint to the next,
                as all runs of redraft are. Nothing was pruned.
        """
        if isinstance(thread_ids, str):
            raise TypeError("thread_ids is a list of thread ids, not a text")
        if strategy == "delete":
            for thread_id in thread_ids:
                self.delete_thread(str(thread_id))
            return
        if strategy != "keep_latest":
            raise ValueError(f"strategy must be 'keep_latest' or 'delete', not {strategy!r}")
        threads = [self._stored(str(thread_id)) for thread_id in thread_ids]
        for thread in threads:
            if any(map(_is_difference, thread.checkpoints)):
                raise NotImplementedError(
                    f"thread {thread.thread_id!r} is kept as differences from one checkpoint to the next, so none can "
                    "be left out; 'delete' deletes it"
                )
        for thread in threads:
            newest = {_place(one)[0]: _place(one)[1] for one in thread.checkpoints}
            self._drop(thread.thread_id, [at for at in map(_place, thread.checkpoints) if newest[at[0]] != at[1]])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made, and threads of which then none are left.

        Args:
            run_ids: Values of `run_id` in the metadata that runs were made with.

        Raises:
            NotImplementedError: Later checkpoints of such a thread build on them. Nothing was deleted.
        """
        places_of: dict[str, set[Place]] = {}
        for run_id in run_ids:
            for one in self.list(None, filter={"run_id": str(run_id)}):
                places_of.setdefault(one.config["configurable"]["thread_id"], set()).add(_place(one))
        whole: dict[str, list[Place]] = {}
        partly: dict[str, list[Place]] = {}
        for thread_id, places in places_of.items():
            thread = self._stored(thread_id)
            left = [one for one in thread.checkpoints if _place(one) not in places]
            if left and any(map(_is_difference, thread.checkpoints)):
                raise NotImplementedError(
                    f"other runs of thread {thread_id!r} build on what these made; delete_thread deletes it as a whole"
                )
            (partly if left else whole)[thread_id] = sorted(places)
        for thread_id, some in partly.items():
            self._drop(thread_id, some)
        for thread_id in whole:
            self.delete_thread(thread_id)

    def export_thread(self, thread_id: str) -> list[str]:
        """Return a thread as the lines of a JSON Lines file that `import_thread` of any database takes.

        They are not encrypted, whatever the database is. Paths of a search are threads of their own.

        Raises:
            LookupError: There is no such thread.
            ValueError: Checkpoints are sealed, and its record is not whole.
        """
        thread = self._whole(thread_id)
        if not thread.checkpoints:
            raise LookupError(f"there is no thread {thread_id!r} here")
        return list(thread_lines(thread))

    def import_thread(self, lines: Iterable[str], thread_id: str | None = None) -> str:
        """Write a thread that `export_thread` returned, and return its id.

        Args:
            lines: The lines of the file.
            thread_id: Another id for it.

        Raises:
            ValueError: A line can't be read, the record was changed since it was made, or there is a thread of that id.
                Nothing of the file is kept.
        """
        thread = read_thread_file(lines, getattr(self, "serde", None))
        _check_record(thread)
        try:
            return self._keep_new(thread, thread_id or thread.thread_id)
        except self.data_error as error:
            raise ValueError(f"the database can't hold a value of it: {error}") from None

    def seal_thread(self, thread_id: str) -> None:
        """Seal a thread of before there was a key, or one that somebody went on with who has none, as it stands.

        Raises:
            LookupError: There is no such thread.
            ValueError: There is no key, the record was changed since it was made, or what is sealed of it was.
        """
        if self.seal is None:
            raise ValueError("there is no key to seal with: open_checkpointer(…, seal_key=…)")
        with self.seal.unsealed_taken():
            thread = self._stored(thread_id)
        if not thread.checkpoints:
            raise LookupError(f"there is no thread {thread_id!r} here")
        _check_record(thread)
        self._keep(thread)

    def _sealed(self, config: Any, checkpoint: Any, metadata: Any) -> Any:
        """Return the metadata that a checkpoint is stored with."""
        return metadata if self.seal is None else self.seal.sealed(config["configurable"], checkpoint, metadata)

    acopy_thread = in_db_executor(copy_thread)
    aprune = in_db_executor(prune)
    adelete_for_runs = in_db_executor(delete_for_runs)
    asizes = in_db_executor(sizes)
    aexport_thread = in_db_executor(export_thread)
    aimport_thread = in_db_executor(import_thread)
    aseal_thread = in_db_executor(seal_thread)

    def _whole(self, thread_id: str) -> StoredThread:
        """Return a thread with its journal."""
        thread = self._stored(thread_id)
        if self.seal is not None:  # each checkpoint by itself is as it was sealed
            _check_record(thread)
        return replace(thread, replies=self.journal.every(thread_id))

    def _keep_new(self, thread: StoredThread, thread_id: str) -> str:
        if next(iter(self.list({"configurable": {"thread_id": thread_id}}, limit=1)), None) is not None:
            raise ValueError(f"there is a thread {thread_id!r} already; give another id")
        self._keep(replace(thread, thread_id=thread_id))
        return thread_id


def thread_lines(thread: StoredThread) -> Iterator[str]:
    """Yield the lines of a thread's file: a head, each checkpoint with what was written under it, the replies."""
    newest = next((one for one in reversed(thread.checkpoints) if not _place(one)[0]), thread.checkpoints[-1])
    values = newest.checkpoint["channel_values"]
    # In the checkpoint that it was written at.
    own_values = [one.checkpoint["channel_values"] for one in thread.checkpoints if not _place(one)[0]]
    task = next((bare(one["task"]) for one in reversed(own_values) if "task" in one), None)
    yield _json(
        {
            "redraft_thread": FORMAT,
            "version": version("redraft"),
            "thread_id": thread.thread_id,
            "task": task if isinstance(task, str) else None,
            "head": values.get("head") if isinstance(values.get("head"), str) else None,
            "checkpoints": len(thread.checkpoints),
        }
    )
    serde = PlainSerializer(None)
    for one in thread.checkpoints:
        place = _place(one)
        yield _json(
            {
                "checkpoint_ns": place[0],
                "checkpoint_id": place[1],
                "parent_id": one.parent_config["configurable"]["checkpoint_id"] if one.parent_config else None,
                "checkpoint": _packed(serde, one.checkpoint),
                "metadata": one.metadata,
                "writes": [
                    [write.task_id, write.task_path, write.index, write.channel, *_packed(serde, write.value)]
                    for write in thread.writes.get(place, ())
                ],
            }
        )
    for call, row in thread.replies.items():
        yield _json({"call": call, "reply": row.reply, "seconds": row.seconds})


def read_thread_file(lines: Iterable[str], serde: Any = None) -> StoredThread:
    """Return the thread that a file holds.

    Args:
        lines: Its lines; an open file is read no further than to the end of a line that is too long.
        serde: Says which types may be built; default: plain data, LangChain's messages and LangGraph's own.

    Raises:
        ValueError: A line can't be read, or some are missing; or it holds replies of a thread that it does not hold.
    """
    plain = PlainSerializer(None, allow=getattr(serde, "own_types", ()))
    head: dict[str, Any] | None = None
    checkpoints: list[CheckpointTuple] = []
    writes: dict[Place, list[StoredWrite]] = {}
    replies: dict[str, KeptReply] = {}
    for number, text in _numbered(lines):
        try:
            line = json.loads(text)
            if head is None:
                head = _head(line)
            elif "call" in line:
                replies[_text(line["call"])] = KeptReply(_text(line["reply"]), _seconds(line["seconds"]))
            else:
                checkpoint = _checkpoint(line, head["thread_id"], plain)
                if _place(checkpoint) in writes:
                    raise ValueError("its checkpoint was there before")  # noqa: TRY301
                checkpoints.append(checkpoint)
                writes[_place(checkpoint)] = [
                    StoredWrite(_text(task), _text(path), _index(at), _text(channel), _unpacked(plain, [kind, data]))
                    for task, path, at, channel, kind, data in line["writes"]
                ]
        except (KeyError, TypeError, RecursionError, ValueError, OverflowError) as error:
            raise ValueError(f"line {number} can't be read: {error}") from None
    if head is None:
        raise ValueError("the file is empty")
    if head["checkpoints"] != len(checkpoints):
        raise ValueError(
            f"it should hold {head['checkpoints']} checkpoints, and holds {len(checkpoints)}: was it cut off?"
        )
    if not any(namespace == "" for namespace, _ in writes):
        # Nobody could list, show or delete them, and the next run of that id would take them for its own.
        raise ValueError("it holds no checkpoint of the thread itself, and replies alone are no thread")
    if own_ancestor({_place(one): _parent(one) for one in checkpoints}) is not None:
        raise ValueError(OWN_ANCESTOR)
    return StoredThread(head["thread_id"], checkpoints, writes, replies)


def _numbered(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers; raises ValueError for one that is too long."""
    if readline := getattr(lines, "readline", None):
        lines = iter(partial(readline, LONGEST_LINE + 1), "")
    for number, text in enumerate(lines, 1):
        if len(text) > LONGEST_LINE:
            raise ValueError(f"line {number} can't be read: it has more than {LONGEST_LINE >> 20} Mi characters")
        if text.strip():
            yield number, text


def _check_record(thread: StoredThread) -> None:
    """Raise an error unless the record of a thread is as it was written, or it has none.

    Raises:
        ValueError: It is not.
    """
    at = {_place(one): one for one in thread.checkpoints}
    newest = next((one for one in reversed(thread.checkpoints) if not _place(one)[0]), None)
    values = newest.checkpoint["channel_values"] if newest else {}
    record, head = record_in(values)
    if newest is None or not isinstance(head, str):
        return
    # From the newest back to where the record stands as a whole, which is nowhere for most runs.
    parts: list[Any] = []
    one = newest
    while (held := one.checkpoint["channel_values"].get(record)) is None:
        parent = one.parent_config and at.get(("", one.parent_config["configurable"]["checkpoint_id"]))
        if not parent:
            break
        one = parent
        parts += [write.value for write in thread.writes.get(_place(one), ()) if write.channel == record][::-1]
    try:
        events = list(chain.from_iterable([bare(held or []), *reversed(parts)]))
        broken = broken_links(events, head)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"its record can't be read: {reprlib.repr(str(error))}") from None
    if broken or bool(events) != bool(head):
        where = f"event {broken[0]} of {len(events)}" if broken else "its events are gone"
        raise ValueError(f"its record was changed since it was made: {where}")


def _head(line: Any) -> dict[str, Any]:
    if not isinstance(line, dict) or "redraft_thread" not in line:
        raise ValueError("it is no thread's file, as `redraft export` writes it")
    if line["redraft_thread"] != FORMAT:
        raise ValueError(f"it has format {line['redraft_thread']!r}, and this version reads {FORMAT}; update redraft")
    if not _text(line.get("thread_id")) or not isinstance(line.get("checkpoints"), int):
        raise ValueError("it names no thread, or not how many checkpoints there are")
    return line


def _checkpoint(line: dict[str, Any], thread_id: str, plain: PlainSerializer) -> CheckpointTuple:
    namespace, checkpoint_id, parent = _text(line["checkpoint_ns"]), _text(line["checkpoint_id"]), line["parent_id"]
    place = {"thread_id": thread_id, "checkpoint_ns": namespace}
    checkpoint = CheckpointTuple(
        {"configurable": {**place, "checkpoint_id": checkpoint_id}},
        _unpacked(plain, line["checkpoint"]),
        dict(line["metadata"]),  # type: ignore[arg-type]  # `checked` looks at it
        None if parent is None else {"configurable": {**place, "checkpoint_id": _text(parent)}},
    )
    with naming(lambda: checkpoint.config["configurable"]):
        return checked(checkpoint, None)


def _text(value: Any) -> str:
    """Return a text that every database can hold, in rows that are read back."""
    if not isinstance(value, str) or "\0" in value or len(value.encode()) > LARGEST_VALUE:
        raise ValueError(f"{reprlib.repr(value)} is no text of at most {LARGEST_VALUE >> 20} MiB without NUL")
    return value


def _seconds(value: Any) -> float:
    seconds = float(value)
    if not 0 <= seconds < math.inf:
        raise ValueError(f"its seconds are {seconds}")
    return seconds


def _index(value: Any) -> int:
    """Return the place of a value among those that a task wrote; LangGraph's own, such as errors, are below 0."""
    if type(value) is not int or not -LAST_INDEX <= value <= LAST_INDEX:
        raise ValueError(f"{reprlib.repr(value)} is no index of what a task wrote")
    return value


def _place(one: CheckpointTuple) -> Place:
    where = one.config["configurable"]
    return str(where.get("checkpoint_ns", "")), str(where["checkpoint_id"])


def _parent(one: CheckpointTuple) -> Place | None:
    parent = one.parent_config
    return (_place(one)[0], str(parent["configurable"]["checkpoint_id"])) if parent else None


def own_snapshots(checkpoints: Sequence[CheckpointTuple]) -> list[CheckpointTuple]:
    """Return checkpoints without the snapshots that some savers repeat in each until there is another."""
    versions = {_place(one): one.checkpoint["channel_versions"] for one in checkpoints}
    trimmed = []
    for one in checkpoints:
        parent = _parent(one)
        same = (versions.get(parent, {}) if parent else {}).items() & one.checkpoint["channel_versions"].items()
        repeated = {name for name, _ in same}
        values = {
            name: value
            for name, value in one.checkpoint["channel_values"].items()
            if not (isinstance(value, DeltaSnapshot) and name in repeated)
        }
        trimmed.append(one._replace(checkpoint={**one.checkpoint, "channel_values": values}))
    return trimmed


def held_versions(one: CheckpointTuple) -> dict[str, Any]:
    """Return the versions of the channels whose values a checkpoint holds: an absent value overwrites none."""
    values = one.checkpoint["channel_values"]
    return {channel: version for channel, version in one.checkpoint["channel_versions"].items() if channel in values}


def place_of(one: CheckpointTuple, thread_id: str) -> RunnableConfig:
    """Return the config that a checkpoint is put with: its parent stands where its own id comes."""
    parent = one.parent_config["configurable"]["checkpoint_id"] if one.parent_config else None
    place = {"thread_id": thread_id, "checkpoint_ns": one.config["configurable"].get("checkpoint_ns", "")}
    return {"configurable": place if parent is None else {**place, "checkpoint_id": parent}}


def _is_difference(one: CheckpointTuple) -> bool:
    """Return True if the checkpoint holds some channels as what was added since an earlier one."""
    return "counters_since_delta_snapshot" in one.metadata


def _packed(serde: PlainSerializer, value: Any) -> list[str]:
    kind, data = serde.dumps_typed(value)
    return [kind, base64.b64encode(data).decode()]


def _unpacked(serde: PlainSerializer, packed: Any) -> Any:
    kind, data = packed
    return serde.loads_typed((str(kind), base64.b64decode(data, validate=True)))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
