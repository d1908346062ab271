"""The words of a query that carry its meaning, and whether a query leans on what was said before."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["frequent_terms", "key_terms", "leans", "normalized", "without_modifiers"]


def key_terms(text: str) -> list[str]:
    """Return the words of a text that are not function words, in lower case, each once, in order."""
    words = (word.casefold().replace("’", "'").removesuffix("'s") for word in WORD.findall(text))
    return list(dict.fromkeys(word for word in words if len(word) > 1 and word not in FUNCTION_WORDS))


def frequent_terms(texts: Iterable[str], *, besides: Collection[str]) -> list[str]:
    """Return the key terms that most of the texts hold, the most shared first, without other forms of those given."""
    counts = Counter(term for text in texts for term in key_terms(text) if term.isalpha() and len(term) > 2)
    return [
        term
        for term, _ in counts.most_common()
        if not any(term.startswith(known[:5]) or known.startswith(term[:5]) for known in besides)
    ]


def normalized(query: str) -> str:
    """Return a query as it counts for "already run": without case, surplus white space and final punctuation."""
    return " ".join(query.split()).casefold().rstrip(" ?.!")


def without_modifiers(query: str) -> str:
    """Return the query without words that judge instead of naming: "best Python framework" → "Python framework"."""
    return " ".join(word for word in query.split() if word.casefold().strip(",.!?\"'") not in MODIFIERS)


def leans(query: str, said: Sequence[str]) -> bool:
    """Return whether a query can only be understood after what was said: "and how do I resume it?"."""
    if not said:
        return False
    if CONTINUES.match(query):
        return True
    return len(key_terms(query)) < 3 and bool(REFERS.search(query))


WORD = re.compile(r"[^\W_](?:[\w'’+#.-]*[\w+#])?")

CONTINUES = re.compile(r"\s*(?:and|also|but|or|then|what about|how about)\b", re.IGNORECASE)

REFERS = re.compile(
    r"\b(?:it|its|they|them|their|theirs|he|him|his|she|her|hers)\b|\b(?:this|that|these|those|one|ones|there)\s*[?.!]*$",
    re.IGNORECASE,
)

MODIFIERS = frozenset(
    """amazing awesome basic best better cool current easiest easy efficient excellent fast fastest favorite favourite
    fine full good great ideal important latest main modern new newest nice optimal perfect popular proper quick
    quickest really recent recommended right simple simplest standard suitable top typical useful very""".split()  # noqa: SIM905  # a long list of words reads better as text
)

FUNCTION_WORDS = frozenset(
    """a about above after again against all also am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each either
    few for from further get gets give given go goes had has hasn't have haven't having he her here hers him his how
    however i i'd i'll i'm i've if in into is isn't it its just let let's like made make makes many may me might more
    most much must my need needs neither no nor not now of off on once only onto or other our ours out over own please
    same shall she should so some such tell than that the their theirs them then there these they this those through to
    too under until up us use used uses using very via was wasn't way we were what when where whether which while who
    whom whose why will with within without won't would you your yours""".split()  # noqa: SIM905  # as above
)
