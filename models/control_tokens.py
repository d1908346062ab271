"""Signs that end a message or begin another: harmless when they come as text, to a server that reads them anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

__all__ = ["without_control_tokens"]


def without_control_tokens(value: Any) -> Any:
    """Return messages as they are sent, with a space in each control token of a chat template: `< |im_end|>`.

    llama.cpp and others put a conversation together as one text and read such tokens wherever they stand, so that a
    draft or a passage could end its message and go on as the system, or as the model itself.

    Args:
        value: A text, or lists and mappings of texts; everything else comes back as it is.
    """
    if isinstance(value, str):
        while (apart := CONTROL.sub(lambda found: f"{found[0][0]} {found[0][1:]}", value)) != value:
            value = apart  # one may stand inside another
        return value
    if isinstance(value, Mapping):
        return {key: without_control_tokens(one) for key, one in value.items()}
    return [without_control_tokens(one) for one in value] if isinstance(value, list) else value


CONTROL = re.compile(
    r"<[|｜][^<>|｜\s]{1,60}[|｜]>"  # ChatML, Llama 3, Phi, gpt-oss; DeepSeek with wide bars
    r"|</?s>|<(?:bos|eos|pad|unk)>|<(?:start|end)_of_turn>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS)\]"
)
