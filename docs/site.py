"""Hook of the documentation site: pages from elsewhere in the repository, the reference, llms.txt. Internal."""

from __future__ import annotations

import posixpath
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from griffe import GriffeLoader
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.nav import Navigation
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "docs/schemas/README.md": "schemas.md",
    "evals/RESULTS.md": "evidence.md",
    "evals/PREREGISTERED.md": "registered.md",
    "evals/PREREGISTERED_MAP.md": "registered_map.md",
}
"""Pages by where they stand in the repository, and in the site."""
NAMES = ("state", "models", "nodes", "graphs", "faces", "evals", "retrieval", "sandbox", "server", "travel", "folders")
PACKAGES = ("redraft", *(f"redraft.{name}" for name in NAMES), "redraft.evals.inspect")
UNFOUND = "---\nsearch:\n  exclude: true\n---\n"
"""Begins a page that the site's search leaves out."""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!\w+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what does not stand in docs/."""
    for source, page in ELSEWHERE.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        # It names everything, and would stand before the page that explains it.
        found = UNFOUND + text if page == "changelog.md" else text
        files.append(File.generated(config, page, content=found))
    for notebook in sorted((ROOT / "notebooks").glob("0*.ipynb")):
        for name, content in tutorial(notebook):
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    for package in PACKAGES:
        files.append(File.generated(config, f"reference/{package}.md", content=reference(package)))
    files.append(File.generated(config, "commands.md", content=commands()))
    return files


def tutorial(notebook: Path) -> Iterator[tuple[str, str | bytes]]:
    """Yield the page of an executed notebook, and its pictures."""
    page, found = MarkdownExporter().from_filename(notebook)
    for name, picture in found["outputs"].items():
        yield f"{notebook.stem}/{name}", picture
        page = page.replace(f"]({name})", f"]({notebook.stem}/{name})")
    yield f"{notebook.stem}.md", page


def reference(package: str) -> str:
    """Return the page of a package: each public name, under its own heading."""
    module = public(package)
    names = sorted(name for name in module.exports or () if not str(name).startswith("__"))
    silent = [name for name in names if not module[str(name)].has_docstring and module[str(name)].is_function]
    if silent:
        raise PluginError(f"{package} has public names without a docstring: {', '.join(map(str, silent))}")
    return "\n\n".join([f"# `{package}`", *(f"::: {package}.{name}" for name in names)]) + "\n"


def public(package: str) -> Any:
    """Return what griffe reads of a package."""
    if "redraft" not in LOADED.modules_collection:
        LOADED.load("redraft", submodules=True)
        LOADED.resolve_aliases(implicit=True)
    return LOADED.modules_collection[package]


LOADED = GriffeLoader()


def commands() -> str:
    """Return the help of every command, as Typer writes it."""
    call = [ROOT / ".venv/bin/python", "-m", "typer", "redraft.faces.cli.main", "utils", "docs", "--name", "redraft"]
    page = subprocess.run(  # noqa: S603
        call, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    return re.sub(r"\[/?dim\]", "", page)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links lead to pages of the site; a file that is in the repository only is named."""
    stands = next((source for source, at in ELSEWHERE.items() if at == page.file.src_uri), f"docs/{page.file.src_uri}")
    if stands.startswith("docs/tutorials/"):
        stands = f"notebooks/{posixpath.basename(stands)}"

    def led(found: re.Match[str]) -> str:
        image, text, target, anchor = found.groups()
        if not target:
            return found[0]
        meant = posixpath.normpath(posixpath.join(posixpath.dirname(stands), target))
        if files.get_file_from_path(posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target))):
            return found[0]
        at = ELSEWHERE.get(meant, meant.removeprefix("docs/") if meant.startswith("docs/") else "")
        if meant.startswith("notebooks/"):
            at = f"tutorials/{posixpath.basename(meant).replace('.ipynb', '.md')}"
        if at and files.get_file_from_path(at):
            here = posixpath.dirname(page.file.src_uri) or "."
            return f"{image}[{text}]({posixpath.relpath(at, here)}{anchor or ''})"
        if not (ROOT / meant).exists():
            raise PluginError(f"{stands} links to {meant}, which does not exist")
        return text if text.startswith("`") else f"{text} (`{meant}`)" if meant not in text else f"`{meant}`"

    parts = FENCED.split(markdown)  # text and code in turn; what tests read behind a code's language is not shown
    return "".join(NOTE.sub(r"\1", part) if odd % 2 else LINK.sub(led, part) for odd, part in enumerate(parts))


NOTE = re.compile(r"\A(```\w+)[^\n]*")
FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Remember the pages in order, for llms.txt."""
    ORDER[:] = nav.pages
    return nav


ORDER: list[Page] = []


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt, a list of all pages for programs that read, and each page as Markdown beside its HTML."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for page in ORDER:
        text = page.markdown
        if text:
            target = Path(config.site_dir, page.file.src_uri)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
            lines.append(f"- [{page.title}]({page.file.src_uri}): {first_sentence(text)}")
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def first_sentence(text: str) -> str:
    """Return the first sentence of a page that is no heading, table or code, without its links."""
    for block in FENCED.sub("", text).split("\n\n"):
        plain = " ".join(block.split())
        if plain and not plain.startswith(("#", "|", "```", "<", ":::", "-", "!")):
            return re.split(r"(?<=[.:])\s", LINK.sub(r"\2", plain))[0]
    return ""
