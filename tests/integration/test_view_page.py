"""`agentflow view` as a person meets it: the command, and the page in a headless Chromium."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from agentflow.graph.run.calls import Message, RunCalls, Span
from agentflow.graph.run.events import Started
from agentflow.graph.run.live_status import LiveStatusFile
from agentflow.graph.run.trace import Trace, TraceTurn, append
from agentflow.graph.state import Verdict
from agentflow.rl.training_log import TrainingLog
from agentflow.tools.result import ErrorClass
from tests.contrast import CONTRAST
from tests.runs import record, turn, write_run
from tests.trainings import begin, credited, rollout, token_step, write_step, write_validation
from tests.waiting import LAST_RESORT

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
expect.set_options(timeout=60_000)  # milliseconds, as a last resort

pytestmark = [
    pytest.mark.slow,
]

WAIT = 60_000
LONG = "a line of a long text\n" * 100
HOSTILE = '</script><img src=http://127.0.0.1:9/x onerror=document.title="taken"><b>bold</b> \u202egnp.exe ' + "x" * 300


@contextmanager
def viewing(*arguments: str | Path) -> Iterator[str]:
    """The URL of the page, served by the command."""
    command = [sys.executable, "-m", "agentflow", "view", "--no-browser", *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        server.stdout.readline()
        try:
            yield server.stdout.readline().split()[1]
        finally:  # without it, a test that fails waits for the server for ever
            server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=LAST_RESORT) in (0, -signal.SIGTERM)


def hostile_turn() -> TraceTurn:
    texts = dict.fromkeys(("sub_goal", "context", "tool", "output", "plan"), HOSTILE)
    return turn(arguments={HOSTILE: HOSTILE}, verdict=Verdict(analysis=HOSTILE, signal="stop"), **texts)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Evaluations before and after, a training of two steps, and what a hostile model wrote."""
    folder = tmp_path_factory.mktemp("runs")
    ended = {"executor": ["length"]}
    lost = turn(
        1, "wikipedia_search", ErrorClass.EMPTY_RESULT, output="nothing", verdict=goes_on(), finish_reasons=ended
    )
    both = [lost, turn(2, output="49")]
    write_run(folder / "seed", [record(n, correct=n < 4, turns=both) for n in range(12)], planner="embedded:seed")
    trained = [record(n, correct=n < 9, turns=both) for n in range(12)]
    hostile = record(500, question=HOSTILE, gold=HOSTILE, answer=HOSTILE, family=HOSTILE, turns=[hostile_turn()])
    write_run(folder / "trained", [*trained, hostile], planner="embedded:trained")
    out = begin(folder / "training", 3, algorithm={"name": "flow-grpo", "penalty": 0.3})
    for step in (0, 2):
        tasks = [rollout(step, "test", f"t{n}", float(step > 0 or n == 0), turns=both) for n in range(4)]
        write_validation(out, step, tasks)
    for step in (1, 2):
        rewards = enumerate((1.0, 0.0, 0.0, 1.0))
        rollouts = [rollout(step, "train", "g", reward, turns=both, id=f"r{n}") for n, reward in rewards]
        write_step(out, step, credited(rollouts))
        TrainingLog(out).tokens(token_step(step, "g", rollouts, hostile=HOSTILE))
    append(folder / "first.jsonl", Trace(**record(0, turns=both).own_fields))
    append(folder / "called.jsonl", called())
    return folder


def called() -> Trace:
    """A trace with the calls of its modules, of which the planner's prompt is long and hostile."""
    messages = [
        Message(role=role, text=text) for role, text in (("system", LONG), ("user", HOSTILE), ("assistant", "it"))
    ]
    trace = Trace(**record(0, turns=[turn(1, output=LONG)]).own_fields)
    spans = spans_of_a_turn(cost=0.002, prompt=[0, 1], replies=[2])
    return trace.model_copy(update={"calls_made": RunCalls(spans=spans, messages=messages)})


