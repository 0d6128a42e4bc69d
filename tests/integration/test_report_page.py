"""Reports in a real browser: headless Chromium, offline, with whatever a model may have written."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from agentflow.cli.train import write_report
from agentflow.evals.runs import read_runs
from agentflow.evals.scorers.score import Decision
from agentflow.graph.agent import build_graph
from agentflow.graph.context import Context
from agentflow.graph.run.runner import run
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, TraceTurn
from agentflow.graph.state import Verdict
from agentflow.rl.training_log import TrainingLog
from agentflow.tools.result import ErrorClass
from agentflow.view.export import evaluations
from tests.contrast import CONTRAST
from tests.reports import Report
from tests.runs import record, turn, write_run
from tests.scripted import Scripted
from tests.trainings import begin, credited, token_step, write_step, write_validation
from tests.trainings import rollout as rolled_out

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
        self.ready()

    def ready(self) -> None:
        self.page.wait_for_selector("body[data-ready=yes]")

    def finds(self, start: str) -> None:
        """Waits until the line above the list begins so."""
        expect(self.page.locator(".found")).to_have_text(re.compile(f"^{re.escape(start)}"))

    def shows(self, selector: str, text: str) -> None:
        expect(self.page.locator(selector).first).to_contain_text(text)

    def choose(self, name: str, value: str) -> None:
        self.page.locator(f"select[name={name}]").select_option(value)

    def search(self, text: str) -> None:
        self.page.locator("input[name=text]").fill(text)
        self.page.locator("input[name=text]").press("Enter")

    def open(self, number: int = 0) -> None:
        """A trace of the list."""
        self.page.locator(".traces a.open").nth(number).click()
        expect(self.page.locator(".ways-between")).to_have_count(1)
        self.ready()


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
    path.write_text(evaluations(read_runs(runs)).html, encoding="utf-8")
    return path


def hostile_turn() -> TraceTurn:
    texts = dict.fromkeys(("sub_goal", "context", "tool", "output", "plan"), HOSTILE)
    return turn(arguments={HOSTILE: HOSTILE}, verdict=Verdict(analysis=HOSTILE, signal="stop"), **texts)


@pytest.fixture
def seen(browser: "sync_api.Browser", report: Path) -> Iterator[Seen]:
    shown = Seen(browser, report, viewport={"width": 1200, "height": 900})
    yield shown
    assert shown.said == []
    assert [one for one in shown.requests if not one.startswith("data:image/svg")] == [report.as_uri()]
    shown.context.close()


def test_it_shows_figures_differences_and_the_papers_table(seen: Seen) -> None:
    assert seen.page.locator(".about").inner_text().startswith("3 evaluations on Bamboogle, AIME24, GPQA: 322 traces.")
    assert "40.0" in seen.page.locator(".cells tr", has_text="seed").first.inner_text()
    assert "trained is better than seed" in seen.page.locator(".differences").inner_text()
    table = seen.page.locator(".paper")
    assert "69.6" in table.locator("tr", has_text="Flow-GRPO").inner_text()
    assert "50.5" in table.locator("tr", has_text="SimpleTIR-7B").inner_text()
    expect(table.locator("p", has_text="Not comparable")).to_have_count(1)  # the others have none of these
    expect(table.locator("tr.ours")).to_have_count(3)
    expect(seen.page.locator(".budgets circle")).to_have_count(2)
    assert "empty_result" in seen.page.locator(".tool-use").inner_text()


def test_tables_have_no_empty_columns(seen: Seen) -> None:
    heads = seen.page.locator(".cells thead th").all_inner_texts()
    assert "undecided" in heads
    assert "pass@k" not in heads
    assert seen.page.locator(".paper thead tr").nth(1).locator("th").count() == 1 + 3  # what is here


def test_families_have_a_row_each(seen: Seen) -> None:
    """Of a benchmark with one family there is none."""
    assert seen.page.locator(".families tr.section").all_inner_texts() == ["Bamboogle"]
    rows = seen.page.locator(".families tbody tr:not(.section)").all_inner_texts()
    assert len(rows) == 2
    assert "40.0" in rows[0]


def test_questions_that_came_out_otherwise_are_a_click_away(seen: Seen) -> None:
    assert seen.page.get_by_role("link", name="questions lost").count() == 0
    seen.page.get_by_role("link", name="40 questions gained").click()
    seen.shows(".filter.gained[aria-pressed=true]", "40 gained")
    expect(seen.page.locator(".pick")).to_have_count(40)
    seen.shows(".columns", "nothing")


def test_filters_alone_and_together(seen: Seen) -> None:
    seen.finds("322 traces")
    seen.choose("outcome", "undecided")
    seen.finds("20 traces, 0 correct (0.0 %)")
    seen.choose("run", "1")
    seen.finds("No trace matches.")
    seen.choose("run", "")
    seen.choose("outcome", "")
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


def test_rows_are_ordered_and_come_in_pages(seen: Seen) -> None:
    expect(seen.page.locator(".traces tbody tr")).to_have_count(100)
    seen.page.get_by_role("button", name="turns").click()
    seen.page.get_by_role("button", name="turns").click()
    seen.shows(".traces tbody tr", "Question 7?")
    seen.page.get_by_role("button", name="Last").click()
    seen.shows(".pager", "301 – 322 of 322")


def test_text_is_found_in_turns_also_with_quotes_and_lines(seen: Seen) -> None:
    seen.search("NEEDLE in “quotes” and 2 < 3")
    seen.finds("No trace matches.")
    seen.search("needle in “quotes”")
    seen.finds("1 trace,")
    seen.shows(".traces tbody", "Question 7?")
    seen.search("print(6 * 7)")
    seen.finds("1 trace,")
    seen.search("decided_by")
    seen.finds("No trace matches.")


def test_filters_are_kept_in_the_address(seen: Seen) -> None:
    seen.choose("outcome", "failed")
    seen.finds("1 trace,")
    assert seen.page.url.endswith("#/report/0,1,2?outcome=failed")
    again = seen.context.new_page()
    again.goto(seen.page.url)
    again.wait_for_selector("body[data-ready=yes]")
    assert again.locator(".found").inner_text().startswith("1 trace,")
    again.close()


def test_a_trace_opens_and_leads_to_its_question_elsewhere(seen: Seen) -> None:
    seen.search("needle")
    seen.finds("1 trace,")
    seen.open()
    seen.page.keyboard.press("ArrowRight")
    seen.page.keyboard.press("ArrowRight")
    seen.shows(".now", "empty_result")
    for _ in range(3):
        seen.page.keyboard.press("ArrowRight")
    seen.shows(".now", "needle in “quotes”\nand 2 < 3")
    seen.page.keyboard.press("ArrowRight")
    seen.shows(".now", "the verdict")
    expect(seen.page.locator(".same li")).to_have_count(2)
    seen.page.locator(".same a").first.click()
    seen.shows("#trail", "trained")
    seen.page.get_by_role("link", name="next trace").click()
    seen.shows("h1", "Question 8?")


def test_flagged_traces_are_named_and_every_run_has_its_passport(seen: Seen) -> None:
    passports = seen.page.locator(".passports")
    assert passports.locator("h3").all_inner_texts() == ["seed", "trained", "longer"]
    assert "question as query 1" in passports.locator("tr", has_text="1 of 100").first.inner_text()
    passports.locator(".passport > summary").first.click()
    shown = passports.locator(".passport").first.inner_text()
    assert "embedded:seed, served as m, temperature 0" in shown
    assert "versions, prompts and tools were not recorded" in shown
    passports.locator(".flagged > summary").first.click()
    passports.locator(".flagged a").first.click()
    seen.shows("h1", "Question 8?")
    seen.shows(".heading", "turn 2, google_search: question as query")


def test_what_a_model_wrote_stays_text(seen: Seen) -> None:
    seen.search("document.title")
    seen.finds("1 trace,")
    seen.open()
    for _ in range(5):
        seen.page.keyboard.press("ArrowRight")
        expect(seen.page.locator("main img, main script, main b:text-is('bold')")).to_have_count(0)
    seen.shows(".messages", "<script>")
    assert seen.page.title().split(" · ")[0] == "Trace 100"


def test_gated_questions_are_not_in_it(seen: Seen, report: Path) -> None:
    assert "SECRET" not in Report(report.read_text()).everything
    seen.choose("benchmark", "gpqa")
    seen.finds("1 trace,")
    seen.open()
    seen.shows("main", "terms of this benchmark")
    seen.page.go_back()
    seen.search("secret")
    seen.finds("No trace matches.")


def test_it_works_by_keyboard(seen: Seen) -> None:
    link = seen.page.locator(".traces a.open").first
    link.focus()
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("Enter")
    seen.shows("h1", "Question 1?")
    seen.shows(".said", "Step 1 of 5")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_is_readable_at_400_pixels(browser: "sync_api.Browser", report: Path, scheme: str) -> None:
    options = {"viewport": {"width": 400, "height": 800}, "color_scheme": scheme, "reduced_motion": "reduce"}
    shown = Seen(browser, report, **options)
    for page in ("report", "trace"):
        if page == "trace":
            shown.open(2)
        assert shown.page.evaluate("document.documentElement.scrollWidth") == 400, page
        assert shown.page.evaluate(TOO_WIDE) == [], page
        assert shown.page.evaluate(SMALLEST) >= 12, page
        assert shown.page.evaluate(CONTRAST) == [], page
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


def test_a_single_run_that_never_took_a_turn_is_a_report_too(browser: "sync_api.Browser", tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(evaluations(read_runs([write_run(tmp_path / "a", [record(0)])])).html, encoding="utf-8")
    shown = Seen(browser, path)
    shown.finds("1 trace, 1 correct")
    expect(shown.page.locator(".differences, .budgets, .families, .tool-use")).to_have_count(0)
    shown.open()
    shown.shows(".now", "the analysis")
    assert shown.said == []
    shown.context.close()


def test_a_frame_without_an_origin_shows_it(browser: "sync_api.Browser", report: Path, tmp_path: Path) -> None:
    frame = tmp_path / "frame.html"
    frame.write_text(f'<iframe sandbox="allow-scripts" src="{report.as_uri()}" width="900" height="900"></iframe>')
    page = browser.new_context().new_page()
    page.goto(frame.as_uri())
    expect(page.frame_locator("iframe").locator(".found")).to_contain_text("322 traces", timeout=60_000)
    page.context.close()


def test_a_training_is_a_report_too(browser: "sync_api.Browser", tmp_path: Path) -> None:
    out = begin(tmp_path / "training", 2)
    for step in (0, 2):
        write_validation(out, step, [rolled_out(step, "test", f"t{n}", float(step > 0 or n == 0)) for n in range(4)])
    for step in (1, 2):
        rewards = enumerate((1.0, 0.0, 0.0, 1.0))
        rollouts = [rolled_out(step, "train", "g", reward, question=HOSTILE, id=f"r{n}") for n, reward in rewards]
        write_step(out, step, credited(rollouts))
        TrainingLog(out).tokens(token_step(step, "g", rollouts, hostile=HOSTILE))
    shown = Seen(browser, write_report(out))
    shown.shows("figure", "Reward and held-out accuracy")
    shown.shows("section[aria-label='Before and after']", "Step 0: 25.0 % right")
    shown.finds("12 traces, 7 correct")
    shown.page.get_by_role("button", name="The same questions side by side").click()
    shown.shows(".filter.gained", "3 gained")
    expect(shown.page.locator(".columns section")).to_have_count(2)
    shown.page.go_back()
    shown.page.get_by_role("button", name="Show the trajectories").click()
    shown.shows(".advantage", "+0.87")
    shown.page.get_by_role("link", name="its tokens").click()
    shown.shows("h1", HOSTILE)
    expect(shown.page.locator(".t")).to_have_count(20)
    expect(shown.page.locator("main img, main script")).to_have_count(0)
    shown.page.get_by_role("link", name="turn by turn").first.click()
    shown.shows(".said", "Step 1")
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
        trace = thread.submit(asyncio.run, played(script)).result()
    one = record(0).model_copy(update=trace.own_fields)
    path = tmp_path / "report.html"
    path.write_text(evaluations(read_runs([write_run(tmp_path / "a", [one], max_turns=5)])).html, encoding="utf-8")
    shown = Seen(browser, path)
    shown.open()
    shown.page.locator(".chip.planner").nth(3).click()
    asked = [message.text for message in script.asked("planner")[-1][1:]]
    assert len(asked) == 7
    assert shown.page.locator(".message pre").all_text_contents() == asked
    shown.context.close()


async def played(script: Scripted) -> Trace:
    context = Context(model=script.spec, max_turns=5)
    return await run(build_graph(), Task.from_question("How so?"), context)
