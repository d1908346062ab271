"""A report is one page that any browser opens without a network: verdicts, tables, plots, and each problem's rounds."""

from __future__ import annotations

import base64
import html
import json
import sys
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redraft.evals.analysis.ledger import build_ledger, find_runs
from redraft.evals.report.page import LONGEST_COMPARED, LONGEST_SHOWN, write_report
from redraft.evals.run.result_record import Iteration, ResultRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    Chromium = Any

QUESTION = "A box has 4 jars. How many jars are in 3 boxes?"
HOSTILE = (
    "</script><script>window.taken = 1</script><img src='http://127.0.0.1:4/x' onerror='window.taken = 2'>{{ 7 * 7 }}"
)


def step(kind: str, text: str, number: int, **more: Any) -> Iteration:
    judged = more.pop("draft", text)
    return Iteration(
        iteration=number,
        type=kind,
        solution=judged,
        predicted_answer=judged.split()[-1] if judged.split() else None,
        feedback=text if kind == "feedback" else None,
        tokens_used=100,
        **more,
    )


def record(name: str, drafts: Sequence[tuple[str, bool]], *, critic: str = "", **more: Any) -> ResultRecord:
    """A run whose critic accepts its last draft, if that is right, and no other."""
    log: list[Iteration] = []
    for number, (text, right) in enumerate(drafts):
        kind = "refinement" if number else "initial_generation"
        log.append(step(kind, text, number, is_correct=right, by="local"))
        if critic:
            said = "" if right else "The sum is off."
            log.append(
                step("feedback", said, number, draft=text, is_correct=right, accepted=right, by=critic, verifier=True)
            )
    answer, right = drafts[-1]
    fields: dict[str, Any] = {
        "question_id": name,
        "question": QUESTION,
        "predicted_answer": "12",
        "ground_truth": "12",
        "is_correct": right,
        "is_correct_per_feedback": bool(critic) and right,
        "final_solution": answer,
        "num_iterations": len(drafts) - 1,
        "total_tokens": 100 * len(log),
        "stop_reason": "accepted" if critic and right else "max_rounds",
        "accepted_by": critic or None,
        "oracle": False,
        "seconds": 2.0,
        "iterations_log": log,
    }
    return ResultRecord(**fields | more)


def write_run(
    folder: Path, method: str, records: Sequence[ResultRecord], *, dataset: str = "jars", **more: Any
) -> None:
    folder.mkdir(parents=True)
    lines = [one.model_dump_json() + "\n" for one in records]
    (folder / "results.jsonl").write_text("".join(lines), encoding="utf-8")
    info = {"format": 1, "dataset": dataset, "dataset_sha256": dataset, "kind": "numeric", "n": len(records)}
    told = {"method": method, "oracle": False, "model": "local", "limits": {"max_rounds": 2}, "seed": 1}
    (folder / "run.json").write_text(json.dumps({**info, **told, **more}), encoding="utf-8")


WRONG, RIGHT = "There are 4 + 3 jars in all: 7", "There are 4 * 3 jars in all: 12"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Zero-shot, and a program that fixed two of six problems and broke none."""
    place = tmp_path_factory.mktemp("runs")
    write_run(place / "a", "zero-shot", [record(f"q{i}", [(RIGHT if i < 3 else WRONG, i < 3)]) for i in range(6)])
    refined = [record(f"q{i}", [(RIGHT, True)], critic="program") for i in range(3)]
    refined += [record(f"q{i}", [(WRONG, False), (RIGHT, True)], critic="program") for i in (3, 4)]
    refined += [record("q5", [(WRONG, False)] * 2, critic="program")]
    write_run(place / "b", "program-2", refined)
    return place


def report(*places: Path, out: Path) -> Path:
    found = find_runs(places)
    return write_report(build_ledger(found), found, out)


@pytest.fixture(scope="module")
def page(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report on both."""
    return report(runs, out=tmp_path_factory.mktemp("report"))


PLOTS = ("critics", "curve", "frontier", "rounds")

# What can be seen without a browser.


def test_the_report_opens_with_the_picture_and_the_verdicts(runs: Path, page: Path) -> None:
    """Whoever reads only the first lines sees each method's difference, what is advised, and what refining fixed."""
    assert page.name == "report.html"
    text = html.unescape(page.read_text(encoding="utf-8"))
    ledger = build_ledger(find_runs([runs]))
    told = [ledger.groups[0].title, '<ol class="forest">', "+33.3", ledger.groups[0].recommendation or "none"]
    places = [text.index(one) for one in (*told, *(row.verdict for row in ledger.methods))]
    assert places == sorted(places)
    assert places[-1] < text.index("<table>")
    assert "program-2 fixed 2 and broke 0 of 6" in text


