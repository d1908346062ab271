"""Programs on which Monty and CPython differ: generated ones, run in both, by the operation that they end in.

    python benchmarks/monty_differences.py --programs 4000 --seed 0

A program is one of the operations below on generated values, which may be results of other operations. What Monty does
not know (`unsupported`) is counted apart: it is no difference, since CPython is asked then.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from redraft.sandbox.dialect import difference, is_gap

if TYPE_CHECKING:
    from collections.abc import Iterator

OPERATIONS = {
    "int": """
        {i} + {i}|{i} - {i}|{i} * {i}|{i} // {i}|{i} % {i}|abs({i})|-{i}|~{i}|{i} & {i}|{i} ^ {i}|{i} << {n}
        {i} >> {n}|{n} ** {n}|pow({i}, {n}, 97)|divmod({i}, {i})[1]|int({f})|int(str({i}))|int({s}, 16)|len({s})
        len({l})|sum({l})|max({l})|min({l})|{l}[{i}]|{l}.index({i})|{l}.count({i})|{s}.find({s})|{s}.count({s})
        ord({s}[0])|{i}.bit_length()|round({i}, -1)|round({f})|math.floor({f})|math.ceil({f})|math.gcd({i}, {i})
        math.isqrt({n})|math.comb({n}, {n})|math.factorial({n})|bool({l}) + {i}|hash({i}) == {i}
        sum(x * x for x in {l})|len(set({l}))|{d}.get({s}, {i})|math.trunc({f})|{i} if {b} else {i}
        functools.reduce(lambda a, b: a * b, {l}, 1)|len(str({i}))
    """,
    "float": """
        {f} + {f}|{f} - {f}|{f} * {f}|{f} / {f}|{f} // {f}|{f} % {f}|{i} / {i}|{f} ** {n}|round({f}, {n})
        round({f}, 1)|round({f}, 2)|abs({f})|float(str({f}))|float({i})|sum([{f}, {f}, {f}])|max({f}, {i})
        math.sqrt({f})|math.exp({n})|math.log({f})|math.sin({f})|math.hypot({f}, {f})|math.fsum([{f}, {f}])
        divmod({f}, {f})[1]|math.fmod({f}, {f})|min([{f}, {f}])|math.copysign({f}, {f})|math.pow({f}, {n})
        math.atan2({f}, {f})|math.log10({f})|math.log2({f})
    """,
    "str": """
        {s} + {s}|{s} * {n}|{s}.upper()|{s}.lower()|{s}.title()|{s}.capitalize()|{s}.swapcase()|{s}.strip()
        {s}[::-1]|{s}.replace({s}, {s})|{s}.replace('', '-')|{s}.center({n}, '*')|{s}.ljust({n})|{s}.zfill({n})
        str({f})|str({l})|repr({s})|repr({f})|repr({l})|f'{{{f}:.2f}}'|f'{{{f}:.0f}}'|f'{{{f}:g}}'|f'{{{f}:e}}'
        f'{{{i}:,}}'|f'{{{i}:08b}}'|f'{{{i}:+x}}'|f'{{{f}:10.3f}}'|f'{{{s}:>{{{n}}}}}'|'%d %s' % ({i}, {s})
        '%.3f' % {f}|'{{}} {{}}'.format({i}, {f})|bin({i})|hex({i})|oct({i})|chr({n} + 65)|','.join(map(str, {l}))
        {s}[{i}:{i}]|{s}.casefold()|{s}.expandtabs()|re.sub('a*', '-', {s})|re.sub('x*', '-', {s})
        re.sub('[aeiou]', '', {s})|type({f}).__name__|str({b})|str(None)|f'{{{f}:%}}'|f'{{{f}:.3g}}'|f'{{{i}:e}}'
        f'{{{f}!r:>12}}'|f'{{{b}}}'|str({d})|str({i} / {i})|{s}.removeprefix({s})
    """,
    "list": """
        sorted({l})|sorted({l}, reverse=True)|sorted({l}, key=lambda x: -x)|sorted({l}, key=str)|list(reversed({l}))
        {l} + {l}|{l} * 2|{l}[{i}:{i}]|{l}[::{i}]|list({s})|{s}.split()|{s}.split({s})|{s}.split(',')
        {s}.splitlines()|{s}.partition({s})|{s}.rsplit(None, 1)|list(range({i}, {i}, {i}))|list(enumerate({l}))
        list(zip({l}, {s}))|list(map(abs, {l}))|[x for x in {l} if x % 2]|[x // {i} for x in {l}]
        list(filter(None, {l}))|list({d})|sorted({d})|list({d}.items())|sorted(set({l}))|re.findall('a*', {s})
        re.findall(r'\\w+', {s})|re.split('b*', {s})|[m.start() for m in re.finditer('a?', {s})]
        list(divmod({i}, {i}))|list(itertools.accumulate({l}))|list(itertools.combinations({l}, 2))
        list(itertools.permutations({l}[:3]))|list(dict.fromkeys({l}))|[*{l}, {i}]
        list(itertools.product({l}[:2], repeat=2))|collections.Counter({s}).most_common(2)
        bisect.insort(a := {l}, 1) or a|[list(g) for k, g in itertools.groupby({l})]|list(str({i}))
        [round(x / 8, 2) for x in {l}]|copy.deepcopy({l})
    """,
    "bool": """
        {i} == {f}|{f} == {f}|{l} == {l}|{f} < {f}|{s} < {s}|{i} in {l}|{s} in {s}|{s}.isdigit()|{s}.isalpha()
        {s}.isalnum()|{s}.isspace()|{s}.istitle()|{s}.isidentifier()|{s}.isnumeric()|{s}.isdecimal()
        {s}.startswith({s})|{s}.endswith({s})|all({l})|any({l})|bool({f})|bool({s})|{l} < {l}|[{f}] == [{f}]
        {f} in [{f}]|[math.nan] == [math.nan]|({i},) == ({f},)|math.isclose({f}, {f})|isinstance({b}, int)
        bool(re.match('a$', {s}))|bool(re.search(r'b$', {s} + '\\n'))|bool(re.fullmatch('a*', {s}))|{d} == {d}
        set({l}) <= set({l})|{i} != {i}|not {l}|{f}.is_integer()|(lambda v: [v] == [v])({f})
        (lambda v: v in [v])({f})|(lambda v: {{1: v}} == {{1: v}})({f})|1 < {i} < {i}
    """,
    "dict": """
        dict(zip({s}, {l}))|{{x: x * x for x in {l}}}|dict(collections.Counter({s}))|{{**{d}, 'z': {i}}}
        dict(sorted({d}.items()))|{d}.copy()|{{k: v for v, k in {d}.items()}}|dict.fromkeys({s}, {i})
    """,
}
"""What gives a value of each kind; in braces the kinds that it is given: {n} is a small natural number."""
IMPORTS = "import bisect, collections, copy, functools, itertools, math, re\n"
LITERALS: dict[str, list[str]] = {
    "n": [str(n) for n in range(9)],
    "i": (  # noqa: SIM905  one a line would hide the list
        "0 1 -1 2 -2 3 7 -7 10 25 99 -100 255 1024 12345 -99999 10**12 2**53+1 -(2**64) 7**40"
    ).split(),
    "f": (  # noqa: SIM905  one a line would hide the list
        "0.0 -0.0 0.5 -0.5 1.5 2.5 -2.5 0.1 0.2 0.3 2.675 1.005 3.14159 -7.25 1e-7 1e16 1e22 123456789.125 0.045"
    ).split(),
    "s": [
        "''",
        "'a'",
        "'b'",
        "'ab'",
        "'aab b'",
        "'Hello, World'",
        "'x,y,,z'",
        "'12'",
        "'ff'",
        "'a\\n'",
        "' \\t p q '",
        "'straße'",
        "'ǅ²½'",
        "'é🐍'",
        "'it\\'s'",
        "'A1 b2'",
    ],
    "l": ["[]", "[1]", "[3, 1, 2]", "[0, -1, 5, 5]", "[10, 9, 8, 7]", "[True, 2]", "[1, 2, 3, 4, 5, 6]", "[-3, 0, 3]"],
    "b": ["True", "False", "not []"],
    "d": ["{}", "{'a': 1}", "{'b': 2, 'a': 1}", "{'ab': -1, 'x': 0}"],
}
RARE = {"f": ["math.inf", "-math.inf", "math.nan", "1e308"]}
KINDS = {"int": "i", "float": "f", "str": "s", "list": "l", "bool": "b", "dict": "d"}


def programs(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Yield operations and expressions that end in them, each operation about as often as any other."""
    chance = random.Random(seed)
    known = {KINDS[kind]: "|".join(text.split("\n")).split("|") for kind, text in OPERATIONS.items()}
    known = {kind: [found.strip() for found in every if found.strip()] for kind, every in known.items()}

    def value(kind: str, depth: int) -> str:
        if kind in known and chance.random() < 0.3 and depth < 2:
            return f"({filled(chance.choice(known[kind]), depth + 1)})"
        rare = RARE.get(kind, [])
        literal = chance.choice(rare if rare and chance.random() < 0.08 else LITERALS[kind])
        return literal if literal.isidentifier() or literal.startswith(("[", "'", "{")) else f"({literal})"

    def filled(operation: str, depth: int) -> str:
        for kind in LITERALS:
            while f"{{{kind}}}" in operation:
                operation = operation.replace(f"{{{kind}}}", value(kind, depth), 1)
        return operation.replace("{{", "{").replace("}}", "}")

    every = [operation for operations in known.values() for operation in operations]
    made = 0
    while made < count:
        operation = every[made % len(every)]
        expression = filled(operation, 0)
        try:
            compile(expression, "", "eval")
        except SyntaxError:  # quotes in an f-string, which Python before 3.12 can't read
            continue
        made += 1
        yield operation, expression


def in_cpython(expression: str) -> str:
    """Return what an expression of ours gives, or the kind of exception that it raises."""
    space: dict[str, Any] = {}
    try:
        exec(IMPORTS, space)
        return repr(eval(expression, space))
    except Exception as error:
        return type(error).__name__


def in_monty(session: Any, expression: str) -> str | None:
    """Return the same of Monty; None where it does not know something."""
    from pydantic_monty import MontyError

    try:
        return str(session.feed_run(f"{IMPORTS}repr({expression})"))
    except MontyError as error:
        return None if is_gap(error) else str(error).partition(":")[0]


def main() -> None:
    """Count the programs on which the two differ, before and after `difference` has refused some."""
    from pydantic_monty import Monty

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    shown: dict[str, str] = {}
    with Monty() as pool:
        for operation, expression in programs(given.programs, given.seed):
            with pool.checkout(limits={"max_feed_duration_secs": 5.0}) as session:
                theirs = in_monty(session, expression)
            ours = in_cpython(expression)
            kind = "unsupported" if theirs is None else "same" if theirs == ours else "different"
            if kind == "different" and difference(expression):
                kind = "different, refused"
            if kind == "different":
                shown.setdefault(operation, f"{expression}  CPython {ours[:60]}  Monty {str(theirs)[:60]}")
            counts[kind] += 1
    print(f"{given.programs} programs, seed {given.seed}, Python {sys.version.split()[0]}:", dict(counts))
    for operation, example in sorted(shown.items()):
        print(f"  {operation}:  {example}")


if __name__ == "__main__":
    main()
