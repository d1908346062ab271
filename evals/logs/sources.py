"""Files of logs: JSON, JSONL, CSV and zip by content, read within limits, with the place of each row. Internal."""

from __future__ import annotations

import csv
import io
import json
import struct
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

__all__ = ["Source", "open_source", "shown"]

Kind = Literal["zip", "json", "jsonl", "csv"]

MAX_DOCUMENT = 512 * 2**20
"""Bytes of a file that must be read whole: one JSON document. Lines are read one by one, without a limit in all."""
MAX_LINE = 64 * 2**20
MAX_MEMBER = 128 * 2**20
"""Bytes of one file in a zip, unpacked; counted while it is unpacked, whatever size the zip declares."""
MAX_UNPACKED = 8 * 2**30
MAX_MEMBERS = 200_000
ZSTD = 93
SNIFFED_ROWS = 20
LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Source:
    """An opened file and its container; its format is still open."""

    path: Path
    kind: Kind

    @cached_property
    def document(self) -> Any:
        """The file as one JSON value.

        Raises:
            ValueError: It is too large, no UTF-8 or no JSON.
        """
        if (size := self.path.stat().st_size) > MAX_DOCUMENT:
            raise ValueError(
                f"{self.path} is one JSON document of {size / 2**20:,.0f} MB, more than {MAX_DOCUMENT // 2**20} MB: "
                "write it as JSONL"
            )
        return _loads(self.path.read_bytes().removeprefix(BOM), str(self.path))

    @cached_property
    def head(self) -> list[dict[str, Any]]:
        """The first rows, by which a format is known."""
        return [] if self.kind == "zip" else [row for _, row in islice(self.rows(), SNIFFED_ROWS)]

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the place and the content of each row: a line of JSONL or CSV, or an object in a JSON list.

        Raises:
            ValueError: A row is no object, can't be read or is too large.
        """
        if self.kind == "jsonl":
            yield from self._lines()
        elif self.kind == "csv":
            yield from self._cells()
        elif self.kind == "json":
            listed = self.document if isinstance(self.document, list) else [self.document]
            for number, row in enumerate(listed, 1):
                # A file of one line is JSON and JSONL alike.
                where = f"entry {number}" if isinstance(self.document, list) else "line 1"
                yield where, _object(row, f"{self.path}, {where}")

    def _lines(self) -> Iterator[tuple[str, dict[str, Any]]]:
        with self.path.open("rb") as file:
            number, at = 0, 0
            # Not the text's lines: a text in JSON may hold other line separators as they are.
            while line := file.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    raise ValueError(f"{self.path}, line {number} is longer than {MAX_LINE // 2**20} MB")
                if number == 1 and line.startswith(BOM):
                    at, line = at + len(BOM), line.removeprefix(BOM)
                if line.strip():
                    where = f"line {number}"
                    yield where, _object(_loads(line, str(self.path), at=at, line=number), f"{self.path}, {where}")
                at += len(line)

    def _cells(self) -> Iterator[tuple[str, dict[str, Any]]]:
        csv.field_size_limit(MAX_LINE)
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            try:
                first = file.readline(MAX_LINE)
                file.seek(0)
                marks = max(",\t;", key=first.count)
                reader = csv.reader(file, delimiter=marks, strict=True)
                if len(headings := next(reader, [])) > MAX_COLUMNS:
                    raise ValueError(f"{self.path}: {len(headings):,} columns, more than {MAX_COLUMNS:,}")
                names = _unique(headings)
                for cells in reader:
                    if not any(cells):
                        continue
                    where = f"line {reader.line_num}"
                    if len(cells) != len(names):
                        raise ValueError(f"{self.path}, {where}: {len(cells)} cells under {len(names)} headings")
                    yield where, {name: cell or None for name, cell in zip(names, cells, strict=True)}
            except UnicodeDecodeError as error:
                raise ValueError(f"{self.path} is not UTF-8: {error.reason} at byte {error.start}") from None
            except csv.Error as error:
                raise ValueError(f"{self.path}: not CSV: {error}") from None

    @cached_property
    def names(self) -> list[str]:
        """The files in a zip."""
        return [info.filename for info in self._zip.infolist()]

    @cached_property
    def _zip(self) -> zipfile.ZipFile:
        try:
            packed = zipfile.ZipFile(self.path)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{self.path} is no whole zip file: {error}") from None
        infos = packed.infolist()
        size = sum(info.file_size for info in infos)
        if len(infos) > MAX_MEMBERS or size > MAX_UNPACKED:
            raise ValueError(
                f"{self.path} unpacks to {size / 2**30:,.1f} GB in {len(infos)} files, "
                f"more than {MAX_UNPACKED // 2**30} GB or {MAX_MEMBERS} files"
            )
        return packed

    def member(self, name: str) -> Any:
        """Return one file of a zip as JSON.

        Raises:
            ValueError: It is damaged, too large or no JSON.
            ImportError: It is packed with Zstandard, and the package is missing.
        """
        where, info = f"{self.path}, {name}", self._zip.getinfo(name)
        try:
            with self._zip.open(info) if info.compress_type != ZSTD else self._zstd(info) as file:
                content = file.read(MAX_MEMBER + 1)
        # A damaged file raises whatever the unpacker of its method raises.
        except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
            raise ValueError(f"{where} can't be unpacked: {error}") from None
        except Exception as error:
            if type(error).__name__ not in ("error", "ZstdError", "LZMAError"):
                raise
            raise ValueError(f"{where} can't be unpacked: {error}") from None
        if len(content) > MAX_MEMBER:
            raise ValueError(f"{where} unpacks to more than {MAX_MEMBER // 2**20} MB")
        return _loads(content, where)

    def _zstd(self, info: zipfile.ZipInfo) -> Any:
        # `zipfile` reads Zstandard from Python 3.14 on.
        try:
            import zstandard
        except ImportError:
            raise ImportError(f'{self.path} needs an extra: pip install ".[evals]" in a checkout (zstandard)') from None
        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            header = file.read(30)
            if len(header) < 30 or not header.startswith(b"PK\x03\x04"):
                raise ValueError("it has no header")
            name, extra = struct.unpack("<HH", header[26:30])
            file.seek(name + extra, io.SEEK_CUR)
            packed = file.read(min(info.compress_size, MAX_MEMBER))
        return zstandard.ZstdDecompressor().stream_reader(io.BytesIO(packed))


def open_source(path: Path) -> Source:
    """Return a file with its container, known by its first bytes, never by its name.

    Raises:
        ValueError: It is empty.
        OSError: It can't be opened.
    """
    with path.open("rb") as file:
        start = file.read(4)
        if start == b"PK\x03\x04":
            return Source(path, "zip")
        file.seek(len(BOM) if start.startswith(BOM) else 0)
        first = b"\n"
        while first and not first.strip():
            first = file.readline(MAX_LINE)
        if not first:
            raise ValueError(f"{path} has no results")
        if first.lstrip()[:1] not in (b"{", b"["):
            return Source(path, "csv")
        try:
            row = json.loads(first)
        except (ValueError, RecursionError):
            # The first line of a JSON document that goes on; a broken line of JSONL is reported either way.
            return Source(path, "jsonl" if first.strip().endswith(b"}") else "json")
        rest = file.readline(MAX_LINE)
        while rest and not rest.strip():
            rest = file.readline(MAX_LINE)
    return Source(path, "jsonl" if isinstance(row, dict) and rest else "json")


def shown(value: Any) -> str:
    """Return a value as JSON, cut to what fits in a message."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]} …"


def _loads(content: bytes, where: str, *, at: int = 0, line: int = 0) -> Any:
    place = f"{where}, line {line}" if line else where
    try:
        return json.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ValueError(f"{where} is not UTF-8: {error.reason} at byte {at + error.start}") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"{where}, line {line or error.lineno}: not JSON: {error.msg} at column {error.colno}"
        ) from None
    except RecursionError:
        raise ValueError(f"{place if line else f'{where}, line 1'}: not JSON: nested too deeply") from None


def _object(row: Any, where: str) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise ValueError(f"{where}: an object with an id and a verdict is wanted, not {shown(row)}")  # noqa: TRY004  as the others
    return row


def _unique(names: list[str]) -> list[str]:
    """Return headings of which no two are the same: a table may say `Status` once for every model."""
    unique: list[str] = []
    for name in names:
        count = sum(heading == name or heading.startswith(f"{name}#") for heading in unique)
        unique.append(f"{name}#{count + 1}" if count else name)
    return unique


MAX_COLUMNS = 2000
BOM = b"\xef\xbb\xbf"
