"""Two open collections of documents with questions nobody here wrote, built from Debian's documentation packages.

`python benchmarks/retrieval_corpora.py FOLDER` downloads python3.11-doc, perl-doc and debian-faq with apt-get (`--debs`
takes packages that are there already) and writes `FOLDER/python` and `FOLDER/perl`, each with `docs/` (Markdown),
`dev.jsonl` and `test.jsonl`, for `redraft eval --retrieval`; `off_topic_dev.jsonl` and `off_topic_test.jsonl` too.

- The questions are the headings of the FAQs that end in a question mark. Each answer becomes a file of its own
  without that heading, so that no search finds a question by its own words, and without the others beside it. The
  file is the known source of its question. Answers under 80 characters ("See the next question.") are left out.
- Python: FAQ, tutorial, HOWTOs, language reference, usage and extending. Perl: perlfaq1 to perlfaq9 and the manual
  pages of `PERL_PAGES`.
- The hash of a question puts it into `dev.jsonl` or `test.jsonl`: thresholds are tuned on the first only.
- The off-topic files hold the Debian FAQ's questions, which neither collection answers, without a source.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGES = ("python3.11-doc", "perl-doc", "debian-faq")
PYTHON_FOLDERS = ("tutorial", "howto", "reference", "using", "extending")
PERL_PAGES = (
    "perlintro perldata perlsyn perlop perlsub perlfunc perlre perlretut perlrequick perlref perlreftut perldsc "
    "perllol perlvar perlmod perlobj perlootut perlopentut perlpacktut perlrun perlipc perlfork perluniintro perlsec "
    "perltie perlstyle perlnumber perltrap"
)
LEAST_ANSWER = 80
MARKS = "=-~^*\"'#+."


def main() -> None:
    """Build both collections."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--debs", type=Path, help="folder that holds the packages already")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = unpacked(given.debs or downloaded(Path(scratch)), Path(scratch) / "root")
        off_topic = debian_questions(root)
        for name, build in (("python", python_corpus), ("perl", perl_corpus)):
            folder = given.folder / name
            shutil.rmtree(folder, ignore_errors=True)
            questions = build(root, folder / "docs")
            for half in ("dev", "test"):
                write_jsonl(folder / f"{half}.jsonl", [one for one in questions if half_of(one["question"]) == half])
                off = [one for one in off_topic if half_of(one["question"]) == half]
                write_jsonl(folder / f"off_topic_{half}.jsonl", off)
            print(f"{name}: {len(questions)} questions, {len(list((folder / 'docs').rglob('*.md')))} files")


def downloaded(folder: Path) -> Path:
    """Download the packages with apt-get, and return their folder."""
    subprocess.run(["apt-get", "download", *PACKAGES], cwd=folder, check=True)
    return folder


def unpacked(debs: Path, root: Path) -> Path:
    """Unpack the packages of a folder into `root`."""
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
    return root


def python_corpus(root: Path, docs: Path) -> list[dict[str, object]]:
    """Write Python's documentation, and return the questions of its FAQ."""
    sources = next(root.glob("usr/share/doc/python3*/html/_sources"))
    questions: list[dict[str, object]] = []
    for page in sorted((sources / "faq").glob("*.rst.txt")):
        text = markdown_of_rst(page.read_text(encoding="utf-8"))
        questions += answers(text, docs, f"faq/{page.name.removesuffix('.rst.txt')}")
    for folder in PYTHON_FOLDERS:
        for page in sorted((sources / folder).glob("*.rst.txt")):
            write(docs / folder / f"{page.name.removesuffix('.rst.txt')}.md", markdown_of_rst(page.read_text("utf-8")))
    return questions


def perl_corpus(root: Path, docs: Path) -> list[dict[str, object]]:
    """Write Perl's manual, and return the questions of its FAQ."""
    pods = next(root.glob("usr/share/perl/*/pod"))
    questions: list[dict[str, object]] = []
    for number in range(1, 10):
        text = markdown_of_pod((pods / f"perlfaq{number}.pod").read_text(encoding="utf-8"))
        questions += answers(text, docs, f"faq/perlfaq{number}")
    for name in PERL_PAGES.split():
        write(docs / "manual" / f"{name}.md", markdown_of_pod((pods / f"{name}.pod").read_text(encoding="utf-8")))
    return questions


