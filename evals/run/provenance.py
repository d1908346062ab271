"""Provenance of a run: the commit of the code, the server that answered, and how it was asked to sample. Internal."""

from __future__ import annotations

import hashlib
import ipaddress
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from langchain_core.callbacks import BaseCallbackHandler

from ...nodes.writing.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from langchain_core.language_models import BaseChatModel
    from langchain_core.outputs import LLMResult

__all__ = ["Fingerprints", "code_commit", "prompt_hashes", "sampling_temperature", "server_of"]


def code_commit() -> dict[str, Any]:
    """Return the commit of the checkout that this code runs from, and whether files differ from it.

    Both are `None` for an installed package, whose version says which code it is.
    """
    # A strict editable install links to the checkout. A package installed below somebody's own checkout is not in it.
    here = Path(__file__).resolve()
    if _git(here.parent, "ls-files", "--error-unmatch", here.name) is None:
        return {"commit": None, "commit_changed": None}
    changed = _git(here.parent, "status", "--porcelain", "--untracked-files=no")
    return {
        "commit": _git(here.parent, "rev-parse", "HEAD"),
        "commit_changed": None if changed is None else changed != "",
    }


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  # fixed words
            ["git", "-C", str(folder), *words],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=GIT_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def prompt_hashes(prompts: Mapping[str, str]) -> dict[str, str]:
    """Return the SHA-256 of each prompt by its name."""
    return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in prompts.items()}


def sampling_temperature(model: BaseChatModel) -> float | None:
    """Return the temperature of samples and revisions; `None`: the provider's own. First drafts have the model's."""
    temperature: Any = getattr(sampled(model), "kwargs", {}).get("temperature", getattr(model, "temperature", None))
    return None if temperature is None else float(temperature)


def server_of(spec: str, model: BaseChatModel) -> dict[str, Any]:
    """Return the kind of server that answers, and the models that it says it has.

    Args:
        spec: As in `chat_model`.
        model: Built of it; an OpenAI-compatible server is asked once, and one that does not say is no error.
    """
    kind = spec.partition(":")[0]
    if kind not in ("http", "https"):
        return {"kind": {"local": "embedded", "gguf": "embedded"}.get(kind, kind), "models": None}
    client: Any = getattr(model, "root_client", None)
    try:
        listed = client.with_options(timeout=LIST_TIMEOUT_S, max_retries=0).models.list()
        models = [str(entry.id)[:LONGEST_NAME] for entry in list(listed.data)[:MOST_LISTED]]
    except Exception:  # whatever a server has in place of the list
        models = None
    return {"kind": _address_kind(urlsplit(spec).hostname or ""), "models": models}


def _address_kind(host: str) -> str:
    """Return `loopback`, `private` or `public`."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        if host == "localhost":
            return "loopback"
        # A name without a dot is one of a local network.
        return "public" if "." in host else "private"
    return "loopback" if address.is_loopback else "private" if address.is_private else "public"


class Fingerprints(BaseCallbackHandler):
    """Collects what replies say of the system that gave them (OpenAI's `system_fingerprint`)."""

    run_inline = True

    def __init__(self) -> None:
        self.found: set[str] = set()

    def on_llm_end(self, response: LLMResult, **_: Any) -> None:
        """Note the fingerprint of a reply."""
        for generations in response.generations:
            for one in generations:
                fingerprint = getattr(getattr(one, "message", None), "response_metadata", {}).get("system_fingerprint")
                if isinstance(fingerprint, str) and fingerprint:
                    self.found.add(fingerprint[:LONGEST_NAME])


GIT_TIMEOUT_S = 10.0
LIST_TIMEOUT_S = 5.0
MOST_LISTED = 20
LONGEST_NAME = 200
