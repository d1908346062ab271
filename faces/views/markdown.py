"""Markdown of models and people as HTML: parsed by markdown-it, then sanitised by nh3. Internal.

Raw HTML stays text, images are never fetched, and links go to web addresses only, each with its host in sight.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .console import safe

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

__all__ = ["markdown"]

TAGS = {
    "p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES: dict[str, set[str]] = {"*": set(), "p": {"class", "dir"}, "ol": {"start", "dir"}, "a": {"href"}}
DIRECTED = ("paragraph_open", "heading_open", "bullet_list_open", "ordered_list_open", "blockquote_open", "table_open")
"""Blocks whose direction, left to right or not, is that of their own words."""


@lru_cache(maxsize=128)
def markdown(text: str) -> Any:
    """Return a text as HTML, as `markupsafe.Markup`; control characters are visible, and line breaks stay.

    Raises:
        ImportError: The extra `notebook` or `serve` is not installed.
    """
    import nh3
    from markupsafe import Markup

    html = _parser().render(safe(text))
    attributes = {**{tag: {"dir"} for tag in ("ul", "blockquote", "table")}, **ATTRIBUTES}
    clean = nh3.clean(
        html, tags=TAGS, attributes=attributes, url_schemes={"http", "https"}, link_rel="noopener noreferrer nofollow"
    )
    return Markup(clean)  # noqa: S704  # sanitised


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("js-default", {"html": False, "linkify": False, "maxNesting": 20})
    # An image would be fetched; four spaces are as often a poem's or a program's as a code block.
    parser.disable(["image", "code", "html_inline", "html_block", "reference"])
    parser.inline.ruler.at("newline", _line_break)
    parser.core.ruler.push("redraft", _adapted)
    parser.validateLink = lambda url: WEB.match(url) is not None  # type: ignore[method-assign]
    return parser


WEB = re.compile("https?://[^/?#]", re.IGNORECASE)


def _line_break(state: StateInline, silent: bool) -> bool:  # as markdown-it calls it
    """Keep a line break and the spaces after it, which the style shows: a program without a fence keeps its form."""
    if state.src[state.pos] != "\n":
        return False
    if not silent:
        state.push("softbreak", "br", 0)
    state.pos += 1
    return True


def _adapted(state: Any) -> None:
    for token in state.tokens:
        if token.type in DIRECTED:
            token.attrSet("dir", "auto")
        if token.type in ("heading_open", "heading_close"):
            # The page's own headings are its outline, which a model's would break.
            if token.nesting == 1:
                token.attrSet("class", token.tag)
            token.tag = "p"
        if token.children:
            token.children = list(_with_hosts(token.children))


def _with_hosts(tokens: list[Token]) -> Any:
    """Give the tokens, and after each link whose words are no address the host that it goes to."""
    from markdown_it.token import Token

    host = ""
    for token in tokens:
        yield token
        if token.type == "link_open":
            host = "" if token.markup == "autolink" else urlsplit(str(token.attrGet("href"))).netloc
        if token.type == "link_close" and host:
            yield Token("text", "", 0, content=f" ({host})")
