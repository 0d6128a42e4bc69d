"""The product's parsers of untrusted text: replies, results, pages and answers."""

from collections.abc import Callable
from functools import cache

from agentflow.evals.audit import QuestionMatcher, own_page
from agentflow.evals.baselines.react import read_answer, read_call
from agentflow.evals.judge import read_reply
from agentflow.nodes import analyst, answer_text, executor, planner, verifier
from agentflow.nodes.reply_parsing import data_objects, read_labels
from agentflow.rl.traces.personal import without_personal
from agentflow.tools.card import ToolCard
from agentflow.tools.python_coder import python_coder
from agentflow.tools.redaction import redacted
from agentflow.tools.result import ToolResult
from agentflow.tools.untrusted_text import bounded_line, disarmed, mark_untrusted, one_line
from agentflow.tools.web.passages import split
from agentflow.tools.wikipedia_search import wikipedia_search
from tests.attacks import Attack, ends
from tests.expressions import expressions
from tests.unit.evals.scorers.test_any_text import SCORERS

CARDS = {tool.name: ToolCard.of(tool) for tool in (python_coder(), wikipedia_search())}
OTHERS = ("{", "[", "(", '{"a":', "```\n", "```python\n", "<answer>", "\n", " ", "\\", "\\frac{", "Verdict: stop\n")
_ASKED = QuestionMatcher("Which organ pumps the blood through the body, and how often does it beat in a day?")

READERS: dict[str, Callable[[str], object]] = {
    "redacted": redacted,
    "without_personal": without_personal,
    "mark_untrusted": mark_untrusted,
    "disarmed": disarmed,
    "bounded_line": lambda text: bounded_line(text, 500),
    "one_line": one_line,
    "shortened": lambda text: ToolResult(status="ok", output=text).shortened(1000),
    "read_labels": lambda text: read_labels(text, planner.LABELS),
    "data_objects": lambda text: list(data_objects(text)),
    "analyst": analyst.parse,
    "planner": lambda text: planner.parse(f"Sub-Goal: x\nTool: {text}", CARDS),
    "chosen_tool": lambda text: planner.chosen_tool(text, CARDS),
    "executor of a search": lambda text: executor.parse(text, CARDS["wikipedia_search"]),
    "executor of a program": lambda text: executor.parse(text, CARDS["python_coder"]),
    "verifier": verifier.parse,
    "generator": answer_text.parse,
    "the answer as a chat shows it": answer_text.shown,
    "react's answer": lambda text: read_answer(text, CARDS),
    "react's call": lambda text: read_call(text, CARDS),
    "judge": lambda text: read_reply(text, "verdict", {"correct", "incorrect"}),
    "passages": split,
    "audit, query": lambda text: _ASKED.is_query(text),
    "audit, copy": lambda text: _ASKED.is_copied(text, [text[:1000]]),
    "audit, page": lambda text: own_page(text, ["huggingface.co/datasets/anyone/anything"]),
    **SCORERS,
}


@cache
def common() -> tuple[Attack, ...]:
    """Return the attacks used on every parser, built from the prefixes and repeated pieces of all expressions."""
    found = [ends(expression.pattern) for expression in expressions()]
    units = [unit for beginnings, pieces in found for unit in [*beginnings[-6:], *pieces[:2]]]
    return tuple(Attack((unit,), after=after) for unit in dict.fromkeys([*OTHERS, *units]) for after in ("", "\x00"))
