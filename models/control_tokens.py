"""Control tokens of chat templates, taken apart in what is sent to a model. Internal.

llama.cpp and others put a conversation together as one text and read such tokens wherever they stand, so that a draft
or a passage could end its message and go on as the system, or as the model itself.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

__all__ = ["CONTROL", "control_pattern", "gguf_control_tokens", "without_control_tokens"]

CONTROL = re.compile(
    r"<[|｜][^<>|｜\s]{1,60}[|｜]?>"  # ChatML, Llama 3, Phi, gpt-oss; DeepSeek with wide bars; Gemma 4 with one
    r"|<[a-zA-Z_]{1,60}[|｜]>"
    r"|\[[|｜]/?[a-zA-Z_]{2,60}[|｜]\]"  # EXAONE
    r"|</?(?:\w{1,20}:)?(?:s|bos|eos|pad|unk|mask|sep|cls|sop|eop|eot|eom|eoh|eoa)>"
    r"|<seed:/?\w{1,60}>"
    r"|</?tool_(?:call|response)s?>|<fim_\w{1,20}>|<</?SYS>>"  # Qwen, Hermes; StarCoder; Llama 2
    r"|<(?:start|begin|end)_of_\w{1,30}>"
    r"|<(?:unused|reserved|extra_id|special)_?\w{0,30}\d>|\[unused\d{1,4}\]"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_(?:CALLS|RESULTS|CONTENT)|ARGS|CALL_ID|MODEL_SETTINGS|THINK"
    r"|IMG(?:_END|_BREAK)?|(?:BEGIN_)?AUDIO|PREFIX|MIDDLE|SUFFIX|[gs]?MASK|CLS|SEP|PAD|UNK|BOS|EOS)\]"
    r"|\]~!?b[\[\]]|\[e~\["  # MiniMax
)
"""Those of known models, for one whose own are not known."""


def without_control_tokens(value: Any, pattern: re.Pattern[str] = CONTROL) -> Any:
    """Return messages as they are sent, with a space in each control token of a chat template: `< |im_end|>`.

    Args:
        value: A text, or lists and mappings of texts; everything else comes back as it is.
        pattern: The tokens.
    """
    if isinstance(value, str):
        while (apart := pattern.sub(lambda found: f"{found[0][0]} {found[0][1:]}", value)) != value:
            value = apart  # one may stand inside another
        return value
    if isinstance(value, Mapping):
        return {key: without_control_tokens(one, pattern) for key, one in value.items()}
    return [without_control_tokens(one, pattern) for one in value] if isinstance(value, list) else value


@lru_cache(maxsize=16)
def control_pattern(tokens: tuple[str, ...]) -> re.Pattern[str]:
    """Return the pattern of a model's own control tokens and of those of known models."""
    own = sorted({re.escape(token) for token in tokens if len(token) > 1 and token.split() == [token]}, key=len)
    return re.compile("|".join([*reversed(own), CONTROL.pattern])) if own else CONTROL


@lru_cache(maxsize=16)
def gguf_control_tokens(path: Path) -> tuple[str, ...]:
    """Return the control tokens of a GGUF model's tokenizer; none where its metadata can't be read."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            arrays = _metadata(data, wanted={TOKENS, TOKEN_TYPES})
    except (OSError, ValueError, IndexError, KeyError, RecursionError, struct.error):
        return ()
    tokens = zip(arrays.get(TOKENS, []), arrays.get(TOKEN_TYPES, []), strict=False)
    return tuple(token for token, kind in tokens if kind == CONTROL_TYPE)


def _metadata(data: mmap.mmap, *, wanted: set[str]) -> dict[str, list[Any]]:
    """Return arrays of the metadata by their keys; the format is llama.cpp's, version 2 or 3, little-endian."""
    arrays = {}
    (count,) = struct.unpack_from("<Q", data, 16)
    at = 24
    for _ in range(count):
        key, at = _string(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        value, at = _value(data, at + 4, kind, read=key in wanted)
        if key in wanted:
            arrays[key] = value
        if len(arrays) == len(wanted):
            break
    return arrays


def _value(data: mmap.mmap, at: int, kind: int, *, read: bool) -> tuple[Any, int]:
    if kind == STRING:
        return _string(data, at)
    if kind != ARRAY:
        return None, at + struct.calcsize(f"<{NUMBERS[kind]}")
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in NUMBERS:
        form = f"<{count}{NUMBERS[inner]}"
        return list(struct.unpack_from(form, data, at)) if read else None, at + struct.calcsize(form)
    values = []
    for _ in range(count):
        value, at = _value(data, at, inner, read=read)
        values.append(value)
    return values, at


def _string(data: mmap.mmap, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length].decode("utf-8", "replace"), at + 8 + length


TOKENS, TOKEN_TYPES = "tokenizer.ggml.tokens", "tokenizer.ggml.token_type"
CONTROL_TYPE = 3
STRING, ARRAY = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Letters of `struct`, by the format's types."""
