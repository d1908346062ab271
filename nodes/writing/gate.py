"""The gate that every draft of a model passes: it strips what stands around one, and tells what is none. Internal.

A preamble ("Sure! Here's a rewritten version:") and a closing offer ("Let me know if you'd like any changes.") are
stripped. A refusal, talk about the task and a notice that no model wrote are no drafts. What is ambiguous stays as it
is, for the critics to see: a poem may begin with "Sure", and a letter ends with an offer.
`benchmarks/draft_gate.py` measures it on replies that were labelled by hand.
"""

from __future__ import annotations

import re
from itertools import dropwhile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LONGEST", "Opened", "bare", "no_draft", "opened"]


class Opened(NamedTuple):
    """A reply without what stands around the draft in it."""

    text: str
    stripped: dict[str, str]
    """What was taken off, `before` and `after` it; empty where nothing was."""


def opened(reply: str, *, any_heading: bool = False) -> Opened:
    """Return the draft in a reply, and what was stripped.

    Args:
        reply: The text of a reply.
        any_heading: Whether a first line that ends with a colon is taken for a preamble, whatever it says.
    """
    preamble = (HEADING if any_heading else PREAMBLE).match(_straight(reply[:MOST_AROUND]))
    # A reply that is nothing else has no draft in it.
    before, text = (reply[: preamble.end()], reply[preamble.end() :]) if preamble else ("", reply)
    if not text.strip():
        return Opened(reply, {})
    body, _, last = text.rstrip().rpartition("\n")
    closing = CLOSING if before else OFFER
    offers = body.strip() and len(last) <= MOST_AROUND and closing.fullmatch(_straight(last.strip()))
    after = last if offers and not any_heading else ""
    text = body.rstrip().removesuffix("---") if after else text
    stripped = {"before": before.strip(), "after": after.strip()}
    return Opened(text.strip() if before or after else text, {name: part for name, part in stripped.items() if part})


def no_draft(text: str) -> str:
    """Return why a text is no draft: `refused`, `meta` (talk about the task), `notice`; empty where it may be one."""
    plain = bare(text, LONGEST)
    if len(plain) > LONGEST:
        return ""
    if NOTICE.fullmatch(plain):
        return "notice"
    sentences = [sentence for part in SENTENCE_END.split(plain) if (sentence := part.strip(AROUND))]
    first, *others = [*dropwhile(OPENER.fullmatch, sentences)] or [""]
    chatter = all(map(CHATTER.search, others)) or (CANNED.search(first) and len(others) <= MOST_AFTER)
    if REFUSAL.match(first) and chatter:
        return "refused"
    talks = _is_talk(sentences, first, others) or (ASKS.match(first) and chatter)
    nothing_after = PREAMBLE.fullmatch(f"{_straight(text.strip()[:MOST_AROUND])}\n") or NO_PREFACE.fullmatch(plain)
    return "meta" if talks or nothing_after else ""


def _is_talk(sentences: Sequence[str], first: str, others: Sequence[str]) -> bool:
    """Return whether the sentences of a text greet and ask what to do, or only say what the text must be.

    Args:
        sentences: All of them.
        first: The first one that is no mere opener.
        others: Those after it.
    """
    opens = sentences[:1] != [first] and WHAT.match(first)
    asks = opens or (any(map(GREETS.match, sentences)) and any(map(WHAT.match, sentences)))
    about_text = first.startswith("the ") and all(map(ABOUT_TEXT.match, [first, *others]))
    return bool(asks) or (about_text and any(map(REQUIREMENT.search, sentences)))


def bare(text: str, most: int) -> str:
    """Return a text in lower case, without Markdown, quotes, surplus space, final punctuation, signs of approval.

    Of a text that has more than `most` characters even then, it may be the beginning.
    """
    if len(text) > 2 * most:
        begin = bare(text[: 2 * most], 2 * most)
        if len(begin) > most:
            return begin
    plain = MARKDOWN.sub(" ", _straight(text))
    return " ".join(plain.split()).lstrip(f" {_LIST_SIGNS}{_APPROVAL}").rstrip(f" .!:;,…{_APPROVAL}").casefold()


def _straight(text: str) -> str:
    """Return a text of the same length with typewriter apostrophes."""
    return text.replace("’", "'")


MARKDOWN = re.compile(r"[*_`#>~\"“”]+")
LONGEST = 1000
"""Characters of no text that is told to be no draft."""
MOST_AROUND = 500
"""Characters of no preamble, and of no closing offer."""
_LIST_SIGNS = "-–•·+"
_APPROVAL = "✅✔☑👍👌🎉\ufe0f"