def spans_of_a_turn(**facts: Any) -> list[Span]:
    """The five modules in turn, a quarter of a second each, with a model call, of which more may be known."""
    spans = []
    for at, module in enumerate(("analyst", "planner", "executor", "verifier", "generator")):
        turn_of = None if module in ("analyst", "generator") else 1
        spans.append(Span(kind="module", name=module, module=module, turn=turn_of, start=at / 4, seconds=0.25))
        spans.append(
            Span(
                kind="model_call",
                name="m",
                module=module,
                turn=turn_of,
                parent=2 * at,
                start=at / 4,
                seconds=0.125,
                input_tokens=90 + at,
                output_tokens=5,
                **facts,
            )
        )
    return spans


def goes_on() -> Verdict:
    return Verdict(analysis="more is needed", signal="continue")


@pytest.fixture(scope="module")
def url(runs: Path) -> Iterator[str]:
    with viewing(runs) as url:
        yield url


class Seen:
    """An open page, with its console messages and requests."""

    def __init__(self, browser: "sync_api.Browser", url: str, **context: object) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context})
        self.context.set_default_timeout(WAIT)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: request.url.startswith(url) or self.said.append(request.url))
        self.go("#/")

    def go(self, address: str) -> None:
        self.page.goto(self.url + "/" + address)
        self.ready()

    def ready(self) -> None:
        self.page.wait_for_selector("body[data-ready=yes]")

    def open(self, name: str) -> None:
        """The run of that name."""
        self.go("#/")
        self.page.get_by_role("link", name=name, exact=True).click()
        self.page.wait_for_url(re.compile("#/run/"))
        self.ready()

    def shows(self, selector: str, text: str | re.Pattern[str]) -> None:
        expect(self.page.locator(selector).first).to_contain_text(text)


@pytest.fixture
def seen(browser: "sync_api.Browser", url: str) -> Iterator[Seen]:
    shown = Seen(browser, url)
    yield shown
    assert shown.said == []
    shown.context.close()


APART = """svg => { const boxes = [...svg.querySelectorAll("text")].map(text => text.getBoundingClientRect());
  return boxes.every((one, at) => boxes.slice(at + 1).every(other => one.right < other.left || other.right < one.left
    || one.bottom < other.top || other.bottom < one.top)); }"""


def test_labels_of_axes_are_round_and_apart(seen: Seen) -> None:
    seen.open("training")
    drawings = seen.page.locator("figure svg[role=img]")
    assert [drawing.evaluate(APART) for drawing in drawings.all()] == [True] * drawings.count()
    labels = [label for drawing in drawings.all() for label in drawing.locator("text.y").all_text_contents()]
    digits = [re.sub(r"\D", "", label).strip("0") for label in labels]
    assert labels
    assert [label for label, own in zip(labels, digits, strict=True) if len(own) > 2] == []


def test_an_alarm_of_a_training_stands_above_its_curves(browser: "sync_api.Browser", tmp_path: Path) -> None:
    out = begin(tmp_path / "spoilt", 3)
    for step in (1, 2, 3):
        write_step(out, step, [rollout(step, "train", "t", 1.0, id=f"{step}")], logprob_change=0.9)
    with viewing(out.parent) as url:
        shown = Seen(browser, url)
        shown.open("spoilt")
        shown.shows(".alarm", "step 1: learning rate")
        expect(shown.page.locator(".alarm")).to_have_count(1)
        assert shown.said == []
        shown.context.close()


def test_every_page_opens(seen: Seen) -> None:
    seen.shows("main", "held-out accuracy")
    seen.open("trained")
    seen.shows(".found", "13 traces, 10 correct")
    seen.page.locator("select[name=outcome]").select_option("incorrect")
    seen.shows(".found", "3 traces, 0 correct")
    seen.open("training")
    seen.shows("figure", "Reward and held-out accuracy")
    assert seen.page.locator("figure svg[role=img]").count() >= 5
    seen.shows(".matrix", "✓")
    seen.page.get_by_role("button", name="Show the trajectories").click()
    seen.shows(".formula", "A = (R − mean(R)) / (std(R)")
    expect(seen.page.locator(".group tbody tr")).to_have_count(4)
    seen.shows(".advantage", "+0.87")
    seen.open("training")
    seen.page.get_by_role("button", name="The same questions side by side").click()
    seen.shows(".sides", "Step 0 → Step 2")
    seen.shows(".filter.gained", "3 gained")
    expect(seen.page.locator(".columns section")).to_have_count(2)


