"""Registry of presets: redraft's own, and those of other packages. Internal.

The shell's flags, stored recipes, the server's assistants, `langgraph.json` and the table in docs/presets.md are read
off it. A package adds a preset with an entry point, and it is on all of these:

    [project.entry-points."redraft.presets"]
    haiku = "my_package.haiku:PRESET"
"""

from __future__ import annotations

import re
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from .preset import Option, Preset, Served
from .presets import COMMON, PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "ENTRY_POINTS",
    "build_preset",
    "critic_names",
    "find_preset",
    "known_options",
    "registered",
    "served_presets",
]

ENTRY_POINTS = "redraft.presets"
"""The group of entry points, each a `Preset`."""


@cache
def registered() -> Sequence[Preset]:
    """Return every preset, redraft's own first. Those of other packages are looked for once in a process.

    Raises:
        ValueError: One of another package can't be loaded, or its name or an option's is taken.
    """
    from importlib.metadata import entry_points

    found = list(PRESETS)
    options = {option.name: option for option in (*COMMON, *(one for preset in PRESETS for one in preset.options))}
    for point in entry_points(group=ENTRY_POINTS):
        try:
            preset = point.load()
        except Exception as error:
            # Whatever it was: importing another package can raise anything, and the user must hear which one it is.
            raise ValueError(f"the preset {point.name!r} ({point.value}) can't be loaded: {error}") from error
        if not isinstance(preset, Preset) or preset.name in {one.name for one in found}:
            raise ValueError(f"the preset {point.name!r} ({point.value}) is no Preset, or its name is taken")
        for option in preset.options:
            # All presets share the shell's flags and the keys of a recipe, so that a name can mean one thing only.
            if option.name in RECIPE_KEYS or options.setdefault(option.name, option) != option:
                raise ValueError(f"the option {option.name!r} of the preset {preset.name!r} is another preset's")
        found.append(preset)
    return found


RECIPE_KEYS = (
    "preset", "model", "critics", "verifiers", "temperature", "max_output_tokens", "seed", "prices", "options", "mark",
)  # fmt: skip
"""Keys of a recipe that no option can have."""


def find_preset(name: str) -> Preset:
    """Return the preset of this name, `majority-5` say.

    Raises:
        ValueError: There is none.
    """
    numbered = re.fullmatch("(.+-)([1-9][0-9]{0,2})", name)
    for preset in registered():
        # `majority-N` is a pattern, and nothing to be run by this name.
        if preset.name == name and not name.endswith("-N"):
            return preset
        if numbered and preset.name == f"{numbered[1]}N":
            return preset._replace(name=name, build=partial(preset.build, n=int(numbered[2])))
    known = [preset.name for preset in registered() if not preset.own_command]
    raise ValueError(f"there is no graph {name!r}; known are {', '.join(known)}")


def build_preset(name: str, model: Any, *, critics: Sequence[Any], verifiers: Sequence[Any], **options: Any) -> Any:
    """Return the graph of a preset.

    Args:
        name: Of the preset.
        model: Writes.
        critics: Models that judge, `"self"` for the writer, or names that the preset knows.
        verifiers: Programs that judge.
        options: As `Preset.build` takes them.

    Raises:
        ValueError: There is no such preset, it has no use for a critic, verifier or option that was given, or as its
            builder.
    """
    preset = find_preset(name)
    for option in options:
        # An option that no preset lists is one of all presets, or none: then the builder refuses it.
        users = [one.name for one in registered() if option in {own.name for own in one.options}]
        if users and option not in {own.name for own in preset.options}:
            raise ValueError(f"{known_options()[option].flag or option} is for --graph {', '.join(users)}")
    if critics and preset.no_critics:
        raise ValueError(f"--critic has no use in {name}: {preset.no_critics}")
    if verifiers and preset.no_verifiers:
        raise ValueError(f"--verify has no use in {name}: {preset.no_verifiers}")
    named = [critic for critic in critics if isinstance(critic, str) and critic != "self"]
    if preset.one_critic and (len(critics) > 1 or named):
        raise ValueError(f"in {name} one model criticises: give --critic once, a model or self")
    if unknown := [one for one in named if one not in preset.critic_names]:
        users = [one.name for one in registered() if unknown[0] in one.critic_names]
        raise ValueError(f"--critic {unknown[0]} is for --graph {', '.join(users)}")
    return preset.build(model, critics, verifiers, **options)


@cache
def known_options() -> dict[str, Option]:
    """Return the options of all presets by their names; those that every preset takes come first."""
    return {option.name: option for option in (*COMMON, *(one for preset in registered() for one in preset.options))}


def critic_names() -> list[str]:
    """Return the critics that a preset knows by name, beside `self`."""
    return [name for preset in registered() for name in preset.critic_names]


def served_presets() -> dict[str, tuple[Preset, Served]]:
    """Return what a server and Studio offer, by name."""
    found = {}
    for preset in registered():
        # `None` is served under its own name, () not at all.
        for served in (Served(preset.name),) if preset.serves is None else preset.serves:
            found[served.name] = (preset, served._replace(line=served.line or preset.line))
    return found
