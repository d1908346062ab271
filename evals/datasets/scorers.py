"""Scorers by the gold answer: numbers, hidden tests, required words, exact texts; and samples' votes. Internal."""

from __future__ import annotations

import re
import threading
import unicodedata
from abc import ABC, abstractmethod
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from ...models.thoughts import without_thought
from ...nodes.verify.code_replies import read_code, row_text
from ...nodes.verify.numeric_answers import extract_number, lone_number, same_number
from ...nodes.verify.text_verifiers import uses_words

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from ...sandbox import Sandbox, SandboxResult

__all__ = [
    "VOTED_ANSWERS",
    "CodeScorer",
    "ExactScorer",
    "HiddenTests",
    "Kind",
    "Scorer",
    "passes_hidden_tests",
    "scorer",
]


Kind = Literal["numeric", "code", "words", "exact", "score", "checks"]
"""`score`: by a function of one's own; `checks`: by what a graph's own checks say."""


class Scorer(ABC):
    """Reads answers out of solutions, and alone sees the gold ones, which are texts unless a kind says otherwise."""

    @abstractmethod
    def read_answer(self, solution: str) -> str | None:
        """Return the answer that a solution gives, or `None` where it gives none."""

    @abstractmethod
    def is_correct(self, gold: Any, solution: str) -> bool:
        """Return True if a solution is right; one that can't be read is wrong."""

    def grade(self, gold: Any, solution: str) -> float | None:
        """Return the score of a solution, 0–1; `None` where solutions are right or wrong, and no more can be said."""
        return None

    def shown_gold(self, gold: Any) -> str | None:
        """Return the gold answer as a person reads it, or `None` where there is none to show."""
        return str(gold)

    def plain_gold(self, gold: Any) -> Any:
        """Return the gold answer as JSON can hold it, so that a record can be judged again."""
        return str(gold)

    def gold_of(self, plain: Any) -> Any:
        """Return the gold answer that `plain_gold` gave.

        Raises:
            ValueError: It is none of this kind.
        """
        return _of_type(plain, str)


class HiddenTests(NamedTuple):
    """The gold answer of a HumanEval problem."""

    prompt: str
    entry_point: str
    test: str
    canonical_solution: str = ""


def scorer(kind: Kind) -> Scorer:
    """Return the scorer of a kind of problems, always the same one.

    `numeric` compares numbers, as `same_number` does. `code` runs the hidden tests in the sandbox. `words` wants each
    word of the gold answer as it stands, as a whole word in any case, as the verifier `uses_words` does: an inflected
    form ("dogs" for "dog") does not count. `exact` compares texts, see `ExactScorer`.

    Raises:
        ValueError: There is no such kind.
    """
    if kind not in SCORERS:
        raise ValueError(f"kind must be one of {', '.join(SCORERS)}, not {kind!r}")
    return _shared(kind)


@cache
def _shared(kind: Kind) -> Scorer:
    return SCORERS[kind]()


class _NumericScorer(Scorer):
    def read_answer(self, solution: str) -> str | None:
        number = extract_number(solution)
        return None if number is None else _shown(number)

    def is_correct(self, gold: Decimal, solution: str) -> bool:
        return same_number(extract_number(solution), gold)

    def shown_gold(self, gold: Decimal) -> str | None:
        return _shown(gold)

    def gold_of(self, plain: Any) -> Decimal:
        try:
            return Decimal(_of_type(plain, str))
        except InvalidOperation:
            raise ValueError(f"the gold answer must be a number, not {plain!r}") from None


class CodeScorer(Scorer):
    """Runs hidden tests on the code of a solution, once for each solution.

    What the sandbox can't decide (a layer is missing, the tests need objects that can't cross) counts as wrong.

    Args:
        sandbox: Default: `Sandbox()`, built when the first solution is judged; `SandboxUnavailableError` is raised
            then where nothing can run code safely.
    """

    def __init__(self, sandbox: Sandbox | None = None) -> None:
        self._sandbox = sandbox
        # Solutions are scored in several threads; one sandbox does for all.
        self._building = threading.Lock()
        # A record judges the answer and every step, often the same code: the sandbox runs it once.
        self._passes = lru_cache(maxsize=MOST_REMEMBERED)(self._run)

    def read_answer(self, solution: str) -> str | None:
        """Return the code in a solution."""
        return read_code(solution) or None

    def is_correct(self, gold: HiddenTests, solution: str) -> bool:
        """Return True if the code passes the hidden tests."""
        return self._passes(gold, solution)

    def shown_gold(self, gold: HiddenTests) -> str | None:
        """Return the reference solution, where the data set has one."""
        return gold.canonical_solution.strip("\n") or None

    def plain_gold(self, gold: HiddenTests) -> dict[str, str]:
        """Return the hidden tests; the reference solution is not needed to judge."""
        return {"prompt": gold.prompt, "entry_point": gold.entry_point, "test": gold.test}

    def gold_of(self, plain: Any) -> HiddenTests:
        """Return the hidden tests.

        Raises:
            ValueError: They are not whole.
        """
        if set(_of_type(plain, dict)) != {"prompt", "entry_point", "test"}:
            raise ValueError(f"hidden tests have a prompt, an entry_point and a test, not {', '.join(plain)}")
        return HiddenTests(**{name: _of_type(text, str) for name, text in plain.items()})

    def _run(self, gold: HiddenTests, solution: str) -> bool:
        with self._building:
            if self._sandbox is None:
                from ...sandbox import Sandbox

                self._sandbox = Sandbox()
        return passes_hidden_tests(gold._asdict(), solution, self._sandbox).ok