def test_the_tokens_of_a_group_are_gone_through_with_the_keyboard(seen: Seen) -> None:
    seen.open("training")
    seen.page.get_by_role("button", name="Show the trajectories").click()
    seen.page.get_by_role("link", name="its tokens").click()
    seen.shows("h1", "What is g?")
    seen.shows(".broken", "The prefix broke. A reply tokenises differently in the next prompt")
    expect(seen.page.locator(".trajectory")).to_have_count(4)
    expect(seen.page.locator(".t")).to_have_count(20)
    expect(seen.page.locator(".g")).to_have_count(0)
    background = "[...document.querySelectorAll('.t')].slice(0, 4).map((one) => getComputedStyle(one).backgroundColor)"
    seen.page.wait_for_function(f"new Set({background}).size == 1")  # by advantage
    seen.page.get_by_label("drift").check()
    seen.page.wait_for_function(f"new Set({background}).size == 4")
    seen.page.locator(".token-row").first.focus()
    for _ in range(2):
        seen.page.keyboard.press("ArrowRight")
    seen.shows(".token-facts", "62 of 64")
    seen.shows(".token-facts", re.compile(r"drift\s*−0.002000"))
    seen.shows(".token-facts", re.compile(r"ratio\s*1.1052"))
    seen.page.keyboard.press("End")
    seen.shows(".token-facts", "64 of 64")
    seen.page.locator(".given summary").first.click()
    expect(seen.page.locator(".g")).to_have_count(60)
    seen.page.locator(".g").first.hover()
    seen.shows(".token-facts", "given to the model")
    expect(seen.page.locator("main img, main script")).to_have_count(0)
    seen.page.get_by_role("link", name="turn by turn").first.click()
    seen.shows(".said", "Step 1")


def test_two_evaluations_stand_side_by_side(seen: Seen) -> None:
    form = seen.page.locator("form.compare")
    form.locator("select").nth(0).select_option(label="seed")
    form.locator("select").nth(1).select_option(label="trained")
    form.get_by_role("button", name="Side by side").click()
    seen.shows(".filter.gained", "5 gained")
    seen.page.locator(".filter.gained").click()
    expect(seen.page.locator(".pick")).to_have_count(5)
    seen.shows(".columns", "nothing")
    seen.open("trained")
    seen.page.get_by_role("link", name="Report").click()
    seen.shows(".cells", "embedded:trained")
    seen.shows(".paper", "AgentFlow, Flow-GRPO")
    seen.shows(".found", "13 traces")


def test_a_trace_is_stepped_through_with_the_keyboard(seen: Seen) -> None:
    seen.open("first.jsonl")
    seen.page.keyboard.press("Tab")  # past the first link of the page
    link = seen.page.locator(".traces a.open").first
    link.focus()
    seen.page.keyboard.press("Enter")
    seen.shows(".said", "Step 1 of 8: the analyst")
    seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("ArrowRight")
    seen.shows(".said", "turn 1, the executor calls wikipedia_search (empty_result)")
    seen.shows(".node.lit >> nth=1", "Executor")
    seen.shows(".now .warn", "finish_reason length")
    expect(seen.page.locator(".messages .message")).to_have_count(1)
    for _ in range(2):
        seen.page.keyboard.press("ArrowRight")
    seen.shows(".said", "turn 2, the planner")
    expect(seen.page.locator(".messages .message")).to_have_count(3)
    expect(seen.page.locator(".block.full")).to_have_count(1)
    seen.page.keyboard.press("End")
    seen.shows(".now", "the answer")
    seen.page.keyboard.press("Home")
    seen.page.locator("h1").click()
    seen.page.keyboard.press(" ")
    seen.shows(".play", "Pause")
    seen.shows(".said", "Step 2 of 8")
    seen.page.keyboard.press(" ")
    seen.shows(".play", "Play")


