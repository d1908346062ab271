"""Commands that keep house: `copy`, `delete`, `prune`, `export`, `import`, `rekey` and `seal`. Internal."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FunctionType
from typing import Annotated, Any

import typer

from ..._files import opened_text, write_file
from ..._plugins import default_plugin
from ..problems import DEFAULT_DB, BadInputError, bad_input
from ..sessions import checked_thread_id, encryption_key, every_row, known_id, opened, seal_key
from ..views.console import Screen
from ..views.wording import amount, checked_reason
from .asking import can_ask, typed_line
from .commands_threads import file_name
from .options import AsJson, Db, ThreadId, age, thread_ids

__all__ = ["copy_thread", "delete", "export", "import_thread", "prune", "rekey", "seal"]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]
Other = Annotated[str | None, typer.Option("--thread", metavar="ID", help="Its id here; else the one it had.")]


def copy_thread(
    thread_id: ThreadId,
    target: Annotated[str, typer.Argument(metavar="NEW", help="The id of the copy.")],
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Copy a thread with all of its steps under another id."""
    target = checked_thread_id(target)
    with opened(db) as saver:
        thread_id = known_id(saver, thread_id)
        with bad_input():
            saver.copy_thread(thread_id, target)
    data = {"thread_id": target, "copy_of": thread_id}
    Screen(as_json=as_json).result(data, lambda screen: screen.line(("copied to ", "dim"), target))


def delete(
    thread_ids: Annotated[list[str], typer.Argument(metavar="ID…", help="Threads; a search takes its paths along.")],
    yes: Yes = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Delete threads with all that is kept of them. Their forks stay."""
    screen = Screen(as_json=as_json)
    with opened(db) as saver:
        wanted = list(dict.fromkeys(thread_ids))
        for thread_id in wanted:
            # A thread that LangGraph's own saver wrote has checkpoints, and no row.
            if not (saver.runs.get(thread_id) or saver.get_tuple({"configurable": {"thread_id": thread_id}})):
                raise BadInputError(f"there is no thread {thread_id!r} here; `redraft threads` lists those that are")
        _delete(screen, saver, wanted, yes=yes)


def prune(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Threads that did not move for so long: 30d, 12h, 45m.")
    ],
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="Not those that stopped so, accepted say; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    yes: Yes = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Delete the threads that nobody has touched for a while."""
    before = (datetime.now(UTC) - age(older_than, "--older-than")).isoformat(timespec="microseconds")
    exempt = {None if checked_reason(reason) == "unfinished" else reason for reason in keep or ()}
    screen = Screen(as_json=as_json)
    with opened(db) as saver:
        with bad_input():
            rows = every_row(saver.runs)
            wanted = [row.thread_id for row in rows if row.updated_at < before and row.stop_reason not in exempt]
        if dry_run or not wanted:
            _report(screen, "would delete", wanted, ())
            return
        _delete(screen, saver, wanted, yes=yes)


def export(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID…]",
            help="A thread. With --preferences or --sft several, and folders of `redraft eval`; default: all threads.",
            autocompletion=thread_ids,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where it goes; else ID.jsonl; - is stdout.")
    ] = None,
    preferences: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write training data: rejected and accepted drafts in pairs, as TRL has it."),
    ] = None,
    sft: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write training data: the accepted drafts, as TRL has it.")
    ] = None,
    oracle: Annotated[
        bool, typer.Option("--oracle", help="Training data: also what a critic with the gold answers judged.")
    ] = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Write a thread to a file that `redraft import` takes into any database. It is not encrypted.

    With `--preferences` or `--sft` it writes training data instead: of each task the drafts that those who judged them
    accepted or rejected, each with who did. What a critic with the gold answers judged is left out without `--oracle`.
    """
    screen = Screen(as_json=as_json)
    if preferences or sft:
        if out is not None:
            raise BadInputError("-o is for a thread; training data goes to the files of --preferences and --sft")
        with bad_input():
            write_training_data = default_plugin("redraft.training_data", FunctionType)
            files = write_training_data(names or (), db=db, preferences_file=preferences, sft_file=sft, oracle=oracle)
        wrote = ", ".join(f"{one['file']} ({amount(one['rows'], 'row')})" for one in files.values())
        screen.result(files, lambda screen: screen.line(("wrote ", "dim"), wrote))
        return
    if len(names or ()) != 1 or oracle:
        raise BadInputError("name one thread; several, and --oracle, are for --preferences FILE and --sft FILE")
    with opened(db, read_only=True) as saver:
        thread_id = known_id(saver, (names or [""])[0])
        with bad_input():
            lines = saver.export_thread(thread_id)
    if out is not None and str(out) == "-":
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        return
    place = out or Path(f"{file_name(thread_id)}.jsonl")
    if place.exists():
        raise BadInputError(f"{str(place)!r} is there already: it would be lost; name another with -o")
    with bad_input():
        write_file(place, "".join(f"{line}\n" for line in lines), private=True)
    data = {"thread_id": thread_id, "file": str(place), "checkpoints": len(lines) - 1}
    screen.result(data, lambda screen: screen.line(("wrote ", "dim"), str(place)))


def import_thread(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="As `redraft export` writes it; - is stdin.")],
    thread: Other = None,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Take a thread from a file into a database, where it is shown, replayed, resumed and forked as where it was.

    Its record is checked first: one that was changed is refused. A recipe that somebody else wrote is asked about
    before it is followed.
    """
    with opened(db, create=True) as saver, bad_input(), opened_text(file, stdin=True) as lines:
        imported = saver.import_thread(lines, None if thread is None else checked_thread_id(thread))
    Screen(as_json=as_json).result(
        {"thread_id": imported}, lambda screen: screen.line(("imported as ", "dim"), imported)
    )


