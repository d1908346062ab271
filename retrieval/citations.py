"""Critics of a search: the confidence in its passages, and the citations of an answer by them. Internal."""

from __future__ import annotations

import math
import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import mul
from typing import Any, NamedTuple

from langchain_core.embeddings import Embeddings
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig

from ..nodes.critics.critics import VerifierCritic
from ..nodes.verify.text_verifiers import split_sentences, split_words
from ..nodes.writing.prompts import PromptedModel
from ..nodes.writing.replies import is_stop_phrase, read_text
from ..state.critique import Critique, Verifier
from ..state.dual import Do
from ..state.events import Event
from ..state.retrievals import CITATION, cited_numbers, documents_of, latest_retrieval, nothing_for
from ..state.stopping import StopReason, decide
from ..state.summary import latest_draft
from .calibration import key_terms
from .documents import passage
from .findings import confidence, distinct_sources, part_confidences, plan_of, ranked, rendered, withheld

__all__ = [
    "NOTHING_SAID",
    "AnswerWriter",
    "CitationCritic",
    "Claim",
    "ConfidenceCritic",
    "answer_is_over",
    "claims",
    "features",
    "support",
]

NOTHING_SAID = "Nothing was found that answers this."
"""The answer that cites nothing."""


class Claim(NamedTuple):
    """A sentence of an answer."""

    text: str
    """Without its citations and Markdown."""
    cited: tuple[int, ...]
    """Numbers of the passages that it names, each once."""


def claims(answer: str) -> list[Claim]:
    """Return the sentences of an answer with what each cites; an item of a list, or a heading, is one at least.

    A citation behind the full stop belongs to the sentence before it.
    """
    text = ITEM.sub("\n\n", f"\n{answer}")
    text = HEADING.sub(r"\n\n\1\n\n", text)
    text = BEHIND.sub(r" \2\1 ", text)
    sentences: list[Claim] = []
    for sentence in split_sentences(text):
        bare = " ".join(MARKDOWN.sub("", CITATION.sub(" ", sentence)).split())
        cited = tuple(cited_numbers(sentence))
        if split_words(bare):
            sentences.append(Claim(SPACE_BEFORE_STOP.sub(r"\1", bare), cited))
        elif sentences:  # citations on a line of their own
            sentences[-1] = Claim(sentences[-1].text, tuple(dict.fromkeys([*sentences[-1].cited, *cited])))
    return sentences


ITEM = re.compile(r"\n[ \t]*+(?:[-*•+]|\d{1,3}[.)])[ \t]++")
HEADING = re.compile(r"^#{1,6}[ \t]++(.*)$", re.MULTILINE)
BEHIND = re.compile(
    rf"(?<!\.[A-Za-z])(?<![.!?…。！？؟।])([.!?…。！？؟।]++[\"'”’»)」』]*+)[ \t]*+"
    rf"((?:{CITATION.pattern}[ \t]*)+)(?=\s*(?:[^\sa-z]|$))"
)
MARKDOWN = re.compile(r"[*_`]+")
SPACE_BEFORE_STOP = re.compile(r"\s+([.!?…。！？؟।,;:])")


def support(claim: str, passages: Sequence[str], embeddings: Embeddings | None = None) -> float:
    """Return the probability, 0–1, that passages hold together what a sentence says; 0 where a number is not theirs.

    Args:
        claim: The sentence, without citations.
        passages: Their texts, with their headings.
        embeddings: all-MiniLM-L6-v2, with which it was calibrated; `None` goes by words alone.
    """
    text = " ".join(passages)
    if _numbers(claim) - _numbers(text) - {MORE_WORDS.get(word) for word in LATIN.findall(text.casefold())}:
        return 0.0
    overlap, similarity = features(claim, passages, embeddings)
    intercept, *weights = BY_WORDS if embeddings is None else BY_MEANING
    return 1 / (1 + math.exp(-intercept - sum(map(mul, weights, (overlap, similarity)))))


# `benchmarks/citation_support.py` finds them.
BY_WORDS = (-2.96, 7.93)
BY_MEANING = (-5.43, 7.85, 4.53)
SUPPORTED = 0.5


