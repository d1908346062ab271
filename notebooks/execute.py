"""Makes each notebook from its script and executes it: `python notebooks/execute.py [--check] [--record SPEC] [NAME…]`.

The scripts are the source (jupytext's percent form); the `.ipynb` files beside them are generated, with their outputs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
REPLAYED = 'chat_model("replay:replies.sqlite"'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="the beginning of a script's name, as 04; default: all"
    )
    parser.add_argument("--check", action="store_true", help="execute without writing anything")
    parser.add_argument("--record", metavar="SPEC", help="ask this model, and keep its replies in replies.sqlite")
    given = parser.parse_args()
    for script in sorted(HERE.glob("[0-9]*.py")):
        if given.names and not script.name.startswith(tuple(given.names)):
            continue
        notebook = jupytext.read(script)
        sources = [cell["source"] for cell in notebook.cells]
        for cell in notebook.cells if given.record else ():
            asking = f'chat_model("{given.record}", record="replies.sqlite"'
            cell["source"] = cell["source"].replace(REPLAYED, asking)
        NotebookClient(notebook, timeout=1200, kernel_name="python3", resources={"metadata": {"path": HERE}}).execute()
        if not given.check:
            for number, (cell, source) in enumerate(zip(notebook.cells, sources, strict=True)):
                cell["id"] = f"cell-{number}"
                cell["source"] = source
                cell["metadata"].pop("execution", None)  # times of the last execution would change every file
            nbformat.write(notebook, script.with_suffix(".ipynb"))
        print(f"executed {script.name}", flush=True)


if __name__ == "__main__":
    main()
