from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jinja2")

from agentflow.evals.task import Task
from agentflow.evals.trace import append
from agentflow.rl.report import write_report
from agentflow.rl.rollout import RolloutRecord, RolloutStatus
from agentflow.rl.training_log import TrainingLog
from tests.trainings import begin, rollout, token_step, write_step

HOSTILE = "</p><script>alert(1)</script><img src=x onerror=alert(2)>"

SETTINGS: dict[str, Any] = {
    "preset": "atlas-cpu",
    "app": "agentflow.rl.planner:atlas",
    "steps": 2,
    "questions": 1,
    "rollouts": 2,
    "seed": 0,
    "validation_temperature": 1.0,
}


class Page(HTMLParser):
    """Return the text that a browser would show."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def run(out: Path, validations: int) -> None:
    log = TrainingLog(out)
    log.rewind(0)
    for step in range(validations):
        for number in range(3):
            record = RolloutRecord(
                id=f"test-{number}/0",
                step=step,
                split="test",
                task=Task(id=f"test-{number}", question=f"{HOSTILE} {number}", gold="2", family="sums"),
                outcome=RolloutStatus.OK,
                reward=float(step > 0),
                calls=[],
                answer=HOSTILE,
                status="answered",
            )
            append(log.rollouts / f"{step:06d}-test.jsonl", record)
        log.validation(step)
        log.step(step + 1, {"reward": 0.25 * step, "rollouts": 3, "actor/kl": 0.01}, {"step": 1.0})


def test_curves_and_the_same_questions_before_and_after(tmp_path: Path) -> None:
    run(tmp_path, 3)
    page = Page(write_report(tmp_path, SETTINGS).read_text())
    assert "Held-out accuracy 0.000 before, 1.000 after" in page.text
    titles = [attrs["aria-label"] for tag, attrs in page.tags if tag == "svg"]
    assert "Reward and accuracy by step" in titles
    lines = [attrs["points"] for tag, attrs in page.tags if tag == "polyline"]
    assert all(len(str(points).split()) == 3 for points in lines)
    assert page.text.count("before:") == page.text.count("after:") == 3


def test_what_the_model_wrote_is_text(tmp_path: Path) -> None:
    run(tmp_path, 2)
    page = Page(write_report(tmp_path, SETTINGS).read_text())
    assert {tag for tag, _ in page.tags} & {"script", "img", "iframe", "object", "link"} == set()
    assert not [attrs for _, attrs in page.tags if any(name.startswith("on") or name == "src" for name in attrs)]
    assert HOSTILE in page.text


def test_the_tokens_of_a_group_of_the_last_step(tmp_path: Path) -> None:
    rollouts = [rollout(2, "train", "a", reward, id=f"r{reward}", question=HOSTILE) for reward in (1.0, 0.0)]
    write_step(begin(tmp_path, 2), 2, rollouts)
    for step in (1, 2):
        TrainingLog(tmp_path).tokens(token_step(step, "a", rollouts, hostile=HOSTILE))
    page = Page(write_report(tmp_path, SETTINGS).read_text())
    assert "Tokens of a group, step 2" in page.text
    assert "The prefix broke. A reply tokenises differently" in page.text
    tokens = [attrs for tag, attrs in page.tags if attrs.get("class") in ("t", "t clipped")]
    assert len(tokens) == 12
    assert {(one["data-a"], one["data-r"], one["data-d"]) for one in tokens} >= {("3", "3", "2"), ("-3", "-3", "-3")}
    assert "advantage +0.87, ratio 1.1052, drift -0.002000" in str(tokens[1]["title"])
    assert {tag for tag, _ in page.tags} & {"script", "img"} == set()
    assert page.text.count(HOSTILE) == 8, (
        "the question, the token thrice in text and in numbers, and why the prefix broke"
    )


@pytest.mark.parametrize("validations", [0, 1])
def test_a_run_that_has_just_begun_has_a_report_too(tmp_path: Path, validations: int) -> None:
    run(tmp_path, validations)
    assert "before, " not in Page(write_report(tmp_path, SETTINGS).read_text()).text
