"""Makes each notebook from its script and executes it: `python notebooks/execute.py [--check] [NAME…]`.

The scripts are the source (jupytext's percent form); the `.ipynb` files beside them are generated, with their outputs.
`--check` writes nothing, and fails where a notebook holds another text than its script now prints.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
PASSING = re.compile(
    r"\d{4}-\d\d-\d\dT[\d:.+Z-]+|[\d.,]+ ?(?:ms|s)\b|0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|'seconds': [\d.e-]+"
)
"""What differs each time: clocks, addresses and ids."""


def texts(cells: list[Any]) -> list[str]:
    """Return what cells show as text, without what differs each time; pictures are drawn otherwise by other fonts."""
    shown = []
    for cell in cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            said = output.get("text") or data.get("text/markdown") or data.get("text/plain", "")
            shown.append(PASSING.sub("…", said))
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="the beginning of a script's name, as 04; default: all"
    )
    parser.add_argument("--check", action="store_true", help="write nothing, and compare with what is written")
    given = parser.parse_args()
    stale = []
    for script in sorted(HERE.glob("[0-9]*.py")):
        if given.names and not script.name.startswith(tuple(given.names)):
            continue
        notebook, written = jupytext.read(script), script.with_suffix(".ipynb")
        NotebookClient(notebook, timeout=None, kernel_name="python3", resources={"metadata": {"path": HERE}}).execute()
        if not given.check:
            for number, cell in enumerate(notebook.cells):
                cell["id"] = f"cell-{number}"
                cell["metadata"].pop("execution", None)  # times of the last execution would change every file
            nbformat.write(notebook, written)
        elif (now := texts(notebook.cells)) != (kept := texts(nbformat.read(written, 4).cells)):
            stale.append(script.name)
            print(*[f"- {old}\n+ {new}" for old, new in zip(kept, now, strict=False) if old != new][:3], sep="\n")
        print(f"executed {script.name}", flush=True)
    if stale:
        sys.exit(f"{', '.join(stale)}: another result than the notebook holds; `make notebooks` writes it anew")


if __name__ == "__main__":
    main()
