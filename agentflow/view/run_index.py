"""Index of all sources below some folders, refreshed by polling.

Symbolic links are not followed, so that nothing outside the named folders is shown. Polling with `stat` needs no
library and works on every file system, also for files that another machine writes. A refresh of a few hundred files
takes milliseconds.
"""

import logging
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentflow.evals.run_folder import SETTINGS, kind_of
from agentflow.tools.json_codec import object_from_json
from agentflow.tools.untrusted_text import one_line
from agentflow.view.lines import open_file, read_file
from agentflow.view.sources import LARGEST_SETTINGS, Evaluation, Source, TraceFile, Training

_log = logging.getLogger(__name__)

DEEPEST, MOST = 6, 2000
"""Depth of the folders that are searched, and most sources."""

_SKIPPED = {"checkpoints", "tensorboard", "logs", "tasks", "node_modules", "__pycache__", "site-packages"}


_KINDS: dict[str, type[Source]] = {"evaluation": Evaluation, "training": Training}


@dataclass(frozen=True)
class Root:
    """Folder or file to index."""

    path: Path
    depth: int = DEEPEST
    """Levels of folders below it that are searched."""


class RunIndex:
    """The sources below `roots`. Refreshes come one after the other; readers hold `lock`."""

    def __init__(self, roots: Sequence[Root]) -> None:
        self.roots = roots
        self.lock = threading.Lock()
        self._refreshing = threading.Lock()
        self.sources: dict[str, Source] = {}
        self.version = 0
        """Incremented with every change."""
        self.complete = False
        """True if everything has been read once."""
        self._kinds: dict[Path, tuple[tuple[int, int], type[Source] | None]] = {}
        self._live: set[str] = set()
        self._failed: set[str] = set()

    def refresh(self) -> bool:
        """Look for new sources and lines. Return whether more can be read at once."""
        with self._refreshing:
            return self._refresh()

    def _refresh(self) -> bool:
        changed, more = self._find(), False
        for source in list(self.sources.values()):
            with self.lock:
                own, rest = self._refreshed(source)
            changed, more = changed or own, more or rest
        live = {source.id for source in self.sources.values() if source.live}
        changed, self._live = changed or live != self._live, live
        first, self.complete = not self.complete and not more, self.complete or not more
        self.version += changed or first
        return more

    def _refreshed(self, source: Source) -> tuple[bool, bool]:
        try:
            return source.refresh()
        except Exception as error:  # one source that cannot be read, whatever is in it, must not hide the others
            if source.id not in self._failed:
                _log.warning("%s cannot be read (%s: %s)", source.path, type(error).__name__, one_line(error, 200))
            self._failed.add(source.id)
            return False, False

    def _find(self) -> bool:
        found: dict[Path, tuple[type[Source], str]] = {}
        for root in self.roots:
            for path, kind in self._below(root.path, root.depth):
                if len(found) < MOST:
                    found[path] = (kind, _name(path, root.path))
        known = {source.path: source for source in self.sources.values()}
        kept = [
            old if (old := known.get(path)) and isinstance(old, kind) else kind(path, name)
            for path, (kind, name) in found.items()
        ]
        sources = {source.id: source for source in kept}
        changed = sources != self.sources
        with self.lock:
            self.sources = sources
        return changed

    def _below(self, path: Path, depth: int) -> Iterator[tuple[Path, type[Source]]]:
        """Yield the source at `path`, or those in the folder and `depth` levels of folders below it."""
        if os.path.isfile(path):
            if path.suffix == ".jsonl" and (kind := self._kind(path, _kind_of_lines)):
                yield path, kind
            return
        if kind := self._kind(path / SETTINGS, _kind_of_settings):
            yield path, kind
        if kind or depth < 0:
            return
        try:
            with os.scandir(path) as scanned:
                entries = sorted(scanned, key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            skipped = entry.name.startswith(".") or entry.name in _SKIPPED or entry.is_symlink()
            if not skipped and (entry.is_dir() or entry.name.endswith(".jsonl")):
                yield from self._below(Path(entry.path), depth - 1)

    def _kind(self, path: Path, look: Callable[[Path], type[Source] | None]) -> type[Source] | None:
        """Return the kind that `look` finds in a file; it looks again only if the file changes."""
        try:
            stat = path.lstat()
            if self._kinds.get(path, (None, None))[0] != (seen := (stat.st_mtime_ns, stat.st_size)):
                self._kinds[path] = seen, look(path)
        except OSError:
            return None
        return self._kinds[path][1]


def _kind_of_settings(path: Path) -> type[Source] | None:
    return _KINDS.get(kind_of(read_file(path, LARGEST_SETTINGS)))


def _kind_of_lines(path: Path) -> type[Source] | None:
    """Return TraceFile if the first line that is a JSON object has a trace's fields. Raises OSError."""
    with open_file(path) as file:
        lines = os.pread(file.fileno(), 1 << 20, 0).split(b"\n")[:50]
    first = next((found for line in lines if (found := object_from_json(line)) is not None), {})
    return TraceFile if {"task", "status", "turns"} <= first.keys() else None


def _name(path: Path, root: Path) -> str:
    """Return the path relative to the root, for the list."""
    below = path.relative_to(root)
    name = path.name if below == Path() else str(below)
    return name.encode("utf-8", "replace").decode()