def test_each_step_has_its_time_its_prompt_and_an_address(seen: Seen) -> None:
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    seen.open("called.jsonl")
    seen.page.locator(".traces a.open").click()
    rows = seen.page.locator(".waterfall tbody tr")
    expect(rows).to_have_count(5)
    seen.shows(".waterfall tfoot", "5 model calls")
    seen.shows(".waterfall tfoot", "$0.010")
    rows.nth(1).locator("button").click()
    seen.page.wait_for_url(re.compile(r"\?at=1$"))
    expect(rows.nth(1)).to_have_attribute("aria-current", "step")
    seen.shows(".call", "91 read, 5 written")
    seen.page.get_by_text("Prompt: 2 messages").click()
    seen.shows(".call .message >> nth=1", "onerror")
    expect(seen.page.locator("main img, main script")).to_have_count(0)
    full = seen.page.locator(".call .fold > pre")
    expect(full).to_be_hidden()
    seen.page.get_by_text("Show all 2,200 characters").click()
    expect(full).to_be_visible()
    assert full.text_content() == LONG
    seen.page.get_by_role("button", name="Copy the prompt").click()
    seen.page.get_by_role("button", name="Copied").wait_for()
    assert seen.page.evaluate("navigator.clipboard.readText()").startswith(LONG)
    seen.page.keyboard.press("ArrowRight")
    seen.page.wait_for_url(re.compile(r"\?at=2$"))
    with seen.page.expect_download() as given:
        seen.page.get_by_role("button", name="Download as JSON").click()
    found = json.loads(given.value.path().read_text())
    assert (found["turns"][0]["result"]["output"], len(found["calls"]["spans"])) == (LONG, 10)
    seen.page.reload()
    seen.ready()
    seen.shows(".said", "Step 3 of 5: turn 1, the executor")


def test_a_rollout_of_a_training_shows_when_each_module_ran(browser: "sync_api.Browser", tmp_path: Path) -> None:
    """Its times are recorded, and not its texts."""
    out = begin(tmp_path, 1)
    timed = rollout(1, "train", "g", 1.0, turns=[turn(1)], id="g/0").model_copy(update={"spans": spans_of_a_turn()})
    write_step(out, 1, [timed])
    with viewing(out) as url:
        seen = Seen(browser, url)
        seen.open(out.name)
        seen.page.locator(".traces a.open").click()
        seen.ready()
        rows = seen.page.locator(".waterfall tbody tr")
        expect(rows).to_have_count(5)
        seen.shows(".waterfall tfoot", "5 model calls")
        rows.nth(1).locator("button").click()
        expect(rows.nth(1)).to_have_attribute("aria-current", "step")
        expect(rows.nth(1).locator("td.n")).to_have_text(["250 ms", "91", "5"])
        expect(seen.page.locator(".call")).to_have_count(0)
        assert seen.said == []
        seen.context.close()


def test_the_tab_key_reaches_everything_and_shows_where_it_is(seen: Seen) -> None:
    reached = []
    for _ in range(14):
        seen.page.keyboard.press("Tab")
        reached.append(
            seen.page.evaluate(
                "[document.activeElement.tagName + ' ' + document.activeElement.innerText.slice(0, 20),"
                " getComputedStyle(document.activeElement).outlineStyle]"
            )
        )
    names = [name for name, _ in reached]
    assert names[0] == "A To the content"
    assert {"A training", "A seed", "A trained", "A first.jsonl"} <= set(names)
    assert [name for name, outline in reached if outline == "none" and not name.startswith("BODY")] == []


