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
from agentflow.rl.rollout.template import Tokenizer, certify, load_tokenizer

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


def loaded(folder: Path) -> Tokenizer:
    return load_tokenizer(folder)


def test_the_embedded_models_template_costs_nothing() -> None:
    found = certify(load_tokenizer(SEED))
    assert (found.plain.rows, found.thinking.rows) == (1, 1)
    assert found.plain.tokens == found.plain.least
    assert found.ends_itself
    assert not found.opens_thinking


def test_a_template_that_drops_thinking_costs_replies_that_think(make: Make) -> None:
    found = certify(loaded(make(STRIPS_THINKING)))
    assert found.plain.rows == 1
    assert found.thinking.rows == 3
    assert found.thinking.ratio > 1.5
    assert "<think>" in found.thinking.breaks


def test_a_template_that_changes_what_was_said_breaks_every_turn(make: Make) -> None:
    found = certify(loaded(make(TRIMS)))
    assert found.plain.rows == 3
    assert "Sub-Goal" in found.plain.breaks
    assert "SUB-GOAL" in found.plain.breaks


def test_a_prompt_that_opens_thinking_is_named(make: Make) -> None:
    assert certify(loaded(make(OPENS_THINKING))).opens_thinking


def test_another_end_than_eos_is_named(make: Make) -> None:
    assert not certify(loaded(make(OTHER_END))).ends_itself


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
