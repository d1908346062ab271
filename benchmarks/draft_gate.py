"""The draft gate: how many true drafts pass it unharmed, and how much of what is none, or stands around one, it tells.

`python benchmarks/draft_gate.py` reads `draft_gate.jsonl`: replies of three small models to writing, arithmetic and
coding tasks, and of draws 4 and 5 also replies written by hand, as larger models give them and as true drafts look that
are easily taken for talk. Each is labelled by hand as one of

    draft    a draft, also where that is doubtful: then the critics are to see it. Unharmed, if it passes as it is
    around   a draft with a preamble or a closing offer: told, if exactly `before` and `after` are stripped
    refusal, talk   no draft: told, if the gate says so, for whatever reason

A row's `draw` says when it was read: 1 while the rules were first written, 2 after that, and 3 after draw 2 had widened
them; what draw 3 showed is in the rules too. So what is printed is of rules that know these replies. Before draws 2 and
3 were read, 200 of 200 and 241 of 241 true drafts in them passed unharmed, and 29 of 45 and 8 of 21 others were told
(the file leaves out five long drafts of draw 3). Draws 4 and 5 are halves of one set, parted at random before the rules
were widened by draw 4: then 93 of 94 true drafts in draw 5 passed, and 49 of 67 others were told; what it showed is in
the rules too. Draw 6, replies of a model of 1.5B parameters, was labelled after that, and changed no rule.
Shares have 95% intervals (Wilson).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from redraft.nodes.writing.gate import no_draft, opened

REPLIES = Path(__file__).with_name("draft_gate.jsonl")
DRAWS = (1, 2, 3, 4, 5, 6)
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
    """Print both shares for each draw, what each label comes to, and what was told wrongly."""
    from redraft.evals.analysis.paired import proportion

    for name, draws in {**{f"draw {number}": {number} for number in DRAWS}, "all": {*DRAWS}}.items():
        rows = [row for row in replies() if row["draw"] in draws]
        by_label = {label: [told(row) for row in rows if row["label"] == label] for label in LABELS}
        others = [right for label in LABELS[1:] for right in by_label[label]]
        for what, rights in (("precision on true drafts", by_label["draft"]), ("recall", others)):
            share = proportion(sum(rights), len(rights))
            low, high = share.ci95 or (0.0, 1.0)
            print(f"{name}: {what} {share.k}/{share.n} = {share.rate or 0:.1%} (95% {low:.1%} to {high:.1%})")
        print("  " + ", ".join(f"{label} {sum(rights)}/{len(rights)}" for label, rights in by_label.items()))
        for row in rows:
            if not told(row) and name not in ("draw 6", "all"):
                print(f"  {row['label']}, told wrongly: {row['text'][:100]!r}")


if __name__ == "__main__":
    main()
