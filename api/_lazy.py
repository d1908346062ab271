"""Public names that a package imports when they are first used (PEP 562)."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["lazy_names"]


def lazy_names(
    package: str, modules: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a package that offers names of its modules.

    A name is looked up once and is then an attribute of the package like any other. Type checkers read the same names
    as imports under `TYPE_CHECKING`; the package assigns the two functions in its `else`, so that a misspelt name is a
    type error.

    Args:
        package: the package's `__name__`.
        modules: for each module, by its full name, the names that the package offers from it.
    """
    homes = {name: module for module, names in modules.items() for name in names}

    def module_getattr(name: str) -> Any:
        this = sys.modules[package]
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=this)
        found = getattr(import_module(homes[name]), name)
        setattr(this, name, found)
        return found

    def module_dir() -> list[str]:
        return sorted(homes)

    return module_getattr, module_dir
