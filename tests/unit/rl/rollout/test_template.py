"""Effects of a chat template on a trajectory, with templates of the kinds that models have."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("transformers")

from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import TOOL_TEMPLATE
from agentflow.rl.rollout.template import certify, load_tokenizer
from tests.command_line import call

TURN = "{{ '<|im_start|>' + message['role'] + '\\n' + %s + '<|im_end|>\\n' }}"
ASK = "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
EVERY = "{% for message in messages %}"

CHATML = EVERY + TURN % "message['content']" + "{% endfor %}" + ASK
STRIPS_THINKING = EVERY + TURN % "message['content'].split('</think>')[-1].lstrip('\\n')" + "{% endfor %}" + ASK
TRIMS = EVERY + TURN % "(message['content'] | trim | upper)" + "{% endfor %}" + ASK
OPENS_THINKING = CHATML.replace("assistant\\n' }}", "assistant\\n<think>\\n' }}")
OTHER_END = CHATML.replace("'<|im_end|>\\n'", "'<|endoftext|>\\n'")
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)

Make = Callable[[str], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A folder with the embedded model's tokenizer and another template."""

    def folder(template: str) -> Path:
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(SEED / name, tmp_path / name)
        tokenizer: Any = load_tokenizer(tmp_path)
        tokenizer.chat_template = template
        tokenizer.save_pretrained(tmp_path / "changed")
        return tmp_path / "changed"

    return folder


@pytest.mark.parametrize(
    ("template", "rows", "breaks", "ends_itself", "opens_thinking"),
    [
        (CHATML, (1, 1), (), True, False),
        (STRIPS_THINKING, (1, 3), ("<think>",), True, False),
        (TRIMS, (3, 3), ("Sub-Goal", "SUB-GOAL"), True, False),
        (OPENS_THINKING, (3, 3), (), True, True),
        (OTHER_END, (1, 1), (), False, False),
    ],
    ids=["chatml", "strips_thinking", "changes_what_was_said", "opens_thinking", "other_end"],
)
def test_what_a_template_costs(
    make: Make, template: str, rows: tuple[int, int], breaks: tuple[str, ...], ends_itself: bool, opens_thinking: bool
) -> None:
    """Rows of three turns, of plain replies and of replies that think."""
    found = certify(load_tokenizer(make(template)))
    assert (found.plain.rows, found.thinking.rows) == rows
    assert (found.ends_itself, found.opens_thinking) == (ends_itself, opens_thinking)
    for cost in (found.plain, found.thinking):
        assert (cost.tokens == cost.least, cost.ratio > 1.5) == (cost.rows == 1, cost.rows == 3)
    broken = found.plain if found.plain.rows > 1 else found.thinking
    assert all(part in broken.breaks for part in breaks)


OTHER_CALLS = TOOL_TEMPLATE.replace("'arguments': call", "'input': call")
ONE_CALL = TOOL_TEMPLATE.replace(
    "{% for call in", "{% if message['tool_calls'] | length > 1 %}{{ raise_exception('one') }}{% endif %}{% for call in"
)
NO_MARK = TOOL_TEMPLATE.replace("tool_call>", "did>")


@pytest.mark.parametrize(
    ("template", "unread", "works"),
    [
        (CHATML, None, True),
        (TOOL_TEMPLATE, set(), True),
        (ONE_CALL, {"two calls"}, True),
        (OTHER_CALLS, {"a call", "two calls"}, False),
        (NO_MARK, {"a reply", "a call", "two calls"}, False),
    ],
)
def test_what_becomes_of_tool_calls(make: Make, template: str, unread: set[str] | None, works: bool) -> None:
    found = certify(load_tokenizer(make(template))).calls.values()
    assert [set(one.unread) for one in found] == [unread] * 2 * (unread is not None)
    assert [one.works for one in found] == [works] * len(found)


@pytest.mark.parametrize(
    ("template", "code"),
    [(OTHER_CALLS, 1), (TOOL_TEMPLATE, 0), (STRIPS_THINKING, 0), (TRIMS, 1), (NO_SYSTEM, 2), ("", 2), (None, 2)],
)
def test_the_command_tells_whether_a_model_can_be_trained(
    make: Make, template: str | None, code: int, tmp_path: Path
) -> None:
    """It can be if its plain replies stay as they are; else one line says why not."""
    folder = make(template) if template is not None else tmp_path
    done = call("doctor", "template", folder)
    assert (done.exit_code, len(done.stderr.splitlines())) == (code, bool(code)), done.output
