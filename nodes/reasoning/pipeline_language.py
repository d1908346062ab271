"""The pipe language: `SetTopic('Microservices') | UseRefinementLoop('3')`, as a text and as Python. Internal.

It is Python's own syntax for names, calls and `|`, so Python's parser reads it; nothing in it is ever executed.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, TypeAlias

from ..._plugins import load_plugin, plugin_cache, plugins

__all__ = [
    "ENTRY_POINTS",
    "LOOPS",
    "EvaluateQuality",
    "Pipeline",
    "PipelineError",
    "PipelineStep",
    "SetQuery",
    "SetTopic",
    "StepKind",
    "StepRole",
    "UseCritique",
    "UseDir",
    "UseDraft",
    "UseFinal",
    "UseImprove",
    "UseIndex",
    "UseRefinementLoop",
    "UseSelfCritique",
    "UseThinking",
    "known_steps",
    "parse_pipeline",
    "register_step",
    "step_help",
]

MOST_CHARACTERS = 20_000
MOST_ITERATIONS = 1000
MOST_NUMBER = 10**18
"""Python refuses to write down much larger ones."""


class PipelineError(ValueError):
    """A pipeline makes no sense. The message points at the place where it is text."""


StepRole: TypeAlias = Literal["think", "draft", "critique", "improve", "loop"]


@dataclass(frozen=True)
class StepKind:
    """A kind of step that pipelines know. One of your own is made known by `register_step`, or by an entry point:

        [project.entry-points."redraft.steps"]
        UseTranslation = "my_package.steps:TRANSLATION"

    Args:
        name: By which a pipeline names it.
        does: What it does, in a few words.
        role: `draft` and `improve` write the text, `critique` judges the most recent one, `think` makes notes that
            later drafts are written by. `loop`, and none, are redraft's own.
        build: `(model, argument) -> writer`, or for a `critique` `-> critic`, as `build_refine_graph` takes them;
            called when the graph is built, with the pipeline's model.
        argument: What its one argument is called; empty: it takes none.
        kind: Whether that is a text or a number from 1 up.
        default: Used where the argument is left out; empty: it must be given.
    """

    name: str
    does: str
    role: StepRole | None = None
    build: Callable[[Any, str], Any] | None = None
    argument: str = ""
    kind: Literal["text", "count"] = "text"
    default: str = ""


def _program(model: object, spec: str) -> Any:
    """Return a program as critic; models have no part in it."""
    from ..critics.critics import verifier_critic
    from ..verify.verifiers import stored_verifier

    return verifier_critic(stored_verifier(spec))


OWN = (
    StepKind("SetTopic", "begins work on a topic", argument="topic"),
    StepKind("SetQuery", "looks passages up for this instead of the topic", argument="query"),
    StepKind("UseDir", "looks passages up in the documents of a folder", argument="folder"),
    StepKind("UseIndex", "looks passages up in a stored index", argument="index"),
    StepKind("UseThinking", "thinks aloud: notes that later drafts are written by", "think"),
    StepKind("UseDraft", "writes a first draft", "draft"),
    StepKind("UseCritique", "criticises the most recent draft or improvement", "critique"),
    StepKind(
        "EvaluateQuality", "judges it by a program: uses_words:A,B, length:20-40", "critique", _program, "verifier"
    ),
    StepKind("UseImprove", "improves it by its critique", "improve"),
    StepKind("UseFinal", "is another name of UseImprove", "improve"),
    StepKind(
        "UseRefinementLoop", "drafts, then criticises and improves N times", "loop", None, "iterations", "count", "3"
    ),
    StepKind(
        "UseSelfCritique", "the same, and scores the outcome: its confidence", "loop", None, "iterations", "count", "1"
    ),
)
LOOPS = tuple(one.name for one in OWN if one.role == "loop")

ENTRY_POINTS = "redraft.steps"
"""The group of entry points, each a `StepKind`."""

REGISTERED: dict[str, StepKind] = {}


def register_step(kind: StepKind) -> PipelineStep:
    """Make a step of your own known to pipelines of this process, in Python and as text, and return it.

    Raises:
        ValueError: Its name is taken or can't be one, or it lacks a role or how it is built.
    """
    _check_kind(kind, known_steps())
    REGISTERED[kind.name] = kind
    return PipelineStep(kind.name)


def known_steps() -> Mapping[str, StepKind]:
    """Return the kinds of steps by name: redraft's own, those of other packages, those that were registered.

    Raises:
        PipelineError: One of another package can't be loaded, or makes no sense.
    """
    return {**_installed(), **REGISTERED}


@plugin_cache
def _installed() -> Mapping[str, StepKind]:
    steps = {kind.name: kind for kind in OWN}
    for name, point in plugins(ENTRY_POINTS).items():
        try:
            kind = load_plugin(point, StepKind)
            _check_kind(kind, steps)
        except ValueError as error:
            raise PipelineError(f"the step {name!r} ({point.value}) can't be used: {error}") from error
        steps[kind.name] = kind
    return steps


def _check_kind(kind: object, known: Mapping[str, StepKind]) -> None:
    if not isinstance(kind, StepKind):
        raise ValueError(f"a step is a StepKind, not {kind!r}")  # noqa: TRY004  as any other that makes no sense
    if not kind.name.isidentifier():
        raise ValueError(f"name={kind.name!r}: a step has a name such as UseTranslation")
    if kind.name in known:
        raise ValueError(f"there is a step {kind.name} already")
    if kind.role not in ("think", "draft", "critique", "improve") or not callable(kind.build):
        raise ValueError(f"{kind.name} needs a role (think, draft, critique or improve), and build=(model, argument)")
    if kind.default and not kind.argument:
        raise ValueError(f"{kind.name} has a default and no argument")


@dataclass(frozen=True)
class PipelineStep:
    """One step of a pipeline; called, it takes its argument, and `|` puts another behind it.

    Raises:
        PipelineError: There is no such step, or the argument makes no sense.
    """

    name: str
    argument: str | None = None

    def __post_init__(self) -> None:
        if self.name not in known_steps():
            raise PipelineError(_unknown(self.name))
        signature = self.step_kind
        if self.argument is not None and not signature.argument:
            raise PipelineError(f"{self.name} takes no argument, not {self.argument!r}")
        if self.argument is not None and not self.argument.strip():
            raise PipelineError(f"the {signature.argument} of {self.name} is blank")
        if self.argument is not None and signature.kind == "count" and not _is_count(self.argument):
            raise PipelineError(
                f"{self.name} takes a number of {signature.argument} from 1 to {MOST_ITERATIONS}, not {self.argument!r}"
            )

    def __call__(self, *arguments: str | int) -> PipelineStep:
        """Return the step with its argument.

        Raises:
            PipelineError: It takes none, more than one was given, or it makes no sense.
        """
        signature = self.step_kind
        if any(isinstance(one, int) and abs(one) > MOST_NUMBER for one in arguments):
            raise PipelineError(f"a number given to {self.name} is far too large")
        if len(arguments) > 1 or (arguments and not signature.argument):
            takes = f"one argument, the {signature.argument}" if signature.argument else "no argument"
            raise PipelineError(f"{self.name} takes {takes}, not {', '.join(map(repr, arguments))}")
        if arguments and (isinstance(arguments[0], bool) or not isinstance(arguments[0], str | int)):
            raise PipelineError(f"{self.name} takes a text or a number, not {arguments[0]!r}")
        return PipelineStep(self.name, *map(str, arguments))

    def __or__(self, other: PipelineStep | Pipeline) -> Pipeline:
        return Pipeline((self,)) | other

    def __str__(self) -> str:
        return self.name if self.argument is None else f"{self.name}({self.argument!r})"

    @property
    def step_kind(self) -> StepKind:
        """The kind of the step."""
        return known_steps()[self.name]

    @property
    def value(self) -> str:
        """The argument, or its default.

        Raises:
            PipelineError: It must be given.
        """
        signature = self.step_kind
        if self.argument is None and not signature.default:
            raise PipelineError(f"{self.name} needs its {signature.argument}: {self.name}('…')")
        return signature.default if self.argument is None else self.argument


@dataclass(frozen=True)
class Pipeline:
    """Steps in the order in which they run.

    Raises:
        PipelineError: There is no step, or one lacks its argument.
    """

    steps: tuple[PipelineStep, ...]

    def __post_init__(self) -> None:
        if not self.steps:
            raise PipelineError(f"the pipeline is empty\n{step_help()}")

    def __or__(self, other: PipelineStep | Pipeline) -> Pipeline:
        if isinstance(other, PipelineStep):
            return Pipeline((*self.steps, other))
        if isinstance(other, Pipeline):
            return Pipeline((*self.steps, *other.steps))
        return NotImplemented

    def __str__(self) -> str:
        return " | ".join(map(str, self.steps))

    @classmethod
    def of(cls, given: PipelineStep | Pipeline) -> Pipeline:
        """Return steps composed in Python as a pipeline.

        Raises:
            PipelineError: A step lacks its argument.
            TypeError: It is neither a step nor a pipeline.
        """
        if not isinstance(given, PipelineStep | Pipeline):
            raise TypeError(f"a pipeline is a text, or steps with | between them, not {given!r}")
        whole = Pipeline((given,)) if isinstance(given, PipelineStep) else given
        for step in whole.steps:
            if step.step_kind.argument:
                _ = step.value
        return whole

    @property
    def sets_topic(self) -> bool:
        """True if it sets a topic before the first step that writes."""
        names = [step.name for step in self.steps]
        first = next((number for number, step in enumerate(self.steps) if step.step_kind.role), len(names))
        return "SetTopic" in names[:first]

    @property
    def longest(self) -> int:
        """The most steps of a graph that it takes."""
        return sum(2 * int(step.value) + 2 if step.name in LOOPS else 1 for step in self.steps)

    def labelled(self) -> list[tuple[str, PipelineStep]]:
        """Return the steps, each with a name of its own: the second `UseDraft` is `UseDraft-2`."""
        labels: list[tuple[str, PipelineStep]] = []
        for step in self.steps:
            nth = sum(earlier.name == step.name for _, earlier in labels) + 1
            labels.append((step.name if nth == 1 else f"{step.name}-{nth}", step))
        return labels


def parse_pipeline(text: str, *, check: Callable[[PipelineStep], object] | None = None) -> Pipeline:
    """Return the pipeline that a text describes.

    Args:
        text: Steps with `|` between them; an argument stands in quotes, a number may stand without.
        check: Called with each step; a `PipelineError` that it raises is pointed at too.

    Raises:
        PipelineError: It is not such a text; the message shows the place with a caret, and names the known steps.
        TypeError: It is no text at all.
    """
    if not isinstance(text, str):
        raise TypeError(f"a pipeline is a text with | between its steps, not {text!r}")
    if not text.strip():
        raise PipelineError(f"the pipeline is empty\n{step_help()}")
    if len(text) > MOST_CHARACTERS:
        raise PipelineError(f"the pipeline has {len(text):,} characters; {MOST_CHARACTERS:,} are allowed")
    line = " ".join(text.splitlines()).strip()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an odd escape in a text is the user's own
            tree = ast.parse(line, mode="eval")
    except SyntaxError as error:
        at, why = (error.offset or 1) - 1, str(error.msg)
        if line.endswith("|"):
            at, why = len(line) - 1, "a step is missing after this |"
        raise PipelineError(_pointed(line, at, 1, f"can't be read: {why}")) from None
    except (RecursionError, MemoryError, ValueError) as error:
        raise PipelineError(f"the pipeline can't be read: {error or 'it is nested too deeply'}") from None
    return Pipeline(tuple(_step(node, line, check) for node in _piped(tree.body)))


def step_help() -> str:
    """Return the known steps, one a line."""
    forms = {
        name: f"{name}('{signature.argument}')"
        if signature.argument and not signature.default
        else f"{name}('{signature.default}')"
        if signature.default
        else name
        for name, signature in known_steps().items()
    }
    width = max(map(len, forms.values()))
    return "\n".join(
        ["known steps:", *(f"  {forms[name]:<{width}}  {kind.does}" for name, kind in known_steps().items())]
    )


def _piped(node: ast.expr) -> list[ast.expr]:
    """Return the operands of `|` from left to right."""
    # `a | b | c` nests to the left, as deep as the pipeline is long: no recursion.
    operands: list[ast.expr] = []
    waiting = [node]
    while waiting:
        operand = waiting.pop()
        if isinstance(operand, ast.BinOp) and isinstance(operand.op, ast.BitOr):
            waiting += [operand.left, operand.right]
        else:
            operands.append(operand)
    return operands[::-1]


def _step(node: ast.expr, line: str, check: Callable[[PipelineStep], object] | None) -> PipelineStep:
    named = node.func if isinstance(node, ast.Call) else node
    if not isinstance(named, ast.Name):
        raise PipelineError(_at(named, line, "is no step: a step is a name such as UseDraft, with | between two"))
    if named.id not in known_steps():
        raise PipelineError(f"{_at(named, line, _unknown(named.id, known=False))}\n{step_help()}")
    if isinstance(node, ast.Call) and node.keywords:
        raise PipelineError(_at(node.keywords[0].value, line, "is given by name: write the argument alone"))
    step = PipelineStep(named.id)
    arguments: list[str | int] = []
    for argument in node.args if isinstance(node, ast.Call) else ():
        value = _constant(argument)
        if type(value) not in (str, int):
            raise PipelineError(_at(argument, line, "is no argument: write a text in quotes, or a number"))
        arguments.append(value)
    try:
        step = step(*arguments) if arguments else step
        _ = step.value if step.step_kind.argument else ""
        if check is not None:
            check(step)
    except PipelineError as error:
        raise PipelineError(_at(node, line, str(error))) from None
    return step


def _constant(node: ast.expr) -> Any:
    """Return the value of a constant, or of a number with a minus before it; else `None`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _constant(node.operand)
        return -value if type(value) is int else None
    return node.value if isinstance(node, ast.Constant) else None


