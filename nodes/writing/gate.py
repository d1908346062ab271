"""The gate that every draft of a model passes: it strips what stands around one, and tells what is none. Internal.

A preamble ("Sure! Here's a rewritten version:") and a closing offer ("Let me know if you'd like any changes.") are
stripped. A refusal, talk about the task and a notice that no model wrote are no drafts. What is ambiguous stays as it
is, for the critics to see: a poem may begin with "Sure", and a letter ends with an offer.
`benchmarks/draft_gate.py` measures it on replies that were labelled by hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile
from json import JSONDecoder
from typing import NamedTuple

__all__ = ["LONGEST", "Opened", "bare", "no_draft", "opened", "opened_json"]


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
    closing = CLOSING if before else OFFER if LETTER.match(text) else LONE
    offers = body.strip() and len(last) <= MOST_AROUND and closing.fullmatch(_straight(last.strip()))
    after = last if offers and not any_heading else ""
    text = body.rstrip().removesuffix("---") if after else text
    stripped = {"before": before.strip(), "after": after.strip()}
    return Opened(text.strip() if before or after else text, {name: part for name, part in stripped.items() if part})


def opened_json(reply: str) -> Opened:
    """Return the JSON in a reply, and what was stripped: its one fence, or its one value behind words and a colon, with
    what stands around it; or a preamble."""
    if len(reply) > LONGEST_FENCED or reply.lstrip()[:1] in ("{", "[", '"'):
        return opened(reply)
    fences, lead = [*FENCE.finditer(reply)], BEFORE_JSON.match(reply)
    if len(fences) == 1:
        (begin, end), text = fences[0].span(), fences[0]["inside"]
    else:
        try:
            begin = lead.end() if lead else len(reply)
            end = JSONDecoder().raw_decode(reply, begin)[1]
        except (ValueError, RecursionError):
            return opened(reply)
        text = reply[begin:end]
    around = {"before": reply[:begin].strip(), "after": reply[end:].strip()}
    return Opened(text.strip(), {name: part for name, part in around.items() if part})


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
    if SPOKEN.search(text):  # "What is your question?" asked the oracle.
        return ""
    talks = _is_talk(sentences, first, others) or (
        ASKS.match(first) and all(CHATTER.search(one) or ASKS.match(one) for one in others)
    )
    nothing_after = PREAMBLE.fullmatch(f"{_straight(text.strip()[:MOST_AROUND])}\n") or NO_PREFACE.fullmatch(plain)
    return "meta" if talks or nothing_after else ""


def _is_talk(sentences: Sequence[str], first: str, others: Sequence[str]) -> bool:
    """Return whether the sentences of a text greet and ask what to do, or only say what the text must be.

    Args:
        sentences: All of them.
        first: The first one that is no mere opener.
        others: Those after it.
    """
    opens = sentences[:1] != [first] and WHAT.fullmatch(first)
    asks = opens or (any(map(GREETS.match, sentences)) and any(map(WHAT.fullmatch, sentences)))
    about_text = first.startswith("the ") and all(map(ABOUT_TEXT.match, [first, *others]))
    says = [SAYS_NOTHING.fullmatch(one) for one in sentences]
    empty = all(says) and (any(one and one["done"] for one in says) or all(one and one["agrees"] for one in says))
    return bool(asks) or (bool(says) and empty) or (about_text and any(map(REQUIREMENT.search, sentences)))


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


FENCE = re.compile(r"^```[a-zA-Z]*[ \t]*\n(?P<inside>(?:(?!```).*\n)+?)```[ \t]*$", re.MULTILINE)
LONGEST_FENCED = 200_000
BEFORE_JSON = re.compile(r"(?:[^{}\[\]]{1,500}:|json)\s*(?=[{\[])", re.IGNORECASE)
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
    r"|invitation|post|tweet|copy|dialogue|joke|review|report|outline|essay|advertisement|motto|recipe|reminder|notice|caption|line"
    r"|attempt|try|take|possibility|option|suggestion)"
)
_CHANGED = (
    r"(?:revised|rewritten|re-?phrased|reworded|updated|improved|corrected|shortened|edited|friendlier|shorter|longer"
    r"|new|final|(?:more|less) \w+)"
)
_SURE = (
    r"(?:sure(?: thing)?|certainly|of course|absolutely|okay|ok|great|understood|got it|no problem|alright"
    r"|(?:great|good) question|thank(?:s| you)(?: for (?:the|your) \w+)?)[!,.]*\s+"
)
_HAPPY = (
    r"(?:(?:i(?:'d| would) be (?:happy|glad|delighted) to (?:help|assist)|i can (?:help|do that))[^.!:\n]{0,60}"
    r"[.!]\s+)?"
)
_HERE = r"(?:here(?:'s| is| are)|below (?:is|are))"
_HANDED = rf"{_HERE} (?:[^:\n]{{0,160}}\b)?{_KINDS}\b[^:\n]{{0,200}}:[*_]*"
_SOME = (
    r"(?:some|a few|a couple of|two|three|four|five|six|seven|eight|nine|ten|[0-9]{1,3}"
    r"|(?:the|your) (?:instructions|steps|ideas|tips|questions|names|options|reasons))"
)
_TEXT = r"(?:texts?|versions?|drafts?|rewrites?|revisions?|answer|response|reply|sentences?|paragraph)"
_RULE = r"(?:-{3,}[ \t]*\n\s*)?"
PREAMBLE = re.compile(
    # With an opener, or of a changed text, the draft may stand in the same line.
    rf"\W{{0,9}}(?:{_SURE}(?:{_HAPPY}{_HANDED}|here (?:you go|it is)[!:.])\s+"
    rf"|{_SURE}{_HAPPY}here are {_SOME}\b[^:\n]{{0,200}}:[ \t]*\n\s*"
    rf"|{_HERE} (?:a|an|the|my|your) {_CHANGED} (?:{_TEXT}\b[^:\n]{{0,160}}:[*_]*\s+|[^:\n]{{0,160}}:[*_]*[ \t]*\n\s*)"
    rf"|[^:\n]{{0,300}}[.!] {_HERE} (?:a|an|the|my|your) {_CHANGED} {_KINDS}\b[^:\n]{{0,160}}:[ \t]*\n\s*"
    rf"|(?:{_HAPPY}|(?:to|based on) [^.:\n]{{0,120}}, ){_HANDED}[ \t]*\n\s*"
    rf"|here (?:you go|it is)(?:, \w+)?[!:.][*_]*[ \t]*\n\s*"
    rf"|i(?:'ve| have) (?:{_CHANGED} (?:the|your)|made (?:it|your)) [^:\n]{{0,160}}:[ \t]*\n\s*"
    rf"|(?:the|your) {_KINDS} (?:is|reads) as follows:[ \t]*\n\s*"
    rf"|to [^.:\n]{{0,120}}, i would (?:re-?phrase|rewrite|revise|change) [^:\n]{{0,80}}:[ \t]*\n\s*"
    rf"|(?:{_CHANGED} {_KINDS}|draft)[*_]*:[*_]*[ \t]*\n\s*){_RULE}"
    rf"|(?:#{{1,6}} |\*\*){_CHANGED} {_TEXT}:?[*_]*:?[ \t]*\n\s*{_RULE}",
    re.IGNORECASE,
)
HEADING = re.compile(r"[^\n]*:[ \t]*\n\s*")
_CHANGES = r"[^.!?\n]{0,80}(?:chang|adjust|revis|modif|tweak|edit|rewrit|shorten|version|different tone)[^.!?\n]{0,80}"
_OFFERS = (
    rf"(?:please )?(?:let me know|feel free to (?:ask|tell me)) if{_CHANGES}[.!?]?"
    rf"|if{_CHANGES}, (?:please )?(?:just )?(?:let me know|feel free)[^.!?\n]{{0,60}}[.!?]?"
    r"|feel free to (?:adjust|modify|customi[sz]e|edit|tweak) [^.!?\n]{0,80}[.!]?"
    r"|would you like me to [^.!?\n]{0,120}\?"
    r"|(?:is there )?anything else you(?:'d| would) like (?:me )?to (?:add|change|adjust|revise)[^.!?\n]{0,40}\?"
    r"|\(?word count: [0-9]{1,5}(?: words)?\)?"
    rf"|(?:in this \w+, )?i(?:'ve| have) {_CHANGED} the (?:original|given|current) {_KINDS}\b[^\n]{{0,300}}"
)
OFFER = re.compile(_OFFERS, re.IGNORECASE)
LONE = re.compile(rf"{_OFFERS}|(?:i )?hope (?:this|that|it) helps[.!]?", re.IGNORECASE)
LETTER = re.compile(r"\W*(?:dear|hi|hello|hey)\b", re.IGNORECASE)
_ENDS = (
    r"(?:i )?hope (?:that )?(?:this|it|you (?:like|enjoy)) [^.!?\n]{0,80}[.!]?"
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
    r"(?: for (?:any \w+|the (?:confusion|inconvenience|error))"
    r"|(?: to hear)? that you(?:'re| are) feeling \w+ \w+)?,? )?"
    r"(?:but )?(?:i(?:'m| am) not an? (?:doctor|lawyer|physician|expert)[^,]{0,40},? (?:so|and) )?"
)
_REQUEST = (
    r"(?:requests?|tasks?|prompts?|questions?|texts?|response|reply|content|instructions|drafts?|sentences?|passage"
    r"|story|poem|essay|code)"
)
_MODEL = r"(?:\w+ ){0,2}(?:ai|chatbot|language model)\b(?: (?:language )?(?:model|assistant|system|chatbot|program))?"
_AI = (
    rf"(?:(?:i(?:'m| am) )?sorry\b[^,.]{{0,40}},? (?:but )?)?as an? {_MODEL}"
    r"(?: (?:designed|trained|developed|created|made|built|like|named|called|by|from|and|that)\b[^,]{0,200})?, "
)
_WRITE = r"(?:provide|answer|discuss|create|generate|write)"
_CANT = (
    r"i(?: can ?not| can't| won't| will not|'m unable to| am unable to|'m not able to| am not able to"
    r"|(?:'m| am) not comfortable)"
)
_HARM = (
    r"(?:malware|virus(?:es)?|phishing|weapons?|bombs?|threat\w*|fake|forg\w+|illegal|harm\w*|hate\w*|explicit|erotic"
    r"|insult\w*|demean\w*|cheat\w*|hack\w*|steal\w*|(?:private|personal) information|copyrighted)"
)
REFUSAL = re.compile(
    rf"{_AI}i (?:can(?:not|'t| not)|do(?:n't| not)|am (?:not|unable))\b|{_AI}i'm (?:not|unable|designed|only|just)\b"
    rf"|{_SORRY}i(?:'m| am) (?:just |only )?an? {_MODEL}(?:,| and\b| so\b| designed\b|$)"
    rf"|{_SORRY}i must (?:respectfully )?decline (?:this|that|your) (?:request|task|prompt)\b.{{0,120}}$"
    rf"|{_SORRY}{_CANT} (?:give (?:you )?(?:a |any )?(?:medical |legal )?(?:diagnosis|advice)$"
    rf"|(?:help|assist|provid|creat|writ|generat|shar|produc)(?:e|ing)?\b"
    rf".{{0,80}}\b{_HARM}\b.{{0,80}}$"
    r"|(?:help|assist)(?: you)? with (?:creating|generating) .{0,80}$"
    r"|(?:write|create|produce) (?:something|anything|content) (?:that|meant|which|designed)\b.{0,120}$"
    r"|(?:discuss|talk about|write about|continue) (?:that|this) (?:topic|subject|conversation|discussion)$"
    r"|(?:(?:open|read|access|view|browse|send|make|receive|see)(?: or |, )?){1,3}"
    r" ?(?:e-?mails|files|images|links|(?:phone )?calls|attachments|websites|documents)(?: directly)?$)"
    rf"|{_SORRY}{_CANT} (?:"
    rf"(?:help|assist)(?: you)?(?: (?:with|in|on) (?:that|this|it|.{{0,60}}\b{_REQUEST}\b.{{0,120}}))?$"
    r"|(?:comply|continue)(?: with (?:that|this|your|the)\b.{0,60})?$|do (?:that|this)$"
    rf"|(?:{_WRITE}|fulfil?l|complete|process|produce|engage)\b.{{0,120}}\b{_REQUEST}\b"
    rf"|{_WRITE} (?:that|this|it)$)"
    rf"|{_SORRY}i (?:don't|do not) have (?:the (?:ability|capability) to (?:access|assist|browse|{_WRITE})\b"
    r"|enough (?:information|context|details)(?: (?:to|about|for)\b|$)"
    r"|access to (?:real-time|external|your|the internet|files|personal)\b|real-time (?:information|data|access)\b"
    r"|(?:personal )?(?:feelings|opinions|emotions|preferences)(?: or .{0,40})?$)"
)
CANNED = re.compile(
    rf"{_AI}.{{0,60}}\b(?:provide|assist\w*|help\w*|generat\w+|creat\w+|have|access|support\w*|designed|engage|share)\b"
    rf"|^{_SORRY}i (?:cannot|can't) assist with that request|^{_SORRY}i don't have (?:access to )?real-time"
)
MOST_AFTER = 8
"""Sentences of any kind that may follow the refusal of an assistant."""
CHATTER = re.compile(
    r"\b(?:help|assist\w*|ask\w*|share|requests?|provide|paste|clarify|context|rephrase|welcome|pleasure|instead|different|policy"
    r"|guidelines|questions?|let me know|not sure|reach out|professional|no preface"
    r"|task|would you like|(?:real|given) text|appears to be"
    r"|(?:harm|illegal|inappropriate|offensive|sensitive)\w*)\b"
)
"""In each further sentence of a refusal, or of somebody who asks what to do."""
OPENER = re.compile(
    r"hello|hi(?: there)?|(?:i'm )?sorry|i apologi[sz]e|sure(?: thing)?|certainly|of course"
    r"|absolutely|okay|understood|i understand|got it|no problem"
    r"|(?:(?:sure|certainly|of course), )?(?:i'd|i would) be (?:happy|glad) to (?:help|assist)(?: you)?"
    r"(?: with (?:that|this))?|you're welcome"
    r"|how(?:'s it going| are you(?: doing)?(?: today)?)"
)
ASKS = re.compile(
    r"(?:(?:hello|hi|sure|thank you)\W+)?(?:"
    r"i(?:'m| am) (?:always )?(?:ready|here|happy|glad)(?:, ready)?(?: to be able)? to (?:help|assist)(?: you)?"
    r"(?: with (?:that|this|it|whatever|any|your (?:tasks?|requests?|questions?|writing))\b.{0,60})?$"
    r"|i(?:'m| am) here to (?:help|assist)(?: you)? with (?:any kind of|whatever)\b.{0,250}$"
    r"|what(?:'s| is) your (?:task|request|question)$|what can i do for you(?: today)?$"
    r"|what would you like me to (?:do|write|re\w+|improve|change|shorten|help|work|fix|create|edit|draft)\b.{0,60}$"
    r"|what (?:should|would you like) the (?:\w+ )?\w+ (?:to )?be about$"
    r"|i(?:'d| would) be (?:happy|glad|delighted) to (?:help|assist)(?: you)?(?: to)?"
    r"(?: (?:with|improve|revise|write))? "
    r"(?:it|(?:with )?your \w+)$"
    r"|(?:yes, )?i can(?: help(?: you)?(?: with (?:that|this|it))?)?$|i can help(?: you)? with (?:that|this|it)$"
    r"|to give you .{0,60}, i(?:'d| would)? (?:just )?need .{0,40}(?:information|context|details)$"
    r"|let me know what you(?:'d| would) like (?:me to )?.{0,60}$"
    r"|(?:yes, )?i(?:'m| am) ready$|what is it about\b.{0,60}$|who is (?:it for|the audience)\b.{0,60}$"
    r"|do you have an?y? (?:specific |particular )?(?:topic|style|theme|idea|preference)\b.{0,60} in mind$"
    r"|it (?:seems|looks|appears) (?:like|that) .{0,60}(?:included|provided|shared) in your (?:message|request|prompt)$"
    rf"|{_SORRY}i'm not sure what you(?:'re| are| mean)\b.{{0,120}}$"
    r"|(?:please|could you(?: please)?|can you(?: please)?) (?:provide|share|send|give|paste)(?: me)?(?: with)?"
    rf" (?:(?:the|your|a) (?:full |original |current )?{_REQUEST}(?:(?: here| below| first| of your| again)?"
    r"(?:,? (?:and|so) i\b.{0,100})?|(?: (?:of|for) .{0,60})?"
    r",? (?:that )?you(?:'d| would)? (?:like|want|need)\b.{0,100}| for me to\b.{0,100})"
    r"|(?:more|some)(?: more)? context)$"
    rf"|(?:it (?:seems|looks|appears) .{{0,60}}\b(?:provided?|shared?|included?|given?)|i don't see) .{{0,30}}"
    rf"\b{_REQUEST}\b"
    r"|i(?:'ll| will) (?:just )?(?:reply|respond) (?:with|to the user)\b)"
)
GREETS = re.compile(r"(?:sorry, )?i(?:'m| am) (?:always |just )?(?:ready|here|happy|glad) to (?:help|assist)\b")
WHAT = re.compile(
    r"what(?:'s| is) (?:your (?:task|request|question|text|draft)|on your mind)(?: today)?"
    r"|(?:what|how) (?:can|may) i (?:help|assist)(?: you)?(?: with)?"
    r"(?: (?:that|this|it|your (?:text|draft|essay|writing|tasks?|requests?|questions?|project)))?(?: today| further)?"
    r"|what can i do for you(?: today)?|what (?:kind of help|do you need)\b.{0,60}"
    r"|what would you like to (?:know|talk about|discuss)(?: or .{0,30})?"
    r"|what(?:'s| is)?(?: there| it)? you(?:'d| would) like (?:me )?to \w+(?: \w+)?"
)
_OWN = rf"(?:(?:current|revised|new|updated) )?{_TEXT}"
_ALL = r"(?:the |all |your |each |every |these |those |of |necessary |requested |suggested |needed )*"
_POINTS = (
    r"(?:changes?|feedback|requirements?|criteria|edits|revisions|points?|instructions|rules|suggestions|corrections)"
)
# A sentence that agrees, in words that are seldom an answer, as OK is; that thanks for feedback; or that says that
# something is done, will be done or need not be done to a draft.
SAYS_NOTHING = re.compile(
    r"(?P<agrees>sure(?: thing)?|certainly|of course|okay|understood|i understand|got it|will do|(?:i'm )?on it)"
    r"|thank(?:s| you)(?: so much| very much)?(?: for (?:the|your) (?:feedback|suggestions?|comments?))?"
    r"|(?P<done>"
    rf"(?:(?:yes|okay|ok|sure|certainly),? )?(?:i(?:'ve| have) (?:{_CHANGED} (?:the|your|my) {_OWN}"
    rf"|(?:made|applied|incorporated|implemented|addressed|included) {_ALL}{_POINTS})"
    r"(?: as (?:requested|asked|suggested))?"
    rf"|(?:the|your|my) {_OWN} (?:has been|was|is now) {_CHANGED} (?:to|by) .{{0,80}}"
    rf"|(?:the|your|this|my) {_OWN} (?:already |now |fully )*(?:meets|satisfies|fulfil?ls) {_ALL}{_POINTS}"
    rf"|(?:the|your|this|my) {_OWN} (?:is|looks) (?:already |now |very )*(?:perfect|fine|good|great|complete)"
    r"(?: to me| as (?:it )?is)?|it looks (?:perfect|good|fine|great)(?: now| to me)?"
    rf"|(?:there are |i see |i have )?no (?:further |more |other )?(?:changes|revisions|edits|corrections|suggestions)"
    r"(?: (?:are|were))?(?: (?:needed|required|necessary))?"
    rf"|there (?:are no (?:issues|errors|problems|mistakes) (?:in|with) (?:the|your|this) {_OWN}"
    r"|is nothing to change)"
    rf"|i(?:'ll| will) (?:(?:make|follow|address|incorporate|apply|implement) {_ALL}{_POINTS}(?: of the feedback)?"
    rf"|(?:re-?write|revise|shorten|improve|update|correct|edit) (?:it|(?:the|your|my) {_OWN})\b.{{0,60}}"
    r"|keep (?:that|this|it) in mind|do (?:that|it|so))|i understand and will .{0,80})"
    r")"
)
SPOKEN = re.compile(r"[?!][\"”’']? [a-z]")
NO_PREFACE = re.compile(r"(?:reply: )?no preface,?(?: no| or| and)? comments?(?: on the changes)?")
ABOUT_TEXT = re.compile(
    r"(?:the (?:text|response|reply|request|task|json (?:is|must|should)|sentence (?:contains|must|has))|it|this)\b"
)
REQUIREMENT = re.compile(
    r"\b(?:must (?:meet|begin|contain)|(?:must|should) be (?:re\w+|edited|prefaced)|can be more|words?|exactly"
    r"|sentences|bullet|lines?|prefaced?|requirements?|requested|criteria|json|formatted|rewritten)\b"
)
