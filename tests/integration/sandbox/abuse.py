"""Programs that try to get out, or to take more than their share; each does as little harm as it can where it succeeds.

A program that can only itself know that it succeeded prints ESCAPED. For all else the judge looks from outside. Names
in capitals after a $ are what the judge planted; TASKS, BYTES and so on bound the bombs.
"""

from pathlib import Path
from string import Template

from tests.cases import programs

PRELUDE = (Path(__file__).parent / "cases/prelude.py.txt").read_text()

PROGRAMS = programs(Path(__file__).parent / "cases/abuse.txt")
SEEN = {name: code.partition("\n")[0].removeprefix("#> ") for name, code in PROGRAMS.items() if code.startswith("#> ")}
"""The judge's finding for each program when it runs without a sandbox, from the program's first line."""


def program(name: str, planted: dict[str, str]) -> str:
    """The text of a program, with the names of what was planted."""
    return PRELUDE + Template(PROGRAMS[name]).substitute(planted)
