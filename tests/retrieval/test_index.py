"""Searching documents: by meaning and by words, fused; a retriever like any of LangChain's."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from redraft.models.embeddings import embeddings
from redraft.retrieval.retrievers import DocumentIndex, FusedRetriever, folder_index, fuse, open_sources
from redraft.retrieval.search import Similarity

for extra in ("wordllama", "bm25s", "Stemmer", "qdrant_client", "langchain_text_splitters"):
    pytest.importorskip(extra)

GARDEN = Path(__file__).parents[1] / "graphs" / "data" / "garden"


@pytest.fixture(scope="module")
def garden() -> DocumentIndex:
    return folder_index(GARDEN, top_k=4)


class Counting(DeterministicFakeEmbedding):
    """Counts the texts that it is paid for."""

    texts: int = 0

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.texts += len(texts)
        return super().embed_documents(texts)


def test_a_folder_is_searched_sync_and_async(garden: DocumentIndex) -> None:
    """The passage that answers comes first, with its file, heading and rank score."""
    found = garden.invoke("How do I stop slugs from eating my lettuce?")
    assert asyncio.run(garden.ainvoke("How do I stop slugs from eating my lettuce?")) == found
    assert (found[0].metadata["source"], found[0].metadata["heading"]) == ("pests.md", "Pests > Slugs")
    scores = [one.metadata["score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert len(found) == 4
    assert scores[0] <= 2 / 61


def test_words_find_what_meaning_misses_and_the_other_way_round() -> None:
    """A rare name is found by its letters, and other words for a thing by their meaning."""
    documents = [
        Document("The QX-7 valve opens at noon."),
        Document("A kitten sleeps on the sofa."),
        Document("Bread is baked from flour."),
    ]
    index = DocumentIndex(documents=documents, embeddings=embeddings(), top_k=1)
    assert index.invoke("QX-7")[0].page_content == documents[0].page_content
    assert index.invoke("sleepy young cats")[0].page_content == documents[1].page_content
    assert index.invoke("kittens sleeping")[0].metadata["score"] == pytest.approx(2 / 61)


@pytest.mark.parametrize(("without", "search"), [("hybrid", "vectors"), ("vectors", "bm25")])
def test_one_search_can_rank_alone(without: str, search: str) -> None:
    """`hybrid=False` searches by vectors only, `vectors=False` by words only; name and passages say so."""
    options: Any = {without: False}
    index = folder_index(GARDEN, top_k=2, **options)
    assert (index.name, (index.embeddings is None)) == (search, without == "vectors")
    found = index.invoke("aphids and slugs")
    assert [one.metadata["score"] for one in found] == [pytest.approx(1 / 61), pytest.approx(1 / 62)]
    assert [one.metadata["found_by"] for one in found] == [[search], [search]]
    assert len(asyncio.run(index.ainvoke("aphids, slugs, potatoes and tomatoes", top_k=3))) == 3
    with pytest.raises(ValueError, match="nothing to search by"):
        folder_index(GARDEN, hybrid=False, vectors=False)


def test_each_passage_says_which_searches_found_it(garden: DocumentIndex) -> None:
    """A word that only the words' index knows, and a wish that only meaning answers; a retriever goes by its name."""
    both = DocumentIndex(documents=[Document("A kitten sleeps."), Document("QX-7")], embeddings=embeddings(), top_k=2)
    assert {one.page_content: one.metadata["found_by"] for one in both.invoke("kitten")} == {
        "A kitten sleeps.": ["vectors", "bm25"], "QX-7": ["vectors"],
    }  # fmt: skip
    one = FusedRetriever(retrievers=[both, Fixed(texts=["QX-7", "Other"])], top_k=1)
    assert {found.page_content: found.metadata["found_by"] for found in one.invoke("kitten", top_k=3)} == {
        "A kitten sleeps.": ["vectors", "bm25"], "QX-7": ["vectors", "Fixed"], "Other": ["Fixed"],
    }  # fmt: skip


@pytest.mark.parametrize("query", ["", "the of and", "zzzz qqqq", "\x00", "日本語"])
def test_odd_queries_find_something_or_nothing_but_raise_nothing(garden: DocumentIndex, query: str) -> None:
    """Nobody's typing ends a run."""
    assert len(garden.invoke(query)) <= 4


def test_documents_without_a_word_that_counts_are_found_by_vectors() -> None:
    """An index of function words or signs is one too."""
    index = DocumentIndex(documents=[Document("the of"), Document("!?")], embeddings=embeddings())
    assert len(index.invoke("of the")) == 2


