"""Reports in a real browser: headless Chromium, offline, with whatever a model may have written.

A report is the viewer's page as one file, so that what both share is tested in test_view_page.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentflow.cli.train import write_report
from agentflow.evals.runs import read_runs
from agentflow.evals.scorers.score import Decision
from agentflow.tools.result import ErrorClass
from agentflow.view.export import evaluations
from tests.reports import Report
from tests.runs import record, turn, write_run

pytest.importorskip("playwright.sync_api")

from tests.browser import HOSTILE, NO_MARKUP, Seen, expect, hostile_record, seen, write_training
from tests.cases import table


def report_of(*runs: Path) -> Path:
    path = runs[0].parent / "report.html"
    path.write_text(evaluations(read_runs(list(runs))).html, encoding="utf-8")
    return path


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
    trained += [hostile_record(), record(900, benchmark="gpqa", question="SECRET?", answer="SECRET")]
    return report_of(
        write_run(folder / "seed", seed, planner="embedded:seed"),
        write_run(folder / "trained", trained, planner="embedded:trained", max_turns=3),
        write_run(folder / "longer", [record(n) for n in range(100)], planner="embedded:trained", max_turns=6),
    )


def opened(browser: Any, path: Path, **context: Any) -> Any:
    return seen(browser, path.as_uri(), offline=True, **context)


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Seen]:
    with opened(browser, report) as page:
        page.unfold()
        yield page


def test_it_shows_figures_differences_and_the_papers_table(page: Seen) -> None:
    assert page.page.locator(".about").inner_text().startswith("3 evaluations on Bamboogle, AIME24, GPQA: 322 traces.")
    assert "40.0" in page.page.locator(".cells tr", has_text="seed").first.inner_text()
    assert "trained is better than seed" in page.page.locator(".differences").inner_text()
    table = page.page.locator(".paper")
    assert "69.6" in table.locator("tr", has_text="Flow-GRPO").inner_text()
    assert "50.5" in table.locator("tr", has_text="SimpleTIR-7B").inner_text()
    expect(table.locator("p", has_text="Not comparable")).to_have_count(1)  # the others have none of these
    expect(table.locator("tr.ours")).to_have_count(3)
    page.has(2, ".budgets circle")
    assert "empty_result" in page.page.locator(".tool-use").inner_text()
    assert table.bounding_box()["x"] > 600  # beside the families: half of the page's width
    heads = page.page.locator(".cells thead th").all_inner_texts()
    assert ("undecided" in heads, "pass@k" in heads) == (True, False)
    assert page.page.locator(".paper thead tr").nth(1).locator("th").count() == 1 + 3  # what is here
    assert page.page.locator(".families tr.section").all_inner_texts() == ["Bamboogle"]
    rows = page.page.locator(".families tbody tr:not(.section)").all_inner_texts()
    assert (len(rows), "40.0" in rows[0]) == (2, True)


def test_questions_that_came_out_otherwise_are_a_click_away(page: Seen) -> None:
    assert page.page.get_by_role("link", name="questions lost").count() == 0
    page.click("link", "40 questions gained")
    page.shows(".filter.gained[aria-pressed=true]", "40 gained")
    page.has(40, ".pick")
    page.shows(".columns", "nothing")


def test_filters_alone_and_together(page: Seen) -> None:
    page.finds("322 traces")
    for name, value, found in table(__file__, "filters.txt"):
        page.choose(name, value)
        page.finds(found)
    page.choose("error", "")
    page.choose("tool", "")
    page.finds("1 trace,")
    assert page.page.url.endswith("#/report/0,1,2?outcome=failed")
    again = page.context.new_page()
    again.goto(page.page.url)
    expect(again.locator(".found")).to_contain_text("1 trace,")


def test_rows_are_ordered_and_come_in_pages(page: Seen) -> None:
    page.has(100, ".traces tbody tr")
    page.click("button", "turns")
    page.click("button", "turns")
    page.shows(".traces tbody tr", "Question 7?")
    page.click("button", "Last")
    page.shows(".pager", "301 – 322 of 322")


def test_text_is_found_in_turns_also_with_quotes_and_lines(page: Seen) -> None:
    for text, found in (
        ("NEEDLE in “quotes” and 2 < 3", "No trace matches."),
        ("needle in “quotes”", "1 trace,"),
        ("print(6 * 7)", "1 trace,"),
        ("decided_by", "No trace matches."),
    ):
        page.search(text)
        page.finds(found)


def test_a_trace_opens_and_leads_to_its_question_elsewhere(page: Seen) -> None:
    page.search("needle")
    page.finds("1 trace,")
    page.trace()
    page.press("ArrowRight", "ArrowRight")
    page.shows(".now", "empty_result")
    page.press(*["ArrowRight"] * 3)
    page.shows(".now", "needle in “quotes”\nand 2 < 3")
    page.press("ArrowRight")
    page.shows(".now", "the verdict")
    page.has(2, ".same li")
    page.page.locator(".same a").first.click()
    page.shows("#trail", "trained")
    page.click("link", "next trace")
    page.shows("h1", "Question 8?")


def test_flagged_traces_are_named_and_every_run_shows_its_settings(page: Seen) -> None:
    audits = page.page.locator(".audits")
    assert audits.locator("h3").all_inner_texts() == ["seed", "trained", "longer"]
    assert "question as query 1" in audits.locator("tr", has_text="1 of 100").first.inner_text()
    audits.locator(".made > summary").first.click()
    assert '"planner": "embedded:seed"' in audits.locator(".made").first.inner_text()
    audits.locator(".flagged > summary").first.click()
    audits.locator(".flagged a").first.click()
    page.shows("h1", "Question 8?")
    page.shows(".heading", "turn 2, google_search: question as query")


def test_what_a_model_wrote_stays_text(page: Seen) -> None:
    page.search("document.title")
    page.finds("1 trace,")
    page.trace()
    for _ in range(5):
        page.press("ArrowRight")
        page.has(0, NO_MARKUP)
    page.shows(".messages", "<script>")
    page.shows("h1", "</script><script>")
    assert page.page.evaluate("document.documentElement.scrollWidth") == 1200
    assert page.page.title().split(" · ")[0] == "Trace 100"


def test_gated_questions_are_not_in_it(page: Seen, report: Path) -> None:
    assert "SECRET" not in Report(report.read_text()).everything
    page.choose("benchmark", "gpqa")
    page.finds("1 trace,")
    page.trace()
    page.shows("main", "terms of this benchmark")
    page.page.go_back()
    page.search("secret")
    page.finds("No trace matches.")


def test_a_single_run_that_never_took_a_turn_is_a_report_too(browser: Any, tmp_path: Path) -> None:
    with opened(browser, report_of(write_run(tmp_path / "a", [record(0)]))) as page:
        page.has(0, ".difference, .budgets, .families, .tool-use")
        page.unfold()
        page.finds("1 trace, 1 correct")
        page.trace()
        page.shows(".now", "the analysis")


def test_a_frame_without_an_origin_shows_it(browser: Any, report: Path, tmp_path: Path) -> None:
    frame = tmp_path / "frame.html"
    frame.write_text(f'<iframe sandbox="allow-scripts" src="{report.as_uri()}" width="900" height="900"></iframe>')
    page = browser.new_context().new_page()
    page.goto(frame.as_uri())
    expect(page.frame_locator("iframe").locator(".differences li").first).to_contain_text("40.0 %")
    page.context.close()


def test_a_training_is_a_report_too(browser: Any, tmp_path: Path) -> None:
    with opened(browser, write_report(write_training(tmp_path / "training", [], question=HOSTILE))) as page:
        page.shows("figure", "Reward and held-out accuracy")
        assert page.page.locator("figure").nth(1).bounding_box()["x"] > 600  # the next beside it
        page.shows("section[aria-label='Before and after']", "Step 0: 25.0 % right")
        page.unfold()
        page.finds("12 traces, 7 correct")
        page.click("button", "Show the trajectories")
        page.click("link", "its tokens")
        page.shows("h1", HOSTILE)
        page.has(20, ".t")
        page.has(0, NO_MARKUP)
