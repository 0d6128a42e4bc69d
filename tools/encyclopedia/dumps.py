"""Files of articles from which a corpus is built: JSON lines, plain or gzipped, and ZIM, Kiwix's format for Wikipedia.

A line of JSON is an object with "title" and "text", and optionally an "id". Instead, it may have "contents", whose
first line is the title in quotation marks. The corpora of retrieval servers for training have this form.
"""

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from agentflow.tools.encyclopedia.corpus import CorpusError, Passage
from agentflow.tools.encyclopedia.corpus_build import Dump
from agentflow.tools.encyclopedia.retrieval_server import titled
from agentflow.tools.web.passages import split
from agentflow.version import pip_install

MAX_LINE = 32 << 20
"""Maximum number of bytes per line; a longer line is not an article."""
_BLOCKS = " or ".join(f"self::{tag}" for tag in ("p", "li", "dd", "dt", "pre", "h1", "h2", "h3", "h4", "td", "th"))
_NO_TEXT = "//script | //style | //nav | //header | //footer | //noscript | //sup[contains(@class, 'reference')]"


def open_dump(path: Path) -> Dump:
    """Return the dump at `path`, by its file name's suffix. Raises CorpusError."""
    try:
        return Zim(path) if path.suffix == ".zim" else JsonLines(path)
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}", code="unreadable") from error


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{path.name} {status.st_size} {status.st_mtime_ns}"


class JsonLines:
    """A file of one JSON object per line, gzipped if its name ends in .gz."""

    def __init__(self, path: Path) -> None:
        """Set the file. Raises OSError if it does not exist."""
        self._path = path
        self.identity = _identity(path)
        self.total = path.stat().st_size
        self.done = 0
        """Bytes read of the file, compressed if the file is."""

    def articles(self, start: int = 0) -> Iterator[tuple[int, list[Passage]]]:
        """Yield articles as `Dump.articles` does. A position is a byte offset in the decompressed text."""
        from_there = f" after byte {start}" if start else ""
        with self._opened() as file, gzip.open(file) if self._path.suffix == ".gz" else file as lines:
            lines.seek(start)
            number = 0
            while line := self._line(lines):
                number += 1
                self.done = file.tell()
                if line.strip():
                    passage = _passage(line, f"{self._path}, line {number}{from_there}")
                    yield lines.tell(), [passage]

    def _opened(self) -> IO[bytes]:
        try:
            return self._path.open("rb")
        except OSError as error:
            raise CorpusError(f"cannot read {self._path}: {error.strerror}", code="unreadable") from error

    def _line(self, lines: IO[bytes] | gzip.GzipFile) -> bytes:
        try:
            line = lines.readline(MAX_LINE)
        except (OSError, EOFError) as error:  # a damaged or truncated gzip file
            raise CorpusError(
                f"{self._path} cannot be read any further ({error}); get it again", code="truncated"
            ) from error
        if len(line) == MAX_LINE:
            raise CorpusError(
                f"{self._path} has a line of more than {MAX_LINE >> 20} MiB; is it JSON lines?", code="line_too_long"
            )
        return line


def _passage(line: bytes, place: str) -> Passage:
    try:
        record = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CorpusError(f"{place}: not UTF-8 text", code="bad_line") from error
    except (ValueError, RecursionError) as error:
        raise CorpusError(f"{place}: not JSON: {error}", code="bad_line") from error
    if not isinstance(record, dict):
        raise CorpusError(f'{place}: expected an object with "title" and "text"', code="bad_line")
    if isinstance(record.get("contents"), str):
        record["title"], record["text"] = titled(record["contents"])
    for field in ("title", "text"):
        if not isinstance(record.get(field), str) or not record[field].strip():
            raise CorpusError(f'{place}: "{field}" must be a text that is not empty', code="bad_line")
    identifier = record.get("id")
    return Passage(record["title"], record["text"], None if identifier is None else str(identifier))


class Zim:
    """A ZIM archive, read by libzim (extra `zim`). An article becomes passages that share its title."""

    def __init__(self, path: Path) -> None:
        """Open the archive.

        Raises OSError if there is no such file, CorpusError if it is invalid or libzim is missing.
        """
        self.identity = _identity(path)
        try:
            from libzim.reader import Archive  # type: ignore[import-untyped, unused-ignore]
        except ImportError as error:
            raise CorpusError(f"ZIM files need libzim: {pip_install('zim')}", code="missing_package") from error
        try:
            self._archive = Archive(path)
        except RuntimeError as error:
            raise CorpusError(f"{path} is not a ZIM archive that can be read: {error}", code="not_zim") from error
        self.total = int(self._archive.all_entry_count)
        self.done = 0
        """Number of entries read, including those that are not articles."""

    def articles(self, start: int = 0) -> Iterator[tuple[int, list[Passage]]]:
        """Yield articles as `Dump.articles` does. A position is the number of an entry."""
        for number in range(start, self.total):
            self.done = number + 1
            entry = self._archive._get_entry_by_id(number)
            if entry.is_redirect:
                continue
            item = entry.get_item()
            if item.mimetype.startswith("text/html") and (chunks := split(text_of_html(bytes(item.content)))):
                yield number + 1, [Passage(entry.title, chunk, entry.path) for chunk in chunks]


def text_of_html(page: bytes) -> str:
    """Return the paragraphs, lists, headings and cells of a page, separated by empty lines. Optimised for speed."""
    from lxml import etree, html  # type: ignore[import-untyped]

    try:
        tree = html.document_fromstring(page, parser=html.HTMLParser(encoding="utf-8"))
    except (etree.ParserError, ValueError):  # an empty page
        return ""
    for element in tree.xpath(_NO_TEXT):
        element.drop_tree()
    blocks = tree.xpath(f"//*[{_BLOCKS}][not(ancestor::*[{_BLOCKS}])]")
    texts = (re.sub(r"\s+", " ", block.text_content()).strip() for block in blocks)
    return "\n\n".join(text for text in texts if text)
