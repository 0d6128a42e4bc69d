"""Replies of the server, and requests that it refuses."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from agentflow.graph.run.recorder import Message, RunCalls, Span
from agentflow.graph.run.trace import Trace, append
from agentflow.graph.state import Verdict
from agentflow.rl.rollout.rollout import RolloutStatus
from agentflow.rl.run.training_log import TrainingLog
from agentflow.view.app import build_app
from agentflow.view.guard import POLICY
from tests.cases import table
from tests.runs import record, turn, write_run
from tests.trainings import begin, credited, rollout, token_step, write_step, write_validation
from tests.unit.view.test_run_index import index

HOSTILE = "\u202eевил\x00 <b>"
SPAN = Span(kind="module", name="planner", module="planner", turn=1, start=0.1, seconds=0.4)


class Client:
    """Asks the application without a socket."""

    def __init__(self, *roots: Path) -> None:
        self.index = index(*roots)
        self.app = build_app(self.index)

    def ask(self, path: str, method: str = "GET", **options: Any) -> httpx.Response:
        async def go() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8000") as client:
                return await client.request(method, path, **options)

        return asyncio.run(go())

    def get(self, path: str, **parameters: Any) -> Any:
        reply = self.ask(f"{path}?{urlencode(parameters)}")
        assert reply.status_code == 200, reply.text
        return reply.json()

    def id(self, name: str) -> str:
        return next(source.id for source in self.index.sources.values() if source.name == name)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Client:
    folder = tmp_path_factory.mktemp("runs")
    searched = turn(
        1, "wikipedia_search", output="a needle “in” the hay", verdict=Verdict(analysis="on", signal="continue")
    )
    both = [searched, turn(2, plan="Sub-Goal: s\nTool: python_coder\nContext: c")]
    seed = [
        record(n, correct=n < 2, family="easy" if n % 2 else "hard", turns=both if n == 1 else []) for n in range(5)
    ]
    write_run(folder / "seed", seed, planner="embedded:seed", max_turns=4)
    write_run(folder / "trained", [record(n, correct=n > 0, error="down" if n == 4 else "") for n in range(5)])
    append(folder / "first.jsonl", Trace(**record(0, question=HOSTILE).own_fields))
    out = begin(folder / "training", 4, algorithm={"name": "flow-grpo", "penalty": 0.3})
    for step in (0, 2):
        write_validation(out, step, [rollout(step, "test", task, float(step > 0)) for task in ("a", "b")])
    rewards = enumerate((1.0, 0.0, 0.0, 1.0))
    rollouts = [rollout(1, "train", "c", reward, turns=both, id=f"r{number}") for number, reward in rewards]
    rollouts[0] = rollouts[0].model_copy(update={"spans": [SPAN]})
    write_step(out, 1, credited(rollouts))
    TrainingLog(out).tokens(token_step(1, "c", rollouts[:2]))
    return Client(folder)


def test_all_runs_are_listed_with_what_they_came_to(client: Client) -> None:
    found = {one["name"]: one for one in client.get("/api/sources")["sources"]}
    assert set(found) == {"seed", "trained", "first.jsonl", "training"}
    assert (found["seed"]["accuracy"], found["seed"]["planner"]) == (0.4, "embedded:seed")
    assert (found["training"]["step"], found["training"]["accuracies"]) == (1, [0.0, 1.0])
    page = client.get(f"/api/sources/{client.id('seed')}/traces", family="easy")
    assert (page["all"], page["number"], page["correct"]) == (5, 2, 1)


@pytest.mark.parametrize(("name", "asked", "ids"), table(__file__, "traces.txt"))
def test_traces_are_filtered_searched_ordered_and_cut_into_pages(
    client: Client, name: str, asked: dict[str, Any], ids: list[str]
) -> None:
    """Texts are found as they were written; names of fields are no text."""
    page = client.get(f"/api/sources/{client.id(name)}/traces", **asked)
    assert [row["id"] for row in page["rows"]] == ids


def test_evaluations_are_reported_together(client: Client) -> None:
    both = f"{client.id('seed')},{client.id('trained')}"
    found = client.get(f"/api/reports/{both}")
    assert [run["id"] for run in found["runs"]] == both.split(",")
    assert [cell["accuracy"] for cell in found["cells"]] == [0.4, 0.6]
    [difference] = found["differences"]
    assert (difference["gained"], difference["lost"]) == (2, 1)
    assert dict(found["choices"]["outcome"]) == {"correct": 5, "incorrect": 4, "failed": 1}
    rows = client.get(f"/api/sources/{both}/traces", outcome="correct", down="true")["rows"]
    assert [row["source"] for row in rows] == [client.id("trained")] * 3 + [client.id("seed")] * 2


def test_a_trace_has_the_memory_that_its_planner_read(client: Client) -> None:
    found = client.get(f"/api/sources/{client.id('seed')}/traces/1")
    roles, texts = zip(*found["memory"], strict=True)
    assert roles == ("user", "planner", "user", "planner", "user")
    assert texts[0].endswith("Turns left: 4")
    assert texts[3] == "Sub-Goal: s\nTool: python_coder\nContext: c"
    assert (found["previous"], found["next"]) == ("0", "2")
    assert {one["from"] for one in found["same"]} == {"trained"}


def test_a_rollout_has_the_times_of_its_modules(client: Client) -> None:
    traces = f"/api/sources/{client.id('training')}/traces"
    assert client.get(f"{traces}/1-train-0")["calls"] == {"spans": [SPAN.model_dump()], "messages": []}
    assert client.get(f"{traces}/1-train-1")["calls"] is None


def test_a_trace_has_its_calls_as_soon_as_they_are_written(tmp_path: Path) -> None:
    message = Message(role="user", text="Why? " * 3)
    span = SPAN.model_copy(update={"kind": "model_call", "prompt": [0], "replies": [0]})
    calls = RunCalls(spans=[span], messages=[message])
    write_run(tmp_path / "run", [record(0)], questions=2)
    client = Client(tmp_path)
    append(tmp_path / "run" / "traces.jsonl", record(1).model_copy(update={"calls_made": calls}))
    client.index.refresh()
    traces = f"/api/sources/{client.id('run')}/traces"
    assert [client.get(f"{traces}/{number}")["calls"] for number in "01"] == [None, calls.model_dump()]
    assert client.get(traces, text="why?")["number"] == 0


def test_groups_and_the_same_questions_before_and_after(client: Client) -> None:
    training, seed, trained = client.id("training"), client.id("seed"), client.id("trained")
    [group] = client.get(f"/api/sources/{training}/steps/1")["groups"]
    assert [one["advantage"] for one in group["trajectories"]] == pytest.approx(
        [0.866, -0.866, -0.866, 0.866], abs=1e-3
    )
    found = client.get("/api/pairs", before=training, before_step=0, after=training)
    assert (found["counts"]["gained"], found["before"]["step"], found["after"]["step"]) == (2, 0, 2)
    counts = client.get("/api/pairs", before=seed, after=trained)["counts"]
    assert counts == {"gained": 2, "lost": 1, "wrong": 1, "right": 1}
    assert client.get("/api/pairs", before=seed, after=trained, benchmark="aime24")["number"] == 0
    assert client.get(f"/api/sources/{training}")["matrix"]["rows"][0]["shares"] == [0.0, 1.0]


def test_a_lost_try_is_no_answer_in_the_table_of_questions(tmp_path: Path) -> None:
    out, late = begin(tmp_path / "busy", 3), RolloutStatus.TIMED_OUT
    tries = [("a", 1.0, RolloutStatus.OK), ("a", 0.0, late), ("b", 0.0, late), ("c", 0.0, RolloutStatus.POLICY_FAILED)]
    write_validation(out, 0, [rollout(0, "test", task, reward, status=status) for task, reward, status in tries])
    client = Client(tmp_path)
    rows = client.get(f"/api/sources/{client.id('busy')}")["matrix"]["rows"]
    assert [row["shares"] for row in rows] == [[1.0], [None], [0.0]]


def test_the_tokens_of_a_group_stand_beside_its_traces(client: Client) -> None:
    step = f"/api/sources/{client.id('training')}/steps/1"
    assert [group["tokens"] for group in client.get(step)["groups"]] == [0]
    found = client.get(f"{step}/tokens/0")
    assert found["question"] == "What is c?"
    assert [one["trace"]["id"] for one in found["trajectories"]] == ["1-train-0", "1-train-1"]
    broken = found["trajectories"][0]["rows"][1]
    assert broken["why"].startswith("A reply tokenises differently")
    given, written = broken["parts"]
    assert (len(given["tokens"]), given["tokens"][0]) == (62, [1, "<|im_start|>"])
    assert (written["start"], written["node"], written["advantage"], written["level"]) == (62, "planner", 0.866, 3)
    id, text, trained, rollout, trainer, updated, drift, ratio, clipped, ratio_level, drift_level = written["tokens"][2]
    assert (id, text, trained, rollout, trainer, updated) == (5, ": sum", True, -1.5, -1.45, -1.0)
    assert (drift, ratio, clipped, ratio_level, drift_level) == (0.05, pytest.approx(1.6487, abs=1e-4), True, 3, 2)


def test_links_are_not_followed_into_a_report_or_to_tokens(client: Client, tmp_path: Path) -> None:
    seed, kept = (client.index.sources[client.id(name)].path for name in ("seed", "training"))
    traces = write_run(tmp_path / "run", [record(0)]) / "traces.jsonl"
    traces.unlink()
    traces.symlink_to(seed / "traces.jsonl")
    out = begin(tmp_path / "other", 1)
    write_step(out, 1, [rollout(1, "train", "c", 1.0)])
    (out / "tokens").mkdir()
    (out / "tokens" / "000001.jsonl.gz").symlink_to(kept / "tokens" / "000001.jsonl.gz")
    other = Client(tmp_path)
    path = f"/api/sources/{other.id('other')}/steps/1"
    assert other.get(path)["groups"][0]["tokens"] is None
    for asked in (f"{path}/tokens/0", f"/api/reports/{other.id('run')}"):
        assert other.ask(asked).status_code == 404


def test_text_that_is_no_unicode_can_be_sent(client: Client) -> None:
    assert client.get(f"/api/sources/{client.id('first.jsonl')}/traces/0")["question"] == HOSTILE


def test_only_this_machine_is_answered(client: Client) -> None:
    """Another name for it is refused."""
    refused = ("evil.example", "127.0.0.1.evil.example", "evil.example:8000", "", "[::1", "10.0.0.1")
    answered = ("127.0.0.1:1", "localhost:8000", "[::1]:9", "LOCALHOST")
    expected = {**dict.fromkeys(refused, 400), **dict.fromkeys(answered, 200)}
    assert {host: client.ask("/", headers={"Host": host}).status_code for host in expected} == expected


@pytest.mark.parametrize(("path", "status"), table(__file__, "addresses.txt"))
def test_an_address_is_never_a_path_and_what_cannot_be_meant_is_refused(client: Client, path: str, status: int) -> None:
    asked = path.format(seed=client.id("seed"), training=client.id("training"))
    assert client.ask(asked).status_code == status


def test_there_is_nothing_to_change(client: Client) -> None:
    methods = ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"]
    assert [client.ask("/api/sources", method).status_code for method in methods] == [405] * 5


def test_every_answer_has_the_policy_and_no_page_has_an_inline_script(client: Client) -> None:
    for path in ("/", "/static/main.js", "/api/sources", "/nothing"):
        headers = client.ask(path).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
    page = client.ask("/").text
    assert "unsafe" not in POLICY
    assert page.count("<script") == page.count("<script src=") == 1
    assert "style=" not in page
    assert client.ask("/static/main.js").headers["content-type"].startswith("text/javascript")


def test_a_trace_that_was_written_anew_is_gone(tmp_path: Path) -> None:
    append(tmp_path / "first.jsonl", Trace(**record(0).own_fields))
    client = Client(tmp_path)
    (tmp_path / "first.jsonl").write_text("{}\n")
    assert client.ask(f"/api/sources/{client.id('first.jsonl')}/traces/0").status_code == 404