def test_many_threads_can_search_at_once(garden: DocumentIndex) -> None:
    """Each gets what it would get alone."""
    queries = ["slugs", "tomato blight", "compost heap", "rain barrel"] * 10
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(garden.invoke, queries))
    assert together == [garden.invoke(query) for query in queries]


def test_the_same_text_of_one_source_is_indexed_once() -> None:
    """Chunks don't come twice; the same words in another file do."""
    twice = [Document("A lamp.", metadata={"source": "a"})] * 2 + [Document("A lamp.", metadata={"source": "b"})]
    index = DocumentIndex(documents=[*twice, Document(" ")], embeddings=embeddings())
    assert sorted(one.metadata["source"] for one in index.invoke("lamp")) == ["a", "b"]
    with pytest.raises(ValueError, match="at least one document with text"):
        DocumentIndex(documents=[Document(" ")], embeddings=embeddings())


# qdrant's client leaves a database of its own to the garbage collector, which Python 3.13 warns of.
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
def test_an_index_on_disk_pays_for_new_passages_only(tmp_path: Path) -> None:
    """Opened again it embeds nothing, and forgets what is gone."""
    texts = [Document(f"Note {number}.") for number in range(4)]
    paid = []
    for documents in (texts[:3], texts[:3], texts[1:]):
        model = Counting(size=8)
        index = DocumentIndex(documents=documents, embeddings=model, path=str(tmp_path / "index"), top_k=9)
        paid.append(model.texts)
        assert {one.page_content for one in index.invoke("note")} == {one.page_content for one in documents}
        index.close()
    assert paid == [3, 0, 1]


def test_searching_prints_and_logs_nothing(capfd: Any, caplog: Any, garden: DocumentIndex) -> None:
    """No progress bars, and no debug lines in the program's own log."""
    with caplog.at_level(logging.INFO):
        folder_index(GARDEN).invoke("the")
    assert capfd.readouterr() == ("", "")
    assert not [record for record in caplog.records if record.name.startswith(("bm25s", "wordllama"))]


def test_fusing_adds_up_ranks() -> None:
    """What two rankings share beats what one has first; a repeat in one ranking counts once."""
    a, b, c = (Document(name) for name in "abc")
    fused = fuse([[a, a, b], [c, b]], top_k=2)
    assert [one.page_content for one in fused] == ["b", "a"]
    assert fused[0].metadata["score"] == pytest.approx(1 / 62 + 1 / 62)
    assert fuse([], top_k=3) == fuse([[]], top_k=3) == []


class Fixed(BaseRetriever):
    """Finds the same whatever is asked."""

    texts: list[str]

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(text) for text in self.texts]


def test_any_source_is_searched_alone_or_with_others(garden: DocumentIndex) -> None:
    """A folder, documents, a vector store, a retriever, and a list of these."""
    store = InMemoryVectorStore.from_documents([Document("Moles dig in the lawn.")], embeddings())
    sources: list[Any] = [GARDEN, Document("Bees like lavender."), store, Fixed(texts=["Anything."])]
    one = open_sources(sources, embeddings=embeddings(), top_k=6, hybrid=True)
    assert isinstance(one, FusedRetriever)
    assert one.name == "vectors+bm25+vectors+bm25+InMemoryVectorStore+Fixed"
    found = {document.page_content for document in one.invoke("moles in the lawn")}
    assert {"Moles dig in the lawn.", "Bees like lavender.", "Anything."} < found
    assert {document.page_content for document in asyncio.run(one.ainvoke("moles in the lawn"))} == found
    assert open_sources(garden, embeddings=embeddings(), top_k=2, hybrid=True) is garden


@pytest.mark.parametrize("sources", [[], [7], None, [Document("x"), None]])
def test_what_is_no_source_is_refused(sources: Any) -> None:
    """By its value, when the graph is built."""
    with pytest.raises((TypeError, ValueError), match="source"):
        open_sources(sources, embeddings=embeddings(), top_k=2, hybrid=True)


def test_similarity_is_a_cosine_with_the_closest() -> None:
    """0–1, whatever found the passage; each text is embedded once."""
    model = Counting(size=16)
    measure = Similarity(model)
    first = measure(["one", "two"], ["one", "three"])
    assert first[0] == 1.0
    assert 0 <= first[1] < 1
    assert asyncio.run(measure.acall(["two", "one"], ["three", "one"])) == first[::-1]
    assert model.texts == 3
    assert Similarity(embeddings())(["", "a cat"], ["a cat"]) == [0.0, 1.0]
    assert measure([], ["one"]) == []


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both halves of the index."""
    import sys

    for module in ("bm25s", "qdrant_client"):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, module, None)
            with pytest.raises(ImportError, match=r'pip install "\.\[retrieval\]"'):
                DocumentIndex(documents=[Document("x")], embeddings=embeddings())
