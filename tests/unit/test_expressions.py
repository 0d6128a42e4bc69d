"""Regular expressions and readers of untrusted text take linear time, also when their beginnings are repeated.

A quadratic one takes ten seconds and more for what a linear one does in a hundredth; it is interrupted after LIMIT, in
CPU time. `python -m benchmarks.expressions` measures.
"""

import re
from collections.abc import Callable

import pytest

from benchmarks.expressions.attack import worst
from benchmarks.expressions.found import Expression, expressions
from benchmarks.expressions.readers import READERS, common
from benchmarks.expressions.texts import attacks

SIZE, LIMIT = 50_000, 2.0

FOUND = list(expressions())

QUADRATIC = {
    "a key of GitHub's": r"gh[pousr]_(?=[\w.~+/=-]*\d)\w{16,}",
    "a password": r"(?<=\bpassword)=(?=[\w.~+/=-]*\d)[\w.~+/%-]{8,}",
    "a token": r"eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}",
    "blanks at an end": r"[ \t]+$",
    "a tag": r"<a[^>]*>",
    "a run in two": r"\d+\d+x",
}


@pytest.mark.parametrize("pattern", QUADRATIC.values(), ids=QUADRATIC)
def test_the_attack_finds_what_is_quadratic(pattern: str) -> None:
    taken, _ = worst(lambda text: re.sub(pattern, "", text), attacks(re.compile(pattern)), 25_000, 0.1)
    assert taken > 0.05


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.where)
def test_an_expression_is_linear(found: Expression) -> None:
    taken, text = worst(found.run, attacks(found.pattern), SIZE, LIMIT)
    assert taken < LIMIT, text


@pytest.mark.slow
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_reader_is_linear(read: Callable[[str], object]) -> None:
    taken, text = worst(read, common(), SIZE, LIMIT)
    assert taken < LIMIT, text


def test_all_are_found() -> None:
    """Found in a module, in a table and in a call; one that is built at run time is named."""
    modules = {found.where.partition(":")[0].removeprefix("agentflow.") for found in FOUND}
    assert {"tools.redaction", "nodes.reply_parsing", "evals.scorers.dates", "tools.mcp.spec"} <= modules
    assert len([found for found in FOUND if "redaction:_SHAPES" in found.where]) == 10
