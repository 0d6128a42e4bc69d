"""The report in a real browser: headless Chromium, offline, with whatever a model may have written."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentflow.evals.report.page import page
from agentflow.evals.rollout import rollout
from agentflow.evals.runs import read_runs
from agentflow.evals.scorers.score import Decision
from agentflow.evals.task import Task
from agentflow.evals.trace import Trace, TraceTurn
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.state import Verdict
from agentflow.tools.result import ErrorClass
from tests.runs import record, turn, write_run
from tests.scripted import Scripted

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
expect.set_options(timeout=60_000)  # milliseconds, as a last resort


HOSTILE = (
    '"><script>document.title="taken"</script><b>bold</b><img src=http://127.0.0.1:9/x onerror=document.title="taken">'
)


class Seen:
    """A page that is open, and what it did besides being shown."""

    def __init__(self, browser: "sync_api.Browser", path: Path, **context: object) -> None:
        self.context = browser.new_context(**context)
        self.context.set_offline(True)
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("body[data-ready=yes]")

    def finds(self, start: str) -> None:
        """Waits until the line above the list begins so."""
        expect(self.page.locator("#found")).to_have_text(re.compile(f"^{re.escape(start)}"))

    def choose(self, name: str, value: str) -> None:
        self.page.locator(f"select[name={name}]").select_option(value)

    def search(self, text: str) -> None:
        self.page.locator("input[name=text]").fill(text)
        self.page.locator("input[name=text]").press("Enter")

    def open(self, number: int = 0) -> "sync_api.Locator":
        trace = self.page.locator("details.trace").nth(number)
        trace.locator("> summary").click()
        trace.locator("dl").first.wait_for()
        return trace


def remember(turn: "sync_api.Locator") -> None:
    """Opens what the planner saw, which the page fills in when it is opened."""
    turn.locator(".memory > summary").click()
    turn.locator(".message pre").first.wait_for()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two planners on 120 questions of two benchmarks, with all that can happen, and one gated question."""
    folder = tmp_path_factory.mktemp("report")
    searched = [turn(1, "wikipedia_search", ErrorClass.EMPTY_RESULT, output="nothing", arguments={"query": "lost"})]
    both = [*searched, turn(2, output="needle in “quotes”\nand 2 < 3")]
    asked = [*searched, turn(2, "google_search", arguments={"query": "question 8"})]
    seed = [record(n, correct=n < 40, turns={7: both, 8: asked}.get(n, searched)) for n in range(100)]
    seed += [record(n, benchmark="aime24", family="easy", decision=Decision.UNDECIDED) for n in range(200, 220)]
    trained = [record(n, correct=n < 80, error="down" if n == 99 else "") for n in range(100)]
    trained += [record(500, question=HOSTILE, gold=HOSTILE, answer=HOSTILE, family=HOSTILE, turns=[hostile_turn()])]
    trained += [record(900, benchmark="gpqa", question="SECRET?", answer="SECRET")]
    runs = [
        write_run(folder / "seed", seed, planner="embedded:seed"),
        write_run(folder / "trained", trained, planner="embedded:trained", max_turns=3),
        write_run(folder / "longer", [record(n) for n in range(100)], planner="embedded:trained", max_turns=6),
    ]
    path = folder / "report.html"
    path.write_text(page(read_runs(runs)).html, encoding="utf-8")
    return path


def hostile_turn() -> TraceTurn:
    texts = dict.fromkeys(("sub_goal", "context", "tool", "output", "plan"), HOSTILE)
    return turn(arguments={HOSTILE: HOSTILE}, verdict=Verdict(analysis=HOSTILE, signal="stop"), **texts)


@pytest.fixture
def seen(browser: "sync_api.Browser", report: Path) -> Iterator[Seen]:
    shown = Seen(browser, report, viewport={"width": 1200, "height": 900})
    yield shown
    assert shown.said == []
    assert shown.requests == [report.as_uri()]
    shown.context.close()


def test_it_shows_figures_differences_and_the_papers_table(seen: Seen) -> None:
    assert seen.page.locator("#about").inner_text().startswith("3 evaluations on Bamboogle, AIME24, GPQA: 322 traces.")
    assert "40.0" in seen.page.locator("#cells tr", has_text="embedded:seed").first.inner_text()
    assert "trained is better than seed" in seen.page.locator("#differences").inner_text()
    table = seen.page.locator("#table")
    assert "69.6" in table.locator("tr", has_text="Flow-GRPO").inner_text()
    assert "50.5" in table.locator("tr", has_text="SimpleTIR-7B").inner_text()
    expect(seen.page.locator("p.note", has_text="Not comparable")).to_have_count(1)  # the others have none of these
    expect(table.locator("tr.ours")).to_have_count(3)
    expect(seen.page.locator("#budgets circle")).to_have_count(2)
    assert "empty_result" in seen.page.locator("#tools").inner_text()


