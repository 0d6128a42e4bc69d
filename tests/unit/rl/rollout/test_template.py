"""Effects of a chat template on a trajectory, with templates of the kinds that models have."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

pytest.importorskip("transformers")

from agentflow.cli import app
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.rollout.template import certify, load_tokenizer

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


def run(folder: Path) -> Any:
    return CliRunner().invoke(app, ["doctor", "template", str(folder)])


def test_the_command_says_what_is_lost(make: Make) -> None:
    done = run(make(STRIPS_THINKING))
    assert done.exit_code == 0, done.output
    assert "3 turns are one row" in done.stdout
    assert "3 turns are 3 rows" in done.stdout
    assert run(make(TRIMS)).exit_code == 1


@pytest.mark.parametrize(
    ("template", "says"),
    [(NO_SYSTEM, "the template refuses a conversation of system, user (System role not supported)"), ("", "no chat")],
)
def test_what_cannot_be_certified_is_one_line(make: Make, template: str, says: str) -> None:
    done = run(make(template))
    assert done.exit_code == 2
    assert says in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_folder_without_a_tokenizer_is_one_line(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        done = run(folder)
        assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1), done.stderr