def rekey(db: Db = DEFAULT_DB, as_json: AsJson = False) -> None:
    """Encrypt a database with another key. Nobody else may have it open meanwhile.

    REDRAFT_ENCRYPTION_KEY holds the key that it has, REDRAFT_NEW_ENCRYPTION_KEY the one that it gets.
    """
    from ...state.storage.rekey import rekey as rekeyed

    old, new = encryption_key(), os.environ.get("REDRAFT_NEW_ENCRYPTION_KEY", "").strip()
    for name, key, held in (
        ("REDRAFT_ENCRYPTION_KEY", old, "the key that the database has"),
        ("REDRAFT_NEW_ENCRYPTION_KEY", new, "the key that it gets, 64 hexadecimal digits (openssl rand -hex 32)"),
    ):
        if not key:
            raise BadInputError(f"{name} is not set: it holds {held}")
    with bad_input():
        count = rekeyed(db, str(old), new)
    message = f"{count} values are encrypted with the new key: set REDRAFT_ENCRYPTION_KEY to it"
    Screen(as_json=as_json).result({"values": count}, lambda screen: screen.line(message))


def seal(
    thread_ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="Threads that you know to be yours.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All that have no seal.")] = False,
    db: Db = DEFAULT_DB,
    as_json: AsJson = False,
) -> None:
    """Seal threads as they stand, with the key in REDRAFT_SEAL_KEY. From then on a change without it is noticed.

    A thread whose record or seal does not fit is not sealed.
    """
    if seal_key() is None:
        raise BadInputError(
            "REDRAFT_SEAL_KEY is not set: it holds the key, 64 hexadecimal digits (openssl rand -hex 32)"
        )
    if bool(thread_ids) == every:
        raise BadInputError("name the threads to seal, or give --all")
    refused: dict[str, str] = {}
    sealed: list[str] = []
    with opened(db) as saver, bad_input():
        for thread_id in [row.thread_id for row in every_row(saver.runs)] if every else thread_ids or ():
            if not every and saver.runs.get(thread_id) is None:
                raise BadInputError(f"there is no thread {thread_id!r} here; `redraft threads` lists those that are")
            try:
                saver.seal_thread(thread_id)
                sealed.append(thread_id)
            except ValueError as error:
                refused[thread_id] = str(error)

    def show(screen: Screen) -> None:
        screen.line(("sealed ", "dim"), f"{len(sealed)} threads" if len(sealed) != 1 else sealed[0])
        for thread_id, reason in refused.items():
            screen.line((f"not sealed: {thread_id}: ", "red"), reason)

    Screen(as_json=as_json).result({"sealed": sealed, "refused": refused}, show)
    if refused:
        raise typer.Exit(1)


def _delete(screen: Screen, saver: Any, thread_ids: Sequence[str], *, yes: bool) -> None:
    """Delete threads, after a question where somebody can answer it; those that somebody runs right now stay."""
    from ...state.threads.lease import BusyThreadError, leased

    if not yes:
        if not can_ask(screen):
            raise BadInputError(f"this deletes {amount(len(thread_ids), 'thread')} for good; --yes says that it may")
        reply = typed_line(screen, f"delete {amount(len(thread_ids), 'thread')} for good? [y/N] ")
        if (reply or "").strip().casefold() not in {"y", "yes"}:
            raise BadInputError("nothing was deleted")
    deleted, busy = [], []
    for thread_id in thread_ids:
        try:
            with leased(saver, thread_id):
                saver.delete_thread(thread_id)
            deleted.append(thread_id)
        except BusyThreadError:
            busy.append(thread_id)
    _report(screen, "deleted", deleted, busy)


def _report(screen: Screen, what: str, deleted: Sequence[str], busy: Sequence[str]) -> None:

    def show(screen: Screen) -> None:
        for thread_id in deleted:
            screen.line((f"{what} ", "dim"), thread_id)
        for thread_id in busy:
            screen.line((f"{thread_id} is run by somebody right now, and stays", "yellow"))
        screen.line((f"{what} {amount(len(deleted), 'thread')}", "dim"))

    key = what.replace(" ", "_")
    screen.result({key: list(deleted), "busy": list(busy)}, show)
