"""The tests that a coding task shows. Internal.

Doctest examples, asserts, and calls that stand beside their results.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

__all__ = ["VisibleTest", "bound_names", "given_tests", "parse_python", "visible_tests", "with_harness"]


@dataclass(frozen=True)
class VisibleTest:
    """One test, as a reader of the task sees it and as a sandbox runs it."""

    shown: str
    """The call, or the statement that must hold."""
    wanted: str
    """The expected result of the call; empty where the test is a statement."""
    code: str
    """Python that raises unless the test passes, run after `with_harness`; what a call gave is in the message."""
    names: tuple[str, ...]
    """The functions that it needs from elsewhere; empty for one that calls `candidate`."""


def visible_tests(task: str, *, entry_point: str = "") -> list[VisibleTest]:
    """Return the tests that a task shows, in their order, each once.

    These are doctest examples (`>>> f(1)`, with what follows), `assert` lines, and calls of the entry point with plain
    arguments that stand beside a plain result: `f(1) == 2`, `f(1) => 2`, `f(1) returns 2`. Of a task with very many, or
    with a long setup before them, the first are read.
    """
    sources = _examples(task), _asserts(task), _calls(task, entry_point)
    tests = [test for source in sources for test in islice(source, MOST_READ)]
    return list({(test.shown, test.wanted, test.code): test for test in tests}.values())


def given_tests(tests: str | Sequence[str]) -> list[VisibleTest]:
    """Return tests given as Python: asserts, `test_…` functions, a `check(candidate)`, or doctest examples.

    Statements before an assert in the same text are run before it.

    Raises:
        ValueError: A text is not Python, or holds no test.
    """
    parsed: list[VisibleTest] = []
    for text in [tests] if isinstance(tests, str) else tests:
        examples = [] if parse_python(text) else list(_examples(text))
        parsed += examples or _statements(text)
    return parsed


def with_harness(helpers: str) -> str:
    """Return the source of `helpers` after what the tests compare with."""
    future = "".join(f"{line}\n" for line in FUTURE.findall(helpers))
    return f"{future}{HARNESS}{FUTURE.sub('', helpers)}"


def parse_python(source: str) -> list[ast.stmt]:
    """Return the statements of a short source, or nothing where it is no Python. Not for code a model wrote."""
    if len(source) > LONGEST:
        return []
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def bound_names(source: str) -> set[str]:
    """Return the names that a source binds anywhere: by assigning, importing or defining."""
    return set(_Setup().with_source(source).bound)


@dataclass(frozen=True)
class _Setup:
    """Statements that stand before a test, and their names: parsed once, however many tests follow."""

    source: str = ""
    loaded: tuple[str, ...] = ()
    """Each once, in the order of the source."""
    bound: frozenset[str] = frozenset()
    dotted: frozenset[str] = frozenset()
    """Those of which an attribute is taken."""

    def with_source(self, source: str) -> _Setup:
        """Return the setup with more statements behind it."""
        nodes = [node for statement in parse_python(source) for node in ast.walk(statement)]
        loaded = [node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        dotted = {
            node.value.id for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        }
        return _Setup(
            f"{self.source}\n{source}" if self.source else source,
            tuple(dict.fromkeys([*self.loaded, *loaded])),
            self.bound.union(*map(_bound_by, nodes)),
            self.dotted | dotted,
        )


def _bound_by(node: ast.AST) -> set[str]:
    """Return the name that a node of the tree binds, if any."""
    if isinstance(node, ast.Name):
        return set() if isinstance(node.ctx, ast.Load) else {node.id}
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    return {(node.asname or node.name).partition(".")[0]} if isinstance(node, ast.alias) else set()


def _statements(text: str) -> list[VisibleTest]:
    body = parse_python(text)
    if not body:
        raise ValueError(f"tests must be Python, or examples with >>>, not {text[:200]!r}")
    lines = [line.encode() for line in NEW_LINE.split(text)]
    sources = [(node, _source(node, lines)) for node in body]
    functions = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    setup = _Setup().with_source("\n".join(source for node, source in sources if not isinstance(node, ast.Assert)))
    collected = [_assertion(node, source, setup) for node, source in sources if isinstance(node, ast.Assert)]
    collected += [_test(f"{name}()", "", setup, f"{name}()") for name in functions if name.startswith("test")]
    if "check" in functions:
        collected.append(VisibleTest("check(candidate)", "", text, ()))
    if not collected:
        raise ValueError(f"tests must hold an assert, a test function or an example with >>>, not {text[:200]!r}")
    return collected


def _source(node: ast.stmt, lines: Sequence[bytes]) -> str:
    """Return the source of a statement; `ast.get_source_segment` splits the whole text anew for each."""
    segment = list(lines[node.lineno - 1 : node.end_lineno])
    segment[-1] = segment[-1][: node.end_col_offset]
    segment[0] = segment[0][node.col_offset :]
    return b"\n".join(segment).decode()


def _examples(text: str) -> Iterator[VisibleTest]:
    setup = _Setup()
    for chunk in re.split(r"\n\s*\n", _without_quotes(text)):
        try:
            examples = doctest.DocTestParser().get_examples(chunk)
        except ValueError:  # an example with a prompt or an indent that doctest refuses
            continue
        for example in examples:
            source, want = example.source.strip(), example.want.strip()
            body = parse_python(source)
            node = body[0] if len(body) == 1 else None
            if example.exc_msg:
                raised = example.exc_msg.strip()
                call = source.replace("\n", "\n    ")
                yield _test(source, f"raise {raised}", setup, RAISES.format(call=call, raised=raised))
            elif isinstance(node, ast.Assert):
                yield _assertion(node, source, setup)
            elif isinstance(node, ast.Expr):
                yield from _example(node.value, source, want, setup)
            if not want and body:
                setup = setup.with_source(source)
                if len(setup.source) > LONGEST_SETUP:  # each test holds it, and none is right without all of it
                    return


def _example(value: ast.expr, source: str, want: str, setup: _Setup) -> Iterator[VisibleTest]:
    compared = isinstance(value, ast.Compare) and len(value.ops) == 1 and isinstance(value.ops[0], ast.Eq)
    source = ast.get_source_segment(source, value) or source
    literal = _literal(want) or _literal(want.partition("\n")[0])
    if compared and (literal or "True") == "True":
        test = _equation(value, setup)
    elif not want or literal:
        test = _equality(source, literal or "None", setup)
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "print":
        test = _test(source, want, setup, PRINTS.format(call=source, want=want))
    elif "\n" in want:  # prose has run into it, as far as one can tell
        return
    else:
        test = _test(source, want, setup, SHOWS.format(call=source, want=want))
    if test.names:
        yield test


def _asserts(text: str) -> Iterator[VisibleTest]:
    lines, left = text.splitlines(), MOST_PARSED
    for number, line in enumerate(lines):
        if not ASSERT.match(line):
            continue
        lines[number] = line[line.index("assert") :]
        for end in range(number + 1, min(len(lines), number + MOST_LINES) + 1):
            source = "\n".join(lines[number:end]).rstrip("` ")
            left -= len(source)
            if left < 0:
                return
            body = parse_python(source)
            if len(body) == 1 and isinstance(body[0], ast.Assert):
                test = _assertion(body[0], source, _Setup())
                if test.names:
                    yield test
                break


def _calls(text: str, name: str) -> Iterator[VisibleTest]:
    """Yield calls with plain arguments beside a plain result, as docstrings show them without a prompt."""
    if not name:
        return
    left, line = MOST_SCANNED, 0
    for start in re.finditer(rf"(?<![\w.]){re.escape(name)}(?=\()", text):
        line = max(line, text.rfind("\n", line, start.start()) + 1)
        head = text[line : min(start.start(), line + NEAR)].strip()
        defined = text[max(line, start.start() - NEAR) : start.start()].rstrip().endswith("def")
        if head.startswith((">>>", "...")) or ASSERT.match(head) or defined:
            continue
        call = _bracketed(text, start.end())
        left -= len(call) or LONGEST_CALL
        if left < 0:
            return
        relation = RELATION.match(text, start.end() + len(call)) if call else None
        value = _plain_value(text, relation.end()) if relation else ""
        left -= 0 if value or not relation else LONGEST_CALL
        ends_there = relation and value and REST.match(text, relation.end() + len(value))
        if ends_there and _literal(value) and _is_plain_call(name + call):
            yield _equality(name + call, _literal(value), _Setup())


def _is_plain_call(source: str) -> bool:
    body = parse_python(source)
    node = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    return isinstance(node, ast.Call) and all(map(_is_plain, [*node.args, *(key.value for key in node.keywords)]))


def _bracketed(text: str, start: int) -> str:
    """Return the bracketed text that opens at `start`, strings in it skipped; empty where it does not close."""
    depth = 0
    for token in TOKEN.finditer(text, start, start + LONGEST_CALL):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth == 0:
            return text[start : token.end()]
    return ""


def _plain_value(text: str, start: int) -> str:
    if text[start : start + 1] in tuple("([{"):
        return _bracketed(text, start)
    scalar = SCALAR.match(text, start)
    return scalar[0] if scalar else ""


def _literal(text: str) -> str:
    """Return the text as the source of plain data, or nothing where it is none."""
    source = {"true": "True", "false": "False"}.get(text.strip(), text.strip())
    body = parse_python(source)
    plain = len(body) == 1 and isinstance(body[0], ast.Expr) and _is_plain(body[0].value)
    return source if plain else ""


def _is_plain(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False
    return True


def _assertion(node: ast.Assert, source: str, setup: _Setup) -> VisibleTest:
    compared = node.test
    if isinstance(compared, ast.Compare) and len(compared.ops) == 1 and isinstance(compared.ops[0], ast.Eq):
        return _equation(compared, setup)
    return _test(source, "", setup, source)


def _equation(compared: ast.expr, setup: _Setup) -> VisibleTest:
    assert isinstance(compared, ast.Compare)  # noqa: S101  both callers have looked
    left, right = (ast.unparse(side) for side in (compared.left, compared.comparators[0]))
    return _equality(right, left, setup) if _is_plain(compared.left) else _equality(left, right, setup)


def _equality(call: str, wanted: str, setup: _Setup) -> VisibleTest:
    return _test(call, wanted, setup, EQUALS.format(call=call, wanted=wanted))


def _test(shown: str, wanted: str, setup: _Setup, check: str) -> VisibleTest:
    read = setup.with_source(shown)
    modules = (read.dotted & sys.stdlib_module_names) - read.bound
    imports = "".join(f"import {name}\n" for name in sorted(modules))
    bound = read.bound | modules
    names = [name for name in read.loaded if name not in bound and not hasattr(builtins, name)]
    return VisibleTest(shown, wanted, f"{imports}{setup.source}\n{check}\n", tuple(names))


def _without_quotes(text: str) -> str:
    """Return the text with an empty line where a docstring or a fence ends, so that no example runs into it."""
    lines = []
    for line in text.splitlines():
        bare = line.strip()
        if bare.startswith(">>>"):
            lines.append(re.sub(r">>>(?=\S)", ">>> ", line, count=1))
        elif quote := re.search(r'"""|\'\'\'|```', line):
            lines += [line[: quote.start()], ""]
        else:
            lines.append(line)
    return "\n".join(lines)


