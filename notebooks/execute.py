"""Makes each notebook from its script and executes it: `python notebooks/execute.py [--check]`.

The scripts are the source (jupytext's percent form); the `.ipynb` files beside them are generated, with their outputs.
`--check` executes without writing.
"""

from __future__ import annotations

import sys
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def main(*arguments: str) -> None:
    for script in sorted(HERE.glob("[0-9]*.py")):
        notebook = jupytext.read(script)
        NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": HERE}}).execute()
        if "--check" not in arguments:
            for number, cell in enumerate(notebook.cells):
                cell["id"] = f"cell-{number}"
                cell["metadata"].pop("execution", None)  # times of the last execution would change every file
            nbformat.write(notebook, script.with_suffix(".ipynb"))
        print(f"executed {script.name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
