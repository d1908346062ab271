"""Calibrated confidence of searches: finds the numbers of `redraft.retrieval.calibration`.

`python benchmarks/retrieval_confidence.py CORPORA`, a folder that `retrieval_corpora.py` wrote, fits a logistic
regression on the dev halves of both corpora and their off-topic questions: is a known source among the five passages of
an unrefined search? It prints the numbers, how well they do on the halves that were not fitted on, and how those in
force compare. A passage takes 50 ms of a core when it is first measured, and most of the 6,088 are: some five minutes.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from redraft.evals.analysis.retrieval import known_questions
from redraft.retrieval.calibration import CALIBRATIONS, FEATURES, features
from redraft.retrieval.graph import build_retrieval_graph, retrieval_result
from redraft.retrieval.retrievers import folder_index
from scipy.optimize import minimize

RIDGE = 0.001


def main() -> None:
    """Fit on the dev halves, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--rerank", default="minilm")
    given = parser.parse_args()
    rows: dict[str, list[tuple[tuple[float, ...], bool]]] = {"dev": [], "test": []}
    for corpus in ("python", "perl"):
        folder = given.corpora / corpus
        graph = build_retrieval_graph(folder_index(folder / "docs"), rerank=given.rerank, max_iterations=0)
        for half, kept in rows.items():
            for name in (half, f"off_topic_{half}"):
                for one in known_questions(folder / f"{name}.jsonl", known=name == half):
                    result = retrieval_result(graph.invoke({"task": one.question}))
                    found = result.results or result.withheld
                    texts = [f"{passage.heading}\n{passage.text}" for passage in found]
                    values = features(one.question, texts, [passage.similarity for passage in found])
                    kept.append((values, any(one.answered_by(hit.source, hit.text) for hit in found)))
    weights = fitted(*arrays(rows["dev"]))
    told = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(FEATURES, weights[1:], strict=True))
    print(f"n = {len(rows['dev'])}: intercept {weights[0]:.2f}, {told}")
    known = CALIBRATIONS.get(given.rerank)
    for half, kept in rows.items():
        values, hits = arrays(kept)
        chances = chances_by(weights, values)
        if known is not None:
            in_force = chances_by(np.array([known.intercept, *known.weights]), values)
            hidden = in_force < known.nothing_under
            print(
                f"{half}, with the numbers in force: AUC {auc(in_force, hits):.3f}, at most "
                f"{np.abs(in_force - chances).max():.3f} from those fitted; under {known.nothing_under}: "
                f"{hidden[hits].sum()} of {hits.sum()} hits, {hidden[~hits].sum()} of {(~hits).sum()} others"
            )
        print(
            f"{half}: AUC {auc(chances, hits):.3f}, Brier {np.mean((chances - hits) ** 2):.3f}, hits {hits.mean():.2f}"
        )
        for low in np.arange(0, 1, 0.1):
            inside = (chances >= low) & (chances < low + 0.1)
            print(
                f"  {low:.1f}–{low + 0.1:.1f}: {inside.sum():4d}, hits {hits[inside].mean() if inside.any() else 0:.2f}"
            )


def arrays(rows: list[tuple[tuple[float, ...], bool]]) -> tuple[Any, Any]:
    """Return the features and the labels as arrays."""
    return np.array([values for values, _ in rows]), np.array([hit for _, hit in rows])


def chances_by(weights: Any, values: Any) -> Any:
    """Return the probabilities that a logistic regression gives."""
    return 1 / (1 + np.exp(-weights[0] - values @ weights[1:]))


def fitted(values: Any, hits: Any) -> Any:
    """Return intercept and weights of the logistic regression, with a slight ridge."""
    given = np.c_[np.ones(len(values)), values]

    def loss(weights: Any) -> float:
        return float(np.logaddexp(0, -(2 * hits - 1) * (given @ weights)).mean() + RIDGE * (weights[1:] ** 2).mean())

    return minimize(loss, np.zeros(given.shape[1])).x


def auc(chances: Any, hits: Any) -> float:
    """Return the chance that a hit has a higher one than a miss."""
    above = chances[hits][:, None] - chances[~hits][None]
    return float((above > 0).mean() + (above == 0).mean() / 2)


if __name__ == "__main__":
    main()
