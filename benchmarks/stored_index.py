"""Making, renewing, opening and searching a stored index, beside an index in memory and one that qdrant keeps on disk.

The passages are of the source code of Python's standard library, so that nothing must be fetched; the queries are words
from the middle of passages drawn at random. A search is whole: the query's vector, vectors, words, fusion, documents.
Each is a median over queries, of CPU time, with the wall clock beside it, which on a machine that others use says
more of them. With `--quick` 3,000 passages, else also 17,698, without qdrant.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import sysconfig
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redraft.models.embeddings import embeddings
from redraft.retrieval.documents import load_folder
from redraft.retrieval.index_update import update_index
from redraft.retrieval.retrievers import DocumentIndex
from redraft.retrieval.stored_index import open_index
from rows import Row, add_options, at_most, finish

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

GOAL_MS = 5.0
QUERIES = 200


def corpus(folder: Path, passages: int) -> list[str]:
    """Copy files until they hold so many passages, and return a query for each of some passages."""
    library = Path(sysconfig.get_path("stdlib"))
    found: list[str] = []
    for path in sorted(library.rglob("*.py")):
        if len(found) >= passages:
            break
        if "site-packages" in path.parts or "test" in path.parts:
            continue
        with tempfile.TemporaryDirectory() as one, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shutil.copy(path, one)
            try:
                texts = [each.page_content for each in load_folder(one)]
            except ValueError:  # empty, or no UTF-8
                continue
        # The last file would else bring more than was asked for.
        if len(found) + len(texts) <= passages:
            shutil.copy(path, folder / "-".join(path.relative_to(library).parts))
            found += texts
    drawn = random.Random(0).choices(found, k=QUERIES)
    return [" ".join(text.split()[4:12]) for text in drawn]


def timed(act: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the result, and the seconds by the wall clock and of CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = act()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def searched(index: Any, queries: list[str]) -> tuple[float, float]:
    """Return the median milliseconds of a search, by the wall clock and of CPU."""
    index.invoke(queries[0])
    taken = [timed(lambda query=query: index.invoke(query))[1:] for query in queries]
    return tuple(1000 * statistics.median(values) for values in zip(*taken, strict=True))  # type: ignore[return-value]


def measure(passages: int, model: str) -> list[Row]:
    """Return the rows for one size."""
    rows = []
    with tempfile.TemporaryDirectory() as given:
        home = Path(given)
        (home / "documents").mkdir()
        queries = corpus(home / "documents", passages)
        path = home / "index.sqlite"
        made, wall, cpu = timed(lambda: update_index(path, [home / "documents"], model=model))
        about = f"{made.passages:,} passages, {model}"
        rows.append(
            at_most(f"made, {about}", cpu, None, unit="s CPU", note=f"{wall:.1f} s by the clock, {made.files} files")
        )
        same, wall, cpu = timed(lambda: update_index(path))
        assert (same.read, same.unchanged) == (0, made.files)
        rows.append(
            at_most(f"renewed with nothing new, {about}", cpu, None, unit="s CPU", note=f"{wall:.2f} s by the clock")
        )
        stored, wall, cpu = timed(lambda: open_index(path))
        _, first, first_cpu = timed(lambda: stored.invoke(queries[0]))
        note = f"{wall + first:.2f} s by the clock"
        rows.append(at_most(f"opened and searched once, {about}", cpu + first_cpu, None, unit="s CPU", note=note))
        wall, cpu = searched(stored, queries)
        goal = GOAL_MS if made.passages <= 3000 else None
        rows.append(
            at_most(f"search, {about}", cpu, goal, unit="ms CPU", n=QUERIES, note=f"{wall:.1f} ms by the clock")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            documents = load_folder(home / "documents")
            # In qdrant's folder each passage is written by itself, which takes long: once to fill it.
            peers = {"in memory": None, **({} if goal is None else {"qdrant in a folder": str(home / "qdrant")})}
            for name, where in peers.items():
                own: dict[str, Any] = {"documents": documents, "embeddings": embeddings(model), "path": where}
                index, wall, cpu = timed(lambda own=own: DocumentIndex(**own))
                if where is not None:
                    index.close()
                    index, wall, cpu = timed(lambda own=own: DocumentIndex(**own))
                rows.append(
                    at_most(f"{name}: opened, {about}", cpu, None, unit="s CPU", note=f"{wall:.1f} s by the clock")
                )
                wall, cpu = searched(index, queries)
                note = f"{wall:.1f} ms by the clock"
                rows.append(at_most(f"{name}: search, {about}", cpu, None, unit="ms CPU", n=QUERIES, note=note))
                index.close()
        stored.close()
    return rows


def main() -> int:
    """Measure, and print the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add_options(parser)
    parser.add_argument("--model", default="static")
    given = parser.parse_args()
    rows = [row for size in ((3000,) if given.quick else (3000, 17_698)) for row in measure(size, given.model)]
    return finish(rows, given.json)


if __name__ == "__main__":
    raise SystemExit(main())
