"""Registry of presets: redraft's own, and those of other packages. Internal.

The shell's flags, stored recipes, the methods of `redraft eval`, the server's assistants, `langgraph.json` and the
table in docs/presets.md are read off it. A package adds a preset with an entry point, and it is on all of these:

    [project.entry-points."redraft.presets"]
    haiku = "my_package.haiku:PRESET"
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import Any, Literal

from .._plugins import load_plugin, plugin_cache, plugins
from .preset import COMMON, Option, Preset, Served
from .presets import PRESETS

__all__ = [
    "ENTRY_POINTS",
    "build_preset",
    "find_preset",
    "known_options",
    "option_names",
    "registered",
    "served_presets",
]

ENTRY_POINTS = "redraft.presets"
"""The group of entry points, each a `Preset`."""


@plugin_cache
def registered() -> Sequence[Preset]:
    """Return every preset, redraft's own first.

    Raises:
        ValueError: One of another package can't be loaded, or its name or an option's is taken.
    """
    presets = list(PRESETS)
    options = {name: option for option in (*COMMON, *_options(presets)) for name in _names(option)}
    for point in plugins(ENTRY_POINTS).values():
        preset = load_plugin(point, Preset)
        if preset.name in {one.name for one in presets}:
            raise ValueError(f"the preset {point.name!r} ({point.value}) can't be used: its name is taken")
        for option in preset.options:
            # All presets share the shell's flags and the keys of a recipe, so that a name can mean one thing only.
            if any(name in RECIPE_KEYS or options.setdefault(name, option) != option for name in _names(option)):
                raise ValueError(f"the option {option.name!r} of the preset {preset.name!r} is another preset's")
        presets.append(preset)
    return presets


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
            build = resolve_name(preset.build) if isinstance(preset.build, str) else preset.build
            return preset._replace(name=name, build=partial(build, n=int(numbered[2])))
    names = [preset.name for preset in registered() if not preset.own_command]
    raise ValueError(f"there is no graph {name!r}; known are {', '.join(names)}")


def build_preset(
    name: str,
    model: Any,
    *,
    critics: Sequence[Any] = (),
    verifiers: Sequence[Any] = (),
    build_model: Callable[[str], Any] | None = None,
    checkpoints: Literal["step", "round"] = "step",
    **options: Any,
) -> Any:
    """Return the graph of a preset.

    Args:
        name: Of the preset.
        model: Writes.
        critics: Who judges: critics, chat models, or texts as `--critic` takes them.
        verifiers: Programs that judge, or texts as `--verify` takes them; `answer_type` among the options may be such
            a text too.
        build_model: Makes a model of a spec, where a text names one; default: `redraft.models.chat_model`.
        checkpoints: As `build_refine_graph` takes it, for a preset whose builder does; the others save one a step.
        options: As `Preset.build` takes them, and for every preset `human=True`, which asks a person after all others,
            which `ask` makes `"each"` time or where the run ends `"unaccepted"`, and `judge`, the content of a judge's
            file.

    Raises:
        ValueError: There is no such preset, it has no use for a critic, verifier or option that was given, or as its
            builder.
    """
    from ..models import chat_model
    from ..nodes.critics.calibrated import judge_from_specs
    from ..nodes.critics.critics import human_critic
    from ..nodes.verify.verifiers import named_type, stored_verifier

    preset = find_preset(name)
    if isinstance(options.get("answer_type"), str):
        options["answer_type"] = named_type(options["answer_type"])
    options = {option_names().get(option, option): value for option, value in options.items()}
    _check_use(preset, options, critics, verifiers)
    build_model = build_model or chat_model
    judges = _judges(preset, critics, model, build_model)
    if (judge := options.pop("judge", None)) is not None:
        judges.insert(0, judge if callable(judge) else judge_from_specs(judge, model, build_model))
    ask = options.pop("ask", None)
    if options.pop("human", False):
        judges.append(human_critic(ask=ask or "each"))
    elif ask not in (None, "each"):
        raise ValueError("--ask says when --human asks, which is not given")
    checks = [stored_verifier(check) if isinstance(check, str) else check for check in verifiers]
    if preset.takes_checkpoints:
        options["checkpoints"] = checkpoints
    if callable(preset.build):
        return preset.build(model, judges, checks, **options)
    judged = {"critics": judges, "verifiers": checks}
    return resolve_name(preset.build)(model=model, **{key: value for key, value in judged.items() if value}, **options)


def _judges(preset: Preset, critics: Sequence[Any], model: Any, build_model: Callable[[str], Any]) -> list[Any]:
    """Return the critics that texts name; a name that the preset knows itself stays one.

    Raises:
        ValueError: A text names none, or several judge where the preset has one critic.
    """
    from ..nodes.critics.registry import SELF, named_critic, parted

    def judging(critic: Any) -> Any:
        if not isinstance(critic, str) or critic in preset.critic_names:
            return critic
        return model if critic == SELF else named_critic(critic, model, build_model)

    judges = [judging(critic) for critic in critics]
    if preset.one_critic and parted(judges)[0] and len(judges) > 1:
        raise ValueError(f"in {preset.name} one model criticises: give --critic once, a model or self")
    return judges


def _check_use(preset: Preset, options: Mapping[str, Any], critics: Sequence[Any], verifiers: Sequence[Any]) -> None:
    """Raise ValueError if the preset has no use for something that was given."""
    for option in options:
        # An option that no preset lists is one of all presets, or none: then the builder refuses it.
        users = [user for user in registered() if option in {own.name for own in user.options}]
        if users and option not in {own.name for own in preset.options}:
            named = ", ".join(user.name for user in users)
            raise ValueError(f"{known_options()[option].flag or option} is for --graph {named}")
    if critics and preset.no_critics:
        raise ValueError(f"--critic has no use in {preset.name}: {preset.no_critics}")
    for flag, value in (("--verify", verifiers), ("--answer-type", options.get("answer_type"))):
        if value and preset.no_verifiers:
            raise ValueError(f"{flag} has no use in {preset.name}: {preset.no_verifiers}")


def _options(presets: Sequence[Preset]) -> list[Option]:
    return [option for preset in presets for option in preset.options]


def _names(option: Option) -> tuple[str, ...]:
    return (option.name, *option.aliases)


@plugin_cache
def known_options() -> Mapping[str, Option]:
    """Return the options of all presets by their names; those that every preset takes come first."""
    return {option.name: option for option in (*COMMON, *_options(registered()))}


@plugin_cache
def option_names() -> Mapping[str, str]:
    """Return the name of each option by all its names, those of earlier releases too."""
    return {name: option.name for option in known_options().values() for name in _names(option)}


def served_presets() -> dict[str, tuple[Preset, Served]]:
    """Return the presets that a server and Studio offer, by name."""
    offered = {}
    for preset in registered():
        # `None` is served under its own name, () not at all.
        for served in (Served(preset.name),) if preset.serves is None else preset.serves:
            offered[served.name] = (preset, served._replace(line=served.line or preset.line))
    return offered
