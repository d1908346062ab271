"""A folder of documents of any kind becomes passages that know where they stand."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import threading
import zipfile
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from redraft.nodes.runtime import killable
from redraft.retrieval import cutting, web_pages
from redraft.retrieval.converters import UnreadableError, markdown_of_rst
from redraft.retrieval.documents import SUFFIXES, DocumentReader, load_folder, load_page
from redraft.retrieval.index_update import update_index

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

for extra in ("langchain_text_splitters", "html_to_markdown", "mammoth", "pypdfium2"):
    pytest.importorskip(extra)


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def pdf(*pages: str, bookmarks: bool = True, trailer: str = "") -> bytes:
    """Return a PDF with a bookmark to each page; PDFium finds the objects by itself."""
    kids = " ".join(f"{10 + 3 * number} 0 R" for number in range(len(pages)))
    parts = [
        f"1 0 obj <</Type/Catalog /Pages 2 0 R {'/Outlines 3 0 R' if bookmarks else ''}>> endobj",
        f"2 0 obj <</Type/Pages /Count {len(pages)} /Kids [{kids}]>> endobj",
        f"3 0 obj <</Type/Outlines /First 12 0 R /Last {9 + 3 * len(pages)} 0 R>> endobj",
        "4 0 obj <</Type/Font /Subtype/Type1 /BaseFont/Helvetica>> endobj",
    ]
    for number, text in enumerate(pages):
        own, drawn = 10 + 3 * number, f"BT /F 12 Tf 20 100 Td ({text}) Tj ET" if text else ""
        following = f"/Next {own + 5} 0 R" if number + 1 < len(pages) else ""
        parts += [
            f"{own} 0 obj <</Type/Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents {own + 1} 0 R "
            "/Resources <</Font <</F 4 0 R>>>>>> endobj",
            f"{own + 1} 0 obj <</Length {len(drawn)}>> stream\n{drawn}\nendstream endobj",
            f"{own + 2} 0 obj <</Title (Chapter {number + 1}) /Parent 3 0 R {following} "
            f"/Dest [{own} 0 R /Fit]>> endobj",
        ]
    return "\n".join(["%PDF-1.4", *parts, f"trailer <</Root 1 0 R {trailer}>>", "%%EOF"]).encode()


LOCKED = f"/Encrypt <</Filter/Standard /V 1 /R 2 /O ({'o' * 32}) /U ({'u' * 32}) /P -4>> /ID [(1)(1)]"


def docx(path: Path, *paragraphs: tuple[str, str]) -> Path:
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    kinds = "http://schemas.openxmlformats.org"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml",
            f'<w:document xmlns:w="{kinds}/wordprocessingml/2006/main"><w:body>{body}</w:body></w:document>',
        )
        styles = "".join(
            f'<w:style w:type="paragraph" w:styleId="{name}"><w:name w:val="{name}"/></w:style>'
            for name in ("Heading 1", "Normal")
        )
        archive.writestr(
            "word/styles.xml", f'<w:styles xmlns:w="{kinds}/wordprocessingml/2006/main">{styles}</w:styles>'
        )
        archive.writestr(
            "_rels/.rels",
            f'<Relationships xmlns="{kinds}/package/2006/relationships"><Relationship Id="r" '
            f'Target="word/document.xml" Type="{kinds}/officeDocument/2006/relationships/officeDocument"/>'
            "</Relationships>",
        )
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{kinds}/package/2006/content-types"/>')
    return path


def places(folder: Path) -> list[tuple[Any, ...]]:
    return [
        (*(one.metadata.get(key) for key in ("source", "heading", "page", "line")), one.page_content)
        for one in load_folder(folder)
    ]


def test_documents_of_every_kind_are_read_and_know_where_they_stand(tmp_path: Path) -> None:
    """A passage names its file, its headings, its page in a PDF and its line in source code."""
    write(tmp_path, "a.pdf", pdf("Boats float.", "Oars row."))
    docx(tmp_path / "b.docx", ("Heading 1", "Sails"), ("Normal", "Wind &amp; water."))
    page = "<title>Knots</title><nav>menu</nav><header><h1>Bends</h1></header><p>A <a href='x'>reef</a> knot.<h2>Hitch"
    write(tmp_path, "c.html", page + "</h2><p>Round turn.<script>no()</script>")
    write(tmp_path, "d.html", "<title>Only a title</title><p>Caf\u00e9.".encode("latin-1") + b"<meta charset=latin-1>")
    cells = [("markdown", ["# Tides\n", "High."]), ("code", ["tide = 3"]), ("code", [])]
    notebook = {"cells": [{"cell_type": kind, "source": source, "outputs": ["x"]} for kind, source in cells]}
    write(tmp_path, "e.ipynb", json.dumps(notebook))
    write(tmp_path, "f.rst", "======\nCharts\n======\n\nPaper.\n\nScale\n-----\n1:50,000\n\n* * *\n")
    write(tmp_path, "g.py", "import math\n\n\n" + "def area(radius):\n    return math.pi * radius**2\n" * 40)
    for name, text in (("h.mdx", "# Bell\nRing."), ("i.qmd", "# Log\nSpeed."), ("README", "# no heading")):
        write(tmp_path, name, text)
    write(tmp_path, "z.txt", "Sm\u00f8r".encode("utf-16"))
    found = places(tmp_path)
    code = [one for one in found if one[0] == "g.py"]
    assert [one for one in found if one[0] != "g.py"] == [
        ("README", "", None, None, "# no heading"),
        ("a.pdf", "Chapter 1", 1, None, "Boats float."),
        ("a.pdf", "Chapter 2", 2, None, "Oars row."),
        ("b.docx", "Sails", None, None, "Wind & water."),
        ("c.html", "Bends", None, None, "A reef knot."),
        ("c.html", "Bends > Hitch", None, None, "Round turn."),
        ("d.html", "Only a title", None, None, "Caf\u00e9."),
        ("e.ipynb", "Tides", None, None, "High.  \n```\ntide = 3\n```"),
        ("f.rst", "Charts", None, None, "Paper."),
        ("f.rst", "Charts > Scale", None, None, "1:50,000  \n* * *"),
        ("h.mdx", "Bell", None, None, "Ring."),
        ("i.qmd", "Log", None, None, "Speed."),
        ("z.txt", "", None, None, "Sm\u00f8r"),
    ]
    lines = (tmp_path / "g.py").read_text().splitlines()
    assert len(code) == 3
    assert all(lines[one[3] - 1].strip() == one[4].splitlines()[0].strip() for one in code)


def test_what_is_left_out_is_told_once_with_counts_by_kind(tmp_path: Path) -> None:
    """Pictures, encrypted, scanned and damaged files, and bytes that are no text: one warning counts them all."""
    write(tmp_path, "seen.md", "text")
    write(tmp_path, "empty.md", " \n")
    for name in (".hidden.md", ".git/config.md", "__pycache__/x.pyc", "node_modules/x.js"):
        write(tmp_path, name, "not this, and no word about it")
    for name in ("a.png", "b.PNG", "sub/c.png", "data.json"):
        write(tmp_path, name, "x")
    write(tmp_path, "locked.pdf", pdf("secret", trailer=LOCKED))
    write(tmp_path, "scan.pdf", pdf("", ""))
    write(tmp_path, "torn.pdf", b"%PDF-1.4\ngarbage")
    write(tmp_path, "locked.docx", b"\xd0\xcf\x11\xe0" + bytes(100))
    write(tmp_path, "torn.ipynb", "{")
    write(tmp_path, "program.txt", b"\x7fELF\x02\x01\0\0\0\xff\xfe")
    write(tmp_path, "old.txt", b"caf\xe9")
    with pytest.warns(UserWarning, match="left out of") as told:
        assert [one.metadata["source"] for one in load_folder(tmp_path)] == ["seen.md"]
    assert [str(one.message).partition(": ")[2] for one in told] == [
        "3 .png, 1 .json, 1 encrypted .docx (locked.docx), 1 encrypted .pdf (locked.pdf), "
        "1 .txt not in UTF-8 (old.txt), 1 binary .txt (program.txt), 1 .pdf without text (scanned?) (scan.pdf), "
        "1 damaged .ipynb (torn.ipynb), "
        "1 damaged .pdf (torn.pdf)"
    ]


def test_hostile_files_cost_neither_the_others_nor_the_machine(tmp_path: Path) -> None:
    """A zip bomb, 100,000 nested tags, a file of 3 GiB and expanding XML are left out by name; the rest is read."""
    write(tmp_path, "good.html", "<h1>Fine</h1><p>Read.")
    with zipfile.ZipFile(tmp_path / "bomb.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", bytes(200 << 20))
    write(tmp_path, "deep.html", "<div>" * 100_000 + "words")
    with write(tmp_path, "sparse.txt", b"").open("wb") as file:
        file.truncate(3 << 30)
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 12))
    with zipfile.ZipFile(tmp_path / "laughs.docx", "w") as archive:
        rels = f'<!DOCTYPE x [<!ENTITY l0 "lol">{laughs}]><Relationships>&l11;</Relationships>'
        archive.writestr("_rels/.rels", rels)
    with pytest.warns(UserWarning, match="left out of") as told:
        assert [one.page_content for one in load_folder(tmp_path)] == ["Read."]
    assert str(told[0].message).partition(": ")[2] == (
        "1 .docx unpacking to over 64 MiB (bomb.docx), 1 .html with tags nested too deeply (deep.html), "
        "1 damaged .docx (laughs.docx), 1 .txt of over 100 MB (sparse.txt)"
    )


def doubling_pdf(levels: int) -> bytes:
    """Return a PDF whose page draws a form that draws another one twice, and so on: a word 2**levels times."""
    draws = [("/F Do /F Do", f"/XObject <</F {11 + level} 0 R>>") for level in range(levels)]
    draws.append(("BT /F 12 Tf 20 100 Td (word) Tj ET", "/Font <</F 4 0 R>>"))
    forms = [
        f"{10 + level} 0 obj <</Type/XObject /Subtype/Form /BBox [0 0 300 200] /Resources <<{needs}>> "
        f"/Length {len(drawn)}>> stream\n{drawn}\nendstream endobj"
        for level, (drawn, needs) in enumerate(draws)
    ]
    parts = [
        "1 0 obj <</Type/Catalog /Pages 2 0 R>> endobj",
        "2 0 obj <</Type/Pages /Count 1 /Kids [3 0 R]>> endobj",
        "3 0 obj <</Type/Page /Parent 2 0 R /MediaBox [0 0 300 200] /Contents 5 0 R "
        "/Resources <</XObject <</F 10 0 R>>>>>> endobj",
        "4 0 obj <</Type/Font /Subtype/Type1 /BaseFont/Helvetica>> endobj",
        "5 0 obj <</Length 5>> stream\n/F Do\nendstream endobj",
    ]
    return "\n".join(["%PDF-1.4", *parts, *forms, "trailer <</Root 1 0 R>>", "%%EOF"]).encode()


@pytest.mark.skipif(sys.platform != "linux", reason="memory and CPU are bounded on Linux")
@pytest.mark.parametrize(
    ("limits", "told"),
    [
        # With room for all that it makes in a second, or a quick machine ends it by its memory.
        ({"MOST_CPU_S": 1.0, "MOST_MEMORY": 16 << 30}, r"\.pdf taking more than [15] s"),
        ({"MOST_MEMORY": 200 << 20}, r"\.pdf (crashing|need)"),
    ],
    ids=["time", "memory"],
)
def test_a_file_that_takes_too_much_is_given_up(
    limits: dict[str, Any], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PDF of 4 KB that draws a word 16 million times: after its seconds, or its memory, the next file is read."""
    bomb, good = write(tmp_path, "bomb.pdf", doubling_pdf(24)), write(tmp_path, "x.html", "<p>hello")
    reader = DocumentReader()
    for name, most in limits.items():
        monkeypatch.setattr(cutting, name, most)
    with pytest.raises(UnreadableError, match=told):
        reader.passages(bomb, "bomb.pdf")
    monkeypatch.undo()
    assert [one.page_content for one in reader.passages(good, "x.html")] == ["hello"]


