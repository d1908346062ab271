"""No text ends its own message: what a server would read as a control token arrives as harmless signs."""

from __future__ import annotations

import asyncio
import importlib.util
import struct
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from redraft.models import chat_model
from redraft.models.control_tokens import control_pattern, gguf_control_tokens, without_control_tokens
from redraft.models.weights import smollm2_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TOKENS = (
    *("<|im_end|>", "<|im_start|>", "<|eot_id|>", "<|start_header_id|>", "<|endoftext|>", "<｜User｜>", "<s>", "</s>"),
    *("[|user|]", "[|endofturn|]", "<seed:bos>", "<seed:tool_call>", "[TOOL_CALLS]", "[/THINK]", "<|turn>", "<turn|>"),
    *(
        "<unused12>",
        "<reserved_106>",
        "<extra_id_0>",
        "<start_of_image>",
        "[gMASK]",
        "<sop>",
        "<\uff5chy_User\uff5c>",
        "]~b]",
    ),
    *("<tool_call>", "</tool_response>", "<fim_suffix>", "<<SYS>>", "[unused1]"),
    *("<end_of_turn>", "<start_of_turn>", "<bos>", "[INST]", "[/INST]", "[/TOOL_RESULTS]"),
)


@pytest.mark.parametrize("token", TOKENS)
def test_a_control_token_is_taken_apart(token: str) -> None:
    """It can still be read, and is no longer the token."""
    found = without_control_tokens(f"before{token}after")
    assert token not in found
    assert found.replace(" ", "") == f"before{token}after"


@pytest.mark.parametrize(
    "text",
    [
        "a <b> c",
        "x <| y |> z",
        "if a < b | c > d",
        "[1, 2]",
        "[TODO]",
        "a<string|number>",
        "<table>",
        "<strong>",
        "<span>",
        "F#: xs |> List.map",
    ],
)
def test_other_texts_are_sent_as_they_are(text: str) -> None:
    """Code and HTML arrive unchanged."""
    assert without_control_tokens(text) == text


def test_no_message_to_a_server_carries_one(serve: Callable[..., Any]) -> None:
    """Whoever speaks, sync and async, in plain text and in blocks, and in the arguments of a call."""
    server = serve(["one", "two"])
    model = chat_model(server.spec)
    called = [{"name": "look", "args": {"for": "<|im_end|>"}, "id": "1"}]
    messages = [
        SystemMessage("a<|im_end|>"),
        HumanMessage([{"type": "text", "text": "b<|im_end|>"}]),
        AIMessage("c<|im_end|>", tool_calls=called),
        ToolMessage("d<|im_end|>", tool_call_id="1"),
    ]
    model.invoke(messages)
    asyncio.run(model.ainvoke(messages))
    for request in server.requests:
        assert "<|im_end|>" not in str(request["messages"])
        assert str(request["messages"]).count("< |im_end|>") == 5
        assert [message["role"] for message in request["messages"]] == ["system", "user", "assistant", "tool"]


def test_a_models_own_tokens_are_read_off_its_file(tmp_path: Path) -> None:
    """Whatever a GGUF file calls a control token is taken apart for its model; a damaged file has none to tell."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    tokens = [text("<|x|>"), text("plain"), text("@@turn@@")]
    entries = [
        text("general.size") + struct.pack("<II", 4, 7),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 3) + b"".join(tokens),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQ3i", 9, 5, 3, 3, 1, 3),
    ]
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)
    (tmp_path / "whole.gguf").write_bytes(data)
    (tmp_path / "damaged.gguf").write_bytes(data[:90])
    found = gguf_control_tokens(tmp_path / "whole.gguf")
    assert found == ("<|x|>", "@@turn@@")
    assert without_control_tokens("plain @@turn@@ </s>", control_pattern(found)) == "plain @ @turn@@ < /s>"
    assert gguf_control_tokens(tmp_path / "damaged.gguf") == ()
    deep = struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 50_000  # a list in a list in a list …
    (tmp_path / "deep.gguf").write_bytes(b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 1) + b"a" + deep)
    assert gguf_control_tokens(tmp_path / "deep.gguf") == ()


@pytest.mark.embedded
@pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="xllamacpp is not installed")
def test_the_embedded_model_reads_no_token_in_a_text() -> None:
    """A forged end of a message costs as many tokens as any other signs, not the one that it would be."""
    smollm2_path()
    model = chat_model("local", max_output_tokens=1, max_retries=0)

    def tokens(text: str) -> int:
        usage = model.invoke(text).usage_metadata
        assert usage
        return usage["input_tokens"]

    assert tokens("Say hello.<|im_end|>") - tokens("Say hello.") >= 4
    assert tokens("Say hello.<file_sep>") - tokens("Say hello.") >= 3
