"""Regular expressions and readers of untrusted text take linear time, also when their beginnings are repeated.

A text twice as long may take twice the CPU time, not four times.
"""

import re
from collections.abc import Callable

import pytest

from agentflow.tools import redaction
from tests.attacks import attacks
from tests.expressions import Expression, expressions
from tests.linear import LIMIT, LINEAR, assert_linear, growth, slowest
from tests.readers import READERS, common

SMALL = 500
"""Characters of the texts that choose among the two thousand attacks on a reader."""

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
    def run(text: str) -> object:
        return re.sub(pattern, "", text)

    chosen = slowest(run, attacks(re.compile(pattern)), SMALL, limit=0.1)
    assert any(growth(run, attack, 2_000, limit=0.5) > LINEAR for attack in chosen)


@pytest.mark.parametrize("found", FOUND, ids=lambda found: found.where)
def test_an_expression_is_linear(found: Expression) -> None:
    assert_linear(found.run, slowest(found.run, attacks(found.pattern), SMALL, LIMIT), size=5_000)


@pytest.mark.slow
@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_a_reader_is_linear(read: Callable[[str], object]) -> None:
    assert_linear(read, slowest(read, common(), SMALL, LIMIT))


def test_all_are_found() -> None:
    """Found in a module, in a table and in a call; one that is built at run time is named."""
    modules = {found.where.partition(":")[0].removeprefix("agentflow.") for found in FOUND}
    assert {"tools.redaction", "nodes.reply_parsing", "evals.scorers.dates", "tools.mcp.spec"} <= modules
    assert len([found for found in FOUND if "redaction:_SHAPES" in found.where]) == len(redaction._SHAPES)