_KINDS = (
    r"(?:texts?|versions?|drafts?|rewrites?|revisions?|answer|response|reply|list|summary|examples?|samples?|sentences?"
    r"|e-?mail|letter|note|message|poem|haiku|limerick|verse|slogans?|titles?|headlines?|subject line|story|paragraph"
    r"|json|code|function|implementation|solution|script|translation|explanation|description|apology|toast|complaint"
    r"|invitation|post|tweet|copy|dialogue|joke|review|report|outline|essay|advertisement|motto)"
)
_CHANGED = r"(?:revised|rewritten|re-?phrased|reworded|updated|improved|corrected|shortened|edited|friendlier|shorter)"
_SURE = r"(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|great|understood|got it|no problem)[!,.]*\s+"
_HAPPY = r"(?:(?:i(?:'d| would) be (?:happy|glad) to (?:help|assist)|i can (?:help|do that))[^.!:\n]{0,60}[.!]\s+)?"
_HERE = r"(?:here(?:'s| is| are)|below (?:is|are))"
_HANDED = rf"{_HERE} (?:[^:\n]{{0,160}}\b)?{_KINDS}\b[^:\n]{{0,200}}:[*_]*"
_SOME = (
    r"(?:some|a few|a couple of|two|three|four|five|six|seven|eight|nine|ten|[0-9]{1,3}"
    r"|(?:the|your) (?:instructions|steps|ideas|tips|questions|names|options|reasons))"
)
_RULE = r"(?:-{3,}[ \t]*\n\s*)?"
PREAMBLE = re.compile(
    # With an opener, or of a changed text, the draft may stand in the same line.
    rf"\W{{0,9}}(?:{_SURE}(?:{_HAPPY}{_HANDED}|here (?:you go|it is)[!:.])\s+"
    rf"|{_SURE}{_HAPPY}here are {_SOME}\b[^:\n]{{0,200}}:[ \t]*\n\s*"
    rf"|{_HERE} (?:a|an|the|my|your) {_CHANGED}\b[^:\n]{{0,160}}:[*_]*\s+"
    rf"|[^:\n]{{0,300}}[.!] {_HERE} (?:a|an|the|my|your) {_CHANGED} {_KINDS}\b[^:\n]{{0,160}}:[ \t]*\n\s*"
    rf"|(?:to [^.:\n]{{0,120}}, )?{_HANDED}[ \t]*\n\s*"
    rf"|i(?:'ve| have) {_CHANGED} (?:the|your) [^:\n]{{0,160}}:[ \t]*\n\s*"
    rf"|(?:the|your) {_KINDS} (?:is|reads) as follows:[ \t]*\n\s*"
    rf"|(?:{_CHANGED}|new|final) {_KINDS}[*_]*:[*_]*[ \t]*\n\s*){_RULE}",
    re.IGNORECASE,
)
HEADING = re.compile(r"[^\n]*:[ \t]*\n\s*")
_CHANGES = r"[^.!?\n]{0,80}(?:chang|adjust|revis|modif|tweak|edit|rewrit|shorten|version|different tone)[^.!?\n]{0,80}"
_OFFERS = (
    rf"(?:please )?(?:let me know|feel free to (?:ask|tell me)) if{_CHANGES}[.!?]?"
    rf"|if{_CHANGES}, (?:please )?(?:just )?(?:let me know|feel free)[^.!?\n]{{0,60}}[.!?]?"
    r"|feel free to (?:adjust|modify|customi[sz]e|edit|tweak) [^.!?\n]{0,80}[.!]?"
    r"|would you like me to [^.!?\n]{0,120}\?"
    rf"|(?:in this \w+, )?i(?:'ve| have) {_CHANGED} the (?:original|given|current) {_KINDS}\b[^\n]{{0,300}}"
)
OFFER = re.compile(_OFFERS, re.IGNORECASE)
_ENDS = (
    r"(?:i )?hope (?:that )?(?:this|it) [^.!?\n]{0,80}[.!]?"
    r"|(?:please )?let me know if [^.!?\n]{0,120}[.!?]?"
    r"|if you [^.!?\n]{0,100}(?:let me know|feel free|ask|reach out)[^.!?\n]{0,40}[.!?]?"
    r"|feel free to [^.!?\n]{0,120}[.!?]?"
)
CLOSING = re.compile(rf"{_OFFERS}|(?:(?:{_ENDS})\s*){{1,3}}", re.IGNORECASE)
"""Where a preamble showed that the reply speaks to who asked for it."""

