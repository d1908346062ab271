"""What a request says of its answer in a way that a program can check: lengths, words, forms. Internal.

A table of patterns reads English, clause by clause. What it can't read for certain it leaves out: a wrong check would
turn right answers down. So it takes nothing from "about 50 words", from a clause on parts of the answer ("each
paragraph …"), and from a text that stands in the request to be worked on.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ...state.events import Required

__all__ = ["stated_requirements"]


def stated_requirements(request: str) -> list[Required]:
    """Return what a request says of its answer, and the programs that check it, as a graph's `require` takes it.

    It reads English: lengths ("at most 40 words", "in three paragraphs"), bullets and numbered lists, words to use or
    to avoid where they are quoted or follow "the word", letters and cases, commas, beginnings and endings, and JSON.
    What it can't read for certain it leaves out.

    Args:
        request: The task.

    Returns:
        Requirements in the order of the request: the clause that says it, and the names of its verifiers.

    Example:
        >>> from redraft.nodes import stated_requirements
        >>> stated_requirements('Invite Ann to tea in at most 30 words. Use the word "garden".')
        [{'text': 'Invite Ann to tea in at most 30 words.', 'verifiers': ['length:-30 words']}, \
{'text': 'Use the word "garden".', 'verifiers': ['uses_words:garden']}]
    """
    said: dict[str, list[str]] = {}
    if PROGRAM.search(request):
        return []
    for clause in _clauses(request):
        for read in READERS:
            said.setdefault(clause.strip(), []).extend(read(clause))
    taken: set[str] = set()
    found: list[Required] = []
    for text, specs in said.items():
        known = taken | {""}
        new = [spec for spec in dict.fromkeys(specs) if not {spec, spec.replace("{}", '{"type": "object"}')} & known]
        taken.update(new)
        if new:
            comment = f"matches:(?#{text[:LONGEST].translate(SQUARE)})"
            found.append({"text": text, "verifiers": [one.replace("matches:", comment, 1) for one in new]})
    return found


def _clauses(request: str) -> Iterator[str]:
    """Yield the sentences of a request, as far as they are about the answer as a whole."""
    bare = FENCED.sub("\n", GIVEN.sub(r"\g<lead>", request))
    for sentence in SENTENCE.findall(bare):
        part = OF_A_PART.search(QUOTED.sub(lambda one: "_" * len(one[0]), sentence))
        whole = sentence if part is None else sentence[: part.start()]
        if part is not None and (ends := [one.start() for one in AND.finditer(whole)]):
            whole = whole[: ends[-1]]
        if part is None or ends or not WITHIN.search(whole):
            yield whole


def _count(digits: str) -> int:
    return int(digits.replace(",", "")) if digits[0].isdigit() else NUMBERS[digits.casefold().rpartition(" ")[-1]]


def _lengths(clause: str) -> Iterator[str]:
    """Yield the lengths that a clause asks for."""
    bare = QUOTED.sub('""', clause)
    for pattern, low, high in LENGTHS:
        for one in pattern.finditer(bare):
            if ABOUT.search(bare[max(0, one.start() - NEAR) : one.start()]):
                continue
            unit = one["unit"].casefold().removesuffix("s")
            least, most = low(one), high(one)
            if max(least or 0, most or 0) > LARGEST or (least or 0) > (LARGEST if most is None else most):
                continue
            if unit.startswith(("bullet", "placeholder")):
                yield _times(r"^\s*[-*•] " if unit.startswith("bullet") else r"\[[^\]\n]+\]", least, most)
            else:
                ends = ["" if count is None else str(count) for count in (least, most)]
                yield f"length:{'-'.join(dict.fromkeys(ends) if least == most else ends)} {unit}s"
            bare = bare[: one.start()] + " " * len(one[0]) + bare[one.end() :]


def _times(pattern: str, low: int | None, high: int | None) -> str:
    """Return the verifier that a pattern is found so often, `None` for no bound; empty where that is too often."""
    if max(low or 0, high or 0) > MOST_TIMES:
        return ""
    fewer = "" if high is None else rf"(?!(?:.*?{pattern}){{{high + 1}}})"
    return rf"matches:(?s)\A{fewer}" + (f"(?=(?:.*?{pattern}){{{low}}})" if low else "")


def _words(clause: str) -> Iterator[str]:
    """Yield the words to use, to avoid, and to use so often."""
    for before, words, after in _named(clause):
        if not all(words) or any(re.search(r"[,\n]", word) for word in words) or OF_ELSE.search(before):
            continue
        if bounds := _often(before, after):
            yield from (_times(rf"(?i:\b{re.escape(word)}\b)", *bounds) for word in words)
        elif AVOIDED.search(before):
            yield f"avoids_words:{','.join(words)}"
        elif USED.search(before) and not NEGATED.search(before):
            yield f"uses_words:{','.join(words)}"


def _named(clause: str) -> Iterator[tuple[str, list[str], str]]:
    """Yield the words that a clause names, with what stands before and after them: quoted ones, or after "the word"."""
    rest, quotes = 0, [*QUOTED.finditer(clause)]
    while quotes:
        several = [quotes.pop(0)]
        while quotes and BETWEEN.fullmatch(clause, several[-1].end(), quotes[0].start()):
            several.append(quotes.pop(0))
        words = [one[0][1:-1].strip() for one in several]
        yield clause[rest : several[0].start()][-NEAR:], words, clause[several[-1].end() :][:NEAR]
        rest = several[-1].end()
    for one in BARE.finditer(QUOTED.sub(lambda one: '"' * len(one[0]), clause)):
        yield clause[: one.start()][-NEAR:], BETWEEN.split(one["one"] or one["all"]), clause[one.end() :][:NEAR]


def _often(before: str, after: str) -> tuple[int | None, int | None] | None:
    """Return the least and the most of "at least three times"; `None` where nothing is said of how often."""
    if (often := OFTEN.match(after)) is None:
        return None
    how, count = (often["how"] or "").casefold(), _count(often["n"] or often["once"])
    low, high = count, None if how == "at least" else count
    if how in ("less than", "fewer than"):
        low, high = 0, count - 1
    elif how in ("at most", "no more than", "not more than"):
        low = 0
    elif how == "more than":
        low, high = count + 1, None
    return (0, low - 1) if AVOIDED.search(before) else (low, high)


def _letters(clause: str) -> Iterator[str]:
    """Yield the letters to avoid and to use so often, cases and commas."""
    for one in LETTER.finditer(clause):
        before, after = clause[: one.start()][-NEAR:], clause[one.end() :][:NEAR]
        if bounds := _often(before, after):
            yield _times(f"(?i:{one['letter']})", *bounds)
        elif AVOIDED.search(before):
            yield rf"matches:(?i)\A[^{one['letter']}]*\Z"
    for pattern, spec in PLAIN:
        if (found := pattern.search(clause)) and not NEGATED.search(clause[: found.start()]):
            yield spec


def _ends(clause: str) -> Iterator[str]:
    """Yield how the answer is to begin and to end."""
    for pattern, around in ((BEGINS, r"\A\W*{}"), (ENDS, r"{}\W*\Z")):
        if (one := pattern.search(clause)) is None or NEGATED.search(clause[: one.start()]):
            continue
        if said := r"\s+".join(map(re.escape, one["text"][1:-1].strip(" .!?").split())):
            yield f"matches:{around.format(said)}"


def _lists(clause: str) -> Iterator[str]:
    """Yield numbered lists, marked passages, separators, and JSON with its keys."""
    if one := MARKED.search(clause):
        yield _times(r"\*[^*\n]+\*", _count(one["n"]), None)
    if one := SEPARATED.search(clause):
        yield rf"matches:^\s*{re.escape(one['mark'])}\s*$"
    if one := NUMBERED.search(clause):
        count = min(_count(one["n"] or one["m"]), LARGEST)
        yield rf"matches:(?s)\A(?=.*^\s*{count}[.)] )(?!.*^\s*{count + 1}[.)] )"
    if one := JSON.search(clause):
        schema: dict[str, object] = {"type": "array"} if one["kind"] in ("array", "list") else {}
        schema = {"type": "object"} if one["kind"] in ("object", "map") else schema
        if keys := KEYS.search(clause[one.end() :]):
            names = re.split(r",\s*(?:and\s+)?|\s+and\s+", keys["keys"])
            schema = {"type": "object", "required": [name.strip("\"'` ") for name in names]}
        yield f"json_schema:{json.dumps(schema)}"


LONGEST = 200
"""Characters of a clause that a writer is told."""
LARGEST, MOST_TIMES = 99_999, 100
SQUARE = str.maketrans("()", "[]")
NEAR = 200
"""Characters before and after words that are looked at."""
READERS: tuple[Callable[[str], Iterator[str]], ...] = (_lengths, _words, _letters, _ends, _lists)
ONES = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
NUMBERS = {word: number for number, word in enumerate(f"{ONES} eighteen nineteen twenty".split(), 1)}
NUMBERS |= {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "hundred": 100, "dozen": 12, "once": 1, "twice": 2}
N = rf"\d[\d,]*|(?:a |one )?(?:{'|'.join(NUMBERS)})"
UNIT = r"(?P<unit>words?|sentences?|paragraphs?|lines?|characters?|bullet points?|bullets|placeholders?)\b"
PARTS = r"(?P<unit>sentences?|paragraphs?|lines?|bullet points?|bullets)\b"
Q = r"\"[^\"\n]{1,200}\"|“[^”\n]{1,200}”|‘[^’\n]{1,200}’|`[^`\n]{1,200}`|(?<!\w)'[^'\n]{1,200}'(?!\w)"
QUOTED = re.compile(Q)
FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
GIVEN = re.compile(
    r"(?is)(?P<lead>\b(?:following|this|these|below)\b(?! (?:key)?words?| phrases?| form| bullet)[^.\n:]{0,60}:)\s*"
    r"(?:\"[^\"]*(?:\"|\Z)|“[^”]*(?:”|\Z)|(?!\s*[-*\"])[^\n]*)"
)
"""A text that is given to be worked on: behind "the following paragraph:", say."""
PROGRAM = re.compile(
    r"(?i)\b(?:regular expression|regex|python|javascript|sql)\b"
    r"|\b(?:write|implement|complete) (?:an?|the|this) (?:\w+ )?(?:function|program|script|class|method)\b"
)
"""In a request for a program, lengths and words are mostly those of what it works on."""
SENTENCE = re.compile(rf"(?:{Q}|[^.!?\n]|[.!?](?=\S))+[.!?]*")
OF_A_PART = re.compile(
    r"(?i)\b(?:each|every|per|first|second|third|last|final|opening|closing|one of (?:the|its)|some of)\b"
    r"(?! (?:of (?:these|the following) )?(?:word|keyword)s?\b)"
)
AND = re.compile(r",|\s(?:and|with|where)\s")
WITHIN = re.compile(r"(?i)\b(?:in|of|for|from|on|at|to|the|by)\s*\Z|^\s*\Z")
ABOUT = re.compile(r"(?i)\b(?:about|around|roughly|approximately|some|nearly|almost|~|circa|ideally|preferably)\s*\Z")


def _pattern(before: str, after: str = "", *, unit: str = UNIT) -> re.Pattern[str]:
    return re.compile(rf"(?i){before}\b(?P<n>{N})[ -]{unit}{after}")


def _at(shift: int) -> Callable[[re.Match[str]], int | None]:
    return lambda one: _count(one["n"]) + shift


def _no(one: re.Match[str]) -> None:
    return None


LESS = r"(?:less than|fewer than|under|below|shorter than)\s+"
MOST = (
    r"(?:at most|no more than|not more than|no longer than|up to|(?:a )?maximum(?: of)?|max\.?|limit(?:ed)? to|within|"
    r"(?:not )?exceed(?:ing)?)\s+"
)
LEAST = r"(?:at least|no fewer than|no less than|not less than|(?:a )?minimum(?: of)?|min\.?)\s+"
MORE = r"(?:more than|over|above|longer than)\s+"
LENGTHS: tuple[tuple[re.Pattern[str], Callable[..., int | None], Callable[..., int | None]], ...] = (
    (
        re.compile(rf"(?i)\b(?:between )?(?P<n>{N})(?: to | and | or |-| - |–| – )(?P<m>{N})[ -]{UNIT}"),
        _at(0),
        lambda one: _count(one["m"]),
    ),
    (
        re.compile(
            rf"(?i)\bnumber of {UNIT}[^.]{{0,60}}?(?:range of|between|from) (?P<n>{N})(?: to | and |-)(?P<m>{N})\b"
        ),
        _at(0),
        lambda one: _count(one["m"]),
    ),
    (re.compile(rf"(?i)\b(?P<n>\d+)\+[ -]?{UNIT}"), _at(0), _no),
    (_pattern(LESS), _no, _at(-1)),
    (_pattern(rf"(?<!not )(?<!no )(?:{MOST})"), _no, _at(0)),
    (_pattern("", r" (?:or (?:less|fewer)|at (?:the )?most|max(?:imum)?\b|limit\b)"), _no, _at(0)),
    (_pattern(rf"(?<!no )(?<!not )(?:{MORE})"), _at(1), _no),
    (_pattern(LEAST), _at(0), _no),
    (_pattern("", r" (?:or more|at (?:the )?least|minimum\b)"), _at(0), _no),
    (_pattern(r"(?:exactly|precisely)\s+"), _at(0), _at(0)),
    (
        _pattern(
            r"(?:in|(?<!number )of|with|into|on|only|just|contain(?:s|ing)?|includes?|be|write|use|give|list|"
            r"(?:it|answer|response|reply|should|must) (?:has|have))\s+(?:only |just )?",
            unit=PARTS,
        ),
        _at(0),
        _at(0),
    ),
    (re.compile(rf"(?i)\b(?P<n>{N})-{PARTS}"), _at(0), _at(0)),
)
"""Patterns of lengths, with the least and the most that each says; an earlier one takes what it reads."""
BETWEEN = re.compile(r"\s*,\s*(?:(?:and|or|nor)\s+)?|\s+(?:and|or|nor)\s+")
BARE = re.compile(
    r"(?i)\bthe (?:key)?word (?P<one>(?!count|limit|of|or|and)[\w'-]+(?: or [\w'-]+(?=\s*(?:[.,;:!?)]|\Z)))?)"
    r"|\bthe (?:key)?words (?P<all>[\w'-]+(?:, (?!(?:and|or|nor)\b)[\w'-]+)*"
    r"(?:,? (?:and|or|nor) [\w'-]+(?=\s*(?:[.,;:!?)]|\Z)|\s(?:in|at)\b))?)"
)
NEGATED = re.compile(r"(?i)\b(?:not|never|no|without|cannot)\b|n['’]t\b")
_USE = r"(?:us(?:e|es|ing)|includ(?:e|es|ing)|contain(?:s|ing)?|mention(?:s|ing)?|incorporat(?:e|es|ing)|keywords?)\b"
_SAY = rf"(?:{_USE}|(?:say(?:s|ing)?|writ(?:e|es|ing)|appear|have|has)\b)"
_OF = (
    r"(?:\s+(?:the|these|those|any|all|both|each|every|either|of|following|exact|and|or|key|in|your|response|answer|"
    r"reply|(?:key)?words?|phrases?|terms?|names?|hashtags?|expressions?)\b)*[\s:(\[]*\Z"
)
AVOIDED = re.compile(
    rf"(?i)(?:(?:\b(?:not|never|without|cannot)|n['’]t)\s+(?:\w+\s+)?{_SAY}"
    rf"|\b(?:avoid|exclud)(?:e|ing)?(?:\s+us(?:e|ing))?\b){_OF}"
)
USED = re.compile(rf"(?i)\b{_USE}{_OF}")
OF_ELSE = re.compile(
    r"(?i)\b(?:(?:begin|start|open|end|finish|conclud|clos|separat)\w*\b[^.,;]{0,60}|letters?\s+|"
    r"(?:titl|call|nam|entitl|mark)ed\s+|(?:title|about|for|such as|like)[\s:]+(?:the (?:word|phrase)s?\s+)?)\Z"
)
"""Quoted words that are a beginning, an ending, a name or an example."""
OFTEN = re.compile(
    r"(?i)\W*(?:(?:must|should|has to|have to|needs? to) )?(?:appears?|occurs?|(?:be|is|are) used|shows? up)?\s*"
    rf"(?P<how>at least|at most|no more than|not more than|less than|fewer than|more than|exactly)?\s*"
    rf"(?:(?P<n>{N})(?<!once)(?<!twice) times?\b|(?P<once>once|twice)\b)"
)
LETTER = re.compile(r"(?i)\bthe letters? [\"'“‘]?(?P<letter>[a-z])\b[\"'”’]?")
COMMAS = re.compile(r"(?i)\b(?:no|not|without|avoid|never|refrain)\b[^.]{0,40}\bcommas?\b|n['’]t[^.]{0,40}\bcommas?\b")
LOWER = re.compile(
    r"(?i)\b(?:only|all|entirely|entire|every letter)\b[^.]{0,40}\blower[- ]?case\b"
    r"|\blower[- ]?case (?:letters )?only|no capital letters"
)
UPPER = re.compile(
    r"(?i)(?<!words with )(?<!words in )\b(?:only|all|entirely|entire)\b[^.]{0,40}"
    r"\b(?:capital letters|capitals|upper[- ]?case|caps)\b"
)
WRAPPED = re.compile(r"(?i)\b(?:wrap|put|enclose|surround)\w*\b[^.]{0,60}\bdouble quot|double quotation marks around")
PLAIN = (
    (COMMAS, r"matches:\A[^,]*\Z"),
    (LOWER, r"matches:\A[^A-Z]*\Z"),
    (UPPER, r"matches:\A[^a-z]*\Z"),
    (re.compile(r"(?i)\bpostscript\b|\bP\.S\b"), r"matches:^\W*(?:P\.?\s?)+S\b"),
    (WRAPPED, r'matches:(?s)\A\s*["“].*["”]\s*\Z'),
)
_WITH = (
    r"(?: (?:[\w' ]{0,40} )?with(?: the| this)?(?: exact(?:ly)?)?(?: words?| phrase| sentence)?(?: of)?:?\s+)"
    rf"(?P<text>{Q})"
)
BEGINS = re.compile(rf"(?i)\b(?:begin|start|open)(?:s|ning|ing)?{_WITH}")
ENDS = re.compile(rf"(?i)\b(?:end|finish|conclude|close)(?:s|ing)?{_WITH}")
MARKED = re.compile(rf"(?i)\b(?:highlight|italici[sz]e|embolden|bold)\w* (?:at least )?(?P<n>{N})\b")
SEPARATED = re.compile(r"(?i)\bseparat\w* [^.\n]{0,60}?(?P<mark>\*{3,}|-{3,}|={3,}|#{3,})")
NUMBERED = re.compile(
    rf"(?i)\bnumbered list (?:of|with) (?P<n>{N})\b|\b(?P<m>{N})[- ](?:item|step|point) numbered list"
)
JSON = re.compile(r"(?i)\b(?:as|in|a|only|valid|return|with)\s+(?:\w+ )?json(?: (?P<kind>object|map|array|list))?\b")
KEYS = re.compile(r"(?i)^[^.]{0,20}?\b(?:keys|fields)\b:? (?P<keys>[\"'`\w]+(?:(?:, (?:and )?| and )[\"'`\w]+)*)")
