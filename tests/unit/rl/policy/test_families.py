"""Every chat template that TRL ships: what its model writes is read as it was meant, and trained on once."""

import re
from typing import Any

import pytest

pytest.importorskip("transformers")

from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.template import certify
from agentflow.rl.rollout.tool_calls import THOUGHT, certify_calls
from tests.cases import table
from tests.chat_templates import TEMPLATES, needs_templates

pytestmark = needs_templates

CONTROL = re.compile(r'<\|"\|>|<\|[^<>|\s\']+\|>|<\|\w+>|<\w+\|>')


FAMILIES = table(__file__, "families.txt")
"""Templates: the token that ends a message, the calls that a message may have, rows without and with thoughts."""


def family(template: str, end: str) -> ChatFormat:
    from transformers import AutoTokenizer

    known: Any = AutoTokenizer.from_pretrained(SEED)
    text = (TEMPLATES / f"{template}.jinja").read_text()
    known.add_special_tokens({"additional_special_tokens": sorted({*CONTROL.findall(text), end})})
    known.add_tokens(["<tool_call>", "</tool_call>", "<think>", "</think>"])
    known.chat_template, known.eos_token = text, end
    return ChatFormat(known)


PACKS = {"qwen3": True, "qwen3_5_think": True, "qwen3_6": True, "qwen3_8": True, "lfm2_2_5_v2": True, "glm4moe": False}


@pytest.mark.parametrize(
    "case", [case for case in FAMILIES if case["template"] in PACKS], ids=lambda case: case["template"]
)
def test_where_thoughts_pack_once_results_are_tools(case: dict[str, Any]) -> None:
    found = certify(family(case["template"], case["end"]).tokenizer)
    assert found.as_tools
    assert (found.thinking.rows, found.as_tools.rows) == (3, 1 if PACKS[case["template"]] else 3)
    assert (found.as_tools.tokens < found.thinking.tokens / 2) == PACKS[case["template"]]


@pytest.mark.parametrize("thought", ["", THOUGHT])
@pytest.mark.parametrize("case", FAMILIES, ids=lambda case: case["template"])
def test_what_a_family_writes_is_read_and_trained_on_once(case: dict[str, Any], thought: str) -> None:
    """Two calls with results, an answer, and a nudge; with a thought each where the template writes thoughts."""
    found = certify_calls(family(case["template"], case["end"]), thought, case["calls"])
    assert (found.unread, found.rows, found.exact) == ({}, case["rows"][bool(thought)], True)