def test_a_file_for_which_no_process_is_free_is_read_another_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, and an index does not take it for unreadable."""
    pytest.importorskip("wordllama")
    monkeypatch.setattr(killable, "WAIT_S", 0.0)
    monkeypatch.setattr(killable, "MOST", 0)
    write(tmp_path / "notes", "a.md", "Words.")
    write(tmp_path / "notes", "b.html", "<p>hello")
    found = update_index(tmp_path / "one.sqlite", [tmp_path / "notes"], model="static")
    assert (found.read, found.told) == (1, "1 .html for which no helper process was free for 0 s (b.html)")
    monkeypatch.undo()
    again = update_index(tmp_path / "one.sqlite", model="static")
    assert (again.read, again.unchanged, again.told) == (1, 1, "")


@pytest.mark.parametrize(
    ("bound", "told"),
    [
        ({"most_characters": 10}, r"1 \.md after the 10 characters that are read \(most_characters\) \(b.md\)"),
        ({"most_seconds": 1e-9}, r"1 \.md after the 1e-09 s that reading may take \(most_seconds\) \(b.md\)"),
    ],
)
def test_a_folder_is_bounded_as_a_whole_and_the_rest_is_named(bound: dict[str, Any], told: str, tmp_path: Path) -> None:
    """What was read is there; an index goes on with the rest at its next update, and keeps what it has."""
    pytest.importorskip("wordllama")
    for name in ("a.md", "b.md"):
        write(tmp_path / "notes", name, f"# {name}\nSome words.")
    with pytest.warns(UserWarning, match=told):
        assert [one.metadata["source"] for one in load_folder(tmp_path / "notes", **bound)] == ["a.md"]
    first = update_index(tmp_path / "one.sqlite", [tmp_path / "notes"], model="static", **bound)
    assert (first.files, first.read) == (1, 1)
    assert re.search(told, first.told)
    second = update_index(tmp_path / "one.sqlite", model="static", **bound)
    assert (second.files, second.read, second.unchanged, second.told) == (2, 1, 1, "")


def test_a_word_file_whose_text_hides_under_another_name_is_not_unpacked(tmp_path: Path) -> None:
    """Only XML is read, and all of it counts: a document that calls itself a program part is damaged."""
    path = docx(tmp_path / "plain.docx", ("Normal", "words"))
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(tmp_path / "odd.docx", "w") as odd:
        for name in archive.namelist():
            text = archive.read(name).decode().replace("word/document.xml", "word/document.bin")
            odd.writestr(name.replace("word/document.xml", "word/document.bin"), text)
    reader = DocumentReader()
    assert [one.page_content for one in reader.passages(path, "plain.docx")] == ["words"]
    with pytest.raises(UnreadableError, match=r"damaged \.docx"):
        reader.passages(tmp_path / "odd.docx", "odd.docx")


def test_many_paragraphs_under_one_huge_heading_are_cut_in_time_that_grows_with_them(tmp_path: Path) -> None:
    """Each passage holds the heading's beginning, and the text of a large file is what it is in small ones."""
    text = "# " + "h" * 500_000 + "\n" + "".join(f"word{number}\n\n" for number in range(50_000))
    found = DocumentReader().passages(write(tmp_path, "long.md", text), "long.md")
    assert {one.metadata["heading"] for one in found} == {"h" * 200}
    assert "  \n".join(f"word{number}" for number in range(5)) in found[0].page_content
    assert found[-1].page_content.endswith("word49999")