def features(claim: str, passages: Sequence[str], embeddings: Embeddings | None) -> tuple[float, float]:
    """Return the share of a sentence's terms that the passages hold, and its similarity to the closest place in them.

    The similarity is 0 without a model.
    """
    terms, passage_terms = _terms(claim), _terms(" ".join(passages))
    # Without their endings, so that "copies" counts for "copying".
    held = sum(
        any(passage_term.startswith(term[: max(4, len(term) - 3)]) for passage_term in passage_terms) for term in terms
    )
    overlap = held / len(terms) if terms else 0.0
    if embeddings is None:
        return overlap, 0.0
    sentences = [split_sentences(text) for text in passages]
    places = [place for some in sentences for place in (*some, *map(" ".join, pairwise(some)))]
    own = embeddings.embed_documents([claim])[0]
    return overlap, max((sum(map(mul, own, vector)) for vector in embeddings.embed_documents(places)), default=0.0)


def _terms(text: str) -> list[str]:
    """Return the key terms of a text; of a script without spaces each two signs that stand together."""
    terms = []
    for term in key_terms(text):
        terms += [a + b for a, b in pairwise(term)] if UNSPACED.search(term) else [term]
    return terms


UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")


def _numbers(text: str) -> set[str]:
    """Return the numbers of a sentence, from two on where they are words: "one" has other meanings."""
    digits = set(NUMBER.findall(GROUPED.sub("", text)))
    return digits | {NUMBER_WORDS[word] for word in LATIN.findall(text.casefold()) if word in NUMBER_WORDS}


NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
GROUPED = re.compile(r"(?<=\d)[,'’\u00a0\u202f](?=\d{3}(?!\d))")
LATIN = re.compile("[a-z]+")
NUMBER_WORDS = {
    word: str(number)
    for number, word in enumerate("two three four five six seven eight nine ten eleven twelve".split(), start=2)  # noqa: SIM905
}
MORE_WORDS = {"one": "1", "once": "1", "single": "1", "first": "1", "twice": "2", "both": "2", "zero": "0", "no": "0"}


def _reads_the_record(task: str, draft: str, /) -> None:
    """Stand in for the verifier of a critic that judges by the record instead."""


@dataclass(frozen=True)
class CitationCritic(VerifierCritic):
    """A verifier of answers: each sentence cites passages that were found, and these hold what it says.

    It names every sentence that does not; its score is the share of those that do. Where nothing was found, it accepts
    only the answer that says so. It goes by words, numbers and similarity: a sentence that turns a passage into its
    opposite in the passage's own words passes it.
    """

    verifier: Verifier = _reads_the_record
    name: str = "citations"
    embeddings: Embeddings | None = None

    def __call__(self, task: str, draft: str, history: Sequence[Event], /, state: Any = None) -> Critique:
        """Check the sentences of the draft against the passages of the record."""
        texts = [passage(document["text"], document.get("heading", "")) for document in documents_of(history)]
        draft = draft.replace(_open_parts(history), "")
        if is_stop_phrase(draft, NOTHING_SAID):
            return Critique("", accepted=True, score=1.0)
        if not texts:
            return Critique(f"No passage was found. Reply with exactly: {NOTHING_SAID}", accepted=False, score=0.0)
        sentences = claims(draft)
        problems = [(claim, why) for claim in sentences if (why := self._wrong(claim, texts))]
        listed = [f"{why}: “{claim.text[:MOST_QUOTED]}”" for claim, why in problems[:MOST_NAMED]]
        if len(problems) > MOST_NAMED:
            listed.append(f"… and {len(problems) - MOST_NAMED} sentences more.")
        if not sentences:
            listed = ["The draft has no sentence."]
        evidence = {"sentences": len(sentences), "unsupported": len(problems)}
        score = 1 - len(problems) / len(sentences) if sentences else 0.0
        return Critique("\n".join(listed), accepted=not listed, score=score, evidence=evidence)

    def _wrong(self, claim: Claim, texts: Sequence[str]) -> str:
        """Return the error in a sentence's citations; empty if there is none."""
        if not claim.cited:
            return "No passage is cited for this"
        if missing := [number for number in claim.cited if not 1 <= number <= len(texts)]:
            return f"{_marks(missing)}: there is no such passage, only [1] to [{len(texts)}]"
        cited = {number: texts[number - 1] for number in claim.cited}
        if support(claim.text, list(cited.values()), self.embeddings) < SUPPORTED:
            return f"{_marks(cited)} {'does' if len(cited) == 1 else 'do'} not hold what this says"
        idle = [number for number in cited if len(cited) > 1 and self._idle(claim.text, number, cited)]
        return f"{_marks(idle)}: nothing of this stands there that the others lack" if idle else ""

    def _idle(self, claim: str, number: int, cited: Mapping[int, str]) -> bool:
        """Return True if a passage neither supports a sentence alone nor adds a word or number of it to the others."""
        if support(claim, [cited[number]], self.embeddings) >= SUPPORTED:
            return False
        others = [text for other, text in cited.items() if other != number]
        # By words alone, as the similarity is that of one place.
        return support(claim, others) >= support(claim, list(cited.values()))


