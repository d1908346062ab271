"""A graph's drawing with the path of a run, made offline as Mermaid text, SVG and plain characters. Internal."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...state.threads.history import newest_branch
from .console import safe, shortened

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from langgraph.types import StateSnapshot

__all__ = ["Drawing", "Taken", "draw", "path_taken"]

RESERVED = {"end", "graph", "flowchart", "subgraph", "style", "linkstyle", "class", "classdef", "click", "default",
            "direction", "call", "href", "interpolate", "_blank"}  # fmt: skip
"""Words that Mermaid reads as its own where a node's id stands."""

SHOWN_AS = {"__start__": "start", "__end__": "end"}
LONGEST_NAME = 40


@dataclass(frozen=True)
class Drawing:
    """A graph, ready to be drawn."""

    name: str
    mermaid: str
    """As `draw_mermaid` writes it, with every name quoted and escaped."""
    edges: tuple[tuple[str, str], ...]
    """By the names of their nodes."""
    ids: Mapping[str, str] = field(repr=False)
    """A node's name → its id in Mermaid."""

    def plain(self) -> str:
        """Return the drawing in plain characters, or a line an edge where the library for that is not installed."""
        try:
            from termaid import render
        except ImportError:
            return self.listed()
        return render(self.mermaid, padding_x=2, padding_y=0, gap=3, max_label_width=LONGEST_NAME)

    def listed(self) -> str:
        """Return the edges, a line each."""
        return "\n".join(f"{_shown(source)} → {_shown(target)}" for source, target in self.edges)

    def svg(self, taken: Taken | None = None) -> str:
        """Return the drawing as SVG, with the path of a run in it.

        Its colours are those of the display's style; without it, plain ones. It refers to nothing outside.

        Raises:
            ImportError: The extra `notebook` is not installed.
            ValueError: The graph can't be drawn; the message says why.
        """
        try:
            from mermaid_render import convert  # type: ignore[import-untyped]
        except ImportError as error:
            raise ImportError(f'drawings need an extra: pip install ".[notebook]" in a checkout ({error})') from None
        root = ET.fromstring(convert(self.mermaid, theme="neutral"))  # noqa: S314  # just made, by a library
        for element in root.iter():
            # Without namespaces, which ElementTree would write as prefixes that a browser does not read in HTML.
            element.tag = element.tag.rpartition("}")[2]
            # An inline style would win over the display's colours.
            element.attrib.pop("style", None)
        root.attrib = {"xmlns": "http://www.w3.org/2000/svg", **root.attrib, "class": "drawing", "role": "img"}
        root.attrib.pop("aria-roledescription", None)
        root.set("aria-label", f"Drawing of the graph {safe(self.name)}")
        root.set("font-size", "16")
        root.set("font-family", "sans-serif")
        if taken is not None and (taken.nodes or taken.waiting):
            self._mark(root, taken)
        return ET.tostring(root, encoding="unicode")

    def _mark(self, root: ET.Element, taken: Taken) -> None:
        """Mark what a run visited, each with how often, and what it waits for."""
        root.set("class", "drawing ran")
        nodes = {self.ids[name]: count for name, count in taken.nodes.items() if name in self.ids}
        waiting = {self.ids[name] for name in taken.waiting if name in self.ids}
        edges = {f"L_{self.ids[a]}_{self.ids[b]}_0": count for (a, b), count in taken.edges.items()}
        counts: list[tuple[float, float, int]] = []
        for group in root.iter("g"):
            name, kind = group.get("data-id", ""), group.get("class", "").split(" ")
            if "pele-node" in kind:
                if name in nodes:
                    group.set("class", f"{group.get('class')} taken")
                    rect = group.find("rect")
                    if rect is not None and nodes[name] > 1:
                        left, top = _numbers(group.get("transform", ""))[:2] or (0.0, 0.0)
                        counts.append((left + float(rect.get("width", 0)) / 2 + 16, top + 5, nodes[name]))
                if name in waiting:
                    group.set("class", f"{group.get('class')} next")
            elif "pele-edge" in kind and name in edges:
                group.set("class", f"{group.get('class')} taken")
                line = group.find("path")
                if line is not None and edges[name] > 1:
                    counts.append((*_middle(line.get("d", "")), edges[name]))
        # The counts stand beside the boxes: as much room more on the left as on the right.
        x, y, width, height = _numbers(root.get("viewBox", "0 0 0 0"))
        root.set("viewBox", f"{x - 36:g} {y:g} {width + 72:g} {height:g}")
        root.set("width", f"{width + 72:g}")
        above = ET.SubElement(root, "g", {"class": "counts"})
        for x, y, count in counts:
            label = ET.SubElement(above, "text", {"class": "count", "x": f"{x:.1f}", "y": f"{y:.1f}"})
            label.set("text-anchor", "middle")
            label.text = f"{count}×"