LONGEST = 20_000
LONGEST_CALL = 2_000
LONGEST_SETUP = 5_000
NEAR = 80
"""Characters at the start of a line, and before a call, that say what it is."""
MOST_LINES = 20
MOST_READ = 200
"""Tests of one kind."""
MOST_PARSED = 100_000
"""Characters of lines that may be asserts; one that goes on is parsed again with each further line."""
MOST_SCANNED = 100_000
"""Characters of calls; one that is never closed counts as the longest."""
NEW_LINE = re.compile(r"\r\n?|\n")
ASSERT = re.compile(r"^\s*(?:[-*•]\s+|\d+[.)]\s+)?`?assert\b")
# A string that is never closed goes on to the end of its line, so that nothing is read twice.
TOKEN = re.compile(r"""'(?:\\.|[^'\\\n])*+(?:'|$)|"(?:\\.|[^"\\\n])*+(?:"|$)|[()\[\]{}]""", re.MULTILINE)
RELATION = re.compile(
    r"[ \t]*(?:#[ \t]*)?(?:==>|=>|==|->|➞|→|=|should (?:return|be|give)|must (?:return|be)|returns?|gives|is):?[ \t]*"
)
SCALAR = re.compile(
    r"""'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|(?:True|False|None|true|false)\b"""
)
FUTURE = re.compile(r"^from __future__ import .*$", re.MULTILINE)
REST = re.compile(r"""`?[ \t]*[.,;]?[ \t]*(?:(?:\#|//|\(|\"\"\"|''').*)?$""", re.MULTILINE)

