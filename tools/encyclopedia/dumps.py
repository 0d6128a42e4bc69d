"""Files of passages from which a corpus is built: JSON lines, plain or gzipped.

A line is an object with "title" and "text", and optionally an "id". Instead, it may have "contents", whose first line
is the title in quotation marks. The corpora of retrieval servers for training have this form.
"""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from agentflow.tools.encyclopedia.corpus import CorpusError, Passage
from agentflow.tools.encyclopedia.retrieval_server import titled

MAX_LINE = 32 << 20
"""Maximum number of bytes per line; a longer line is not a passage."""


class Dump:
    """A file of one JSON object per line, gzipped if its name ends in .gz."""

    def __init__(self, path: Path) -> None:
        """Set the file. Raises CorpusError if it does not exist, or is a folder."""
        self._path = path
        try:
            self.total = path.stat().st_size
        except OSError as error:
            raise CorpusError(f"cannot read {path}: {error.strerror}", code="unreadable") from error
        if path.is_dir():
            raise CorpusError(f"{path} is a folder; name a file of passages in it", code="unreadable")
        self.done = 0
        """Bytes read of the file, compressed if the file is."""

    def passages(self) -> Iterator[Passage]:
        """Yield the passages. Raises CorpusError, which names the line, also if there are none."""
        found = False
        for number, line in enumerate(self._lines(), start=1):
            if line.strip():
                found = True
                yield _passage(line, f"{self._path}, line {number}")
        if not found:
            raise CorpusError(f"{self._path} has no passages", code="empty_dump")

    def _lines(self) -> Iterator[bytes]:
        try:
            with self._path.open("rb") as file, gzip.open(file) if self._path.suffix == ".gz" else file as lines:
                while line := lines.readline(MAX_LINE):
                    if len(line) == MAX_LINE:
                        why = f"{self._path} has a line of more than {MAX_LINE >> 20} MiB; is it JSON lines?"
                        raise CorpusError(why, code="line_too_long")
                    self.done = file.tell()
                    yield line
        except (OSError, EOFError) as error:  # a damaged or truncated gzip file
            why = f"{self._path} cannot be read any further ({error}); get it again"
            raise CorpusError(why, code="truncated") from error


def _passage(line: bytes, place: str) -> Passage:
    try:
        record = json.loads(line.decode("utf-8-sig"))
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