def test_what_a_model_wrote_stays_text(seen: Seen) -> None:
    seen.open("trained")
    seen.page.locator("a.open", has_text="onerror").click()
    seen.ready()
    for _ in range(5):
        seen.page.keyboard.press("ArrowRight")
        expect(seen.page.locator("main img, main script, main b:text-is('bold')")).to_have_count(0)
    seen.shows("h1", "</script><img")
    seen.shows(".messages", "onerror")
    assert "taken" not in seen.page.title().split(" · ")[0]
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 1200


def test_lines_that_come_are_seen(browser: "sync_api.Browser", tmp_path: Path) -> None:
    folder = write_run(tmp_path / "going on", [record(n) for n in range(3)], questions=6)
    with viewing(tmp_path) as url:
        seen = Seen(browser, url)
        seen.shows("main", "3 of 6")
        seen.shows(".live", "live")
        append(folder / "traces.jsonl", record(3, correct=False))
        seen.shows("main", "4 of 6")
        seen.open("going on")
        append(folder / "traces.jsonl", record(4, question="The newest?"))
        seen.shows(".found", "5 traces, 4 correct")
        seen.shows("tr.fresh", "The newest?")
        seen.go("#/")
        with LiveStatusFile(tmp_path / "first.jsonl", "How so?", 5) as running:
            running.show(Started(module="planner", turn=1))
            seen.shows("a.running", "planner at work")
            seen.page.locator("a.running").click()
            seen.shows(".said", "the planner is at work")
            running.show(turn(1, verdict=goes_on()))
            running.show(Started(module="verifier", turn=2))
            seen.shows(".said", "Step 4 of 4: the verifier is at work")
            append(tmp_path / "first.jsonl", Trace(**record(0).own_fields))
        seen.shows(".heading", "The run has ended")
        seen.page.get_by_role("link", name="Its trace is in first.jsonl").click()
        seen.shows(".traces", "Question 0?")
        assert seen.said == []
        seen.context.close()


CUT_OFF = "[...document.querySelectorAll('td')].filter((one) => one.getBoundingClientRect().right > 360)"
"""Cells of tables that one must scroll to see."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_on_a_phone(browser: "sync_api.Browser", url: str, scheme: str) -> None:
    shown = Seen(browser, url, viewport={"width": 360, "height": 800}, color_scheme=scheme, reduced_motion="reduce")
    for name in ("", "trained", "training", "called.jsonl", "first.jsonl"):
        if name:
            shown.open(name)
        else:
            assert shown.page.evaluate(CUT_OFF) == []
        if name.endswith(".jsonl"):
            shown.page.locator(".traces a.open").click()
            shown.shows(".said", "Step 1")
        assert shown.page.evaluate("document.documentElement.scrollWidth") == 360, name
        assert shown.page.evaluate(CONTRAST) == [], name
        if name == "training":
            shown.page.goto(shown.page.url.partition("?")[0] + "/step/2/tokens/0")
            shown.shows(".t", "Sub")
            for colour in ("advantage", "ratio", "drift", "mask"):
                shown.page.get_by_label(colour).check()
                assert shown.page.evaluate("document.documentElement.scrollWidth") == 360, colour
                assert shown.page.evaluate(CONTRAST) == [], colour
    assert shown.page.evaluate("getComputedStyle(document.querySelector('.chip')).transitionDuration") == "0s"
    assert shown.said == []
    shown.context.close()


def test_the_colours_can_be_chosen(seen: Seen) -> None:
    back = "getComputedStyle(document.body).backgroundColor"
    light = seen.page.evaluate(back)
    button = seen.page.locator("#theme")
    button.click()
    assert seen.page.evaluate(back) == light
    button.click()
    assert seen.page.evaluate(back) != light
    seen.page.reload()
    seen.ready()
    assert seen.page.evaluate(back) != light
    assert button.get_attribute("aria-label") == "Colours: dark"


TIMES = """
[performance.getEntriesByName("first-contentful-paint")[0].startTime,
 performance.getEntriesByType("resource").find((one) => one.name.includes("/traces")).responseEnd]