def draw(graph: Any, *, xray: bool = False) -> Drawing:
    """Return the drawing of a compiled graph, of LangGraph's or ours.

    Args:
        graph: The compiled graph.
        xray: Whether graphs that are nodes of it are drawn open.
    """
    from langchain_core.runnables.graph import Edge, Graph, Node

    drawn = graph.get_graph(xray=xray)
    ids = _mermaid_ids(drawn.nodes)
    nodes = {ids[key]: Node(ids[key], f'"{_escaped(_label(node))}"', None, None) for key, node in drawn.nodes.items()}
    edges = [
        Edge(ids[one.source], ids[one.target], _escaped(str(one.data)) if one.data else None, one.conditional)
        for one in drawn.edges
    ]
    return Drawing(
        name=str(graph.get_name()),
        mermaid=_titled(Graph(nodes=nodes, edges=edges).draw_mermaid(), ids),
        edges=tuple((one.source, one.target) for one in drawn.edges),
        # what Mermaid's own text makes of an id with a colon in it
        ids={key: name.replace(":", "\\3a") for key, name in ids.items()},
    )


def _mermaid_ids(nodes: Mapping[str, Any]) -> dict[str, str]:
    """Return for each node an id that Mermaid can't misread; those that are harmless stay as they are."""
    parts: dict[str, str] = {}
    taken = {part for key in nodes for part in key.split(":")}

    def plain(part: str) -> str:
        if part not in parts:
            harmless = re.fullmatch(r"\w[\w-]*", part, re.ASCII) and part.lower() not in RESERVED
            number = len(parts)
            while not harmless and f"node{number}" in taken:
                number += 1
            parts[part] = part if harmless else f"node{number}"
            taken.add(parts[part])
        return parts[part]

    return {key: ":".join(plain(part) for part in key.split(":")) for key in nodes}


def _titled(mermaid: str, ids: Mapping[str, str]) -> str:
    """Give inner graphs their own names where their ids had to be others."""
    titles = {
        plain: part
        for key, name in ids.items()
        for part, plain in zip(key.split(":"), name.split(":"), strict=True)
        if part != plain
    }

    def title(match: re.Match[str]) -> str:
        name = titles.get(match[2])
        return match[0] if name is None else f'{match[1]}{match[2]}["{_escaped(name)}"]'

    return re.sub(r"^(\s*subgraph )(\w+)$", title, mermaid, flags=re.MULTILINE)


def _label(node: Any) -> str:
    """Return the label of a node's box."""
    name = str(node.name).rsplit(":", maxsplit=1)[-1]
    pause = (node.metadata or {}).get("__interrupt")
    return SHOWN_AS.get(name, name) + (f" (pauses {pause})" if pause else "")


def _shown(name: str) -> str:
    return shortened(SHOWN_AS.get(name, name), LONGEST_NAME)


def _escaped(text: str) -> str:
    """Return a text that Mermaid can only read as one: what is no letter, digit or space becomes its number."""
    return "".join(
        letter if letter.isalnum() or letter in "_- ." else f"#{ord(letter)};"
        for letter in safe(" ".join(text.split()))
    )


def _middle(line: str) -> tuple[float, float]:
    """Return the middle of the longest stretch of a line."""
    numbers = _numbers(line)
    points = list(zip(numbers[::2], numbers[1::2], strict=False))
    stretches = list(pairwise(points))
    if not stretches:
        return points[0] if points else (0.0, 0.0)
    (x0, y0), (x1, y1) = max(stretches, key=lambda two: (two[1][0] - two[0][0]) ** 2 + (two[1][1] - two[0][1]) ** 2)
    return (x0 + x1) / 2, (y0 + y1) / 2 + 4


def _numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]


@dataclass
class Taken:
    """The nodes that the last run of a thread visited, and how often."""

    nodes: Counter[str] = field(default_factory=Counter)
    edges: Counter[tuple[str, str]] = field(default_factory=Counter)
    order: list[str] = field(default_factory=list)
    """The nodes as they ran; those of one step joined by commas."""
    waiting: tuple[str, ...] = ()
    """The nodes that come next; empty when the run is at its end."""


def path_taken(snapshots: Iterable[StateSnapshot], edges: Collection[tuple[str, str]]) -> Taken:
    """Return the path of the last run; it works with any graph.

    Args:
        snapshots: Newest first, as `graph.get_state_history(config)` gives them.
        edges: Those that the drawing has.
    """
    taken, before, pending = Taken(), (), ()  # type: tuple[Taken, tuple[str, ...], tuple[str, ...]]
    for snapshot in newest_branch(snapshots):
        source = (snapshot.metadata or {}).get("source")
        if source == "input":  # another task begins
            taken, before = Taken(), ()
        elif source == "loop":
            for node in pending:
                taken.nodes[node] += 1
                for last in dict.fromkeys(before):
                    if (last, node) in edges:
                        taken.edges[last, node] += 1
            if pending and pending != ("__start__",):
                taken.order.append(", ".join(pending))
            before = pending
        elif snapshot.next != pending:  # written from outside: a fork, say; what leaves the next node goes on its way
            before = ()
        pending = snapshot.next
    taken.waiting = pending
    if not pending and before:
        ends = [last for last in dict.fromkeys(before) if (last, "__end__") in edges]
        taken.nodes["__end__"] += bool(ends)
        taken.edges.update((last, "__end__") for last in ends)
    # Without the zero that the line above may leave.
    taken.nodes = +taken.nodes
    return taken
