"""What models write as Markdown is shown as such, and nothing in it is obeyed or fetched."""

from __future__ import annotations

import re

import pytest
from redraft.faces.views.documents import markdown

SHOWN = {
    "a heading is no heading of the page": ("# Title", '<p dir="auto" class="h1">Title</p>'),
    "line breaks and indents stay": ("def f():\n    return 1", '<p dir="auto">def f():\n    return 1</p>'),
    "a program in a fence": ("```python\nx < 1\n```", "<pre><code>x &lt; 1\n</code></pre>"),
    "emphasis": ("**much**", "<strong>much</strong>"),
    "a link says where it goes": ("[home](https://a.example/x)", 'href="https://a.example/x"'),
    "control characters": ("a \x1b[31m \u202e", "a ␛[31m \\u202e"),
    "a table": ("|a|\n|-|\n|1|", "<td>1</td>"),
    "another script": ("- مرحبا", '<ul dir="auto">'),
}


@pytest.mark.parametrize(("text", "expected"), SHOWN.values(), ids=SHOWN.keys())
def test_markdown_is_rendered(text: str, expected: str) -> None:
    """A reader sees lists, tables, programs and emphasis as they were meant, and the host that a link goes to."""
    assert expected in markdown(text)
    if "](https" in text:
        assert "</a> (a.example)" in markdown(text)


@pytest.mark.parametrize(
    "text",
    [
        "<script>window.taken = 1</script>",
        "<img src=x onerror='window.taken = 1'>",
        "![x](https://a.example/y.png)",
        "[x](javascript:alert(1)) [y](data:text/html,x) [z](#/threads/other) [w](/page/threads/x)",
        "<javascript:alert(1)>",
        "[x]: javascript:alert(1)\n\n[x]",
        '[x](https://a.example "onmouseover=alert(1)")',
        "<svg><style>*{}</style></svg><iframe src=x></iframe>",
        "```<script>\nx\n```",
        "| <b onclick=x>a |\n|-|\n",
    ],
)
def test_nothing_in_it_is_obeyed(text: str) -> None:
    """Raw HTML stays text, no image is fetched, and a link goes to a web address or is none."""
    html = markdown(text)
    tags = re.findall(r"<(\w+)([^>]*)>", html)
    assert {name for name, _ in tags} <= {"p", "a", "pre", "code", "table", "thead", "tbody", "tr", "th", "td"}
    for _, attributes in tags:
        assert re.fullmatch(
            r'( (dir="auto"|class="h\d"|href="https://a\.example[^"]*"|rel="noopener noreferrer nofollow"))*',
            attributes,
        )


def test_a_table_that_grows_by_itself_stays_text() -> None:
    """A few lines that Markdown would make thousands of empty cells of are shown as they were written."""
    table = "|a" * 500 + "|\n" + "|-" * 500 + "|\n" + "|\n" * 100
    for text in (table, table.replace("\n", "\n> "), table.replace("\n", "\r")):
        assert str(markdown(text)).startswith("<pre>|a|a")
    assert "<table" in str(markdown("|a|b|\n|-|-|\n" + "|<|d|\n" * 100))
    assert "&lt;b&gt;" in str(markdown("<b>" + table))
