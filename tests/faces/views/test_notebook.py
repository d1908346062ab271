"""Views in a notebook and in a terminal: graphs, steps, differences, branches and curves, without a network."""

from __future__ import annotations

import asyncio
import re
import socket
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphDrained
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send
from redraft.faces.views import notebook
from redraft.faces.views.documents import LONGEST_SHOWN, macros
from redraft.faces.views.drawing import path_taken
from redraft.faces.views.notebook import alive, diff, live, scores, show, timeline, tree
from redraft.faces.views.run_page import run_page
from redraft.graphs.branching import build_branching_graph
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes import uses_words
from redraft.nodes.critics.critics import human_critic, model_critic, verifier_critic
from redraft.nodes.refine import REFINE_PROMPT
from redraft.state import Critique, Thread, open_checkpointer
from redraft.state.threads.thread import BusyThreadError, UnknownThreadError
from typing_extensions import TypedDict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TASK = "Write one sentence."
FIRST, SECOND, THIRD = "A lamp stands here.", "A lamp by the river.", "A lamp by the river, and a bell."
WINTER = "Ice on the river, a lamp and a bell."
HOSTILE = (
    "</style></svg></script><script>window.taken = 1</script><img src='http://127.0.0.1:4/x' onerror='window.taken=2'>"
    "{{ 7 * 7 }} \x1b[31m \u202e שלום 漢字 river lamp"
)


def refining(saver: Any, *replies: str, **options: Any) -> Any:
    """A graph whose drafts a program checks for three words."""
    critics = options.pop("critics", None) or [verifier_critic(uses_words("river", "lamp", "bell"))]
    return build_refine_graph(ScriptedModel(list(replies)), critics=critics, checkpointer=saver, **options)


def run(graph: Any, name: str, task: str = TASK, **limits: int) -> Thread:
    graph.invoke({"task": task, "limits": {"max_rounds": 3, **limits}}, {"configurable": {"thread_id": name}})
    return Thread(graph, name)


@pytest.fixture(params=["memory", "sqlite"])
def mill(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Thread]:
    """Three drafts, of which the third was accepted, and one revision that was none."""
    with open_checkpointer("memory" if request.param == "memory" else str(tmp_path / "runs.sqlite")) as saver:
        yield run(refining(saver, FIRST, SECOND, "", THIRD, WINTER), "mill")


@pytest.fixture
def winter(mill: Thread) -> Thread:
    """Its fork, with a person's feedback."""
    fork = mill.fork(at=0, feedback="Make it about winter.", thread_id="winter")
    fork.resume()
    return fork


class Visits(TypedDict):
    events: list[Any]


class Given(TypedDict, total=False):
    seen: list[str]


def plain(*names: str) -> Any:
    """A graph that is not ours: nodes in a row."""
    graph = StateGraph(Given)
    for name in names:
        graph.add_node(name, lambda _: {"seen": ["x"]})
    for one, then in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(one, then)
    return graph.compile(checkpointer=InMemorySaver())


def drawing(html: str) -> ET.Element:
    """The SVG of a view, which has to be well-formed."""
    return ET.fromstring(html[html.index("<svg xmlns") : html.index("</svg>") + len("</svg>")])


def labels(svg: ET.Element) -> list[str]:
    return ["".join(text.itertext()) for text in svg.findall(".//{*}text")]


# Each view.


def test_a_graph_is_drawn_offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """`show(graph)` draws its nodes without opening a connection, and has Mermaid and text beside the SVG."""

    def refused(*_: Any) -> Any:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket, "socket", refused)
    found = show(refining(None, FIRST))
    assert sorted(labels(drawing(found.html))) == sorted(
        ["start", "prepare", "generate", "feedback", "check", "refine", "end"]
    )
    assert "check -.-&gt; refine;" in found.html
    assert "│ generate" in str(found)
    assert str(found) == repr(found) == found._repr_mimebundle_()["text/plain"]
    assert "taken" not in drawing(found.html).get("class", "")