def test_markdown_is_cut_at_headings_and_keeps_them(tmp_path: Path) -> None:
    """A passage holds one section; code that begins with # is no heading."""
    write(tmp_path, "b/notes.md", "# Boats\nFor rivers.\n\n## Oars\n```sh\n# not a heading\nrow\n```\n")
    write(tmp_path, "a.TXT", "\ufeffPlain words.")
    found = [(one.metadata["source"], one.metadata["heading"], one.page_content) for one in load_folder(tmp_path)]
    assert found[0] == ("a.TXT", "", "Plain words.")
    assert found[1] == ("b/notes.md", "Boats", "For rivers.")
    assert found[2][:2] == ("b/notes.md", "Boats > Oars")
    assert "# not a heading" in found[2][2]


def test_long_sections_are_cut_with_an_overlap_and_stable_ids(tmp_path: Path) -> None:
    """No passage is longer than asked for, and reading the folder again gives the same ids."""
    write(tmp_path, "long.md", "# Long\n" + " ".join(f"word{number}" for number in range(300)))
    passages = load_folder(tmp_path, chunk_size=200, chunk_overlap=40)
    assert max(len(one.page_content) for one in passages) <= 200
    assert passages[1].page_content.split()[0] in passages[0].page_content
    assert {one.metadata["heading"] for one in passages} == {"Long"}
    ids = [one.metadata["id"] for one in passages]
    assert len(set(ids)) == len(ids) > 5
    assert ids == [one.metadata["id"] for one in load_folder(tmp_path, chunk_size=200, chunk_overlap=40)]