def test_tables_have_no_empty_columns(seen: Seen) -> None:
    heads = seen.page.locator("#cells thead th").all_inner_texts()
    assert "undecided" in heads
    assert "pass@k" not in heads
    assert seen.page.locator("#table thead tr").nth(1).locator("th").count() == 1 + 3  # what is here


def test_families_have_a_row_each(seen: Seen) -> None:
    """A benchmark with one family has no such table."""
    assert seen.page.locator("#families tr.section").all_inner_texts() == ["Bamboogle"]
    rows = seen.page.locator("#families tbody tr:not(.section)").all_inner_texts()
    assert len(rows) == 2
    assert "40.0" in rows[0]


def test_questions_that_came_out_otherwise_are_a_click_away(seen: Seen) -> None:
    seen.page.get_by_role("button", name="40 questions gained").click()
    seen.finds("80 traces, 40 correct")
    assert "flip=gained" in seen.page.url
    assert seen.page.get_by_role("button", name="questions lost").count() == 0


def test_filters_alone_and_together(seen: Seen) -> None:
    seen.finds("322 traces")
    seen.choose("outcome", "undecided")
    seen.finds("20 traces, 0 correct (0.0 %)")
    seen.choose("run", "trained")
    seen.finds("No trace matches.")
    seen.page.get_by_role("button", name="Clear").click()
    seen.finds("322")
    seen.choose("benchmark", "aime24")
    seen.finds("20 traces")
    seen.choose("benchmark", "")
    seen.choose("error", "empty_result")
    seen.finds("100 traces, 40 correct (40.0 %)")
    seen.choose("tool", "python_coder")
    seen.finds("1 trace, 1 correct (100.0 %)")
    seen.choose("outcome", "failed")
    seen.finds("No trace matches.")


def test_text_is_found_in_turns_also_with_quotes_and_lines(seen: Seen) -> None:
    seen.search("NEEDLE in “quotes”\nand 2 < 3".replace("\n", " "))
    seen.finds("No trace matches.")
    seen.search("needle in “quotes”")
    seen.finds("1 trace")
    assert "Question 7?" in seen.page.locator("details.trace").inner_text()
    seen.search("print(6 * 7)")
    seen.finds("1 trace")


def test_a_search_that_comes_while_texts_are_unpacked_finds_all(seen: Seen) -> None:
    """Typing, leaving the field and Enter each begin one; the first unpacks, the last counts."""
    search = "document.forms[0].elements.text.value = 'needle'; for (const kind of ['input', 'change', 'submit'])"
    seen.page.evaluate(
        f"() => {{ {search} document.forms[0].dispatchEvent(new Event(kind, {{ cancelable: true }})); }}"
    )
    seen.finds("1 trace")


def test_filters_are_kept_in_the_address(seen: Seen, browser: "sync_api.Browser", report: Path) -> None:
    seen.choose("outcome", "failed")
    address = seen.page.url
    assert address.endswith("#outcome=failed")
    again = seen.context.new_page()
    again.goto(address)
    again.wait_for_selector("body[data-ready=yes]")
    assert again.locator("#found").inner_text().startswith("1 trace,")
    again.close()


def test_a_trace_opens_with_its_turns(seen: Seen) -> None:
    seen.search("needle")
    seen.finds("1 trace")
    trace = seen.open()
    first, second = trace.locator(".turn").all()
    for text in ("the sub-goal", "wikipedia_search", "failed (empty_result)"):
        assert text in first.inner_text()
    assert "needle in “quotes”\nand 2 < 3" in second.inner_text()
    assert "the verdict" in second.inner_text()
    trace.get_by_role("button", name="This question in every run").click()
    seen.finds("3 traces")


def test_flagged_traces_are_marked_and_every_run_has_its_passport(seen: Seen) -> None:
    seen.choose("flag", "question as query")
    seen.finds("2 traces")
    seen.choose("run", "seed")
    seen.finds("1 trace,")
    assert "flagged" in seen.page.locator("details.trace .facts").inner_text()
    assert "turn 2, google_search: question as query" in seen.open().inner_text()
    passports = seen.page.locator("#passports")
    assert passports.locator("h3").all_inner_texts() == ["seed", "trained", "longer"]
    assert "question as query 1" in passports.locator("tr", has_text="1 of 100").first.inner_text()
    passports.locator("details > summary").first.click()
    shown = passports.locator("details").first.inner_text()
    assert "planner: embedded:seed, served as m, temperature 0" in shown
    assert "versions, prompts and tools were not recorded" in shown


def test_more_are_shown_when_asked_for(seen: Seen) -> None:
    expect(seen.page.locator("details.trace")).to_have_count(50)
    seen.page.locator("#more").click()
    expect(seen.page.locator("details.trace")).to_have_count(100)


