"""`agentflow view` as a person meets it: the command, and the page in a headless Chromium."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from agentflow.graph.run.recorder import Message, RunCalls, Span
from agentflow.graph.run.trace import Trace, append
from agentflow.graph.state import Verdict
from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.tools.result import ErrorClass
from tests.processes import running
from tests.runs import record, turn, write_run
from tests.trainings import begin, rollout, write_step, write_validation

pytest.importorskip("playwright.sync_api")

from tests.browser import AXE, CONTRAST, HOSTILE, NO_MARKUP, SERIOUS, Seen, expect, hostile_record, seen, write_training

pytestmark = pytest.mark.slow

LONG = "a line of a long text\n" * 100
GOES_ON = Verdict(analysis="more is needed", signal="continue")


@contextmanager
def viewing(*arguments: str | Path) -> Iterator[str]:
    """The URL of the page, served by the command."""
    with running("view", "--no-browser", *arguments, stdout=PIPE) as server:
        server.stdout.readline()
        yield server.stdout.readline().split()[1]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluations before and after, a training of two steps, and what a hostile model wrote."""
    folder = tmp_path_factory.mktemp("runs")
    ended = {"executor": ["length"]}
    lost = turn(1, "wikipedia_search", ErrorClass.EMPTY_RESULT, output="nothing", verdict=GOES_ON, finish_reasons=ended)
    both = [lost, turn(2, output="49")]
    write_run(folder / "seed", [record(n, correct=n < 4, turns=both) for n in range(12)], planner="embedded:seed")
    trained = [record(n, correct=n < 9, turns=both) for n in range(12)]
    write_run(folder / "trained", [*trained, hostile_record()], planner="embedded:trained")
    write_training(folder / "training", both)
    append(folder / "first.jsonl", Trace(**record(0, turns=both).own_fields))
    append(folder / "called.jsonl", called())
    return folder


def called() -> Trace:
    """A trace with the calls of its modules, of which the planner's prompt is long and hostile."""
    said = (("system", LONG), ("user", HOSTILE), ("assistant", "it"))
    messages = [Message(role=role, text=text) for role, text in said]
    calls = RunCalls(spans=spans_of_a_turn(cost=0.002, prompt=[0, 1], replies=[2]), messages=messages)
    trace = Trace(**record(0, turns=[turn(1, output=LONG)]).own_fields)
    return trace.model_copy(update={"calls_made": calls})


def spans_of_a_turn(**facts: Any) -> list[Span]:
    """The five modules in turn, a quarter of a second each, with a model call, of which more may be known."""
    spans = []
    for at, module in enumerate(("analyst", "planner", "executor", "verifier", "generator")):
        own = {"module": module, "turn": None if module in ("analyst", "generator") else 1, "start": at / 4}
        spans.append(Span(kind="module", name=module, seconds=0.25, **own))
        tokens = {"input_tokens": 90 + at, "output_tokens": 5}
        spans.append(Span(kind="model_call", name="m", parent=2 * at, seconds=0.125, **own, **tokens, **facts))
    return spans


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    with viewing(runs) as url:
        yield url


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Seen]:
    with seen(browser, url, "/#/") as page:
        yield page


APART = """svg => { const boxes = [...svg.querySelectorAll("text")].map(text => text.getBoundingClientRect());
  return boxes.every((one, at) => boxes.slice(at + 1).every(other => one.right < other.left || other.right < one.left
    || one.bottom < other.top || other.bottom < one.top)); }"""


def test_labels_of_axes_are_round_and_apart(page: Seen) -> None:
    page.run("training")
    drawings = page.page.locator("figure svg[role=img]").all()
    assert len(drawings) >= 5
    assert all(drawing.evaluate(APART) for drawing in drawings)
    labels = [label for drawing in drawings for label in drawing.locator("text.y").all_text_contents()]
    assert labels
    assert [label for label in labels if len(re.sub(r"\D", "", label).strip("0")) > 2] == []


def test_what_went_wrong_in_a_training_stands_above_its_curves(browser: Any, tmp_path: Path) -> None:
    out = begin(tmp_path / "spoilt", 3)
    late = rollout(0, "test", "b", 0.0, status=RolloutStatus.TIMED_OUT)
    write_validation(out, 0, [rollout(0, "test", "a", 1.0), late])
    for step in (1, 2, 3):
        write_step(out, step, [rollout(step, "train", "t", 1.0, id=f"{step}")], logprob_change=0.9)
    with viewing(out.parent) as url, seen(browser, url) as page:
        page.run("spoilt")
        page.shows(".alarm", "Validation after step 0")
        page.shows(".alarm >> nth=1", "step 2: learning rate")
        page.has(2, ".alarm")
        page.has(0, ".found:visible")