def debian_questions(root: Path) -> list[dict[str, object]]:
    """Return the questions of Debian's FAQ, which have no source in either collection."""
    text = gzip.decompress(next(root.glob("usr/share/doc/debian/FAQ/debian-faq.en.txt.gz")).read_bytes()).decode()
    found = re.findall(r"^\d+\.\d+\.\s+(\S[^\n]*(?:\n[^\n]+)?\?)\n$", text, flags=re.MULTILINE)
    return [{"question": " ".join(one.split()), "sources": []} for one in dict.fromkeys(found)]


def answers(text: str, docs: Path, stem: str) -> list[dict[str, object]]:
    """Write the answer of each question below a heading to a file, and return the questions."""
    questions: list[dict[str, object]] = []
    parts = re.split(r"^#+ +(.+)$", text, flags=re.MULTILINE)
    for number, (heading, body) in enumerate(zip(parts[1::2], parts[2::2], strict=True)):
        said = body.strip()
        if not heading.rstrip().endswith("?") or len(said) < LEAST_ANSWER:
            continue
        source = f"{stem}-{number:03}.md"
        write(docs / source, said)
        questions.append({"question": heading.strip(), "sources": [source]})
    return questions


def markdown_of_rst(text: str) -> str:
    """Return reStructuredText with Markdown's headings, and without its directives' names and roles."""
    lines = text.replace("\t", "    ").splitlines()
    found: list[str] = []
    levels: list[str] = []
    skip = False
    for line in lines:
        ruled = len(line) > 2 and len(set(line)) == 1 and line[0] in MARKS
        if ruled and found and found[-1].strip() and len(line) >= len(found[-1].rstrip()):
            over = len(found) > 1 and found[-2] == line
            mark = line[0] * (2 if over else 1)
            if mark not in levels:
                levels.append(mark)
            heading = f"{'#' * min(4, levels.index(mark) + 1)} {found.pop().strip()}"
            if over:
                found.pop()
            found.append(heading)
            continue
        if line.startswith(".. ") and re.match(r"\.\. (?:index|only|contents|_|sectionauthor|highlight|toctree)", line):
            skip = True
            continue
        if skip and (not line.strip() or line.startswith(" ")):
            continue
        skip = False
        found.append(line)
    plain = re.sub(r":[\w:+-]+:`([^`]*)`", r"\1", "\n".join(found))
    plain = re.sub(r"^\.\. [\w:]+::\s*", "", plain, flags=re.MULTILINE)
    return re.sub(r"``([^`]*)``", r"`\1`", plain)


def markdown_of_pod(text: str) -> str:
    """Return Perl's POD with Markdown's headings, and without its commands and codes."""
    found: list[str] = []
    for line in text.splitlines():
        if heading := re.match(r"=head([1-4]) +(.*)", line):
            found.append(f"{'#' * int(heading[1])} {heading[2]}")
        elif item := re.match(r"=item +(.*)", line):
            found.append(item[1])
        elif not line.startswith("="):
            found.append(line)
    plain = "\n".join(found)
    plain = re.sub(r"X<[^<>]*>", "", plain)
    for _ in range(3):  # codes stand in codes
        plain = re.sub(r"[BCEFILSZ]<<+ (.+?) >>+", r"\1", plain)
        plain = re.sub(r"L<(?:[^<>|]*\|)?([^<>]*)>", r"\1", plain)
        plain = re.sub(r"[BCFISZ]<([^<>]*)>", r"\1", plain)
    for code, char in (("E<gt>", ">"), ("E<lt>", "<"), ("E<sol>", "/"), ("E<verbar>", "|")):
        plain = plain.replace(code, char)
    return plain


def half_of(question: str) -> str:
    """Return the half that a question belongs to."""
    return "dev" if hashlib.sha256(question.encode()).digest()[0] % 2 else "test"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def write_jsonl(path: Path, rows: list[dict[str, object]]) -> None:
    write(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


if __name__ == "__main__":
    main()
