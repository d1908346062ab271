"""`redraft export --preferences` and `--sft`: recorded runs become training data that says who accepted what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from redraft import Critique, build_refine_graph, verifier_critic
from redraft.models import ScriptedModel
from redraft.state import open_checkpointer

TASK = "Write about a boat."
CHECKS = ("--verify", "uses_words:river", "--verify", "length:3 words")
LONG, BETTER = "A boat drifts down the wide and silent river.", "A river boat."


def rows(path: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def boats(shell: Any, scripted: Any) -> None:
    """Two threads of one task, the first accepted after a revision and the second never, and one of another."""
    for thread, task, replies in (
        ("mended", TASK, (LONG, BETTER)),
        ("given-up", TASK, ("A ship.",)),
        ("at-once", "Write about a bridge.", ("A river bridge.",)),
    ):
        rounds = ("--max-rounds", "1" if len(replies) > 1 else "0")
        done = shell("run", task, *CHECKS, "--model", scripted(*replies), "--thread", thread, *rounds)
        assert done.code in (0, 3), done.err


def test_threads_become_pairs_and_accepted_drafts(shell: Any, boats: None) -> None:
    """Each rejected draft stands beside an accepted one of its task, and each line says who judged so."""
    done = shell("export", "--preferences", "pairs.jsonl", "--sft", "sft.jsonl")
    assert (done.code, "wrote pairs.jsonl (2 rows), sft.jsonl (2 rows)" in done.out) == (0, True), done.err
    pairs = {row.pop("rejected"): row for row in rows("pairs.jsonl")}
    pair = {"prompt": TASK, "chosen": BETTER, "accepted_by": "uses_words, has_length"}
    assert pairs == {
        LONG: {**pair, "rejected_by": "has_length", "source": "mended"},
        "A ship.": {**pair, "rejected_by": "uses_words, has_length", "source": "mended"},
    }
    assert {row["prompt"]: row["completion"] for row in rows("sft.jsonl")} == {
        TASK: BETTER,
        "Write about a bridge.": "A river bridge.",
    }
    assert {row["accepted_by"] for row in rows("sft.jsonl")} == {"uses_words, has_length"}
    again = shell("export", "mended", "--sft", "sft.jsonl")
    assert (again.code, "is there already: it would be lost" in again.err) == (2, True)
    counts = shell("export", "mended", "at-once", "--preferences", "of-two.jsonl", "--json").json
    assert counts == {"preferences": {"file": "of-two.jsonl", "rows": 1}}


def test_folders_of_evaluations_become_training_data_too(shell: Any, scripted: Any, tmp_path: Path) -> None:
    """A folder of `redraft eval` is read by its name; no database is needed, and gold answers have no say."""
    data = tmp_path / "data.jsonl"
    data.write_text(json.dumps({"question": TASK, "answer": "Another text."}) + "\n")
    fields = ("--question-field", "question", "--answer-field", "answer", "--out", "out")
    checks = ("--option", 'verifiers=["uses_words:river", "length:3 words"]')
    model = scripted(LONG, BETTER)
    assert shell("eval", str(data), "--methods", "refine", "--model", model, *checks, *fields).code == 0
    assert shell("export", "out", "--preferences", "pairs.jsonl", "--sft", "sft.jsonl").code == 0
    (pair,), (accepted,) = rows("pairs.jsonl"), rows("sft.jsonl")
    assert (pair["prompt"], pair["chosen"], pair["accepted_by"]) == (
        *(TASK, BETTER),
        "uses_words, has_length",
    )
    assert (accepted["completion"], accepted["source"]) == (BETTER, "out/refine#1")


def test_what_an_oracle_judged_is_written_only_where_asked_for(shell: Any, tmp_path: Path) -> None:
    """A draft that a critic with the gold answer accepted needs `--oracle`, and the line says so."""

    def knows(task: str, draft: str) -> Critique:
        return Critique("no", accepted=draft == "5", by="gold", oracle=True)

    with open_checkpointer(str(tmp_path / "runs.sqlite")) as saver:
        graph = build_refine_graph(ScriptedModel(["4", "5"]), critics=[verifier_critic(knows)], checkpointer=saver)
        graph.invoke({"task": "What is 2 + 3?"}, {"configurable": {"thread_id": "sum"}})
    refused = shell("export", "--sft", "sft.jsonl")
    assert (refused.code, "of 2 judged drafts 2 by an oracle, which counts with --oracle" in refused.err) == (2, True)
    assert shell("export", "--sft", "sft.jsonl", "--oracle").code == 0
    (row,) = rows("sft.jsonl")
    assert (row["completion"], row["accepted_by"]) == ("5", "gold (oracle)")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("one", "two"), "name one thread"),
        ((), "name one thread"),
        (("one", "--oracle"), "--oracle, are for --preferences FILE"),
        (("-o", "x", "--sft", "y"), "-o is for a thread"),
        (("nobody", "--sft", "y"), "there is no thread 'nobody'"),
    ],
)
def test_exports_that_are_not_clear_are_refused(shell: Any, boats: None, words: tuple[str, ...], message: str) -> None:
    """What belongs to threads and what to training data is not mixed, and the message says which is which."""
    refused = shell("export", *words)
    assert (refused.code, message in " ".join(refused.err.split())) == (2, True), refused.err