def test_every_page_opens(page: Seen) -> None:
    page.shows("main", "held-out accuracy")
    page.run("trained")
    page.finds("13 traces, 10 correct")
    page.choose("outcome", "incorrect")
    page.finds("3 traces, 0 correct")
    page.run("training")
    page.shows("figure", "Reward and held-out accuracy")
    page.shows(".matrix", "✓")
    page.click("button", "Show the trajectories")
    page.shows(".formula", "A = (R − mean(R)) / (std(R)")
    page.has(4, ".group tbody tr")
    page.shows(".advantage", "+0.87")
    page.run("training")
    page.click("button", "The same questions side by side")
    page.shows(".sides", "Step 0 → Step 2")
    page.shows(".filter.gained", "3 gained")
    page.has(2, ".columns section")


def test_the_tokens_of_a_group_are_gone_through_with_the_keyboard(page: Seen) -> None:
    page.run("training")
    page.click("button", "Show the trajectories")
    page.click("link", "its tokens")
    page.shows("h1", "What is g?")
    page.shows(".broken", "The prefix broke. A reply tokenises differently in the next prompt")
    for number, selector in ((4, ".trajectory"), (20, ".t"), (0, ".g")):
        page.has(number, selector)
    background = "[...document.querySelectorAll('.t')].slice(0, 4).map((one) => getComputedStyle(one).backgroundColor)"
    page.page.wait_for_function(f"new Set({background}).size == 1")  # by advantage
    page.page.get_by_label("drift").check()
    page.page.wait_for_function(f"new Set({background}).size == 4")
    page.page.locator(".token-row").first.focus()
    page.press("ArrowRight", "ArrowRight")
    page.shows(".token-facts", "62 of 64", re.compile(r"drift\s*−0.002000"), re.compile(r"ratio\s*1.1052"))
    page.press("End")
    page.shows(".token-facts", "64 of 64")
    page.page.locator(".given summary").first.click()
    page.has(60, ".g")
    page.page.locator(".g").first.hover()
    page.shows(".token-facts", "given to the model")
    page.has(0, NO_MARKUP)
    page.click("link", "turn by turn")
    page.shows(".said", "Step 1")


def test_two_evaluations_stand_side_by_side(page: Seen) -> None:
    form = page.page.locator("form.compare")
    for at, name in enumerate(("seed", "trained")):
        form.locator("select").nth(at).select_option(label=name)
    page.click("button", "Side by side")
    page.shows(".filter.gained", "5 gained")
    page.page.locator(".filter.gained").click()
    page.has(5, ".pick")
    page.shows(".columns", "nothing")


def test_a_trace_is_stepped_through_with_the_keyboard(page: Seen) -> None:
    page.run("first.jsonl")
    page.press("Tab")  # past the first link of the page
    page.page.locator(".traces a.open").first.focus()
    page.press("Enter")
    page.shows(".said", "Step 1 of 8: the analyst")
    page.press("ArrowRight", "ArrowRight")
    page.shows(".said", "turn 1, the executor calls wikipedia_search (empty_result)")
    page.shows(".node.lit >> nth=1", "Executor")
    page.shows(".now .warn", "finish_reason length")
    page.has(1, ".messages .message")
    page.press("ArrowRight", "ArrowRight")
    page.shows(".said", "turn 2, the planner")
    page.has(3, ".messages .message")
    page.has(1, ".block.full")
    page.press("End")
    page.shows(".now", "the answer")
    page.press("Home")
    page.page.locator("h1").click()
    page.press(" ")
    page.shows(".play", "Pause")
    page.shows(".said", "Step 2 of 8")
    page.press(" ")
    page.shows(".play", "Play")


