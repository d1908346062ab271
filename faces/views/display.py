"""Something to look at: HTML in a notebook, text in a terminal."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from .documents import macros, style

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["Display"]


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
            return {"text/plain": f"{self.text}\n\n({error})"}
        return {**found, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text