def test_the_path_of_a_run_is_marked_and_counted(mill: Thread) -> None:
    """`show(thread)` marks what the run visited, with how often; the text lists the steps."""
    found = show(mill)
    svg = drawing(found.html)
    taken = {group.get("data-id") for group in svg.findall(".//{*}g") if " taken" in group.get("class", "")}
    assert {"prepare", "generate", "feedback", "check", "refine", "__end__", "L_check_refine_0"} <= taken
    assert sorted(label for label in labels(svg) if "×" in label) == ["3×", "3×", "3×", "4×", "4×", "4×"]
    steps = ["prepare", "generate", *["feedback", "check", "refine"] * 3, "feedback", "check"]
    assert " → ".join(steps) in str(found)


def test_only_what_ran_is_marked(mill: Thread) -> None:
    """A fork shows its own path, and where it waits; a second task shows the path of the second."""
    waiting = mill.fork(at=1, thread_id="waiting", feedback="Shorter.")
    marked = {one.get("data-id"): one.get("class", "") for one in drawing(show(waiting).html).findall(".//{*}g")}
    assert "next" in marked["check"]
    assert not [name for name, classes in marked.items() if " taken" in classes]
    assert "next: check" in str(show(waiting))
    again = run(mill.graph, "mill", "Another.", max_rounds=0)
    assert "prepare → generate → feedback → check" in str(show(again))
    assert "refine" not in str(show(again)).splitlines()[-1]


@pytest.mark.parametrize(
    "names",
    [
        ("end", "graph", "subgraph", "click"),
        ('a"]; click a href "//127.0.0.1/x"', "b);", "node0", "two words"),
        ("</style></svg><script>window.taken = 1</script> \x1b[31m \u202e", "漢字", "שלום", "<img src=x>"),
        ("x" * 300, "%% no comment", "a#35;b", "a\nb"),
    ],
)
def test_nodes_may_be_called_anything(names: tuple[str, ...]) -> None:
    """A node's name is drawn as it is, also where Mermaid would read it as its own language."""
    graph = plain(*names)
    graph.invoke({"seen": []}, {"configurable": {"thread_id": "1"}})
    found = show(Thread(graph, "1"))
    svg = drawing(found.html)
    assert {element.tag.rpartition("}")[2] for element in svg.iter()} <= {"svg", "g", "rect", "path", "text", "tspan"}
    drawn = [re.sub(r"\s", "", label) for label in labels(svg)]
    assert len(drawn) == len(names) + 2
    for name in names:
        assert re.sub(r"\s", "", name).replace("\x1b", "␛").replace("\u202e", "\\u202e") in drawn
    assert sum(" taken" in group.get("class", "") for group in svg.findall(".//{*}g")) == 2 * len(names) + 3
    assert no_address(found.html)


def test_a_run_that_goes_on_with_another_graph_keeps_its_edges() -> None:
    """After `resume(allow_changes=True)` the way into the next node is still marked."""
    on: Any = {"configurable": {"thread_id": "changed"}}
    with open_checkpointer("memory") as saver:
        refining(saver, FIRST).invoke({"task": TASK}, on, interrupt_after=["feedback"])
        thread = Thread(refining(saver, THIRD, refine_prompt="{draft} {feedback}"), "changed")
        thread.resume(allow_changes=True)
        edges = {("feedback", "check"), ("check", "refine"), ("refine", "feedback")}
        taken = path_taken(thread.graph.get_state_history(on), edges)
    assert taken.edges == {("feedback", "check"): 2, ("check", "refine"): 1, ("refine", "feedback"): 1}


def test_inner_graphs_are_drawn_open(mill: Thread) -> None:
    """`xray=True` shows the nodes of a graph that is a node, under the names of both."""
    outer = StateGraph(Given)
    outer.add_node("the inner one", plain("first", "end"))
    outer.add_edge(START, "the inner one")
    found = show(outer.compile(), xray=True)
    assert {"first", "end", "start", "the inner one"} <= set(labels(drawing(found.html)))


def test_what_can_not_be_drawn_is_said() -> None:
    """A graph that was not compiled, or anything else, is refused by its type."""
    with pytest.raises(TypeError, match="not StateGraph: compile it first"):
        show(StateGraph(Given))
    with pytest.raises(TypeError, match="takes a compiled graph or a Thread, not str"):
        show("graph")


