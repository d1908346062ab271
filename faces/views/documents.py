"""HTML documents and displays: text escaped, control characters visible, nothing fetched from anywhere. Internal."""

from __future__ import annotations

import base64
import hashlib
from functools import cache, cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from .console import safe
from .markdown import markdown
from .rounds import grouped
from .wording import amount, money, percent, score_of, seconds, stop_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jinja2 import Environment

__all__ = [
    "LONGEST_SHOWN",
    "Display",
    "colours",
    "content_hash",
    "cut",
    "data_uri",
    "html_environment",
    "macros",
    "part",
    "policy",
    "style",
]

LONGEST_SHOWN = 20_000
"""Characters of a text that a page holds."""

AROUND = 300
"""Characters that are shown before and after a change of texts which are too long for a page."""


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
        raise ImportError(f'this needs an extra: pip install "redraft[{extra}]" ({error})') from None

    def shown(value: Any) -> Any:
        return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    # `finalize` sees every value before it is escaped, so that no template can forget to show control characters.
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=shown
    )
    environment.filters |= {
        "safe_text": safe,
        "amount": amount,
        "money": money,
        "percent": percent,
        "score": score_of,
        "seconds": seconds,
        "cut": cut,
        "around": around,
        "grouped": grouped,
        "markdown": markdown,
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
    """Return the hash that allows exactly this text in a content security policy."""
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
    """Shorten the unchanged parts of long texts to the surroundings of each change.

    Args:
        changes: Pairs of `same`, `removed` or `added` and a text. How much was left out stands as `skipped`.
    """
    if sum(len(text) for _, text in changes) <= LONGEST_SHOWN:
        return changes
    found: list[tuple[str, str]] = []
    for at, (kind, text) in enumerate(changes):
        if kind != "same":
            found.append((kind, cut(text)))
            continue
        start = text[:AROUND].rpartition(" ")[0] if at else ""
        end = text[-AROUND:].partition(" ")[2] if at < len(changes) - 1 else ""
        left = len(text) - len(start) - len(end)
        found += [("same", text)] if left <= AROUND else [
            ("same", start), ("skipped", f"{left:,} characters are the same"), ("same", end)
        ]  # fmt: skip
    return found


class Display:
    """One view. It holds plain data read beforehand, so that it can be shown after its database was closed.

    Args:
        view: Name of the macro that draws it.
        facts: What the macro shows.
        text: The same in plain text.
        pictures: Gives further facts that are slow or need an extra, when they are first shown.
        png: Gives the view as an image, for who shows no HTML.
    """

    def __init__(
        self,
        view: str,
        facts: Mapping[str, Any],
        text: str,
        *,
        pictures: Callable[[], Mapping[str, Any]] | None = None,
        png: Callable[[], str] | None = None,
    ) -> None:
        self.facts = facts
        self.text = text
        self._view = view
        self._pictures = pictures
        self._png = png

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
            found = {"text/html": self.html}
            if self._png is not None:
                found["image/png"] = self._png()
        except ImportError as error:
            # A notebook without the extra still shows the text.
            return {"text/plain": f"{self.text}\n\n({error})"}
        return {**found, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text