"""

LATEST = "performance.getEntriesByType('resource').findLast((one) => one.name.includes('/traces')).duration"


def test_ten_thousand_traces_are_there_in_a_second(browser: "sync_api.Browser", tmp_path: Path) -> None:
    turns = [turn(n, output="a result " * 40, verdict=goes_on()) for n in (1, 2, 3)]
    write_run(tmp_path / "large", (record(n, correct=n % 3 > 0, turns=turns) for n in range(10_000)), questions=10_000)
    with viewing(tmp_path) as url:
        seen = Seen(browser, url)
        seen.shows("main", "10,000 of 10,000")
        seen.open("large")
        address = seen.page.url.partition("?")[0]
        times = []
        for _ in range(3):
            page = seen.context.new_page()
            page.goto(address)
            page.wait_for_selector(".traces tbody tr:nth-child(100)")
            times.append(page.evaluate(TIMES))
            page.close()
        painted, listed = min(one for one, _ in times), min(one for _, one in times)
        print(f"\n10,000 traces: first paint after {painted:.0f} ms, the list after {listed:.0f} ms")
        assert painted < 1000
        assert listed < 3000  # a busy machine; 0.3 s otherwise
        seen.page.locator("input[name=text]").fill("question 9999")
        seen.shows(".found", "1 trace,")
        searched = seen.page.evaluate(LATEST)
        seen.page.locator("input[name=text]").fill("")
        seen.shows(".found", "10,000 traces")
        seen.page.get_by_role("button", name="Last").click()
        seen.shows(".pager", "9,901 – 10,000 of 10,000")
        seen.page.locator("select[name=outcome]").select_option("correct")
        seen.shows(".found", "6,666 traces")
        filtered = seen.page.evaluate(LATEST)
        print(f"a search took {searched:.0f} ms, a filter {filtered:.0f} ms")
        assert max(searched, filtered) < 3000  # a busy machine
        assert seen.said == []
        seen.context.close()


def test_a_group_of_thirteen_thousand_tokens_is_there_in_a_second(browser: "sync_api.Browser", tmp_path: Path) -> None:
    rollouts = [rollout(1, "train", "g", float(number % 2), id=f"r{number}") for number in range(8)]
    write_step(begin(tmp_path / "training", 1), 1, rollouts)
    small = token_step(1, "g", rollouts)
    rows = []
    for row in small.rows:
        if not row.mismatch:
            [call] = row.calls
            lists = {name: 400 * getattr(call, name) for name in ("mask", "rollout", "trainer", "updated")}
            ids = [*row.ids[: call.start], *400 * row.ids[call.start :]]
            rows.append(row.model_copy(update={"ids": ids, "calls": [call.model_copy(update=lists)]}))
    TrainingLog(tmp_path / "training").tokens(small.model_copy(update={"rows": rows}))
    with viewing(tmp_path) as url:
        seen = Seen(browser, url)
        seen.open("training")
        page = seen.context.new_page()
        page.goto(seen.page.url + "/step/1/tokens/0")
        page.wait_for_selector(".t")
        taken = page.evaluate("performance.now()")
        expect(page.locator(".t")).to_have_count(12_800)
        print(f"\n12,800 tokens: there after {taken:.0f} ms")
        assert taken < 5000  # a busy machine
        assert seen.said == []
        seen.context.close()


def test_the_command_refuses_what_it_must(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "agentflow", "view", "--no-browser"]
    for wrong, said in (([str(tmp_path / "none")], "there is no "), (["--host", "0.0.0.0"], "others reach 0.0.0.0")):
        done = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 2
        assert done.stderr.startswith(f"error: {said}")
        assert done.stderr.count("\n") == 1


def test_another_name_is_refused_on_the_wire(url: str) -> None:
    assert httpx.get(url, headers={"Host": "rebound.example"}).status_code == 400
    assert httpx.get(f"{url}/static/%2e%2e/app.py").status_code == 404