def test_source_code_of_every_language_is_cut(tmp_path: Path) -> None:
    """Each ending that is offered is known to the splitter."""
    reader = DocumentReader(chunk_size=60, chunk_overlap=0)
    for suffix in set(SUFFIXES) - {".docx", ".htm", ".html", ".ipynb", ".pdf", ".xhtml"}:
        path = write(tmp_path, f"file{suffix}", "first line of it\n\nsecond = part of it\n" * 4)
        assert len(reader.passages(path, path.name)) > 1, suffix


def test_restructured_titles_are_told_from_what_looks_like_them() -> None:
    """Transitions, tables and short underlines are no titles."""
    text = "Top\n===\n\n----\n\nLong title\n---\n\n==== ====\na    b\n==== ====\n\nSub\n~~~\nTop\n===\n"
    titles = [line for line in markdown_of_rst(text).splitlines() if line.startswith("#")]
    assert titles == ["# Top", "## Sub", "# Top"]


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no symbolic links here")
def test_links_that_lead_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    """What a user points at is all that is read, and the links are told."""
    write(tmp_path, "outside/secret.md", "secret")
    inside = write(tmp_path, "notes/mine.md", "mine").parent
    (inside / "file.md").symlink_to(tmp_path / "outside" / "secret.md")
    (inside / "folder").symlink_to(tmp_path / "outside")
    (inside / "round").symlink_to(inside)
    with pytest.warns(UserWarning, match=r"2 link out of the folder \(file.md, folder\)|\(folder, file.md\)"):
        assert [one.page_content for one in load_folder(inside)] == ["mine"]


