"""Names of models, runs and groups in a report: as a reader knows them, and unique. Internal."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...models.spec_names import model_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..run.run_folder import Run

__all__ = ["run_labels", "short_labels", "titles"]


def run_labels(runs: Sequence[Run]) -> list[str]:
    """Name each run by its method, and where that is not enough by dataset, model and folder too."""
    labels = [
        f"{run.info.method} (oracle)" if run.oracle and "oracle" not in run.info.method else run.info.method
        for run in runs
    ]
    return _told_apart(labels, [(run.info.dataset, model_name(run.info.model), str(run.folder)) for run in runs])


def short_labels(labels: Sequence[str]) -> list[str]:
    """Name each run among those of one dataset and model, given the labels of these."""
    names = [label.partition(" · ")[0] for label in labels]
    several = Counter(names)
    return [name if several[name] == 1 else label for label, name in zip(labels, names, strict=True)]


def titles(groups: Sequence[tuple[str, str, str]]) -> list[str]:
    """Name each group by dataset and model, and where that is not enough by the model's address and the data's hash.

    Args:
        groups: Dataset, model and the dataset's SHA-256 of each.
    """
    named = [" · ".join(filter(None, (dataset, model_name(model)))) for dataset, model, _ in groups]
    return _told_apart(named, [(model, sha256[:8]) for _, model, sha256 in groups])


def _told_apart(labels: list[str], tells: Sequence[tuple[str, ...]]) -> list[str]:
    for words in zip(*tells, strict=True):
        counts = Counter(labels)
        several = {
            label for label in counts if len({w for w, own in zip(words, labels, strict=True) if own == label}) > 1
        }
        labels = [f"{own} · {word}" if own in several else own for own, word in zip(labels, words, strict=True)]
    return labels