HARNESS = """\
def __harness(abs=abs, all=all, float=float, int=int, isinstance=isinstance, len=len, list=list, max=max, repr=repr,
              str=str, tuple=tuple, type=type, zip=zip):
    def same(got, want):
        if isinstance(want, float) and isinstance(got, (int, float)):
            return got == want or abs(got - want) <= 1e-9 * max(1.0, abs(want))
        if isinstance(want, (list, tuple)) and type(got) is type(want):
            return len(got) == len(want) and all([same(one, other) for one, other in zip(got, want)])
        return got == want
    def raised(error):
        return (type(error).__name__ + ": " + str(error)).rstrip(": ")
    return same, raised, repr, str, Exception
__same, __raised, __repr, __str, __Exception = __harness()
"""
"""Its names are those of this moment, before an entry point gives one of them, such as `abs`, another meaning.
No entry point begins with two underscores."""

EQUALS = """\
_got = (
{call}
)
_want = (
{wanted}
)
assert __same(_got, _want), "got " + __repr(_got)[:300]"""

SHOWS = """\
_got = (
{call}
)
assert __repr(_got).split() == {want!r}.split(), "got " + __repr(_got)[:300]"""

PRINTS = """\
_printed = []
def print(*values, sep=" ", end="\\n"):
    _printed.append(sep.join([__str(value) for value in values]) + end)
{call}
_got = "".join(_printed).strip()
assert _got.split() == {want!r}.split(), "got " + _got[:300]"""

RAISES = """\
try:
    {call}
except __Exception as error:
    _got = __raised(error)
else:
    _got = "no exception"
assert _got == {raised!r}.rstrip(": "), "got " + _got[:300]"""
