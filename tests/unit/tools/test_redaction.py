"""Secrets are struck out in every form, and nothing else is."""

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.tools import StructuredTool

from agentflow.console.runs import call_text
from agentflow.console.terminal import shortened
from agentflow.nodes import analyst, executor, verifier
from agentflow.nodes.planner import chosen_tool
from agentflow.tools import redaction
from agentflow.tools.card import ToolCard
from agentflow.tools.google_search import _describe
from agentflow.tools.providers.provider import Hit
from agentflow.tools.redaction import MARK, cut, ending, redacted, redacted_data, remember, without_known
from agentflow.tools.result import ToolResult
from agentflow.tools.untrusted_text import bounded_line, one_line
from tests.attacks import Attack
from tests.cases import sections
from tests.linear import assert_linear

CASES = sections(__file__, "redaction.txt")


@pytest.fixture(autouse=True)
def _no_other_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_remembered", set())


@pytest.mark.parametrize("key", CASES["keys of services"])
@pytest.mark.parametrize("around", ["{}", "key={} and more", '{{"key": "{}"}}', "(a\n{}\nb)"])
def test_keys_of_well_known_services_are_struck_out(key: str, around: str) -> None:
    shown = redacted(around.format(key))
    assert MARK in shown
    assert key[-12:] not in shown


@pytest.mark.parametrize(("text", "shown"), [*CASES["around"], *((text, text) for text in CASES["ordinary"])])
def test_ordinary_text_stays_and_what_stands_around_a_secret(text: str, shown: str) -> None:
    assert redacted(text) == shown


def test_the_project_s_own_text_stays() -> None:
    home = Path(__file__).parents[3]
    for path in (home / "README.md", home / "CONTRIBUTING.md", *(home / "docs").glob("*.md")):
        shown = redacted(path.read_text())
        changed = [line for line in shown.splitlines() if MARK in line and "sk-" not in line and "***" not in line]
        assert changed == [], path


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "HF_TOKEN", "DB_PASSWORD", "MY_SECRET", "aws_secret_access_key"])
def test_the_environment_s_secrets_are_struck_out_in_every_form(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = 'pläin "word" & more'
    monkeypatch.setenv(name, f" {secret}\n")
    for form in (secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), quote(secret, safe="")):
        shown = without_known(f"it is {form}.")
        assert MARK in shown
        assert "word" not in shown


def test_names_that_only_sound_like_secrets_and_short_values_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOKENIZERS_PARALLELISM", "PYTHON_KEYRING_BACKEND", "KEYBOARD_LAYOUT"):
        monkeypatch.setenv(name, "ordinary-value")
    monkeypatch.setenv("VLLM_API_KEY", "EMPTY")
    remember("short")
    assert redacted("ordinary-value EMPTY short") == "ordinary-value EMPTY short"


def test_what_is_remembered_is_struck_out_and_a_longer_key_before_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    remember("planted-one")
    monkeypatch.setenv("OTHER_KEY", "planted-one-and-more")
    assert redacted("planted-one-and-more planted-one") == "*** ***"


def test_data_is_walked_to_its_keys_and_leaves() -> None:
    remember("planted-one")
    data = {"planted-one": [1, None, ("a planted-one b", {"x": "planted-one"})], "n": True}
    assert redacted_data(data) == {"***": [1, None, ["a *** b", {"x": "***"}]], "n": True}


def test_the_value_of_a_telling_key_of_data_is_a_secret() -> None:
    data = {"api_key": "planted00", "password": "planted-word", "token": "understanding", "secret": 12345678}
    assert redacted_data(data) == {**data, "api_key": MARK, "password": MARK}


def test_what_is_searched_by_names_takes_linear_time() -> None:
    units = [
        '"y:',
        "y:aaaaaaa1",
        '"token": "abcdefgh1" ',
        "KEY:a1b2c3d4 ",
        'y:"aaaaaaa1',
        "\\",
        '\\"',
        " ]",
        '"token":',
    ]
    assert_linear(redacted, [Attack((unit,)) for unit in units])


KEY = "sk-proj-T3BlbkFJabcdef0123456789ABCDEF0123"
REMEMBERED = "planted secret that looks like nothing"

CUTTERS: dict[str, Callable[[str], str]] = {
    "cut": lambda text: cut(text, 160),
    "ending": lambda text: ending(text, 160),
    "bounded_line": lambda text: bounded_line(text, 160),
    "one_line of a model's error": lambda text: one_line(text, 160),
    "shortened result": lambda text: ToolResult(status="ok", output=text).shortened(40).output,
    "executor": lambda text: executor._one_line(text),
    "planner": lambda text: chosen_tool(text, ["search"])[1],
    "analyst": lambda text: analyst.parse("x" * (analyst.MAX_CHARACTERS - 160) + text),
    "verifier": lambda text: verifier.parse("x" * (verifier.MAX_CHARACTERS - 160) + text).analysis,
    "card": lambda text: ToolCard.of(StructuredTool.from_function(lambda: "", name="t", description=text)).description,
    "console": shortened,
    "calls on the console": lambda text: call_text({"code": text}),
    "snippet": lambda text: _describe(1, Hit("title", "https://x.example", text)),
}


@pytest.mark.parametrize("cutter", CUTTERS.values(), ids=CUTTERS)
@pytest.mark.parametrize("key", [KEY, REMEMBERED])
def test_no_part_of_a_key_survives_a_cut(key: str, cutter: Callable[[str], str]) -> None:
    """Wherever the cut falls in it."""
    remember(REMEMBERED)
    for length in range(1, 1200, 17):
        shown = cutter(f"{'a ' * (length // 2)}{key} {'b ' * 2000}")
        assert key[: len(key) // 2] not in shown or key in shown, length
        assert key[-len(key) // 2 :] not in shown or key in shown, length


@given(st.sampled_from([KEY, REMEMBERED]), st.integers(0, 80), st.integers(1, 80))
def test_what_is_too_long_to_be_searched_is_cut_and_leaks_nothing(key: str, before: int, characters: int) -> None:
    remember(REMEMBERED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "LONGEST", 100)
        patch.setattr(redaction, "_LONGEST_KEY", 50)
        shown = redacted(f"{'a ' * before}{key} {'b ' * characters}")
    assert key[:12] not in shown
    assert len(shown) < 150
