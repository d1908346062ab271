"""Run config: a preset, the specs of its models and verifiers, and its options; stored with a run and signed. Internal.

It rebuilds the graph of a thread, so that the shell can resume it. To a user, and where it is stored, it is the recipe.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from .._files import read_file
from .._plugins import plugin_cache
from ..graphs.registry import build_preset, find_preset, known_options, option_names
from ..nodes.critics.registry import SELF, critic_model, on_itself
from ..nodes.verify.verifiers import holds_schema, opened_file, stored_type
from ..state.limits import MOST_TOKENS, Limits
from ..state.masking import mask_values_of
from .problems import BadInputError
from .signing import is_own, signature

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langchain_core.language_models import BaseChatModel
    from langgraph.graph.state import CompiledStateGraph

    from ..state.storage.index import RunRow

__all__ = ["RunConfig", "build_from_recipe", "kept_spec", "read_recipe", "reasons_of", "small_model_options"]

FILE_SPECS = ("gguf:", "scripted:", "replay:")
# Unknown keys are refused and not dropped: another version may have written them, and meant something.
CHECKED = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def kept_spec(spec: str) -> str:
    """Return a spec as it may be written down: without a credential, its file findable from any folder."""
    from ..models import redact

    if redact(spec) != spec:
        raise ValueError(
            f"{redact(spec)!r} carries a credential, which would be stored with the run: put it into OPENAI_API_KEY "
            "(or REDRAFT_API_KEY for an http:// model) instead"
        )
    path = spec.partition(":")[2] if spec.startswith(FILE_SPECS) else ""
    return spec.removesuffix(path) + _anywhere(path) if path else spec


def _kept_verifier(spec: str) -> str:
    path = opened_file(spec)
    return spec.removesuffix(path) + _anywhere(path) if path else spec


def _kept_critic(spec: str) -> str:
    model = critic_model(spec)
    return spec.removesuffix(model) + kept_spec(model) if model else _kept_verifier(spec)


def _anywhere(path: str) -> str:
    """Return a path that is found from any folder."""
    return str(Path(path).expanduser().absolute())


class RunConfig(BaseModel):
    """Preset, specs and options that rebuild a graph. Holds no secret.

    Raises:
        ValueError: A spec carries a credential, the preset is unknown, or an option makes no sense.
    """

    model_config = CHECKED

    preset: str = "refine"
    model: Annotated[str, AfterValidator(kept_spec)]
    critics: tuple[Annotated[str, AfterValidator(_kept_critic)], ...] = ()
    """`self`, specs of models, or critics by name. Neither critics nor verifiers: the preset's own judge."""
    verifiers: tuple[Annotated[str, AfterValidator(_kept_verifier)], ...] = ()
    temperature: float | None = Field(default=None, ge=0, strict=True)
    max_output_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS, strict=True)
    seed: int | None = Field(default=None, ge=-(2**63), lt=2**63, strict=True)
    timeout_s: float | None = Field(default=None, gt=0, strict=True)
    """Seconds that an attempt of a call may take, of critics too; default: as `chat_model` has it."""
    prices: Annotated[str, AfterValidator(_anywhere)] | None = None
    options: dict[str, Any] = {}
    """Options of presets that say something, by name. Outside of Python they stand beside the other fields."""

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, fields: Any) -> Any:
        """Return the fields with the presets' options, which stand among them, as one."""
        if not isinstance(fields, dict):
            return fields
        names = option_names()
        if twice := [name for name in fields if names.get(name, name) != name and names[name] in fields]:
            raise ValueError(f"{twice[0]} is another name of {names[twice[0]]}: give one of them")
        options = {names[name]: value for name, value in fields.items() if name in names}
        rest = {name: value for name, value in fields.items() if name not in names}
        # It would be overwritten below, and what stands in it dropped in silence.
        if "options" in rest:
            raise ValueError("options: extra inputs are not permitted")
        try:
            checked = _options_model()(**options)
        except ValidationError as error:
            raise ValueError(reasons_of(error)) from None
        return {**rest, "options": checked.model_dump(exclude_defaults=True)}

    @field_validator("preset")
    @classmethod
    def _known(cls, preset: str) -> str:
        find_preset(preset)
        return preset

    @classmethod
    def given(cls, **fields: Any) -> RunConfig:
        """Return the recipe of what a user gave, where `None` means not given.

        Raises:
            BadInputError: It makes no sense; the message says why on one line.
        """
        try:
            return cls(**{name: value for name, value in fields.items() if value is not None})
        except ValidationError as error:
            raise BadInputError(reasons_of(error)) from None

    @classmethod
    def of_thread(cls, saver: Any, thread_id: str, row: RunRow | None = None) -> RunConfig:
        """Return the recipe that a thread was last run with, whoever wrote it: to be read, not to be followed.

        Raises:
            BadInputError: There is no such thread, it was built in Python, or another version wrote its recipe.
        """
        return cls._parsed(thread_id, cls._text(saver, thread_id, row))[0]

    @classmethod
    def kept(cls, saver: Any, thread_id: str, row: RunRow | None = None) -> tuple[RunConfig, bool]:
        """Return the recipe that a thread was last run with, and whether this user wrote it as it is.

        What stands in a database that is encrypted with the user's key was written by who has the key; what stands in
        memory, by this process.

        Raises:
            BadInputError: As `of_thread`.
        """
        return cls.read(saver, thread_id, cls._text(saver, thread_id, row))

    @staticmethod
    def _text(saver: Any, thread_id: str, row: RunRow | None) -> str:
        if (row := row or saver.runs.get(thread_id)) is None:
            raise BadInputError(f"there is no thread {thread_id!r}")
        if row.recipe is None:
            raise BadInputError(
                f"the thread {thread_id!r} was built in Python: the shell can't resume it; "
                f"use Thread(graph, {thread_id!r}).resume() there"
            )
        return str(row.recipe)

    @classmethod
    def read(cls, saver: Any, thread_id: str, text: str) -> tuple[RunConfig, bool]:
        """Return the recipe that a checkpoint or the runs index holds as text, and whether this user wrote it as it is.

        Raises:
            BadInputError: It can't be used.
        """
        from ..state.storage.sqlite import IndexedMemorySaver

        recipe, content, mark = cls._parsed(thread_id, text)
        written_here = isinstance(saver, IndexedMemorySaver) or getattr(saver, "vault", None) is not None
        return recipe, written_here or is_own(content, mark)

    @classmethod
    def _parsed(cls, thread_id: str, text: str) -> tuple[RunConfig, Any, object]:
        """Return the recipe that a text is, with what it says and its mark."""
        try:
            content = json.loads(text)
            # The mark is no field, and no part of what it signs.
            mark = content.pop("mark", None) if isinstance(content, dict) else None
            # As text it would be a file's path, which nobody has agreed to open yet.
            if isinstance(content, dict) and not isinstance(content.get("judge", {}), dict):
                raise ValueError("its judge is no content of a judge's file")  # noqa: TRY004, TRY301
            recipe = cls.model_validate(content)
        except ValidationError as error:
            raise BadInputError(f"the recipe of thread {thread_id!r} can't be used: {reasons_of(error)}") from None
        # Whoever can write to the database can nest JSON as deeply as they like.
        except (ValueError, RecursionError) as error:
            raise BadInputError(f"the recipe of thread {thread_id!r} can't be used: {error}") from None
        return recipe, content, mark

    def flat(self) -> dict[str, Any]:
        """Return it as JSON holds it, without what says nothing."""
        fields = self.model_dump(mode="json", exclude_defaults=True, exclude={"options"})
        return {**fields, **self.options}

    def metadata(self) -> dict[str, str]:
        """Return the `config["metadata"]` of a run, which lands in its checkpoints and in the runs index."""
        metadata = {"redraft_preset": self.preset, "redraft_recipe": self._signed()}
        # The paths of a search are threads too, which are resumed one by one.
        path = find_preset(self.preset).paths_as
        if path:
            from ..nodes.search.path_run import PATH_RECIPE

            metadata[PATH_RECIPE] = self._on(path)._signed()
        return metadata

    def _signed(self) -> str:
        content = self.flat()
        mark = signature(content)
        # Where no key can be kept it goes unmarked, and is asked about before it is followed.
        return json.dumps(content if mark is None else {**content, "mark": mark}, separators=(",", ":"))

    def of_fork(self) -> RunConfig:
        """Return the recipe that a fork goes on with: of a pipeline, draft, critique and improvement in turn."""
        return self._on(find_preset(self.preset).forks_as or self.preset)

    def _on(self, preset: str) -> RunConfig:
        """Return it for another preset, without the options that are another one's."""
        if preset == self.preset:
            return self
        dropped = {option.name for option in find_preset(self.preset).options}
        dropped -= {option.name for option in find_preset(preset).options}
        options = {name: value for name, value in self.options.items() if name not in dropped}
        return self.model_copy(update={"preset": preset, "options": options})

    @property
    def models(self) -> list[str]:
        """The specs of the models that it names: who writes, who criticises, and those of its judge."""
        judges = [part.get("spec", "") for part in self.options.get("judge", {}).get("critics", ())]
        return [spec for spec in dict.fromkeys((self.model, *map(critic_model, (*self.critics, *judges)))) if spec]

    def reaches(self) -> list[str]:
        """Return in words what the recipe would reach beyond the provider: servers it writes to, files it reads.

        The address of REDRAFT_MODEL is the user's own.
        """
        effects = []
        for spec in self.models:
            if spec.startswith(("http:", "https:")) and _address(spec) != _address(os.environ.get("REDRAFT_MODEL", "")):
                effects.append(f"send texts, and REDRAFT_API_KEY if it is set, to {spec}")
            elif spec.startswith(FILE_SPECS):
                effects.append(f"open the file of {spec}")
        effects += [f"open the file of {spec}" for spec in (*self.verifiers, *self.critics) if opened_file(spec)]
        if self.prices is not None:
            effects.append(f"open the file {self.prices}")
        registered = known_options()
        for name, value in self.options.items():
            # A path is told also where its preset forgot to say what it reaches.
            if name == "answer_type" and holds_schema(value):
                continue
            if effect := registered[name].reaches or ("open {}" if registered[name].kind is Path else ""):
                effects.append(effect.replace("{}", str(value)))
        return effects

    def with_model(self, spec: str) -> RunConfig:
        """Return it for another model; what the embedded model alone is asked stays behind.

        Raises:
            BadInputError: The spec makes no sense.
        """
        fields = {name: value for name, value in self.flat().items() if SMALL_MODEL.get(name) != value}
        return RunConfig.given(**{**fields, **small_model_options(spec, self.preset), "model": spec})

    def with_prompts(self, prompts: Mapping[str, Any]) -> RunConfig:
        """Return it with other prompts, by the names of its options.

        Raises:
            BadInputError: There is no prompt of a name.
        """
        return RunConfig.given(**{**self.flat(), **prompts})

    @property
    def asks_model(self) -> bool:
        """True if its graph asks a model; a search by rules asks none, so that none is fetched or spoken of."""
        preset = find_preset(self.preset)
        return preset.needs_model or bool(self.critics) or any(self.options.get(name) for name in preset.model_for)

    def build(
        self,
        checkpointer: Any,
        *,
        build_model: Callable[..., BaseChatModel] | None = None,
        checkpoints: Literal["step", "round"] = "step",
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return the graph.

        Args:
            checkpointer: Where its threads are kept.
            build_model: From a spec and, where given, `temperature`, `max_output_tokens`, `seed` and
                `timeout_s` to a model; default: `redraft.models.chat_model`.
            checkpoints: `"round"` where nobody looks at single steps: as `build_refine_graph` takes it, for presets
                that do.

        Raises:
            ValueError: A spec, a verifier, a prompt or the price table is wrong.
        """
        from ..models import PriceTable, chat_model

        mask_values_of(os.environ)  # a provider's error may repeat its key
        tuning = self.model_dump(include={"temperature", "max_output_tokens", "seed"}, exclude_none=True)
        patience = self.model_dump(include={"timeout_s"}, exclude_none=True)
        build_model = partial(build_model or chat_model, **patience)
        model = build_model(self.model, **tuning) if self.asks_model else None
        # A type of the user's own may stand in a module of the folder at hand.
        if self.options.get("answer_type") and os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        graph: CompiledStateGraph[Any, Any, Any, Any] = build_preset(
            self.preset,
            model,
            # A critic of the writer's spec is the writer itself, not a second model.
            critics=[SELF if spec == self.model else spec for spec in self.critics],
            verifiers=self.verifiers,
            build_model=build_model,
            prices=PriceTable.from_file(self.prices) if self.prices else None,
            checkpointer=checkpointer,
            checkpoints=checkpoints,
            **self.options,
        )
        return graph

    def silent(self) -> RunConfig:
        """Return it with models that never answer, for a drawing of its graph: neither a key nor a server is needed."""
        from langchain_core.language_models import FakeListChatModel

        model = FakeListChatModel(responses=[])
        critics = tuple(map(on_itself, self.critics))
        # What tunes a model or is read from a file has no part in a drawing, and might be missing here.
        dropped = dict.fromkeys(("temperature", "max_output_tokens", "seed", "prices"))
        options = {name: value for name, value in self.options.items() if name != "judge"}
        return self.model_copy(update={"model": model, "critics": critics, "options": options, **dropped})

    @staticmethod
    def reader(
        checkpointer: Any, *, human: bool = False, search: bool = False, own: Sequence[str] = ()
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return a graph that reads and forks threads of every preset, and runs none: it has no model.

        Args:
            checkpointer: Where the threads are.
            human: Whether a person is asked in them: a fork must not go past their node.
            search: Whether they are of `build_branching_graph`.
            own: Keys of their state; a fork keeps those that are not the loop's.
        """
        from ..graphs.loop import loop_reader

        if search:
            from langchain_core.language_models import FakeListChatModel

            from ..graphs.branching import build_branching_graph

            return build_branching_graph(FakeListChatModel(responses=[]), checkpointer=checkpointer)
        return loop_reader(checkpointer, human=human, own=own)


def read_recipe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the content of a recipe's file, as `redraft choose` and `redraft tune` write it.

    Raises:
        ValueError: It is no JSON object.
        OSError: It can't be read.
    """
    try:
        content = json.loads(read_file(path))
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise ValueError(f"{os.fspath(path)} is no recipe: it is not JSON: {why}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{os.fspath(path)} is no recipe: it must be an object of options by name")  # noqa: TRY004
    return content


def build_from_recipe(recipe: str | os.PathLike[str] | Mapping[str, Any], *, checkpointer: Any = None) -> Any:
    """Return the graph that a recipe describes: a preset with its model, judges, options and limits.

    Args:
        recipe: A file, or its content.
        checkpointer: As in `StateGraph.compile`.

    Raises:
        ValueError: The recipe makes no sense, or names no model.
        OSError: The file can't be read.

    Example:
        >>> from redraft.faces import build_from_recipe
        >>> graph = build_from_recipe({"preset": "refine", "model": "replay", "verifiers": ["uses_words:river,lamp"]})
        >>> graph.invoke({"task": "Write one short sentence about the night."})["accepted_by"]
        'uses_words'
    """
    content = recipe if isinstance(recipe, Mapping) else read_recipe(recipe)
    try:
        return RunConfig.model_validate(content).build(checkpointer)
    except ValidationError as error:
        raise ValueError(reasons_of(error)) from None


def small_model_options(spec: str, preset: str) -> dict[str, str]:
    """Return the loop's options for the embedded model, which is too small for the usual ones."""
    return dict(SMALL_MODEL) if spec == "local" and preset == "refine" else {}


SMALL_MODEL = {"refine_prompt": "{task} {feedback} Try {round}:", "memory": "last"}
"""A model of 135M parameters that is shown its draft copies it, so it is told the task again, and what was missed. The
round is named so that, with a fixed seed, the same feedback twice does not give the same reply twice."""


@plugin_cache
def _options_model() -> type[BaseModel]:
    """Return the model that checks the options of all presets."""
    fields: dict[str, Any] = {}
    for name, option in known_options().items():
        kind = Annotated[str, AfterValidator(_anywhere)] if option.kind is Path else option.kind
        if option.kind is dict:
            kind = Annotated[dict[str, Any], BeforeValidator(_judge_content if name == "judge" else _limits)]
        if option.kind in (bool, int, float):
            # Else "true" were a flag, and a number might fit nowhere that it is kept.
            most = MOST_TOKENS if option.kind is int and option.most is None else option.most
            kind = Annotated[kind, Field(ge=option.least, le=most, strict=True)]
        kind = Annotated[str, AfterValidator(stored_type)] if name == "answer_type" else kind
        fields[name] = (kind if option.default is not None else kind | None, option.default)
    return create_model("Options", __config__=CHECKED, **fields)


def _limits(limits: Any) -> dict[str, Any]:
    if not isinstance(limits, Mapping):
        raise ValueError(f'limits are an object such as {{"max_rounds": 2}}, not {limits!r:.80}')  # noqa: TRY004
    return dict(Limits(**limits))


def _judge_content(judge: Any) -> dict[str, Any]:
    """Return the checked content of a judge's file: a thread goes on with the judge that it began with."""
    from ..nodes.critics.judge_file import read_judge

    content: dict[str, Any] = read_judge(judge).model_dump(mode="json")
    for part in content["critics"]:
        if model := critic_model(part["spec"]):
            kept_spec(model)
    return content


def _address(spec: str) -> str:
    return spec.strip().partition("#")[0].rstrip("/")


def reasons_of(error: ValidationError) -> str:
    """Return the errors in settings that a user gave, each with its name where the message has none."""
    reasons = []
    # Without the input: a spec that is refused for its credential must not be printed.
    for detail in error.errors(include_url=False, include_input=False):
        path = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        reasons.append(message if detail["type"] == "value_error" else f"{path}: {message[:1].lower()}{message[1:]}")
    return "; ".join(reasons)
