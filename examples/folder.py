"""A program is repaired in copies of its folder; the folder itself is changed at the end, after a look at the diff."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from redraft import chat_model, open_checkpointer
from redraft.folders import Trees, build_folder_graph, command, read_draft
from redraft.models import ScriptedModel

PROGRAM = '''def mean(numbers):
    """Return the mean of numbers, and 0 of none."""
    return sum(numbers) / len(numbers)
'''
TESTS = """import sys
from mean import mean

failed = 0
for numbers, wanted in [([1, 2, 6], 3), ([4], 4), ([], 0)]:
    try:
        result = mean(numbers)
    except ArithmeticError as error:
        result = error
    failed += result != wanted
    print("ok" if result == wanted else "not ok", f"mean({numbers}): {result}")
sys.exit(failed)
"""

REPLY = """FILE: mean.py
<<<<<<< SEARCH
    return sum(numbers) / len(numbers)
=======
    return sum(numbers) / len(numbers) if numbers else 0
>>>>>>> REPLACE
"""


def main(spec: str = "") -> None:
    """Repair it."""
    with tempfile.TemporaryDirectory() as scratch, open_checkpointer("memory") as saver:
        folder, trees = Path(scratch) / "project", Trees(Path(scratch) / "trees")
        folder.mkdir()
        (folder / "mean.py").write_text(PROGRAM)
        (folder / "test_mean.py").write_text(TESTS)
        graph = build_folder_graph(
            chat_model(spec) if spec else ScriptedModel([REPLY]),
            root=folder,
            trees=trees.path,
            checks=[command("python3 test_mean.py", timeout_s=60)],
            protect=["test_mean.py"],
            plain=True,  # without a sandbox, so that it runs anywhere
            checkpointer=saver,
        )
        config = {"configurable": {"thread_id": "mean"}}
        output = graph.invoke({"task": "Make the tests pass."}, config)
        base, tree = graph.get_state(config).values["base_tree"], read_draft(output["answer"]).tree
        print(output["stop_reason"], "by", output["accepted_by"], "\n")
        print(trees.diff(base, tree))
        print("wrote", ", ".join(change.path for change in trees.apply(base, tree, folder)))


if __name__ == "__main__":
    main(*sys.argv[1:2])
