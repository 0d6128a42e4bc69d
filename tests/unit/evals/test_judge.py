"""Reading of a judge's reply."""

import pytest

from agentflow.evals.judge import NO_CHOICE, read_reply
from agentflow.evals.scorers.score import Decision
from tests.cases import table

WORDS = {"verdict": {*Decision}, "choice": {"a", "b", NO_CHOICE}}


@pytest.mark.parametrize(("reply", "label", "word"), table(__file__, "judged.txt"))
def test_a_remark_may_follow_that_names_no_other_word(reply: str, label: str, word: str) -> None:
    assert read_reply(reply, label, {*WORDS[label]}) == word