def odd_folder(folder: Path) -> Path:
    """Make a folder with one file to be read, and with what no reader can read, or should wait for."""
    write(folder, "good.md", "Read.")
    write(folder, "line\nbreak.md", "x")
    (folder / "circle.md").symlink_to("circle.md")
    (folder / "gone.md").symlink_to("nowhere.md")
    os.mkfifo(folder / "pipe.md")
    os.mknod(folder / "socket.md", stat.S_IFSOCK | 0o600)
    for name in (b"caf\xe9.md", b"picture.\xe9"):
        (folder / os.fsdecode(name)).write_text("x")
    deep = folder
    for _ in range(120):
        deep /= "d"
        deep.mkdir()
    write(deep, "deep.md", "x")
    return folder


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_what_can_not_be_read_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    """Links in a circle, pipes, sockets and names that are no UTF-8 end the reading of no folder."""
    folder = odd_folder(tmp_path / "odd")
    nested = "/".join("d" * 100)
    told = [
        "2 name that is no line of UTF-8 (caf\\udce9.md, line\\nbreak.md)",
        "2 pipe, socket or device (pipe.md, socket.md)",
        "1 link in a circle (circle.md)",
        "1 link to nothing (gone.md)",
        "1 .\\udce9",
        f"1 folder nested over 100 deep ({nested})",
    ]
    with pytest.warns(UserWarning, match="left out of") as warned:
        assert [one.page_content for one in load_folder(folder)] == ["Read."]
    assert all(one in str(warned[0].message) for one in told)


def test_a_file_that_became_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """What stands there when it is opened counts, and not what stood there when the folder was listed."""
    for name in ("swapped.md", "swapped.html"):
        os.mkfifo(tmp_path / name)
        with pytest.raises(UnreadableError, match="that can't be opened"):
            DocumentReader().passages(tmp_path / name, name)