def test_the_same_runs_give_the_same_report(runs: Path, page: Path, tmp_path: Path) -> None:
    """A report can be kept under version control: without new results not a byte of page or plots changes."""
    first, second = page.parent, report(runs, out=tmp_path).parent
    names = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert [path.name for path in names] == [
        *(f"{name}.{kind}" for name in PLOTS for kind in ("png", "svg")),
        "report.html",
    ]
    for name in names:
        assert (first / name).read_bytes() == (second / name).read_bytes(), name


def test_plots_are_files_of_their_own(page: Path) -> None:
    """Each plot can be put into a paper: an SVG that refers to nothing outside, and a PNG."""
    for path in page.parent.glob("plots/*.svg"):
        root = ET.parse(path).getroot()
        assert not [node for node in root.iter() if node.tag.endswith(("script", "image", "date"))]
        linked = [value for node in root.iter() for key, value in node.attrib.items() if key.endswith("href")]
        assert all(value.startswith("#") for value in linked)
        assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")


def test_baselines_alone_make_a_report(tmp_path: Path) -> None:
    """Where nothing was refined or judged, the plots of rounds and critics are left out."""
    write_run(tmp_path / "run", "zero-shot", [record("q0", [(RIGHT, True)])])
    page = report(tmp_path / "run", out=tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out" / "plots").iterdir()) == ["frontier.png", "frontier.svg"]
    assert "Who judged well" not in page.read_text(encoding="utf-8")


def test_a_run_that_the_ledger_does_not_know_is_refused(runs: Path, tmp_path: Path) -> None:
    """A page never shows problems of a run that its tables leave out."""
    found = find_runs([runs])
    with pytest.raises(ValueError, match=r"no row for the run in '.*b'"):
        write_report(build_ledger(found[:1]), found, tmp_path)


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_a_missing_extra_is_named(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """Without the extra the user is told what to install, and no half of a report is written."""
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r'pip install "\.\[evals\]"'):
        report(runs, out=tmp_path / "out")
    assert not (tmp_path / "out").exists()


# What a browser shows.


def test_the_picture_has_a_line_a_method(chromium: Chromium, page: Path) -> None:
    """A method's mark stands where its axis has its difference, its interval around it, and words say the same."""
    chromium.open(page)
    shown = chromium.run("[...document.querySelectorAll('.forest li:not(.axis)')].map((one) => one.innerText)")
    assert [" ".join(one.split()) for one in shown] == [
        "program-2 +33.3 (−18.7 to +70.0) can't tell · 83.3% right, against zero-shot at 3.0× its tokens "
        "(no baseline has as many)",
        "zero-shot baseline 50.0% right (18.8–81.2%)",
    ]
    spots = "((one) => one.left + one.width / 2)(document.querySelector('.forest {}').getBoundingClientRect())"
    ends = "((one) => [one.left, one.right])(document.querySelector('.forest .range').getBoundingClientRect())"
    ticks = chromium.run(
        "[...document.querySelectorAll('.forest text')].map((one) => [one.textContent, "
        "((box) => box.left + box.width / 2)(one.getBoundingClientRect())])"
    )
    axis = [(float(words.replace("−", "-")), place) for words, place in ticks]
    a_point = (axis[-1][1] - axis[0][1]) / (axis[-1][0] - axis[0][0])
    assert chromium.run(spots.format("li > svg .zero")) == pytest.approx(dict(axis)[0], abs=1)
    assert chromium.run(spots.format(".point")) == pytest.approx(dict(axis)[0] + 33.3 * a_point, abs=1.5)
    interval = [dict(axis)[0] + end * a_point for end in (-18.7, 70.0)]
    assert chromium.run(ends) == pytest.approx(interval, abs=2.5)


@pytest.mark.one_of_each
@pytest.mark.parametrize("width", [320, 660, 780, 900])
def test_the_numbers_of_the_axis_can_be_read_on_any_screen(chromium: Chromium, tmp_path: Path, width: int) -> None:
    """Also where the axis is narrow no number is cut, stands on its neighbour or sticks out of the page."""
    write_run(tmp_path / "runs" / "zero", "zero-shot", [record(f"q{n}", [(WRONG, False)]) for n in range(60)])
    better = [record(f"q{n}", [(WRONG, False), (RIGHT if n % 5 else WRONG, True)]) for n in range(60)]
    write_run(tmp_path / "runs" / "one", "self-refine-1", better)
    chromium.looks(width)
    chromium.open(report(tmp_path / "runs", out=tmp_path / "out"))
    words = chromium.run(
        "[...document.querySelectorAll('.forest text')].map((one) => [one.textContent, "
        "((box) => [box.left, box.right])(one.getBoundingClientRect())])"
    )
    assert words[-1][0] == "+100"
    ends = [end for _, both in words for end in both]
    assert ends == sorted(ends)
    assert ends[0] >= 0
    assert ends[-1] <= width
    assert chromium.run("document.documentElement.scrollWidth") == width
    assert chromium.run("getComputedStyle(document.querySelector('.forest .axis > svg')).overflow") == "visible"


def odd_runs(kind: str, place: Path) -> None:
    """Write runs that are hard to show."""
    told = {"dataset": LONG, "model": LONG} if kind == "long names" else {}
    if kind == "no texts":
        bare = record("q0", [("", False), ("", True)], question="", ground_truth=None)
        write_run(place / "one", "program-1", [bare.model_copy(update={"predicted_answer": None})])
    elif kind == "one problem":
        write_run(place / "zero", "zero-shot", [record("q0", [(WRONG, False)])])
        write_run(place / "one", "program-1", [record("q0", [(WRONG, False), (RIGHT, True)], critic="program")])
    else:
        write_run(place / "zero", "zero-shot", [record("q0", [(WRONG, False)])], **told)
        for number in range(11 if kind == "many methods" else 1):
            name = f"{LONG}-{number}" if told else f"self-refine-with-a-name-of-its-own-{number}"
            write_run(place / name[-6:], name, [record("q0", [(WRONG, False), (RIGHT, True)], critic="self")], **told)


LONG = "<script>window.taken = 3</script> مرحبا " + 260 * "x"


@pytest.mark.one_of_each
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize(
    "kind", ["no texts", "one problem", pytest.param("many methods", marks=pytest.mark.slow), "long names"]
)
def test_odd_results_fit_the_screen_too(chromium: Chromium, tmp_path: Path, kind: str, width: int) -> None:
    """One method, one problem, twelve methods, records without texts and names of any length: all can be read."""
    odd_runs(kind, tmp_path / "runs")
    chromium.looks(width, dark=True)
    chromium.open(report(tmp_path / "runs", out=tmp_path / "out"), "method=program-1")
    assert chromium.complaints() == []
    assert chromium.run("window.taken ?? null") is None
    assert chromium.run("document.documentElement.scrollWidth") == width
    words = chromium.run("document.body.innerText")
    assert ("its own first drafts (no baseline was run)" in words) is (kind == "no texts")
    assert ("These results keep no texts" in words) is (kind == "no texts")
    assert ("(empty)" in words) is (kind == "one problem")  # the critic that accepted said nothing


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("dark", [False, True])
def test_the_page_needs_no_network_and_fits_the_screen(chromium: Chromium, page: Path, width: int, dark: bool) -> None:
    """On a desk and on a phone, in light and in dark, nothing is asked of a network and nothing sticks out."""
    chromium.looks(width, dark=dark)
    chromium.open(page)
    assert chromium.requested() == []
    assert chromium.complaints() == []
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")
    paper = chromium.run("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark
    drawn = chromium.run(
        "[...document.images].map((image) => [image.complete && image.naturalWidth > 0, image.currentSrc])"
    )
    assert [fine for fine, _ in drawn] == [True] * 4
    svg = base64.b64decode(drawn[0][1].partition(",")[2]).decode()
    assert ("#14171b" in svg) is dark  # plots follow the scheme


def test_what_the_browser_tests_rely_on_is_noticed(chromium: Chromium, tmp_path: Path) -> None:
    """A page that complains, breaks or asks for something elsewhere does not pass these tests."""
    page = tmp_path / "bad.html"
    page.write_text("<img src='http://127.0.0.1:4/x'><script>console.error('no'); missing()</script>", encoding="utf-8")
    chromium.open(page)
    assert chromium.requested() == ["http://127.0.0.1:4/x"]
    assert len(chromium.complaints()) == 3


def test_tables_can_be_read_aloud(chromium: Chromium, page: Path) -> None:
    """Every table has a caption and every header cell its scope; every plot and control has a name."""
    chromium.open(page)
    assert chromium.run("document.querySelectorAll('table').length") == 6
    for missing in (
        "table:not(:has(caption))",
        "th:not([scope])",
        "img:not([alt])",
        "select:not(label *)",
        "input:not(label *)",
    ):
        assert chromium.run(f"document.querySelectorAll('{missing}').length") == 0, missing
    assert "program-2: 83.3% right at" in chromium.run("document.images[1].alt")
    levels = chromium.run("[...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]))")
    assert all(then - one <= 1 for one, then in pairwise(levels))


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("address", "listed"),
    [
        ("", ["a", "b"] * 6),
        ("method=program-2&outcome=fixed", ["b q3", "b q4"]),
        ("method=program-2&outcome=broken", []),
        ("outcome=kept_wrong", ["a q3", "a q4", "a q5", "b q5"]),
        ("outcome=fixed&q=SUM+is+off", ["b q3", "b q4"]),
        ("q=there+are+4+*+3", ["a q0", "b q0", "a q1", "b q1", "a q2", "b q2", "b q3", "b q4"]),
        ("q=7%E2%80%8B", []),
        ("method=unknown&outcome=unknown", ["a", "b"] * 6),
    ],
)
def test_the_address_says_which_problems_are_shown(
    chromium: Chromium, page: Path, address: str, listed: list[str]
) -> None:
    """A link can point at what it speaks of: a method's fixed problems, say, or those with some words in them."""
    chromium.open(page, address)
    names = {"zero-shot": "a", "program-2": "b"}
    shown = [f"{names[method]} {name}" for method, name in problems(chromium)]
    assert [one if " " in want else one[0] for one, want in zip(shown, listed, strict=True)] == listed
    assert chromium.run("document.getElementById('problems-count').textContent") == f"{len(listed)} answers"


def test_counts_in_the_table_lead_to_their_problems(chromium: Chromium, page: Path) -> None:
    """A click on `2` under fixed shows these two problems; the table and the list never disagree."""
    chromium.open(page)
    links = chromium.run(
        "[...document.querySelectorAll('#accuracy td a')].map((one) => [one.hash, Number(one.textContent)])"
    )
    assert [count for _, count in links] == [3, 3, 2, 3, 1]
    for number, (address, count) in enumerate(links):
        chromium.run(f"document.querySelectorAll('#accuracy td a')[{number}].click()")
        chromium.wait_for(
            f"location.hash === {json.dumps(address)} && document.querySelectorAll('.problem').length === {count}"
        )


def test_the_keyboard_is_enough(chromium: Chromium, page: Path) -> None:
    """Typed words filter, Tab goes on to the problems, Enter opens one: rounds, what was said, and what changed."""
    chromium.open(page, "method=program-2")
    chromium.run("document.querySelector('[type=search]').focus()")
    chromium.ask("Input.insertText", text="sum is off")
    assert [name for _, name in problems(chromium)] == ["q3", "q4", "q5"]
    assert chromium.run("location.hash") == "#method=program-2&q=sum+is+off"
    for _ in range(2):
        chromium.press("Tab")
    assert chromium.run("document.activeElement === document.querySelector('.problem > summary')")
    chromium.press("Enter")
    chromium.wait_for("document.querySelector('.problem .steps')")
    titles = "[...document.querySelectorAll('.problem .title')].map((one) => one.firstChild.data)"
    assert chromium.run(titles) == [
        "First draft",
        "Feedback on the first draft",
        "Revision 1",
        "Feedback on revision 1",
    ]
    judged = "[...document.querySelectorAll('.problem .mark, .problem .verdict')].map((one) => one.textContent)"
    assert chromium.run(judged) == ["wrong", "rejects a wrong draft", "right", "accepts a right draft"]
    changed = "[...document.querySelectorAll('.problem {}')].map((one) => one.textContent.trim())"
    assert chromium.run(changed.format("del")) == ["+", "7"]
    assert chromium.run(changed.format("ins")) == ["*", "12"]
    chromium.press("Tab")
    assert chromium.run("document.activeElement.textContent") == QUESTION
    for key in ("Shift+Tab", "Shift+Tab", " "):
        chromium.press(key)
    chromium.wait_for("getComputedStyle(document.querySelector('del')).display === 'none'")


def test_many_problems_come_in_pages(chromium: Chromium, tmp_path: Path) -> None:
    """A report on hundreds of problems opens at once, and shows more when asked."""
    records = [record(f"q{number}", [(RIGHT, True)]) for number in range(120)]
    write_run(tmp_path / "run", "zero-shot", records)
    chromium.open(report(tmp_path / "run", out=tmp_path / "out"))
    for shown, more in ((50, "Show 50 more of 120"), (100, "Show 20 more of 120"), (120, None)):
        assert len(problems(chromium)) == shown
        button = "document.getElementById('problems-more')"
        assert chromium.run(f"{button}.hidden ? null : {button}.textContent") == more
        chromium.run(f"{button}.click()")


def test_what_a_model_wrote_is_shown_and_never_run(chromium: Chromium, tmp_path: Path) -> None:
    """Markup in a task, a draft, a name or a critique is text like any other, and the layout holds."""
    told = f"{HOSTILE} \u202e\x1b[31m $x_1$ 漢字 🙂"
    refined = record(told, [(WRONG, False), (told, True)], critic=told, question=told, error=None, ground_truth=told)
    write_run(tmp_path / "run", f"program-1  \x1b {HOSTILE}", [refined], dataset=told, model=told)
    chromium.looks(400)
    chromium.open(report(tmp_path / "run", out=tmp_path / "out"))
    chromium.wait_for("document.querySelector('.problem .steps')")  # a single problem is open at once
    assert chromium.run("window.taken ?? null") is None
    assert chromium.requested() == []
    assert chromium.complaints() == []
    assert chromium.run("document.querySelector('.problem .question').textContent").startswith(HOSTILE)
    assert chromium.run("document.querySelector('.problem .question').textContent").endswith(
        "\\u202e␛[31m $x_1$ 漢字 🙂"
    )
    assert chromium.run("document.querySelectorAll('main script, main img:not(.plot img)').length") == 0
    chromium.run("document.querySelector('#accuracy td a').click()")
    chromium.wait_for("location.hash.includes('outcome=fixed')")
    assert len(problems(chromium)) == 1
    assert chromium.run("document.querySelector('[name=method]').value").startswith("program-1  ␛ </script>")
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")


def test_a_script_that_got_into_the_page_does_not_run(chromium: Chromium, page: Path, tmp_path: Path) -> None:
    """The page's own policy allows its own script and style, and nothing else."""
    changed = tmp_path / "changed.html"
    text = page.read_text(encoding="utf-8")
    added = "<script>window.taken = 1</script><img src='http://127.0.0.1:4/x' onerror='window.taken = 2'>"
    changed.write_text(text.replace("</main>", f"{added}</main>"), encoding="utf-8")
    chromium.open(changed)
    assert chromium.run("window.taken ?? null") is None
    assert len(chromium.complaints()) == 3
    assert all("Content Security Policy" in one for one in chromium.complaints())
    assert len(problems(chromium)) == 12


def test_texts_of_any_length_are_held(chromium: Chromium, tmp_path: Path) -> None:
    """A megabyte without a space is cut, one too long to compare is shown whole, and the page says so."""
    endless, long = "x" * 1_000_000, "word " * (LONGEST_COMPARED // 4)
    write_run(tmp_path / "run", "program-1", [record("q0", [(endless, False), (long, True)], critic="program")])
    page = report(tmp_path / "run", out=tmp_path / "out")
    assert page.stat().st_size < 2_000_000
    chromium.looks(400)
    chromium.open(page)
    chromium.wait_for("document.querySelector('.problem .steps')")
    notes = chromium.run("[...document.querySelectorAll('.problem .note')].map((one) => one.textContent)")
    assert notes == [
        f"Cut after {LONGEST_SHOWN:,} of 1,000,000 characters; results.jsonl has the rest.",
        f"Not compared word by word: longer than {LONGEST_COMPARED:,} characters.",
    ]
    assert chromium.run("document.documentElement.scrollWidth <= innerWidth")


def test_several_datasets_stand_apart(chromium: Chromium, runs: Path, tmp_path: Path) -> None:
    """Two datasets in one report are two tables, and a problem of one is never taken for the other's."""
    write_run(tmp_path / "more", "zero-shot", [record("q0", [(WRONG, False)])], dataset="other")
    chromium.open(report(runs, tmp_path / "more", out=tmp_path / "out"))
    assert chromium.run("document.querySelectorAll('#accuracy table').length") == 2
    assert [method for method, name in problems(chromium) if name == "q0"] == [
        "zero-shot · jars",
        "program-2",
        "zero-shot · other",
    ]


def problems(chromium: Chromium) -> list[list[str]]:
    """Method and id of each problem in the list."""
    found: list[list[str]] = chromium.run(
        "[...document.querySelectorAll('.problem > summary')]"
        ".map((one) => ['.method', '.id'].map((part) => one.querySelector(part).textContent))"
    )
    return found