def _at(node: ast.expr, line: str, why: str) -> str:
    encoded = line.encode()  # the parser counts bytes
    start = len(encoded[: node.col_offset].decode(errors="replace"))
    end = len(encoded[: node.end_col_offset or 0].decode(errors="replace"))
    return _pointed(line, start, end - start, why)


def _pointed(line: str, start: int, width: int, why: str) -> str:
    """Return the line with carets under the place, and why. Long lines are cut around it."""
    left, width = max(0, start - 60), min(width, 120)
    excerpt = line[left : start + max(width, 1) + 60]
    carets = "^" * max(1, min(width, len(excerpt) - (start - left)))
    return f"{why}\n  {excerpt}\n  {' ' * (start - left)}{carets}"


def _unknown(name: str, *, known: bool = True) -> str:
    near = get_close_matches(name, known_steps(), n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    listed = f" (known steps: {', '.join(known_steps())})" if known else ""
    return f"there is no step {name!r}{meant}{listed}"


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 4 and 1 <= int(text) <= MOST_ITERATIONS


SetTopic = PipelineStep("SetTopic")
SetQuery = PipelineStep("SetQuery")
UseDir = PipelineStep("UseDir")
UseIndex = PipelineStep("UseIndex")
UseThinking = PipelineStep("UseThinking")
UseDraft = PipelineStep("UseDraft")
UseCritique = PipelineStep("UseCritique")
EvaluateQuality = PipelineStep("EvaluateQuality")
UseImprove = PipelineStep("UseImprove")
UseFinal = PipelineStep("UseFinal")
UseRefinementLoop = PipelineStep("UseRefinementLoop")
UseSelfCritique = PipelineStep("UseSelfCritique")