def test_a_folder_without_text_is_refused(tmp_path: Path) -> None:
    """The message names the folder, what would be read, and what was there."""
    with pytest.raises(ValueError, match="there is no folder"):
        load_folder(tmp_path / "absent")
    with pytest.raises(ValueError, match="there is no folder"):
        load_folder(write(tmp_path, "file.md", "x"))
    write(tmp_path, "void/picture.png", "x")
    with pytest.raises(ValueError, match=r"holds no text that can be read: Markdown, .*; left out: 1 \.png"):
        load_folder(tmp_path / "void")


@pytest.mark.parametrize("sizes", [(0, 0), (100, 100), (100, -1)])
def test_sizes_that_make_no_sense_are_refused(tmp_path: Path, sizes: tuple[int, int]) -> None:
    """Both are named."""
    with pytest.raises(ValueError, match=f"chunk_size={sizes[0]}, chunk_overlap={sizes[1]}"):
        load_folder(tmp_path, chunk_size=sizes[0], chunk_overlap=sizes[1])


class Web(BaseHTTPRequestHandler):
    """A small web, with pages that no reader should wait for."""

    def do_GET(self) -> None:
        kind, body, status = "text/html; charset=utf-8", b"<h1>Harbour</h1><p>Depth 4 m. <a href='/secret'>x</a>", 200
        if self.path == "/guide.md":
            kind, body = "text/plain", b"# Guide\nSteer."
        elif self.path == "/picture":
            kind = "image/png"
        elif self.path == "/gone":
            status = 404
        elif self.path.startswith("/loop"):
            status = 302
        elif self.path == "/big":
            body = bytes(21_000_000)
        if self.path in SLOW:
            self.drip(*SLOW[self.path])
            return
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Location", {"/loop": "/loop", "/loop-out": "file:///etc/passwd"}.get(self.path, "/"))
        self.end_headers()
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        with suppress(ConnectionError):
            self.wfile.write(body)

    def drip(self, opening: bytes, piece: bytes) -> None:
        """Send something every now and then, for as long as somebody listens, and some seconds at most."""
        with suppress(ConnectionError):
            self.wfile.write(opening)
            for _ in range(400):
                self.wfile.write(piece)
                self.server.stopped.wait(0.02)  # type: ignore[attr-defined]
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


SLOW = {
    "/slow-head": (b"HTTP/1.0 200 OK\r\n", b"X-More: 1\r\n"),
    "/slow-continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "/slow-body": (b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"x"),
}
"""Pages that never come, by their path: how they begin, and what comes then."""


@pytest.fixture
def web() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.asked, server.stopped = [], threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.stopped.set()  # type: ignore[attr-defined]
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_that_is_named_is_read_and_nothing_that_it_links_to(web: Any) -> None:
    """Its address stands in each passage; what is too large, missing, no text or astray is refused with its reason."""
    home = f"http://127.0.0.1:{web.server_port}"
    [page], [guide] = load_page(f"{home}/"), load_page(f"{home}/guide.md")
    assert {key: page.metadata[key] for key in ("source", "url", "heading")} == {
        "source": f"{home}/",
        "url": f"{home}/",
        "heading": "Harbour",
    }
    assert (guide.page_content, guide.metadata["heading"]) == ("Steer.", "Guide")
    assert web.asked == ["/", "/guide.md"]
    for path, reason in {
        "/gone": "status 404",
        "/picture": "it is image/png",
        "/big": "over 20 MB",
        "/loop": "redirected over 5 times",
        "/loop-out": "no http or https address",
    }.items():
        with pytest.raises(ValueError, match=reason):
            load_page(home + path)
    for url, reason in {
        "ftp://example.org/x": "no http or https address",
        home.replace("//", "//me:word@"): "leave the password out",
        "http://127.0.0.1:1/": "ConnectError",
    }.items():
        with pytest.raises(ValueError, match=reason) as error:
            load_page(url)
        assert "word@" not in str(error.value)


@pytest.mark.parametrize("path", SLOW)
def test_a_page_that_never_comes_is_given_up_after_its_time(
    web: Any, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One deadline holds for headers that drip, for endless words that it goes on, and for the body."""
    monkeypatch.setattr(web_pages, "MOST_SECONDS", 0.5)
    with pytest.raises(ValueError, match=r"can't be read: it takes over 0\.5 s"):
        load_page(f"http://127.0.0.1:{web.server_port}{path}")
