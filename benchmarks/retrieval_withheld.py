"""Passages that are withheld from writers: how often rightly.

`python benchmarks/retrieval_withheld.py CORPORA`, a folder that `retrieval_corpora.py` wrote, looks up questions of the
held-out halves as `reasoning` does with a folder, once as they are and once as the task to write an article.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from redraft.evals.analysis.retrieval import known_questions
from redraft.nodes.documents import WithheldDocument
from redraft.retrieval import folder_index, measured

TASKS = {"question": "{}", "article": "Write a short article for beginners on this, in plain words: {}"}


def main() -> None:
    """Print for each kind of task how many look-ups were withheld."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--most", type=int, default=60, help="questions of each file (default: 60)")
    given = parser.parse_args()
    every: Counter[tuple[str, str]] = Counter()
    withheld: Counter[tuple[str, str]] = Counter()
    for corpus in ("python", "perl"):
        folder = given.corpora / corpus
        search = measured(folder_index(folder / "docs", top_k=4))
        for half, known in (("test", True), ("off_topic_test", False)):
            for one in known_questions(folder / f"{half}.jsonl", known=known)[: given.most]:
                for task, template in TASKS.items():
                    found = search.invoke(template.format(one.question))
                    hit = known and any(one.answered_by(hit.metadata["source"], hit.page_content) for hit in found)
                    kind = (task, "answered" if hit else "not answered" if known else "off topic")
                    every[kind] += 1
                    withheld[kind] += isinstance(found[0], WithheldDocument)
    for task, kind in every:
        print(f"{task}, {kind}: {withheld[task, kind]} of {every[task, kind]} withheld")


if __name__ == "__main__":
    main()
