"""The README and the pages of docs/: their blocks of code, and the commands in them."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))

REFUSED = 2
"""Exit status of a wrong call."""

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?P<rest>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S)
_COMMENT = re.compile(r"(?:^|\s)#\s.*")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    language: str
    title: str
    """The name of the file that it is, in the fence: title="quiz.py"."""
    text: str
    line: int
    """Line of the page at which the text begins, from 1."""


def name(page: Path) -> str:
    """The page's path in the repository."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    source, found = page.read_text(), []
    for match in _BLOCK.finditer(source):
        title = re.search(r'title="([^"]+)"', match["rest"])
        line = source.count("\n", 0, match.start("text")) + 1
        found.append(Block(match["language"], title[1] if title else "", dedent(match["text"]), line))
    return found


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _BLOCK.sub("", page.read_text())


def program(page: Path) -> str:
    """All Python blocks of a page as one program, each at its own line, so that a traceback names lines of the page."""
    lines: list[str] = []
    for block in blocks(page):
        if block.language == "python":
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    return "\n".join(lines) + "\n" if lines else ""


@dataclass(frozen=True)
class Step:
    """A command of a console block, with what the page shows of it."""

    command: str
    line: int
    shown: tuple[str, ...]
    """Lines of its output, in order; `...` stands for any text, and `^C` for an interrupt after the lines before it."""
    status: int
    """The exit status: that of a last line such as `(exit 2)`, else 0."""
    stays: bool
    """True for a command that ends with `&`: it serves those after it."""


def steps(block: Block) -> list[Step]:
    """Return the commands of a console block, which begin with `$ `."""
    lines = block.text.replace("\\\n", " ").splitlines()
    starts = [at for at, line in enumerate(lines) if line.startswith("$ ")]
    ends = [*starts[1:], len(lines)]
    return [_step(lines[at][2:], block.line + at, lines[at + 1 : end]) for at, end in zip(starts, ends, strict=True)]


def _step(command: str, line: int, shown: list[str]) -> Step:
    shown = [text for text in shown if text.strip()]
    status = re.fullmatch(r"\(exit (\d+)\)", shown[-1]) if shown else None
    lines = shown[:-1] if status else shown
    stays = command.endswith(" &")
    return Step(command.removesuffix(" &"), line, tuple(lines), int(status[1]) if status else 0, stays)


def commands(page: Path, *languages: str) -> list[str]:
    """Return the commands of a page: lines of bash blocks, and those of console blocks that are not refused."""
    found = []
    for block in blocks(page):
        if block.language not in (languages or ("bash", "console")):
            continue
        if block.language == "bash":
            found += block.text.replace("\\\n", " ").splitlines()
        else:
            found += [step.command for step in steps(block) if step.status != REFUSED]
    return [command for line in found if (command := _COMMENT.sub("", line).strip())]


def simple_commands(line: str) -> Iterator[list[str]]:
    """The commands of a line with pipes and `&&`, as words; variables that are set for one of them are left out."""
    reader = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    reader.whitespace_split, reader.commenters = True, ""
    words: list[str] = []
    for word in [*reader, ";"]:
        if set(word) <= set("|&;"):
            if words:
                yield words
            words = []
        elif words or not re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", word):
            words.append(word)
