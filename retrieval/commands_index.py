"""Command `index`: make, renew, list, delete, export and import stored indexes. Internal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ..faces.cli.options import AsJson
from ..faces.problems import BadInputError, bad_input
from ..faces.views.console import Screen, plain_table

__all__ = ["index"]

Name = Annotated[str, typer.Argument(metavar="NAME", help="An index, as `redraft index list` shows it.")]


class IndexGroup(TyperGroup):
    """Group whose first word is a folder, unless it names a subcommand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words after `redraft index`."""
        if args and args[0] not in {*self.commands, *ctx.help_option_names}:
            args = ["build", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Show both forms."""
        formatter.write_usage(ctx.command_path, "DIR... --name NAME | COMMAND ...")


index = typer.Typer(
    cls=IndexGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Index folders once under a name; later runs search it at once, and only what changed is read again.",
)


@index.command()
def build(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="DIR...", help="Folders, files and addresses that it is to hold; default: those of last time."
        ),
    ] = None,
    name: Annotated[str, typer.Option(metavar="NAME", help="What it is called.")] = "",
    embedding: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="minilm, which finds most, static, a thousand times faster, or openai:NAME; default: that of last "
            "time, else minilm where it is installed.",
        ),
    ] = None,
    most_seconds: Annotated[
        float,
        typer.Option(metavar="S", min=0.0, help="That reading may take; the next update goes on with what is left."),
    ] = 600.0,
    most_characters: Annotated[
        int, typer.Option(metavar="N", min=0, help="Of what is read; the next update goes on with what is left.")
    ] = 200_000_000,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Read everything again, for another --embedding.")] = False,
    as_json: AsJson = False,
) -> None:
    """Make an index, or renew it: what is new or changed is read, and what is gone goes.

    The word `build` may be left out. An update that is interrupted goes on where it was when it is started again.
    """
    import dataclasses

    from .index_update import update_index

    if not name:
        raise BadInputError("the index needs a --name")
    screen = Screen(as_json=as_json)
    with screen.thinking() as say, bad_input():
        update = update_index(
            name,
            sources or (),
            model=embedding,
            most_seconds=most_seconds,
            most_characters=most_characters,
            rebuild=rebuild,
            progress=lambda number, total, source: say(f"{number} of {total}: {source}"),
        )

    def show(screen: Any) -> None:
        screen.line(
            (update.name, "bold"),
            f": {update.passages:,} passages of {update.files:,} files by {update.model}; {update.read:,} files read, "
            f"{update.unchanged:,} unchanged, {update.removed:,} removed, in {update.seconds:.1f} s",
        )
        if update.told:
            screen.line(f"left out: {update.told}")

    screen.result(dataclasses.asdict(update), show)


@index.command(name="list")
def list_(as_json: AsJson = False) -> None:
    """List the indexes."""
    from .index_file import stored_indexes

    with bad_input():
        indexes = stored_indexes()

    def show(screen: Any) -> None:
        if not indexes:
            screen.line("There is no index yet: redraft index DIR --name NAME makes one.")
            return
        table = plain_table("name", "files", "passages", "model", "MB", "changed", right=("files", "passages", "MB"))
        for one in indexes:
            changed = "unfinished" if one["unfinished"] else one["changed"]
            size = f"{one['bytes'] / 1e6:.1f}"
            table.add_row(one["name"], f"{one['files']:,}", f"{one['passages']:,}", one["model"], size, changed)
        screen.put(table)

    Screen(as_json=as_json).result(indexes, show)


@index.command()
def delete(name: Name) -> None:
    """Delete an index. The documents stay."""
    from .index_file import delete_index

    with bad_input():
        delete_index(name)
    Screen().line(f"Deleted {name}.")


@index.command()
def export(name: Name, file: Annotated[Path, typer.Argument(metavar="FILE", help="Is written; must be new.")]) -> None:
    """Write an index into one file, with all passages, for `redraft index import` elsewhere."""
    from .index_file import export_index

    with bad_input():
        export_index(name, file)
    Screen().line(f"Wrote {name} to {file}.")


@index.command(name="import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Of `redraft index export`.")],
    name: Annotated[str, typer.Option(metavar="NAME", help="What it is called here; default: as the file.")] = "",
) -> None:
    """Make an index from an exported file. Its documents are not needed."""
    from .index_file import import_index

    with bad_input():
        imported = import_index(file, name or file.stem)
    Screen().line(f"Imported {imported['name']}: {imported['passages']:,} passages of {imported['files']:,} files.")