def test_the_timeline_says_who_did_what(mill: Thread, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has who acted, tokens, seconds and verdict, and the foot has what all cost."""
    monkeypatch.setenv("COLUMNS", "140")
    found = timeline(mill)
    rows = [(row["node"], row["by"], row["what"], row["verdict"]) for row in found.facts["rows"]]
    assert rows[:4] == [
        ("prepare", "caller", "task", ""),
        ("generate", "scripted", "draft", ""),
        ("feedback", "uses_words", "critique", "✗ rejects · 0.33"),
        ("check", "check", "verdict", "goes on"),
    ]
    assert [verdict for *_, verdict in rows if "not a draft" in verdict] == ["✗ not a draft: it is empty"]
    assert rows[-1][-1] == "stops: accepted"
    used = mill.resume()["usage"]
    assert (found.facts["total_calls"], found.facts["total_tokens"]) == (4, used["total_tokens"])
    text = str(found).splitlines()
    assert text[0].split() == ["step", "node", "who", "what", "tokens", "time", "verdict", "said"]
    assert max(map(len, text)) <= 140
    assert f"{used['total_tokens']} tokens" in text[-1]
    assert "in all, 4 calls" in found.html
    assert FIRST in found.html


def test_what_a_fork_inherited_is_marked(winter: Thread) -> None:
    """A fork's timeline says which rows are its parent's."""
    rows = timeline(winter).facts["rows"]
    assert [row["by"] for row in rows if row["inherited"]] == ["caller", "scripted", "uses_words"]
    assert timeline(winter).html.count("of its parent") == 3


def test_a_difference_comes_with_its_reason(mill: Thread, winter: Thread) -> None:
    """`diff` shows what changed word by word, and each critique on the way from one draft to the other."""
    found = diff(mill)
    assert "A lamp [-stands here-]{+by the river, and a bell+}." in str(found)
    assert [reason["round"] for reason in found.facts["reasons"]] == [0, 1]
    assert "These words are missing: river, bell." in str(found)
    assert "<del>stands here</del><ins>by the river, and a bell</ins>" in found.html
    step = diff(mill, before=1, after=3)
    assert [reason["round"] for reason in step.facts["reasons"]] == [1]
    assert "The two drafts are the same" in diff(mill, before=1, after=1).html
    both = diff(mill, other=winter)
    assert (both.facts["before"]["thread_id"], both.facts["after"]["thread_id"]) == ("mill", "winter")
    assert "Make it about winter." in both.html
    assert "✗ rejects · human" in str(both)


def test_drafts_that_are_not_there_are_named(mill: Thread) -> None:
    """A round, thread or draft that does not exist is refused with those that do."""
    with pytest.raises(ValueError, match=r"no draft of round 2; there are \[0, 1, 3\]"):
        diff(mill, before=2)
    nobody = Thread(mill.graph, "nobody")
    for view in (show, timeline, diff, tree, scores):
        with pytest.raises(UnknownThreadError, match="no thread 'nobody'"):
            view(nobody)
    with pytest.raises(ValueError, match="at least one thread"):
        scores([])


def test_the_tree_has_scores_and_stop_reasons(mill: Thread, winter: Thread) -> None:
    """Every branch stands below its parent, with where it was forked, why it stopped, score and tokens."""
    mill.fork(at=1, draft="A lamp.", limits={"max_rounds": 0}, thread_id="later").resume()
    winter.fork(at=0, draft="A boat.", thread_id="boat")
    found = tree(winter)
    rows = [(row["guide"], row["thread_id"], row["from"], row["stop_reason"]) for row in found.facts["rows"]]
    assert rows == [
        ("", "mill", "", "accepted"),
        ("├─ ", "winter", "round 0", "undecided"),
        ("│  └─ ", "boat", "round 0", None),
        ("└─ ", "later", "round 1", "max_rounds"),
    ]
    assert "│  └─ boat" in str(found)
    assert re.search(r"├─ winter \* +round 0 +undecided +1 +1\.00", str(found))
    assert "unfinished" in found.html


def test_a_thousand_forks_in_a_row_are_a_tree(mill: Thread) -> None:
    """A chain of forks is shown however long it is."""
    from redraft.faces.views.console import printed
    from redraft.faces.views.timeline import tree_facts, tree_table
    from redraft.state.threads.history import ThreadTree

    chain = ThreadTree("last", None)
    for number in range(1200):
        chain = ThreadTree(f"t{number}", None, (chain,))
    facts = tree_facts(chain, "last")
    assert len(facts["rows"]) == 1201
    assert "1200 forks deep: last" in printed(tree_table(facts))


def test_each_thread_has_a_curve_of_one_scale(mill: Thread, winter: Thread) -> None:
    """Scores and tokens by round come as a drawing a thread, which can be compared, and as numbers in the terminal."""
    found = scores([mill, winter, mill])
    html = found._repr_mimebundle_()["text/html"]
    drawings = [ET.fromstring(svg) for svg in re.findall(r'<svg class="curve".*?</svg>', html, re.DOTALL)]
    assert re.findall("<figcaption>([^<]+)</figcaption>", html) == ["mill", "winter", "mill (2)"]
    assert [len(svg.findall(".//circle")) for svg in drawings] == [3, 2, 3]
    assert [len(svg.findall(".//circle[@class='best']")) for svg in drawings] == [1, 1, 1]
    assert [len(svg.findall(".//rect")) for svg in drawings] == [4, 2, 4]
    assert html.count("round 3 · bars: tokens, at most") == 3
    assert [one["thread_id"] for one in found.facts["threads"]] == ["mill", "winter", "mill (2)"]
    assert found.facts["threads"][0]["scores"] == [(0, pytest.approx(1 / 3)), (1, pytest.approx(2 / 3)), (3, 1.0)]
    spent = [tokens for _, tokens in found.facts["threads"][0]["tokens"]]
    assert spent == sorted(spent)
    assert spent[-1] == mill.resume()["usage"]["total_tokens"]
    assert re.search(r"mill +0 +0\.33 +█+ +\d+", str(found))
    assert scores(mill).html == scores([mill]).html


def test_a_thread_without_a_score_has_its_tokens(mill: Thread) -> None:
    """`scores` says that nobody scored a draft, and still shows what each round took."""
    thread = run(refining(mill.saver, FIRST, critics=[human_critic()]), "unscored")
    assert "nobody scored a draft" in scores(thread).html
    assert re.search(r"unscored +0 +– +\d+", str(scores(thread)))


def test_tokens_so_far_are_those_of_the_rounds_before(mill: Thread) -> None:
    """A revision that was none counts in its own round, and a fork by a person's draft has the round it replaced."""
    by_hand = mill.fork(at=0, draft=THIRD, thread_id="by hand")
    by_hand.resume()
    events = mill.resume()["events"]
    each = [sum(event["usage"]["total_tokens"] for event in events if event["round"] == number) for number in range(4)]
    whole, fork = scores([mill, by_hand]).facts["threads"]
    assert whole["tokens"] == [(number, sum(each[: number + 1])) for number in range(4)]
    assert fork["tokens"] == [(0, 0)]


def test_long_names_break_between_their_words(tmp_path: Path) -> None:
    """A name in the timeline that is wider than its column goes on in the next line after a `_` or a dot."""
    with open_checkpointer("memory") as saver:
        thread = run(refining(saver, THIRD), "names")
        assert "uses_<wbr>words" in timeline(thread).html


# Whatever is in a record.


def every_view(thread: Thread, *others: Thread) -> list[Any]:
    found = [show(thread), timeline(thread), diff(thread), tree(thread), scores([thread, *others])]
    return [*found, *(diff(thread, other=other) for other in others)]


class Addresses(HTMLParser):
    """What a page would fetch, or lead to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.found: list[str] = []
        self.feed(html)
        self.found += re.findall(r"@import|url\([^)]*", "".join(re.findall(r"<style>.*?</style>", html, re.DOTALL)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        taking = {"src", "href", "srcset", "action", "data", "poster", "xlink:href", "style"}
        self.found += [value or "" for name, value in attrs if name in taking or name.startswith("on")]


def no_address(html: str) -> bool:
    """Whether a page fetches nothing and runs nothing, but for the images that it holds."""
    page = Addresses(html)
    return not {"script", "iframe", "object", "link"} & page.tags and all(
        one.startswith(("data:image/svg+xml;base64,", "#")) for one in page.found
    )


def test_what_a_model_wrote_is_text_in_every_view() -> None:
    """Markup and escape codes in a task, draft, critique or thread's id are shown, and do nothing."""
    critic = ScriptedModel([HOSTILE, "no issues"])
    with open_checkpointer("memory") as saver:
        graph = refining(saver, HOSTILE, f"again {HOSTILE}", critics=[model_critic(critic)])
        thread = run(graph, f"id {HOSTILE}", HOSTILE)
        fork = thread.fork(at=0, feedback=HOSTILE, thread_id=f"fork {HOSTILE}")
        views = every_view(thread, fork)
    for view in views:
        html = view._repr_mimebundle_()["text/html"]
        assert "<script" not in html
        assert "<img src='" not in html
        assert html.count("</style>") == html.count("<style>") == 1
        assert no_address(html)
        for text in (html, str(view)):
            assert "\x1b" not in text
            assert "\u202e" not in text
    assert "{{ 7 * 7 }}" in views[1].html


def test_texts_of_any_length_are_held() -> None:
    """A megabyte is cut and said so; what long texts have in common is left out, but near what they have not."""
    endless = "x" * 1_000_000
    prose = "".join(f"This is the sentence of number {number}. " for number in range(3000))
    with open_checkpointer("memory") as saver:
        thread = run(refining(saver, prose, f"{endless} river lamp bell", refine_prompt=REFINE_PROMPT), "long")
        views = every_view(thread)
        longer = run(refining(saver, prose, prose.replace("of number 1500", "about river lamp bell")), "longer")
        changed = diff(longer)
    assert [one for one in changed.facts["changes"] if one[0] != "same"] == [
        ("removed", "of number 1500"),
        ("added", "about river lamp bell"),
    ]
    assert "characters are the same" in changed.html
    assert len(changed.html) < 40_000
    for view in views:
        assert len(view.html) < 10 * LONGEST_SHOWN + 150_000
    assert f"cut after {LONGEST_SHOWN:,} of 1,000,016 characters" in views[1].html


def test_a_thread_shows_the_branch_that_it_is_on() -> None:
    """After LangGraph's own fork within a thread, timeline and path are those that led to its end, and the tokens those
    that it says it spent."""
    with open_checkpointer("memory") as saver:
        graph = refining(saver, FIRST, SECOND, THIRD)
        config: Any = {"configurable": {"thread_id": "forked"}}
        graph.invoke({"task": TASK, "limits": {"max_rounds": 1}}, config)
        place = next(one for one in graph.get_state_history(config) if one.next == ("refine",))
        output = graph.invoke(None, graph.update_state(place.config, {"limits": {"max_rounds": 2}}))
        thread = Thread(graph, "forked")
        found, path = timeline(thread).facts, show(thread).facts["order"]
    assert found["total_tokens"] == output["usage"]["total_tokens"]
    assert [row["round"] for row in found["rows"] if row["what"] == "revision"] == [1, 2]
    assert path.count("generate") == 1
    assert path.count("refine") == output["rounds"]


def test_views_outlive_their_database(mill: Thread, winter: Thread, tmp_path: Path) -> None:
    """A view holds what it shows: it can be displayed after the checkpointer was closed."""
    with open_checkpointer(str(tmp_path / "other.sqlite")) as saver:
        views = every_view(run(refining(saver, FIRST, THIRD), "closed"))
    for view in views:
        assert view._repr_mimebundle_().keys() >= {"text/html", "text/plain"}


def test_a_graph_of_any_kind_has_views() -> None:
    """A graph that keeps no record of ours has its path, its steps and its branches, nodes side by side included."""
    graph = StateGraph(Given)
    graph.add_node("plan", lambda _: {})
    graph.add_node("work", lambda _: {})
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", lambda _: [Send("work", {}) for _ in range(3)], ["work"])
    graph.add_edge("work", END)
    built = graph.compile(checkpointer=InMemorySaver())
    built.invoke({"seen": []}, {"configurable": {"thread_id": "any"}})
    thread = Thread(built, "any")
    assert "plan → work, work, work" in str(show(thread))
    assert "3×" in labels(drawing(show(thread).html))
    assert [row["node"] for row in timeline(thread).facts["rows"]] == ["input", "start", "plan", "work, work, work"]
    assert "any" in str(tree(thread))
    assert timeline(thread).html
    with pytest.raises(ValueError, match="no record of a refinement run"):
        scores(thread)
    with pytest.raises(ValueError, match="no draft yet"):
        diff(thread)


# Live.


def watched(which: str) -> Callable[..., Any]:
    return live if which == "live" else lambda *given: asyncio.run(alive(*given))


@pytest.fixture(params=["live", "alive"])
def follow(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`live`, and its async twin."""
    return watched(request.param)


def test_a_run_is_followed_in_a_terminal(follow: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    """`live` prints each step, makes the calls of a plain run and returns what `invoke` returns."""
    given = {"task": TASK}
    with open_checkpointer("memory") as saver:
        model = ScriptedModel([FIRST, THIRD])
        graph = build_refine_graph(model, critics=[verifier_critic(uses_words("river"))], checkpointer=saver)
        output = follow(graph, given, {"configurable": {"thread_id": "1"}})
        kept = graph.invoke(None, {"configurable": {"thread_id": "1"}})
    printed = capsys.readouterr().out
    assert len(model.calls) == 2
    assert output == kept
    for words in (FIRST, "These words are missing: river.", THIRD, "accepted"):
        assert words in printed


def test_a_thread_that_stopped_is_followed_on(follow: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    """`live(thread)` resumes; a pause for a person is said and returned, as `invoke` does."""
    with open_checkpointer("memory") as saver:
        graph = refining(saver, FIRST, SECOND, critics=[human_critic()])
        config = {"configurable": {"thread_id": "1"}}
        asked = follow(graph, {"task": TASK}, config)
        assert len(asked["__interrupt__"]) == 1
        assert "waits for a person" in capsys.readouterr().out
        output = follow(graph, Command(resume="accept"), config)
        assert output["stop_reason"] == "accepted"
        fork = Thread(graph, "1").fork(at=0, draft="Mine.", thread_id="2")
        assert follow(fork)["__interrupt__"]


def test_a_thread_that_is_followed_is_run_by_nobody_else(
    follow: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """`live(thread)` refuses a thread that is being run, and is itself stopped between two steps, as `resume` is."""
    told: list[str] = []

    def stopping(task: str, draft: str, history: Any, /) -> Critique:
        if not told:
            told.append(Thread(graph, "1").stop())
        return Critique("", accepted=True)

    with open_checkpointer("memory") as saver:
        graph = refining(saver, FIRST, critics=[stopping])
        thread = Thread(graph, "1")
        graph.invoke({"task": TASK}, thread.config, interrupt_before=["feedback"])
        with thread.stoppable(), pytest.raises(BusyThreadError, match="is being run right now"):
            follow(thread)
        with pytest.raises(GraphDrained, match="stopped on request"):
            follow(thread)
        assert follow(thread)["stop_reason"] == "accepted"
    assert len(told) == 1
    assert "accepted" in capsys.readouterr().out


def test_a_run_that_breaks_off_says_so(follow: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    """An error reaches the caller, and the view says what it was."""
    graph = build_refine_graph(
        ScriptedModel([RuntimeError("no connection")]), critics=[model_critic(ScriptedModel([]))]
    )
    with pytest.raises(RuntimeError, match="no connection"):
        follow(graph, {"task": TASK})
    assert "failed: RuntimeError" in capsys.readouterr().out


def test_events_of_another_graph_are_not_taken_for_a_record() -> None:
    """A graph of the user's own may keep `events` of any kind: its steps are shown, and it has no drafts."""
    for events in ([{"name": "signup"}], ["a", "b"]):
        builder = StateGraph(Visits)
        builder.add_node("visit", lambda state, events=events: {"events": events})
        builder.add_edge(START, "visit")
        thread = Thread(builder.compile(checkpointer=InMemorySaver()), "t")
        thread.graph.invoke({"events": []}, thread.config)
        assert "visit" in str(timeline(thread))
        assert "visit" in run_page(thread)
        for view in (scores, diff):
            with pytest.raises(ValueError, match="'t'"):
                view(thread)


def test_a_search_is_followed(follow: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    """Every draft stands below the name of its path; what a judge said, who goes on and who is left out is told."""
    drafts = [{"text": f"Lamp {number}.", "input_tokens": 90, "output_tokens": 10} for number in range(4)]

    def judge(task: str, first: str, second: str) -> str:
        return "first" if first < second else "second"

    graph = build_branching_graph(
        ScriptedModel(drafts),
        critics=[lambda task, draft, history: Critique("dim", accepted=False, score=0.5)],
        judge=judge,
        branching_factor=2,
        depth=1,
        max_concurrency=1,
        limits={"max_tokens": 300},
    )
    output = follow(graph, {"task": TASK})
    printed = capsys.readouterr().out
    assert output["stop_reason"] == "token_budget"
    for words in ("round 0 · path b0.1\n", "round 0 · path b0.2\n", "round 1 · path b1.1\n", "b0.1 and b0.2: b0.1 is"):
        assert printed.count(words) == 1
    assert "Going on: b0.1." in printed
    assert "path b1.2 left out: the token budget is spent" in printed


def test_any_graph_is_followed(follow: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    """A graph that is not ours shows each node that ran and what it wrote."""
    output = follow(plain("first", "second"), {"seen": []}, {"configurable": {"thread_id": "1"}})
    assert output == {"seen": ["x"]}
    assert re.findall(r"(first|second) wrote seen", capsys.readouterr().out) == ["first", "second"]


CELL = """
import os
os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"
from redraft.faces.views.notebook import alive, live, scores, show, timeline, tree
from redraft.graphs.loop import build_refine_graph
from redraft.models import ScriptedModel
from redraft.nodes.critics.critics import verifier_critic
from redraft.nodes import uses_words
from redraft.state import Thread, open_checkpointer

def build(**options):
    return build_refine_graph(
        ScriptedModel(["A <b>lamp</b>.", "A river."]), critics=[verifier_critic(uses_words("river"))], **options
    )

def kept():
    thread = Thread(build(checkpointer=open_checkpointer("memory").open()), "t")
    thread.graph.invoke({"task": "x"}, thread.config)
    return thread
"""


def test_a_notebook_shows_one_view_that_is_renewed(tmp_path: Path) -> None:
    """In a real kernel a run is one output, which ends as the whole run; `show` is HTML with its text beside it."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    cells = [
        *(CELL, "show(build())", "out = live(build(), {'task': 'x'})", "out = await alive(build(), {'task': 'x'})"),
        *("tree(kept())", "timeline(kept())", "scores(kept())"),
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(
        book, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    ).execute()
    (shown,) = book.cells[1].outputs
    assert drawing(shown.data["text/html"]) is not None
    assert "│ generate" in shown.data["text/plain"]
    for cell in book.cells[4:]:
        (output,) = cell.outputs
        assert "thread" in output.data["text/plain"]
    for cell in book.cells[2:4]:
        (output,) = cell.outputs
        assert "A &lt;b&gt;lamp&lt;/b&gt;." in output.data["text/html"]
        assert "refine: accepted" in output.data["text/plain"]
        assert "A river." in output.data["text/html"]


# What is not installed.


@pytest.mark.parametrize(
    ("missing", "view"), [("jinja2", show), ("markupsafe", show), ("jinja2", scores), ("mermaid_render", show)]
)
def test_a_missing_extra_is_named(
    missing: str, view: Callable[[Thread], Any], mill: Thread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra there is the text, and a line that says what to install."""
    monkeypatch.setitem(sys.modules, missing, None)
    macros.cache_clear()
    try:
        bundle = view(mill)._repr_mimebundle_()
    finally:
        macros.cache_clear()
    assert '.[notebook]"' in bundle.get("text/html", bundle["text/plain"]).replace("&#34;", '"')
    assert ("text/html" in bundle) == (missing == "mermaid_render")


def test_a_terminal_sees_the_graph_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows boxes and arrows, also back ones; without the extra, what follows what."""
    graph = refining(None, FIRST)
    assert re.search(r"│ +feedback +│◄─*╮", str(show(graph)))
    monkeypatch.setitem(sys.modules, "termaid", None)
    assert "refine → feedback" in str(show(graph))


def test_all_views_are_offered() -> None:
    """`from redraft.faces.views.notebook import …` has what the README names."""
    assert {"show", "timeline", "diff", "tree", "scores", "live", "alive"} <= set(notebook.__all__)