def passes_hidden_tests(row: Mapping[str, Any], answer: str, sandbox: Sandbox) -> SandboxResult:
    """Run the row's hidden tests on an answer and return the result; `.ok` is true where it passes them all.

    An oracle, for evaluations: no graph calls it.

    Args:
        row: With `prompt`, `entry_point` and `test`, as in HumanEval's format.
        answer: What the model replied, as the graph's `answer` holds it.
        sandbox: Runs code and tests.

    Raises:
        ValueError: The row lacks one of the three.
    """
    prompt, name, tests = (row_text(row, key) for key in ("prompt", "entry_point", "test"))
    code = read_code(answer, prompt, entry_point=name)
    if not code:
        from ...sandbox import SandboxResult

        return SandboxResult(status="failed", error="the answer holds no code")
    return sandbox.check(code, tests, name, helpers=prompt)


class _WordsScorer(Scorer):
    def read_answer(self, solution: str) -> str | None:
        return solution.strip() or None

    def is_correct(self, gold: tuple[str, ...], solution: str) -> bool:
        critique = uses_words(*gold)("", solution)
        return critique is not None and bool(critique.accepted)

    def shown_gold(self, gold: tuple[str, ...]) -> str | None:
        return ", ".join(gold)

    def plain_gold(self, gold: tuple[str, ...]) -> list[str]:
        return list(gold)

    def gold_of(self, plain: Any) -> tuple[str, ...]:
        return tuple(_of_type(word, str) for word in _of_type(plain, list))


class ExactScorer(Scorer):
    """Compares texts, whatever their case, white space, Markdown and punctuation; numbers are compared as numbers.

    The answer of a solution is what follows its last `####` or, at the start of a line, `Answer:`, up to the end of
    that line; without such a mark it is the whole solution. It is never searched for the gold answer.
    """

    def read_answer(self, solution: str) -> str | None:
        """Return the answer as it is written."""
        # What a reasoning model thought aloud is no answer.
        solution = without_thought(solution)
        marked = [answer for match in MARKED.finditer(solution) if (answer := match["answer"].strip(EMPHASIS))]
        return (marked[-1] if marked else solution.strip(EMPHASIS)) or None

    def is_correct(self, gold: str, solution: str) -> bool:
        """Return True if the answer and the gold one are the same text, or the same number."""
        answer = self.read_answer(solution)
        if answer is None:
            return False
        numbers = lone_number(answer), lone_number(gold)
        # A number and a text are never the same; only two texts are compared as such.
        if numbers != (None, None):
            return same_number(*numbers)
        return _plain(answer) == _plain(gold)


def _of_type(plain: Any, wanted: type[T]) -> T:
    if not isinstance(plain, wanted):
        raise ValueError(f"the gold answer must hold a {wanted.__name__}, not {plain!r}")  # noqa: TRY004
    return plain


T = TypeVar("T")


def _shown(number: Decimal) -> str:
    return f"{number:f}" if abs(number.adjusted()) < LONGEST_SHOWN else str(number)


def _plain(text: str) -> str:
    """Return a text as it is compared: a text of punctuation only stays as it is."""
    text = unicodedata.normalize("NFKC", text).casefold()
    words = PUNCTUATION.sub(" ", APOSTROPHES.sub("", text)).split()
    return " ".join(words or text.split())


def last_line(solution: str) -> str | None:
    """Return the last line of a solution without what marks it as the answer."""
    lines = [line.strip() for line in solution.splitlines() if line.strip()]
    return re.sub(r"^(?:####|(?:the )?(?:final )?answer(?: is)?\s*:?)\s*", "", lines[-1], flags=re.I) if lines else None


VOTED_ANSWERS: Mapping[str, Callable[[str], Hashable | None]] = {"numeric": extract_number, "exact": last_line}
"""Reader of the answer that a sample votes for, by the kind of problems; other kinds have no vote."""

SCORERS: dict[Kind, type[Scorer]] = {
    "numeric": _NumericScorer,
    "code": CodeScorer,
    "words": _WordsScorer,
    "exact": ExactScorer,
}
MOST_REMEMBERED = 4096
LONGEST_SHOWN = 30
EMPHASIS = "*_` \t\r\n"
APOSTROPHES = re.compile("['’‘]")
PUNCTUATION = re.compile(r"[;!?\"“”„«»()\[\]{}*_`…]|[.,:](?![0-9])|(?<![0-9])[,:]")
# `*+` gives nothing back: a long row of stars or spaces is not tried over and over.
MARKED = re.compile(r"(?:####|^[ \t>*_#]*+(?:final )?answer[ \t*_]*+:)(?P<answer>.*)$", re.IGNORECASE | re.MULTILINE)
