"""What rebuilds a graph: kept with every run that the shell starts, so that the shell can resume it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..nodes.search.own_threads import PATH_RECIPE
from .presets import build_preset, checked_preset
from .problems import BadInputError
from .vouching import is_own, own_mark

if TYPE_CHECKING:
    from langgraph.graph.state import CompiledStateGraph

__all__ = ["Recipe", "kept_spec"]

NO_SPECS = ("self", "program")
"""Critics that are no model specs."""
FILE_SPECS = ("gguf:", "scripted:", "replay:")


class Recipe(BaseModel):
    """A preset, the specs of its models and verifiers, and its options. Holds no secret.

    Raises:
        ValueError: A spec carries a credential, the preset is unknown, or an option makes no sense.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    preset: str = "refine"
    model: str
    critics: tuple[str, ...] = ()
    """Model specs, `self`, or a name that the preset knows. Neither critics nor verifiers: the model judges itself."""
    verifiers: tuple[str, ...] = ()
    temperature: float | None = Field(default=None, ge=0)
    max_output_tokens: int | None = Field(default=None, ge=1)
    seed: int | None = None
    prices: str | None = None
    generate_prompt: str | None = None
    refine_prompt: str | None = None
    critic_prompt: str | None = None
    keep: Literal["best", "last"] = "best"
    memory: Literal["all", "last"] = "all"
    judge_last: bool = True
    critics_after: Literal["undecided", "always"] = "undecided"
    steps: str | None = None
    """The text of a pipeline."""
    folder: str | None = None
    """Whose text and Markdown files passages are looked up in."""
    tools: tuple[str, ...] = ()
    """Names of the tools of an agent."""
    passages: int | None = Field(default=None, ge=1)
    threshold: float | None = Field(default=None, ge=0, le=1)
    paths: int | None = Field(default=None, ge=1)
    """How many drafts a search begins with, and how often one is revised in each of its levels."""
    depth: int | None = Field(default=None, ge=0)
    """How many levels of revisions a search has."""
    beam: int | None = Field(default=None, ge=1)
    """How many paths go on from a level."""
    human: bool = False
    """Whether a person is asked about each draft, after all others."""

    @field_validator("preset")
    @classmethod
    def _known(cls, preset: str) -> str:
        return checked_preset(preset)

    @field_validator("model")
    @classmethod
    def _model_spec(cls, spec: str) -> str:
        return kept_spec(spec)

    @field_validator("critics")
    @classmethod
    def _critic_specs(cls, specs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(kept_spec(spec) for spec in specs)

    @field_validator("verifiers")
    @classmethod
    def _verifier_specs(cls, specs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(_found_anywhere(spec, ("json_schema:",)) for spec in specs)

    @field_validator("prices", "folder")
    @classmethod
    def _anywhere(cls, path: str | None) -> str | None:
        return None if path is None else str(Path(path).expanduser().absolute())

    @classmethod
    def given(cls, **fields: Any) -> Recipe:
        """Return the recipe of what a user gave, where `None` means not given.

        Raises:
            BadInputError: It makes no sense; the message says why on one line.
        """
        try:
            return cls(**{name: value for name, value in fields.items() if value is not None})
        except ValidationError as error:
            raise BadInputError(_reasons(error)) from None

    @classmethod
    def of_thread(cls, saver: Any, thread_id: str) -> Recipe:
        """Return the recipe that a thread was last run with, whoever wrote it: to be read, not to be followed.

        Raises:
            BadInputError: There is no such thread, it was built in Python, or another version wrote its recipe.
        """
        return cls.kept(saver, thread_id)[0]

    @classmethod
    def kept(cls, saver: Any, thread_id: str) -> tuple[Recipe, bool]:
        """Return the recipe that a thread was last run with, and whether this user wrote it as it is.

        What stands in a database that is encrypted with the user's key was written by who has the key; what stands in
        memory, by this process.

        Raises:
            BadInputError: As `of_thread`.
        """
        row = saver.runs.get(thread_id)
        if row is None:
            raise BadInputError(f"there is no thread {thread_id!r}")
        if row.recipe is None:
            raise BadInputError(
                f"the thread {thread_id!r} was built in Python: the shell can't resume it; "
                f"use Thread(graph, {thread_id!r}).resume() there"
            )
        try:
            content = json.loads(row.recipe)
            mark = content.pop("mark", None) if isinstance(content, dict) else None
            recipe = cls.model_validate(content)
        except ValidationError as error:
            raise BadInputError(f"the recipe of thread {thread_id!r} can't be used: {_reasons(error)}") from None
        except (ValueError, RecursionError) as error:
            raise BadInputError(f"the recipe of thread {thread_id!r} can't be used: {error}") from None
        vault = getattr(saver, "vault", None)
        return recipe, vault is None or vault.locked or is_own(content, mark)

    def of_fork(self) -> Recipe:
        """Return the recipe that a fork goes on with: of a pipeline, draft, critique and improvement in turn."""
        if self.preset != "pipeline":
            return self
        return self.model_copy(update={"preset": "reasoning", "steps": None})

    def of_path(self) -> Recipe:
        """Return the recipe of one path of a search: the plain loop."""
        return self.model_copy(update={"preset": "refine", "paths": None, "depth": None, "beam": None})

    def metadata(self) -> dict[str, str]:
        """Return what goes into `config["metadata"]` of a run: it lands in its checkpoints and in the runs index."""
        told = {"redraft_preset": self.preset, "redraft_recipe": self._written()}
        return told | ({PATH_RECIPE: self.of_path()._written()} if self.preset == "branching" else {})

    def _written(self) -> str:
        content = self.model_dump(mode="json", exclude_defaults=True)
        mark = own_mark(content)
        return json.dumps(content if mark is None else {**content, "mark": mark}, separators=(",", ":"))

    def build(self, checkpointer: Any) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return the graph.

        Raises:
            ValueError: A spec, a verifier, a prompt or the price table is wrong.
        """
        from ..models import PriceTable, chat_model
        from ..nodes.verify.verifiers import verifier

        # A search by rules asks no model, so none is fetched.
        needed = self.preset != "retrieval" or bool(self.critics)
        options: dict[str, Any] = {
            "temperature": self.temperature,
            "max_output_tokens": self.max_output_tokens,
            "seed": self.seed,
        }
        model = chat_model(self.model, **options) if needed else None
        critics = [
            "self" if spec == self.model else spec if spec in NO_SPECS else chat_model(spec) for spec in self.critics
        ]
        graph: CompiledStateGraph[Any, Any, Any, Any] = build_preset(
            self.preset,
            model,
            critics=critics,
            verifiers=[verifier(spec) for spec in self.verifiers],
            prices=PriceTable.from_file(self.prices) if self.prices else None,
            checkpointer=checkpointer,
            **self._prompts(),
            **self._options(),
        )
        return graph

    @staticmethod
    def reader(
        checkpointer: Any, *, human: bool = False, search: bool = False
    ) -> CompiledStateGraph[Any, Any, Any, Any]:
        """Return a graph that reads and forks threads of every preset, and has no model to run them with.

        Args:
            checkpointer: Where the threads are.
            human: Whether a person is asked in them: a fork must not go past their node.
            search: Whether they are of `build_branching_graph`.
        """
        from langchain_core.language_models import FakeListChatModel

        from ..graphs.loop import build_refine_graph
        from ..nodes.critics.critics import human_critic

        if search:
            from ..graphs.branching import build_branching_graph

            return build_branching_graph(FakeListChatModel(responses=[]), checkpointer=checkpointer)
        people = [human_critic()] if human else []
        return build_refine_graph(FakeListChatModel(responses=[]), critics=people, checkpointer=checkpointer)

    def _prompts(self) -> dict[str, str]:
        given = {
            "generate_prompt": self.generate_prompt,
            "refine_prompt": self.refine_prompt,
            "critic_prompt": self.critic_prompt,
        }
        return {name: prompt for name, prompt in given.items() if prompt is not None}

    def _options(self) -> dict[str, Any]:
        """Return the options that were given: a preset has defaults of its own."""
        named = {"keep", "memory", "judge_last", "critics_after", "steps", "folder", "tools", "passages", "threshold"}
        named |= {"paths", "depth", "beam", "human"}
        return self.model_dump(include=named, exclude_defaults=True)


def kept_spec(spec: str) -> str:
    """Return a spec as it may be written down: without a credential, its file findable from any folder."""
    from ..models import redact

    if redact(spec) != spec:
        raise ValueError(
            f"{redact(spec)!r} carries a credential, which would be stored with the run: put it into OPENAI_API_KEY "
            "(or REDRAFT_API_KEY for an http:// model) instead"
        )
    return _found_anywhere(spec, FILE_SPECS)


def _found_anywhere(spec: str, schemes: tuple[str, ...]) -> str:
    """Return a spec whose file, where it names one, is found from any folder."""
    for scheme in schemes:
        path = spec.removeprefix(scheme)
        if path and path != spec:
            return scheme + str(Path(path).expanduser().absolute())
    return spec


def _reasons(error: ValidationError) -> str:
    told = []
    for detail in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in detail["loc"])
        message = detail["msg"].removeprefix("Value error, ")
        told.append(message if detail["type"] == "value_error" else f"{where}: {message[:1].lower()}{message[1:]}")
    return "; ".join(told)
