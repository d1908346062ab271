"""Public names that a package imports when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any
from warnings import warn

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]], needs: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that offers names of its modules.

    A name is looked up once and is then an attribute of the package like any other. Type checkers read the same names
    as imports under `TYPE_CHECKING`; the package assigns the two functions in its `else`, so that a misspelt name is a
    type error.

    Args:
        package: the package's `__name__`.
        modules: for each module, by its full name, the names that the package offers from it.
        needs: for a name that an extra gives, the module that it needs. Such a package leaves its `__all__` to these
            functions: where the extra is not installed, `import *` and `help` do without the name.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def module_getattr(name: str) -> Any:
        this = sys.modules[package]
        if home := MOVED.get(package, {}).get(name):
            warn(f"{package}.{name} is {home}.{name} now; the old name goes with 0.3", DeprecationWarning, stacklevel=2)
            return getattr(import_module(home), name)
        if name == "__all__" and needs is not None:
            return module_dir()
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=this)
        found = getattr(import_module(homes[name]), name)
        setattr(this, name, found)
        return found

    def module_dir() -> list[str]:
        return sorted(name for name in homes if name not in (needs or {}) or _installed((needs or {})[name]))

    return module_getattr, module_dir


def _installed(module: str) -> bool:
    from importlib.util import find_spec  # here, since `import redraft` does without it

    return find_spec(module) is not None


MOVED = {
    "redraft.nodes": {
        **dict.fromkeys(("Sandbox", "SandboxResult", "SandboxUnavailableError"), "redraft.sandbox"),
        **dict.fromkeys(
            (
                "DocumentIndex",
                "RetrievalResult",
                "as_retriever",
                "folder_index",
                "load_folder",
                "load_page",
                "open_index",
                "retrieval_result",
                "update_index",
            ),
            "redraft.retrieval",
        ),
        **dict.fromkeys(("TRAVEL_TOOLS", "feasibility", "personalization", "travel_metadata"), "redraft.travel"),
        "passes_hidden_tests": "redraft.evals",
    },
    "redraft.graphs": {
        "build_retrieval_graph": "redraft.retrieval",
        **dict.fromkeys(("TRAVEL_RUBRIC", "build_travel_graph"), "redraft.travel"),
    },
    "redraft.faces": {
        **dict.fromkeys(("Settings", "create_app"), "redraft.server"),
        **dict.fromkeys(("draw_plots", "write_report"), "redraft.evals"),
    },
}
"""Names that packages offered before 0.2.0, and the packages that offer them now."""
