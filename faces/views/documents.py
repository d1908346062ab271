"""HTML documents and displays: text escaped, control characters visible, nothing fetched from anywhere. Internal."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .console import safe
from .rounds import grouped
from .wording import amount, cost_words, money, percent, requirement_status, score_of, seconds, stop_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jinja2 import Environment
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline
    from markdown_it.token import Token

__all__ = [
    "LONGEST_SHOWN",
    "Display",
    "colours",
    "content_hash",
    "cut",
    "data_uri",
    "html_environment",
    "macros",
    "markdown",
    "part",
    "policy",
    "style",
]

LONGEST_SHOWN = 20_000
"""Characters of a text that a page holds."""

AROUND = 300
"""Characters that are shown before and after a change of texts which are too long for a page."""
MOST_CELLS = 8000
"""Cells of tables in a text that is drawn as Markdown, of which a line may fill hundreds that nobody wrote."""
TAGS = {
    "p", "br", "hr", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a",
    "table", "thead", "tbody", "tr", "th", "td",
}  # fmt: skip
ATTRIBUTES: dict[str, set[str]] = {"*": set(), "p": {"class", "dir"}, "ol": {"start", "dir"}, "a": {"href"}}
DIRECTED = ("paragraph_open", "heading_open", "bullet_list_open", "ordered_list_open", "blockquote_open", "table_open")
"""Blocks whose direction, left to right or not, is that of their own words."""
WEB = re.compile("https?://[^/?#]", re.IGNORECASE)


def html_environment(*, extra: str = "notebook") -> Environment:
    """Return a Jinja environment that escapes what it is given and shows control characters.

    Args:
        extra: Named where something is missing.

    Raises:
        ImportError: The extra is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise ImportError(f'this needs an extra: pip install ".[{extra}]" in a checkout ({error})') from None

    def shown(value: Any) -> Any:
        return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    # `finalize` sees every value before it is escaped, so that no template can forget to show control characters.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=shown
    )
    environment.filters |= {
        "safe_text": safe,
        "amount": amount,
        "cost_words": cost_words,
        "money": money,
        "percent": percent,
        "score": score_of,
        "seconds": seconds,
        "cut": cut,
        "around": around,
        "grouped": grouped,
        "markdown": markdown,
        "requirement_status": requirement_status,
        "stop_words": stop_words,
    }
    environment.globals["longest"] = LONGEST_SHOWN
    return environment


@cache
def macros() -> Any:
    """Return the macros of `views.html.j2`, one a view."""
    return html_environment().from_string(part(__package__, "views.html.j2")).module


@cache
def colours() -> str:
    """Return the first part of every style sheet: the colours, light and dark, under the class `redraft`."""
    return part(__package__, "colours.css")


@cache
def style() -> str:
    """Return the style sheet of displays."""
    return colours() + part(__package__, "views.css")


def part(package: str, name: str) -> str:
    """Return a text file that is installed with a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def policy(*, style: str, script: str | None = None) -> str:
    """Return the content security policy of a page that may use its own style and script, and nothing else."""
    scripts = f"script-src '{content_hash(script)}'; " if script is not None else ""
    return (
        f"default-src 'none'; {scripts}style-src '{content_hash(style)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def content_hash(text: str) -> str:
    """Return the source that allows exactly this text in a content security policy."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def data_uri(svg: bytes) -> str:
    """Return an address that holds the image itself."""
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def cut(text: str, longest: int = LONGEST_SHOWN) -> str:
    """Return the text, or its start where it is longer than that, with a word about the rest."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]}…\n[cut after {longest:,} of {len(text):,} characters]"


def around(changes: Sequence[tuple[str, str]]) -> Sequence[tuple[str, str]]:
    """Return the differences between two texts; of long ones, what is the same only near what is not.

    Args:
        changes: Pairs of `same`, `removed` or `added` and a text. How much was left out stands as `skipped`.
    """
    if sum(len(text) for _, text in changes) <= LONGEST_SHOWN:
        return changes
    shortened: list[tuple[str, str]] = []
    for at, (kind, text) in enumerate(changes):
        if kind != "same":
            shortened.append((kind, cut(text)))
            continue
        start = text[:AROUND].rpartition(" ")[0] if at else ""
        end = text[-AROUND:].partition(" ")[2] if at < len(changes) - 1 else ""
        left = len(text) - len(start) - len(end)
        shortened += [("same", text)] if left <= AROUND else [
            ("same", start), ("skipped", f"{left:,} characters are the same"), ("same", end)
        ]  # fmt: skip
    return shortened


@lru_cache(maxsize=128)
def markdown(text: str) -> Any:
    """Return Markdown of models and people as HTML, as `markupsafe.Markup`: parsed by markdown-it, sanitised by nh3.

    Raw HTML stays text, images are never fetched, and links go to web addresses only, each with its host in sight.
    Control characters are visible, and line breaks stay. A text over `LONGEST_SHOWN`, or whose tables may have over
    `MOST_CELLS`, stays as it was written.

    Raises:
        ImportError: The extra `notebook` or `serve` is not installed.
    """
    import nh3
    from markupsafe import Markup

    columns = max((row.count("|") for row in text.splitlines() if not row.strip("|-: \t>")), default=0)
    # With what `cut` says of the rest.
    if len(text) > LONGEST_SHOWN + 100 or columns * len(text.splitlines()) > MOST_CELLS:
        return Markup("<pre>{}</pre>").format(safe(text))
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
    """Yield the tokens, and after each link whose words are no address the host that it goes to."""
    from markdown_it.token import Token

    host = ""
    for token in tokens:
        yield token
        if token.type == "link_open":
            host = "" if token.markup == "autolink" else urlsplit(str(token.attrGet("href"))).netloc
        if token.type == "link_close" and host:
            yield Token("text", "", 0, content=f" ({host})")


class Display:
    """One view. It holds plain data read beforehand, so that it can be shown after its database was closed.

    Args:
        view: Name of the macro that draws it.
        facts: What the macro shows.
        text: The same in plain text.
        pictures: Gives further facts that are slow or need an extra, when they are first shown.
    """

    def __init__(
        self,
        view: str,
        facts: Mapping[str, Any],
        text: str,
        *,
        pictures: Callable[[], Mapping[str, Any]] | None = None,
    ) -> None:
        self.facts = facts
        self.text = text
        self._view = view
        self._pictures = pictures

    @cached_property
    def body(self) -> Any:
        """The HTML without its style, as `markupsafe.Markup`.

        Raises:
            ImportError: The extra `notebook` is not installed.
        """
        draw = getattr(macros(), self._view)
        return draw({**self.facts, **(self._pictures() if self._pictures else {})})

    @property
    def html(self) -> str:
        """The HTML with its style; it runs no script, and fetches nothing.

        Raises:
            ImportError: The extra `notebook` is not installed.
        """
        return f'<div class="redraft view"><style>{style()}</style>{self.body}</div>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        try:
            return {"text/html": self.html, "text/plain": self.text}
        except ImportError as error:
            # A notebook without the extra still shows the text.
            return {"text/plain": f"{self.text}\n\n({error})"}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text
