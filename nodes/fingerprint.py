"""Fingerprint of a graph: its nodes, models, critics, prompts and options, as a record keeps them. Internal.

By it a thread is known to go on with the graph that it was begun with. What may differ between two processes that run
the same graph is no part of it: keys, addresses, limits, sampling settings, prices, the saver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ..state.threads.kind import FORM, HASHED, RELEASE
from .critics.critics import NamedCritic, VerifierCritic, name_of
from .verify.text_verifiers import wanted

__all__ = ["fingerprint"]


def fingerprint(
    nodes: Iterable[str],
    writers: Mapping[str, Any],
    critics: Sequence[NamedCritic],
    options: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return the fingerprint of a graph: its parts, by names that a message can use.

    Args:
        nodes: Names of its nodes.
        writers: By the node that asks it; whatever else has a model, or tells more of itself in an attribute
            `fingerprint`.
        critics: Those of the graph.
        options: Plain values, or what stands in for a part of the graph, of which the name is kept; `None` is nothing.
        parts: Fingerprints of graphs that this one runs, by a name that is empty where there is only one.
    """
    parts_by_name: dict[str, Any] = {RELEASE: _release(), FORM: 2, "nodes": ", ".join(nodes)}
    for node, writer in writers.items():
        parts_by_name |= _asked(node, writer)
    for critic in critics:
        about = f"critic {critic.name}"
        parts_by_name[about] = _kind(critic.call)
        parts_by_name |= _asked(about, critic.call, named=False)
    for part, inner in (parts or {}).items():
        inner_parts = {name: value for name, value in inner.items() if name not in OF_ALL}
        parts_by_name |= {f"{name} of {part}" if part else name: value for name, value in inner_parts.items()}
    in_use = {name: value for name, value in options.items() if value is not None}
    return parts_by_name | {
        name: value if isinstance(value, PLAIN) else name_of(value) for name, value in in_use.items()
    }


PLAIN = (str, int, float)
OF_ALL = (RELEASE, FORM, "nodes")


def _asked(about: str, part: Any, *, named: bool = True) -> dict[str, Any]:
    """Return the model and prompts of a writer or critic, else its name if `named`; and its own fingerprint."""
    entries: dict[str, Any] = {}
    arms = getattr(part, "writers", None)
    if isinstance(arms, dict) and not hasattr(part, "model"):  # an adaptive writer's
        return {name: value for arm, one in arms.items() for name, value in _asked(f"{about} ({arm})", one).items()}
    if (model := getattr(part, "model", None)) is not None:
        entries[f"model of {about}"] = model_name(model)
    elif named:
        entries[about] = name_of(part)
    if templates := getattr(part, "templates", None):
        entries[f"prompt of {about}"] = _hash(
            str(getattr(getattr(message, "prompt", message), "template", message))
            for template in templates
            for message in template.messages
        )
    if isinstance(more := getattr(part, "fingerprint", None), Mapping):
        extra = {name: value for name, value in more.items() if isinstance(value, PLAIN) and name not in OF_ALL}
        entries |= {f"{name} of {about}": value for name, value in extra.items()}
    return entries


def _kind(critic: Any) -> str:
    """Return the kind of a critic, with a hash of its wish or settings, where it tells them."""
    if isinstance(critic, VerifierCritic):
        wants = wanted(critic.verifier)
        return f"verifier {_hash([wants])}" if wants else "verifier"
    if judge := getattr(getattr(critic, "judge", None), "sha256", None):
        return f"judge {_hash([str(judge)])}"
    return "critic"


def model_name(model: Any) -> str:
    """Return the name of a model, also where it is bound to arguments or tools."""
    for name in ("model_name", "model", "bound"):
        name_or_model = getattr(model, name, None)
        if isinstance(name_or_model, str) and name_or_model:
            return name_or_model
        if name_or_model is not None and not isinstance(name_or_model, str):
            return model_name(name_or_model)
    return type(model).__name__


def _hash(texts: Iterable[str]) -> str:
    return HASHED + hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=6).hexdigest()


@cache
def _release() -> str:
    from importlib.metadata import version

    return version("redraft")
