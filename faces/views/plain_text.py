"""Text as a terminal may show it: what a model wrote is never obeyed, only shown."""

from __future__ import annotations

__all__ = ["REORDERING", "one_line", "safe", "shortened"]

REORDERING = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Marks that make a terminal show text in another order than it is written."""

_SHOWN_AS: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "␡",
    **{code: f"\\x{code:02x}" for code in range(0x80, 0xA0)},
    **{code: f"\\u{code:04x}" for code in (0x2028, 0x2029, *REORDERING)},
    **dict.fromkeys(range(55296, 57344), "�"),
}


def safe(text: str) -> str:
    """Return the text with every control character made visible: an escape code prints as `␛[31m`, not in red."""
    return text.replace("\r\n", "\n").translate(_SHOWN_AS)


def one_line(text: str) -> str:
    """Return the text on one line, safe to print."""
    return safe(" ".join(text.split()))


def shortened(text: str, width: int) -> str:
    """Return the text on one line of at most `width` characters, with an ellipsis where it was cut."""
    line = one_line(text)
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"