SENTENCE_END = re.compile(r"(?<=[.!?])\s+| - ")
AROUND = ' -–•"”.!?:'
NOTICE = re.compile(
    r"(?:model|tool|'[^']{1,100}' tool) call limits? (?:exceeded|reached): [^\n]{1,200}"
    r"|sorry, need more steps to process this request"
    r"|agent stopped due to [^\n]{1,80}"
)
_SORRY = (
    r"(?:(?:i(?:'m| am) (?:very |really )?sorry|i apologi[sz]e|sorry|unfortunately|i regret to inform you that)"
    r"(?: for (?:any \w+|the (?:confusion|inconvenience|error)))?,? )?(?:but )?"
)
_REQUEST = (
    r"(?:requests?|tasks?|prompts?|questions?|texts?|response|reply|content|instructions|drafts?|sentences?|passage"
    r"|story|poem|essay|code)"
)
_AI = (
    r"(?:(?:i(?:'m| am) )?sorry\b[^,.]{0,40},? (?:but )?)?as an? (?:\w+ )?(?:ai|chatbot|language model)\b[^,]{0,200}, "
)
_WRITE = r"(?:provide|answer|discuss|create|generate|write)"
REFUSAL = re.compile(
    rf"{_AI}i (?:can(?:not|'t| not)|do(?:n't| not)|am (?:not|unable))\b|{_AI}i'm (?:not|unable|designed|only|just)\b"
    rf"|{_SORRY}i(?: can ?not| can't| won't| will not|'m unable to| am unable to|'m not able to| am not able to) (?:"
    rf"(?:help|assist)(?: you)?(?: (?:with|in|on) (?:that|this|it|.{{0,60}}\b{_REQUEST}\b.{{0,120}}))?$"
    r"|(?:comply|continue)(?: with (?:that|this|your|the)\b.{0,60})?$|do (?:that|this)$"
    rf"|(?:{_WRITE}|fulfil?l|complete|process|produce|engage)\b.{{0,120}}\b{_REQUEST}\b"
    rf"|{_WRITE} (?:that|this|it)$)"
    rf"|{_SORRY}i (?:don't|do not) have (?:the (?:ability|capability) to (?:access|assist|browse|{_WRITE})\b"
    r"|enough (?:information|context|details)(?: (?:to|about|for)\b|$)"
    r"|access to (?:real-time|external|your|the internet|files|personal)\b)"
)
CANNED = re.compile(rf"{_AI}|^{_SORRY}i (?:cannot|can't) assist with that request")
MOST_AFTER = 8
"""Sentences of any kind that may follow the refusal of an assistant."""
CHATTER = re.compile(
    r"\b(?:help|assist\w*|ask\w*|share|requests?|provide|clarify|context|rephrase|welcome|pleasure|instead|different|policy"
    r"|guidelines|questions?|let me know|not sure|no preface|task|would you like|(?:real|given) text|appears to be"
    r"|(?:harm|illegal|inappropriate|offensive|sensitive)\w*)\b"
)
"""In each further sentence of a refusal, or of somebody who asks what to do."""
OPENER = re.compile(
    r"hello|hi(?: there)?|(?:i'm )?sorry|i apologi[sz]e|sure(?: thing)?|certainly|of course"
    r"|absolutely|okay|understood|i understand|got it|no problem"
    r"|(?:i'd|i would) be (?:happy|glad) to (?:help|assist)(?: you)?(?: with (?:that|this))?"
)
ASKS = re.compile(
    r"(?:(?:hello|hi|sure|thank you)\W+)?(?:"
    r"i(?:'m| am) (?:always )?(?:ready|here|happy|glad)(?:, ready)?(?: to be able)? to (?:help|assist)(?: you)?"
    r"(?: with (?:that|this|it|whatever|any|your (?:tasks?|requests?|questions?|writing))\b.{0,60})?$"
    r"|how (?:can|may) i (?:help|assist) you\b.{0,60}$|what(?:'s| is) your (?:task|request|question)$"
    r"|what would you like (?:me )?to .{0,60}$"
    rf"|{_SORRY}i'm not sure what you(?:'re| are| mean)\b.{{0,120}}$"
    r"|(?:please|could you(?: please)?|can you(?: please)?) (?:provide|share|send|give|paste)(?: me)?(?: with)?"
    rf" (?:the|your|a) (?:full |original |current )?{_REQUEST}\b.{{0,120}}$"
    rf"|(?:it (?:seems|looks|appears) .{{0,60}}\b(?:provided?|shared?|included?|given?)|i don't see) .{{0,30}}"
    rf"\b{_REQUEST}\b"
    r"|i(?:'ll| will) (?:reply|respond) with\b)"
)
GREETS = re.compile(r"i(?:'m| am) (?:always |just )?(?:ready|here|happy|glad) to (?:help|assist)\b")
WHAT = re.compile(
    r"what(?:'s| is) (?:your (?:task|request|question)|on your mind)"
    r"|(?:what|how) (?:can|may) i (?:help|assist)|what (?:kind of help|do you need)"
)
NO_PREFACE = re.compile(r"(?:reply: )?no preface,?(?: no| or| and)? comments?(?: on the changes)?")
ABOUT_TEXT = re.compile(
    r"(?:the (?:text|response|reply|request|task|json (?:is|must|should)|sentence (?:contains|must|has))|it|this)\b"
)
REQUIREMENT = re.compile(
    r"\b(?:must (?:be|have|meet|begin|contain)|should be|can be more|words?"
    r"|sentences?|bullet|lines?|prefaced?|requirements?|requested|criteria|json|formatted|rewritten)\b"
)
