"""Key terms: the words of a text that name something. Internal."""

from __future__ import annotations

import re

__all__ = ["key_terms"]


def key_terms(text: str) -> list[str]:
    """Return the words of a text that are not function words, in lower case, each once, in order."""
    words = (word.casefold().replace("’", "'").removesuffix("'s") for word in WORD.findall(text))
    return list(dict.fromkeys(word for word in words if len(word) > 1 and word not in FUNCTION_WORDS))


WORD = re.compile(r"[^\W_](?:[\w'’+#.-]*[\w+#])?")

FUNCTION_WORDS = frozenset(
    """a about above after again against all also am an and any are aren't as at be because been before being below
    between both but by can can't cannot could couldn't did didn't do does doesn't doing don't down during each either
    few for from further get gets give given go goes had has hasn't have haven't having he her here hers him his how
    however i i'd i'll i'm i've if in into is isn't it its just let let's like made make makes many may me might more
    most much must my need needs neither no nor not now of off on once only onto or other our ours out over own please
    same shall she should so some such tell than that the their theirs them then there these they this those through to
    too under until up us use used uses using very via was wasn't way we were what when where whether which while who
    whom whose why will with within without won't would you your yours""".split()  # noqa: SIM905  # a long list of words reads better as text
)