def test_what_a_model_wrote_stays_text(seen: Seen) -> None:
    seen.search("document.title")
    seen.finds("1 trace")
    trace = seen.open()
    remember(trace)
    assert trace.inner_text().count("<script>") >= 8
    expect(seen.page.locator("img, b:text-is('bold')")).to_have_count(0)
    assert seen.page.title() == "AgentFlow evaluation report"


def test_gated_questions_are_not_in_it(seen: Seen, report: Path) -> None:
    assert "SECRET" not in report.read_text()
    seen.choose("benchmark", "gpqa")
    assert "terms of this benchmark" in seen.open().inner_text()
    seen.search("secret")
    seen.finds("No trace matches.")


def test_it_works_by_keyboard(seen: Seen) -> None:
    seen.page.locator("select[name=flag]").focus()
    for _ in range(2):  # past "Clear" to the first trace
        seen.page.keyboard.press("Tab")
    seen.page.keyboard.press("Enter")
    seen.page.locator("details.trace[open] .turn").first.wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_at_400_pixels(browser: "sync_api.Browser", report: Path, scheme: str) -> None:
    shown = Seen(browser, report, viewport={"width": 400, "height": 800}, color_scheme=scheme)
    shown.open(2)
    assert shown.page.evaluate("document.documentElement.scrollWidth") == 400
    assert shown.page.evaluate(TOO_WIDE) == []
    assert shown.page.evaluate(SMALLEST) >= 12
    assert shown.page.evaluate(CONTRAST) >= 4.5
    assert shown.said == []
    shown.context.close()


TOO_WIDE = """
[...document.querySelectorAll("body *")]
  .filter((one) => !one.closest(".scroll, svg, .skip") && one.getBoundingClientRect().right > 401)
  .map((one) => one.outerHTML.slice(0, 80))
"""
SMALLEST = """
Math.min(...[...document.querySelectorAll("p, td, dd, summary, pre, label")]
  .map((one) => parseFloat(getComputedStyle(one).fontSize)))
"""
CONTRAST = """
(() => {
  const linear = (one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => rgb.map((one) => linear(one / 255))
    .reduce((sum, one, at) => sum + one * [0.2126, 0.7152, 0.0722][at], 0);
  const colour = (text) => (text.match(/[\\d.]+/g) ?? []).map(Number);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const back = colour(getComputedStyle(at).backgroundColor);
      if (back.length === 3 || back[3] > 0) return back.slice(0, 3);
    }
    return [255, 255, 255];
  };
  const ratio = (one) => {
    const [a, b] = [light(colour(getComputedStyle(one).color).slice(0, 3)), light(behind(one))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const texts = "h1, h2, p, td, th, small, dt, dd, summary span, label, button";
  return Math.min(...[...document.querySelectorAll(texts)].map(ratio));
})()
"""
"""The least contrast of a text with what is behind it, as WCAG 2.2 defines it; 4.5 is its level AA."""


def test_a_single_run_that_never_took_a_turn_is_a_report_too(browser: "sync_api.Browser", tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page(read_runs([write_run(tmp_path / "a", [record(0)])])).html, encoding="utf-8")
    shown = Seen(browser, path)
    shown.finds("1 trace, 1 correct")
    assert "the analysis" in shown.open().inner_text()
    expect(shown.page.locator("#differences-section, #budget-section").filter(visible=True)).to_have_count(0)
    assert shown.said == []
    shown.context.close()


def test_memory_is_what_the_planner_was_asked_with(
    browser: "sync_api.Browser", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page's words against the planner's own prompt, over turns that fail and turns that work."""
    readable = "**Sub-Goal:** s\nTool: base_generator\nContext: c"
    script = Scripted(
        analyst="Analysis: two steps",
        planner=["no step", "Sub-Goal: ask\nTool: nothing\nContext: c", readable, readable],
        executor='{"query": "q"}',
        verifier=[*(f"Analysis: {word}\nVerdict: continue" for word in "abc"), "Analysis: d\nVerdict: stop"],
    )
    script.install(monkeypatch)
    with ThreadPoolExecutor(1) as thread:  # this one is the browser's
        trace = thread.submit(asyncio.run, run(script)).result()
    one = record(0).model_copy(update=trace.own_fields)
    path = tmp_path / "report.html"
    path.write_text(page(read_runs([write_run(tmp_path / "a", [one], max_turns=5)])).html, encoding="utf-8")
    shown = Seen(browser, path)
    last = shown.open().locator(".turn").nth(3)
    remember(last)
    asked = [message.text for message in script.asked("planner")[-1][1:]]
    assert len(asked) == 7
    assert last.locator(".message pre").all_text_contents() == asked
    shown.context.close()


async def run(script: Scripted) -> Trace:
    context = Context(model=script.spec, max_turns=5)
    return (await rollout(build_graph(), Task.from_question("How so?"), context)).trace
