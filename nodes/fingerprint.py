"""Fingerprint of a graph: its nodes, models, critics, prompts and options, as a record keeps them. Internal.

By it a thread is known to go on with the graph that it was begun with. What may differ between two processes that run
the same graph is no part of it: keys, addresses, limits, sampling settings, prices, the saver.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ..state.threads.fingerprint import FORM, HASHED, RELEASE
from .critics.critics import NamedCritic, VerifierCritic
from .verify.text_verifiers import wanted

__all__ = ["fingerprint"]


def fingerprint(
    nodes: Iterable[str],
    writers: Mapping[str, Any],
    critics: Sequence[NamedCritic],
    options: Mapping[str, Any],
    parts: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Return what tells a graph from others, by names that a message can use.

    Args:
        nodes: Names of its nodes.
        writers: By the node that asks it; whatever else has a model, or tells more of itself in an attribute
            `fingerprint`.
        critics: Those of the graph.
        options: Plain values, or what stands in for a part of the graph, of which the name is kept; `None` is nothing.
        parts: Fingerprints of graphs that this one runs, by a name that is empty where there is only one.
    """
    told: dict[str, Any] = {RELEASE: _release(), FORM: 2, "nodes": ", ".join(nodes)}
    for node, writer in writers.items():
        told |= _asked(node, writer)
    for critic in critics:
        about = f"critic {critic.name}"
        told[about] = _kind(critic.call)
        told |= _asked(about, critic.call, named=False)
    for part, inner in (parts or {}).items():
        known = {name: value for name, value in inner.items() if name not in OF_ALL}
        told |= {f"{name} of {part}" if part else name: value for name, value in known.items()}
    given = {name: value for name, value in options.items() if value is not None}
    return told | {name: value if isinstance(value, PLAIN) else _name(value) for name, value in given.items()}


PLAIN = (str, int, float)
OF_ALL = (RELEASE, FORM, "nodes")


def _asked(about: str, part: Any, *, named: bool = True) -> dict[str, Any]:
    """Return the model and prompts of what writes or judges, else its name where that is wanted; and what it tells."""
    told: dict[str, Any] = {}
    if isinstance(arms := getattr(part, "writers", None), dict):  # an adaptive writer's
        return {name: value for arm, one in arms.items() for name, value in _asked(f"{about} ({arm})", one).items()}
    if (model := getattr(part, "model", None)) is not None:
        told[f"model of {about}"] = model_name(model)
    elif named:
        told[about] = _name(part)
    if templates := getattr(part, "templates", None):
        told[f"prompt of {about}"] = _hash(
            str(getattr(getattr(message, "prompt", message), "template", message))
            for template in templates
            for message in template.messages
        )
    if isinstance(more := getattr(part, "fingerprint", None), Mapping):
        known = {name: value for name, value in more.items() if isinstance(value, PLAIN) and name not in OF_ALL}
        told |= {f"{name} of {about}": value for name, value in known.items()}
    return told


def _kind(critic: Any) -> str:
    """Return what a critic is, with a hash of what it wants or is set to, where it says so."""
    if isinstance(critic, VerifierCritic):
        wants = wanted(critic.verifier)
        return f"verifier {_hash([wants])}" if wants else "verifier"
    if judge := getattr(getattr(critic, "judge", None), "sha256", None):
        return f"judge {_hash([str(judge)])}"
    return "critic"


def model_name(model: Any) -> str:
    """Return the name of a model, also where it is bound to arguments or tools."""
    for name in ("model_name", "model", "bound"):
        found = getattr(model, name, None)
        if isinstance(found, str) and found:
            return found
        if found is not None and not isinstance(found, str):
            return model_name(found)
    return type(model).__name__


def _name(part: Any) -> str:
    return str(getattr(part, "name", None) or getattr(part, "__name__", None) or type(part).__name__)


def _hash(texts: Iterable[str]) -> str:
    return HASHED + hashlib.blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=6).hexdigest()


@cache
def _release() -> str:
    from importlib.metadata import version

    return version("redraft")
