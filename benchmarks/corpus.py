"""Measure a large local encyclopedia: `python -m benchmarks.corpus [--passages 1000000] [--queries 2000]`.

Passages are generated, with word frequencies by Zipf's law as in a natural language, so that some words are in nearly
every passage. `agentflow corpus build` builds the index in a process of its own, whose peak memory is measured. Queries
are those of wikipedia_search: by title, by words of one passage, and by the most common words alone. Goals apply to an
idle machine with two cores.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

from agentflow.tools.encyclopedia.corpus import Corpus

WORDS = 200_000
"""Vocabulary size of the generated language."""
LENGTH = 100
"""Words per passage."""
HITS = 3
GOAL_MS = 20.0
"""Goal for the p99 latency of a query, in milliseconds."""
GOAL_MIB = 512
"""Goal for the peak memory of a build, in MiB."""


class Language:
    """Words with Zipf frequencies, drawn by a seeded generator."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._words = [f"{self._syllables(number)}" for number in range(WORDS)]
        self._weights = list(accumulate(1 / (rank + 1) for rank in range(WORDS)))

    @staticmethod
    def _syllables(number: int) -> str:
        syllables = [f"{c}{v}" for c in "bdfgklmnprstvz" for v in "aeiou"]
        word = ""
        while number or not word:
            number, rest = divmod(number, len(syllables))
            word += syllables[rest]
        return word

    def text(self, words: int) -> str:
        """Return a text of `words` random words."""
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=words))

    def common(self, words: int) -> str:
        """Return a text of `words` of the 100 most common words."""
        return " ".join(self._random.choices(self._words[:100], k=words))


def write_dump(path: Path, passages: int) -> None:
    """Write a dump of generated passages as JSON lines."""
    language = Language(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(passages):
            record = {"id": str(number), "title": f"{language.text(2)} {number}", "text": language.text(LENGTH)}
            file.write(json.dumps(record) + "\n")


def build(dump: Path, index: Path) -> tuple[float, float]:
    """Run `agentflow corpus build`; return its seconds and its peak memory in MiB."""
    command = [sys.executable, "-m", "agentflow", "corpus", "build", str(dump), "--out", str(index)]
    start = time.perf_counter()
    with subprocess.Popen(command) as process:  # noqa: S603 - ours
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the build failed with status {process.returncode}")
    return time.perf_counter() - start, usage.ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)


def questions(corpus: Corpus, passages: int, number: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield look-ups of three kinds, interleaved, each with the name of its kind."""
    language, chosen = Language(1), random.Random(2)
    for _ in range(number):
        row = corpus.search(str(chosen.randrange(passages)), 1)  # a title ends in the number of its passage
        title = row[0].title if row else ""
        yield "by title", lambda title=title: corpus.page(title)  # type: ignore[misc]
        words = f"{title} {language.text(4)}"
        yield "by words", lambda words=words: corpus.search(words, HITS)  # type: ignore[misc]
        common = language.common(3)
        yield "common words", lambda common=common: corpus.search(common, HITS)  # type: ignore[misc]


def report(corpus: Corpus, passages: int, number: int) -> None:
    """Print p50 and p99 of each kind of query, in milliseconds."""
    times: dict[str, list[float]] = {}
    for kind, ask in questions(corpus, passages, number // 3):
        start = time.perf_counter()
        ask()
        times.setdefault(kind, []).append(1000 * (time.perf_counter() - start))
    for kind, taken in times.items():
        p50, p99 = statistics.median(taken), statistics.quantiles(taken, n=100)[98]
        print(f"{kind:13} p50 {p50:7.2f} ms, p99 {p99:7.2f} ms of {len(taken)}; goal: p99 {GOAL_MS:g} ms")


def main() -> None:
    """Build the index, query it and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="where the files are put, and stay; else a temporary one")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        dump, index = folder / "made.jsonl", folder / "made.sqlite"
        write_dump(dump, arguments.passages)
        seconds, mib = build(dump, index)
        print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
        print(f"build         {seconds:7.0f} s, {arguments.passages / seconds:.0f} passages a second")
        print(f"peak memory   {mib:7.0f} MiB; goal: {GOAL_MIB} MiB")
        print(f"index         {index.stat().st_size / (1 << 20):7.0f} MiB of {dump.stat().st_size / (1 << 20):.0f} MiB")
        with Corpus(index) as corpus:
            report(corpus, arguments.passages, arguments.queries)


if __name__ == "__main__":
    main()