def test_each_step_has_its_time_its_prompt_and_an_address(page: Seen) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.run("called.jsonl")
    page.trace()
    rows = page.page.locator(".waterfall tbody tr")
    expect(rows).to_have_count(5)
    page.shows(".waterfall tfoot", "5 model calls", "$0.010")
    rows.nth(1).locator("button").click()
    page.page.wait_for_url(re.compile(r"\?at=1$"))
    expect(rows.nth(1)).to_have_attribute("aria-current", "step")
    page.shows(".call", "91 read, 5 written")
    page.page.get_by_text("Prompt: 2 messages").click()
    page.shows(".call .message >> nth=1", "onerror")
    page.has(0, NO_MARKUP)
    full = page.page.locator(".call .fold > pre")
    expect(full).to_be_hidden()
    page.page.get_by_text("Show all 2,200 characters").click()
    expect(full).to_be_visible()
    assert full.text_content() == LONG
    page.click("button", "Copy the prompt")
    page.page.get_by_role("button", name="Copied").wait_for()
    assert page.page.evaluate("navigator.clipboard.readText()").startswith(LONG)
    page.press("ArrowRight")
    page.page.wait_for_url(re.compile(r"\?at=2$"))
    with page.page.expect_download() as given:
        page.click("button", "Download as JSON")
    found = json.loads(given.value.path().read_text())
    assert (found["turns"][0]["result"]["output"], len(found["calls"]["spans"])) == (LONG, 10)
    page.page.reload()
    page.ready()
    page.shows(".said", "Step 3 of 5: turn 1, the executor")


FOCUS = (
    "[document.activeElement.tagName + ' ' + document.activeElement.innerText.slice(0, 20),"
    " getComputedStyle(document.activeElement).outlineStyle]"
)


def test_the_tab_key_reaches_everything_and_shows_where_it_is(page: Seen) -> None:
    reached = []
    for _ in range(14):
        page.press("Tab")
        reached.append(page.page.evaluate(FOCUS))
    names = [name for name, _ in reached]
    assert names[0] == "A To the content"
    assert {"A training", "A seed", "A trained", "A first.jsonl"} <= set(names)
    assert [name for name, outline in reached if outline == "none" and not name.startswith("BODY")] == []


def test_lines_that_come_are_seen(browser: Any, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "going on", [record(n) for n in range(3)], questions=6)
    with viewing(tmp_path) as url, seen(browser, url, "/#/") as page:
        page.shows("main", "3 of 6")
        page.shows(".live", "live")
        append(folder / "traces.jsonl", record(3, correct=False))
        page.shows("main", "4 of 6")
        page.run("going on")
        append(folder / "traces.jsonl", record(4, question="The newest?"))
        page.shows(".found", "5 traces, 4 correct")
        page.shows("tr.fresh", "The newest?")


CUT_OFF = "[...document.querySelectorAll('td')].filter((one) => one.getBoundingClientRect().right > 360)"
"""Cells of tables that one must scroll to see."""
SMALLEST = """
Math.min(...[...document.querySelectorAll("p, td, dd, summary, pre, label")]
  .map((one) => parseFloat(getComputedStyle(one).fontSize)))
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone(browser: Any, url: str, scheme: str) -> None:
    options = {"viewport": {"width": 360, "height": 800}, "color_scheme": scheme, "reduced_motion": "reduce"}

    def readable(page: Seen, where: str) -> None:
        assert page.page.evaluate("document.documentElement.scrollWidth") == 360, where
        assert page.page.evaluate(CONTRAST) == [], where
        assert page.page.evaluate(SMALLEST) >= 12, where
        if AXE:
            page.page.evaluate(AXE)
            assert page.page.evaluate(SERIOUS) == [], where

    with seen(browser, url, "/#/", **options) as page:
        assert page.page.evaluate(CUT_OFF) == []
        readable(page, "the first page")
        for name in ("trained", "training", "called.jsonl", "first.jsonl"):
            page.run(name)
            if name.endswith(".jsonl"):
                page.trace()
                page.shows(".said", "Step 1")
            readable(page, name)
        assert page.page.evaluate("getComputedStyle(document.querySelector('.chip')).transitionDuration") == "0s"
        page.run("trained")
        page.click("link", "Report")
        page.shows(".cells", "embedded:trained")
        page.shows(".paper", "AgentFlow, Flow-GRPO")
        readable(page, "the report")
        page.run("training")
        page.page.goto(page.page.url.partition("?")[0] + "/step/2/tokens/0")
        page.shows(".t", "Sub")
        for colour in ("advantage", "ratio", "drift", "mask"):
            page.page.get_by_label(colour).check()
            readable(page, colour)


def test_the_colours_can_be_chosen(page: Seen) -> None:
    back, button = "getComputedStyle(document.body).backgroundColor", page.page.locator("#theme")
    light = page.page.evaluate(back)
    button.click()
    assert page.page.evaluate(back) == light
    button.click()
    assert page.page.evaluate(back) != light
    page.page.reload()
    page.ready()
    assert page.page.evaluate(back) != light
    assert button.get_attribute("aria-label") == "Colours: dark"
