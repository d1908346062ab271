"""Plugins: objects that installed packages register with redraft by entry points.

The groups are `redraft.presets`, `redraft.critics`, `redraft.verifiers` and `redraft.steps`, which name what a package
adds; `redraft.commands`, the commands that it brings; and `redraft.sandbox` and `redraft.documents`, whose `default` is
the room that does the work.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from importlib.metadata import EntryPoint

__all__ = ["default_plugin", "forget_plugins", "load_plugin", "plugin_cache", "plugins", "registered"]

T = TypeVar("T")

OLD_NAMES = {"redraft.steps": "redraft.pipeline_steps"}
"""Names that groups had in earlier releases: packages that use one are still found."""


@cache
def plugins(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, redraft's own first; none is loaded.

    Raises:
        ValueError: Two packages register the same name.
    """
    points = [*_installed().select(group=group), *_installed().select(group=OLD_NAMES.get(group, ""))]
    named: dict[str, EntryPoint] = {}
    for point in sorted(points, key=lambda point: not point.value.startswith("redraft.")):
        # A package that is found by two paths is no second one.
        if named.setdefault(point.name, point).value != point.value:
            both = f"{named[point.name].value} and {point.value}"
            raise ValueError(f"two packages register {point.name!r} in {group}: {both}; uninstall one of them")
    return named


@cache
def load_plugin(point: EntryPoint, kind: type) -> Any:
    """Import the object that an entry point names.

    Raises:
        ValueError: It can't be imported, or is no `kind`.
    """
    try:
        plugin = point.load()
    except Exception as error:
        # Whatever it was: importing another package can raise anything, and the user must hear which one it is.
        raise ValueError(f"{point.name!r} of {point.group} ({point.value}) can't be loaded: {error}") from error
    if not isinstance(plugin, kind):
        raise ValueError(f"{point.name!r} of {point.group} ({point.value}) is no {kind.__name__}")  # noqa: TRY004
    return plugin


def registered(group: str, kind: type, own: Iterable[Any], *, taken: Collection[str] = ()) -> dict[str, Any]:
    """Return the known objects by name: redraft's own, then what installed packages register.

    Args:
        group: Of the entry points.
        kind: The class of all of them, which have a `name`.
        own: Redraft's.
        taken: Other names that none may have.

    Raises:
        ValueError: One of another package can't be used.
    """
    named = {one.name: one for one in own}
    for point in plugins(group).values():
        plugin = load_plugin(point, kind)
        if plugin.name in taken or named.setdefault(plugin.name, plugin) is not plugin:
            what = group.removeprefix("redraft.").removesuffix("s")
            raise ValueError(f"the {what} {plugin.name!r} ({point.value}) has the name of another one")
    return named


def default_plugin(group: str, kind: type) -> Any:
    """Import the object that a group names `default`.

    Raises:
        ValueError: No package registers one, it can't be imported, or is no `kind`.
    """
    point = plugins(group).get("default")
    if point is None:
        raise ValueError(f"no package registers a default for {group}: install redraft anew")
    return load_plugin(point, kind)


def plugin_cache(function: Callable[[], T]) -> Callable[[], T]:
    """Cache what is made of plugins until `forget_plugins`."""
    cached = cache(function)
    CACHES.append(cached)
    return cached


def forget_plugins() -> None:
    """Look for packages anew, as a new process does."""
    for cached in CACHES:
        cached.cache_clear()


@cache
def _installed() -> Any:
    # Once for all groups: reading every distribution takes about 10 ms, importing this module of Python's 40.
    from importlib.metadata import entry_points

    return entry_points()


CACHES: list[Any] = [_installed, plugins, load_plugin]
