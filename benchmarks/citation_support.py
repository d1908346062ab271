"""Citations: finds the numbers of `redraft.retrieval.citations`, and says how well its verifier judges.

`python benchmarks/citation_support.py` reads `citation_pairs.jsonl`: 12 passages, each with sentences that it
supports and sentences that it does not, written by hand for this. The logistic regressions are fitted on the dev
half, without the sentences that only a number, an exchange of words or a negation makes wrong, which no overlap can
tell. What is accepted and rejected is counted for each kind, by the numbers that the library has.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
from redraft.models.embeddings import embeddings
from redraft.retrieval.citations import SUPPORTED, features, support
from retrieval_confidence import fitted

PAIRS = Path(__file__).with_name("citation_pairs.jsonl")


def main() -> None:
    """Fit on the dev half, and count on both."""
    rows = [
        (given["half"], one["kind"], given["passage"], one["sentence"], right)
        for given in map(json.loads, PAIRS.read_text(encoding="utf-8").splitlines())
        for name, right in (("supported", True), ("unsupported", False))
        for one in given[name]
    ]
    for name, model in (("words alone", None), ("words and minilm", embeddings("minilm"))):
        dev = [row for row in rows if row[0] == "dev" and row[1] not in ("number", "swapped", "negated")]
        values = np.array([features(sentence, [passage], model) for _, _, passage, sentence, _ in dev])
        weights = fitted(values if model else values[:, :1], np.array([right for *_, right in dev]))
        print(f"{name}: intercept and weights {weights.round(2)}, n = {len(dev)}")
        for half in ("dev", "test"):
            told: Counter[str] = Counter()
            known: Counter[str] = Counter()
            for where, kind, passage, sentence, right in rows:
                if where == half:
                    known[kind] += 1
                    told[kind] += (support(sentence, [passage], model) >= SUPPORTED) == right
            print(f"  {half}, judged rightly:", ", ".join(f"{kind} {told[kind]}/{known[kind]}" for kind in known))


if __name__ == "__main__":
    main()
