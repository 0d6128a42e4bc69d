"""A page in a headless Chromium, and what is on it: a training, and what a hostile model wrote."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from playwright import sync_api

from agentflow.evals.record import Record
from agentflow.graph.run.trace import TraceTurn
from agentflow.graph.state import Verdict
from agentflow.rl.run.training_log import TrainingLog
from tests.runs import record, turn
from tests.trainings import begin, credited, rollout, token_step, write_step, write_validation

expect = sync_api.expect
WAIT = 60_000
"""Milliseconds, as a last resort."""
expect.set_options(timeout=WAIT)

HOSTILE = (
    '"></script><script>document.title="taken"</script><b>bold</b>'
    '<img src=http://127.0.0.1:9/x onerror=document.title="taken">\u202egnp.exe ' + "x" * 300
)
NO_MARKUP = "main img, main script, main b:text-is('bold')"
"""What there would be, if what a model wrote became a part of the page."""
CONTRAST = Path(__file__).with_name("contrast.js").read_text()
"""Finds the texts whose contrast with what is behind them is below WCAG's level AA."""

AXE = Path(str(files("axe_playwright_python") / "axe.min.js")).read_text() if find_spec("axe_playwright_python") else ""
"""axe-core, which looks for what people who cannot see or point meet; "" where it is not installed."""
SERIOUS = (
    "async () => (await axe.run()).violations.filter((one) => ['serious', 'critical'].includes(one.impact))"
    ".map((one) => [one.id, one.nodes[0].html])"
)


class Seen:
    """An open page."""

    def __init__(self, context: sync_api.BrowserContext, url: str) -> None:
        self.context, self.url, self.page = context, url, context.new_page()
        self.said: list[str] = []
        """What it wrote to the console, and what it asked for elsewhere."""
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda one: one.url.startswith((url, "data:image/svg")) or self.said.append(one.url))

    def ready(self) -> None:
        self.page.wait_for_selector("body[data-ready=yes]")

    def go(self, address: str) -> None:
        self.page.goto(self.url + address)
        self.ready()

    def run(self, name: str) -> None:
        """Open the run of that name, from the viewer's first page."""
        self.go("/#/")
        self.click("link", name, exact=True)
        self.page.wait_for_url(re.compile("#/run/"))
        self.ready()

    def trace(self, number: int = 0) -> None:
        """Open a trace of the list."""
        self.page.locator(".traces a.open").nth(number).click()
        expect(self.page.locator(".ways-between")).to_have_count(1)
        self.ready()

    def click(self, role: Any, name: str, **how: Any) -> None:
        self.page.get_by_role(role, name=name, **how).first.click()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def choose(self, name: str, value: str) -> None:
        self.page.locator(f"select[name={name}]").select_option(value)

    def unfold(self) -> None:
        """Open the list of traces where it is folded."""
        self.page.locator(".all-traces > summary").click()

    def search(self, text: str) -> None:
        self.page.locator("input[name=text]").fill(text)
        self.press("Enter")

    def shows(self, selector: str, *texts: str | re.Pattern[str]) -> None:
        for text in texts:
            expect(self.page.locator(selector).first).to_contain_text(text)

    def finds(self, start: str) -> None:
        """Wait until the line above the list begins so."""
        expect(self.page.locator(".found")).to_have_text(re.compile(f"^{re.escape(start)}"))

    def has(self, number: int, selector: str) -> None:
        expect(self.page.locator(selector)).to_have_count(number)


@contextmanager
def seen(browser: sync_api.Browser, url: str, address: str = "", **context: Any) -> Iterator[Seen]:
    """Open a page, which must write nothing to the console and ask for nothing from elsewhere."""
    opened = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **context})
    opened.set_default_timeout(WAIT)
    page = Seen(opened, url)
    page.go(address)
    yield page
    assert page.said == []
    opened.close()


def hostile_record() -> Record:
    texts = dict.fromkeys(("sub_goal", "context", "tool", "output", "plan"), HOSTILE)
    one = turn(arguments={HOSTILE: HOSTILE}, verdict=Verdict(analysis=HOSTILE, signal="stop"), **texts)
    return record(500, question=HOSTILE, gold=HOSTILE, answer=HOSTILE, family=HOSTILE, turns=[one])


def write_training(folder: Path, turns: list[TraceTurn], question: str = "") -> Path:
    """A training of two steps, with a validation before and after, and the tokens of its group."""
    out = begin(folder, 3, algorithm={"name": "flow-grpo", "penalty": 0.3})
    for step in (0, 2):
        tried = [rollout(step, "test", f"t{n}", float(step > 0 or n == 0), turns=turns) for n in range(4)]
        write_validation(out, step, tried)
    for step in (1, 2):
        rewards = enumerate((1.0, 0.0, 0.0, 1.0))
        made = [rollout(step, "train", "g", one, turns=turns, question=question, id=f"r{n}") for n, one in rewards]
        write_step(out, step, credited(made))
        TrainingLog(out).tokens(token_step(step, "g", made, hostile=HOSTILE))
    return out
