"""The draft gate: how many true drafts pass it unharmed, and how much of what is none, or stands around one, it tells.

`python benchmarks/draft_gate.py` reads `draft_gate.jsonl`: replies of three small models to writing, arithmetic and
coding tasks, each labelled by hand as one of

    draft    a draft, also where that is doubtful: then the critics are to see it. Unharmed, if it passes as it is
    around   a draft with a preamble or a closing offer: told, if exactly `before` and `after` are stripped
    refusal, talk   no draft: told, if the gate says so, for whatever reason

A row's `half` is `seen` where it was read while the rules were written, and `unseen` where it was labelled after they
were finished. Shares have 95% intervals (Wilson).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from redraft.nodes.writing.gate import no_draft, opened

REPLIES = Path(__file__).with_name("draft_gate.jsonl")
LABELS = ("draft", "around", "refusal", "talk")


def replies() -> list[dict[str, Any]]:
    """Return the labelled replies."""
    return [json.loads(line) for line in REPLIES.read_text(encoding="utf-8").splitlines()]


def told(row: dict[str, Any]) -> bool:
    """Tell if the gate says of a reply what its label says."""
    draft = opened(row["text"])
    expected = {place: row[place] for place in ("before", "after") if row.get(place)}
    if row["label"] in ("draft", "around"):
        return not no_draft(draft.text) and draft.stripped == expected
    return bool(no_draft(draft.text))


def main() -> None:
    """Print both shares for both halves, what each label comes to, and what was told wrongly."""
    from redraft.evals.analysis.paired import proportion

    for half in ("seen", "unseen"):
        rows = [row for row in replies() if row["half"] == half]
        by_label = {label: [told(row) for row in rows if row["label"] == label] for label in LABELS}
        others = [right for label in LABELS[1:] for right in by_label[label]]
        for name, rights in (("precision on true drafts", by_label["draft"]), ("recall", others)):
            share = proportion(sum(rights), len(rights))
            low, high = share.ci95 or (0.0, 1.0)
            print(f"{half}: {name} {share.k}/{share.n} = {share.rate or 0:.1%} (95% {low:.1%} to {high:.1%})")
        print("  " + ", ".join(f"{label} {sum(rights)}/{len(rights)}" for label, rights in by_label.items()))
        for row in rows:
            if not told(row):
                print(f"  {row['label']}, told wrongly: {row['text'][:100]!r}")


if __name__ == "__main__":
    main()
