"""Names of models as a reader knows them. Internal."""

from __future__ import annotations

from pathlib import PureWindowsPath

__all__ = ["model_name"]


def model_name(spec: str) -> str:
    """Return the name of a model without the address that serves it, or the folder that its file lies in."""
    kind, _, rest = spec.partition(":")
    place, _, name = rest.partition("#")
    if kind in ("http", "https", "replay") and name:
        return name
    # A path of Windows may be read elsewhere; its rules split both kinds.
    return PureWindowsPath(place).name or spec if kind in ("gguf", "scripted", "replay") else spec