MOST_NAMED = 20
MOST_QUOTED = 300


def _marks(numbers: Iterable[int]) -> str:
    return "".join(f"[{number}]" for number in numbers)


@dataclass(frozen=True)
class ConfidenceCritic(VerifierCritic):
    """A verifier that scores passages by the confidence in them, 0–1, and accepts from the plan's threshold on.

    It reads the record and asks no model. Passages that a person wrote in place of those found are not measured, and
    accepted by others only.
    """

    verifier: Verifier = _reads_the_record
    name: str = "confidence"

    def __call__(self, task: str, draft: str, history: Sequence[Event], /, state: Any = None) -> Critique:
        """Measure the passages of the latest draft."""
        attempt = latest_draft(history)
        number, plan = attempt.round if attempt else 0, plan_of(history)
        if rendered(history, until=number) != draft:
            return Critique("These are not the passages that were found, so their similarity is not known.", None)
        passages = ranked(history, until=number)
        value, threshold = confidence(passages, plan), float(plan["threshold"])
        met = bool(passages) and value >= threshold and not withheld(passages, plan)
        documents = distinct_sources(passages)
        text = (
            f"Confidence {value:.2f} {'meets' if met else 'is under'} {threshold:.2f}: "
            f"{len(passages)} passages of {documents} documents."
        )
        if withheld(passages, plan):
            text += " So little is taken for nothing found."
        evidence: dict[str, Any] = {
            "confidence": value,
            "threshold": threshold,
            "passages": len(passages),
            "documents": documents,
        }
        if parts := part_confidences(passages, plan):
            evidence["parts"] = parts
            text += " By part: " + "; ".join(f"“{part}” {each:.2f}" for part, each in parts.items()) + "."
        return Critique(text, accepted=met, score=value, evidence=evidence)


class AnswerWriter(PromptedModel):
    """A model that answers by the passages found; where there are none, the answer says so, and no model is asked.

    Of a question in several parts the answer names those that nothing was found for.
    """

    def logic(self, input: Mapping[str, Any], config: RunnableConfig | None) -> Generator[Do, Any, AIMessage]:  # noqa: A002
        """Return the answer."""
        events = input.get("events", [])
        if not documents_of(events):
            return AIMessage(NOTHING_SAID)
        reply: AIMessage = yield from super().logic(input, config)
        text, remark = read_text(reply), _open_parts(events)
        if not remark or not text.strip():
            return reply
        return reply.model_copy(update={"content": f"{text.replace(remark, '').rstrip()}\n\n{remark}"})


def answer_is_over(state: Mapping[str, Any]) -> StopReason | None:
    """Return why an answer is revised no more: as usual, but for one to a question of which a part is open, which only
    a person accepts."""
    reason = decide(state["events"], state["limits"])
    latest = latest_draft(state["events"])
    by_person = latest is not None and latest.seen_by_person
    return "undecided" if reason == "accepted" and _open_parts(state["events"]) and not by_person else reason


answer_is_over.explained = {  # type: ignore[attr-defined]
    "undecided": "What the answer says is right, and it leaves open a part that nothing was found for."
}


def _open_parts(events: Sequence[Event]) -> str:
    """Return the sentence of an answer that says which parts of the question nothing was found for; empty for none."""
    retrieval = latest_retrieval(events)
    return nothing_for(retrieval.get("gaps") or []) if retrieval else ""
