"""The search for prompts on a scripted endpoint, where one sentence in one prompt makes every answer right."""

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("gepa")

from agentflow.graph.agent import graph as agentflow
from agentflow.graph.context import Context
from agentflow.graph.run.cost import Budget, Price
from agentflow.graph.run.task import Task
from agentflow.graph.studio_config import StudioConfig
from agentflow.nodes import generator, planner
from agentflow.rl.planner import trace
from agentflow.rl.prompts.errors import PromptsError, SearchInterrupted
from agentflow.rl.prompts.feedback import NOT_REACHED
from agentflow.rl.prompts.folder import GEPA, REFLECTIONS, ROLLOUTS, STATE, PromptRollout, Reflection, check_state
from agentflow.rl.prompts.search import Progress, Request, search
from agentflow.rl.trainable import Trainable
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, Reply
from tests.prompted import PROMPT, REFLECTED, SENTENCE, app, reward, script


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(script) as started:
        yield started


def spec(server: FakeOpenAI) -> str:
    return f"openai-compatible:fake-model@{server.base_url}"


def request(server: FakeOpenAI, out: Path, trained: Trainable | None = None, **fields: Any) -> Request:
    known = {"nodes": ["answer"], "limit": 8, "held_out": 4, "rollouts": 60, **fields}
    return Request(app=trained or app(server.base_url), reflection=spec(server), out=out, **known)


def own_app(server: FakeOpenAI, score: Callable[[Task, Any], float] | None = None, **fields: Any) -> Trainable:
    context = Context(model=spec(server), **fields)
    scored = score or (lambda task, state: float(state["answer"] == task.gold))
    return replace(
        app(server.base_url), name="own", graph=agentflow, reward=scored, context=lambda: context, trace=trace
    )


def rollouts(out: Path) -> list[PromptRollout]:
    return [PromptRollout.model_validate_json(line) for line in (out / ROLLOUTS).read_text().splitlines()]


def reflections(out: Path) -> list[Reflection]:
    return [Reflection.model_validate_json(line) for line in (out / REFLECTIONS).read_text().splitlines()]


def test_the_prompt_of_a_graphs_node_evolves(server: FakeOpenAI, tmp_path: Path) -> None:
    seen: list[Progress] = []
    found = search(request(server, tmp_path, nodes=[]), lambda progress: seen.append(replace(progress)))
    assert found.default == {"look": "You look.", "answer": PROMPT}, "a prompt that changes is no candidate"
    assert found.changed["answer"] == f"{PROMPT}\n{SENTENCE}"
    assert found.held_out.before == 0.25
    assert found.held_out.after == 1.0
    assert found.held_out.low < found.held_out.high <= 1.0
    assert (seen[-1].default, seen[-1].best) == (0.0, 1.0)
    assert json.loads((tmp_path / "prompts.json").read_text())["prompts"]["answer"] == found.best["answer"]
    assert f"+{SENTENCE}" in (tmp_path / "prompts.diff").read_text().splitlines()


def test_the_prompt_of_a_module_of_ours_evolves(server: FakeOpenAI, tmp_path: Path) -> None:
    """The result is a context, for the command line and for Studio; a prompt that was set before is kept."""
    own = f"{planner.PROMPT}\nMine."
    found = search(request(server, tmp_path, own_app(server, prompts={"planner": own}), nodes=["generator"]))
    assert found.held_out.after == 1.0
    content = json.loads((tmp_path / "context.json").read_text())
    evolved = {"planner": own, "generator": f"{generator.PROMPT}\n{SENTENCE}"}
    assert Context.model_validate(content).prompts == evolved
    assert StudioConfig.model_validate(content).prompts == evolved
    systems = {body["messages"][0]["content"] for body in server.bodies}
    assert not any(system.startswith("You are the planner") and "Mine." not in system for system in systems)


def test_a_module_that_no_run_reaches_is_still_improved(server: FakeOpenAI, tmp_path: Path) -> None:
    """DSPy's issue 8674: a module without a trace made the optimizer crash, or was left out for ever."""

    def unreadable(body: dict[str, Any]) -> Reply:
        return "no plan" if body["messages"][0]["content"].startswith("You are the planner") else script(body)

    server.script = unreadable
    scored = own_app(server, lambda task, state: float(int(task.gold) % 4 == 3))
    search(request(server, tmp_path, scored, nodes=["executor"], rollouts=30))
    asked = [text for body in server.bodies if (text := body["messages"][0]["content"]).startswith(REFLECTED)]
    assert asked
    assert all(NOT_REACHED in text and "no plan" in text for text in asked)
    assert {one.node for one in reflections(tmp_path)} == {"executor"}
    assert len({one.candidate for one in rollouts(tmp_path) if one.phase == "search"}) > 1


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_prompt_without_its_placeholder_is_never_run(server: FakeOpenAI, tmp_path: Path, stubborn: bool) -> None:
    def careless(body: dict[str, Any]) -> Reply:
        if not body["messages"][0]["content"].startswith(REFLECTED):
            return script(body)
        placeholder = "" if stubborn or len(body["messages"]) == 1 else "{tools}"
        return f"```\nYou are the planner, and plan. {placeholder}\n```"

    server.script = careless
    found = search(request(server, tmp_path, own_app(server), nodes=["planner"], rollouts=24))
    written = reflections(tmp_path)
    assert found.refused == sum(bool(one.refused) for one in written) > 0
    assert all("{tools}" in one.refused for one in written if "{tools}" not in one.text)
    asked = [body["messages"][0]["content"] for body in server.bodies]
    ran = [text for text in asked if text.startswith("You are the planner, and plan.")]
    assert bool(ran) is not stubborn
    assert all("base_generator" in text for text in ran), "the placeholder was filled"


def test_rollouts_stay_within_their_budget(server: FakeOpenAI, tmp_path: Path) -> None:
    server.script = lambda body: "```\nWorse.\n```" if _reflects(body) else script(body)
    found = search(request(server, tmp_path, rollouts=40))
    assert len(rollouts(tmp_path)) == found.progress.rollouts <= 40
    assert not found.changed
    assert found.held_out.before == found.held_out.after


def test_dollars_stay_within_their_budget_also_when_resumed(server: FakeOpenAI, tmp_path: Path) -> None:
    server.script = lambda body: "```\nWorse.\n```" if _reflects(body) else script(body)
    prices = {"fake-model": Price(1_000_000, 1_000_000)}  # a call costs two dollars
    asked = request(server, tmp_path, rollouts=1000, budget=Budget(dollars=160, prices=prices))
    found = search(asked)
    counted = [body for body in server.bodies if not body.get("stream")]  # this server counts no streamed tokens
    assert found.progress.dollars == 2 * len(counted) <= 160
    number = len(server.requests)
    assert search(asked).progress.dollars == found.progress.dollars
    assert len(server.requests) == number
    unpriced = search(request(server, tmp_path / "other", rollouts=25, budget=Budget(dollars=1)))
    assert unpriced.unpriced == {"fake-model"}


def test_an_interrupted_search_resumes(server: FakeOpenAI, tmp_path: Path) -> None:
    """The rollouts that were recorded are not run again, and the failures of the endpoint are no rewards."""

    def fails_once_reflected(body: dict[str, Any]) -> Reply:
        if any(_reflects(earlier) for earlier in server.bodies[:-1]) and SENTENCE in body["messages"][0]["content"]:
            return 403, {"error": {"message": "not now"}}
        return script(body)

    server.script = fails_once_reflected
    with fails(SearchInterrupted, "no_answer"):
        search(request(server, tmp_path))
    server.script = script
    found = search(request(server, tmp_path))
    assert found.held_out.after == 1.0
    validated = [
        (one.candidate, one.task.id) for one in rollouts(tmp_path) if one.phase == "search" and one.outcome == "ok"
    ]
    validation = {task.id for task in app(server.base_url).tasks("train", 8)[1::2]}
    unique = [key for key in validated if key[1] in validation]
    assert len(unique) == len(set(unique)) == 8, "four tasks, with the first and with the best prompt"
    assert check_state(tmp_path / GEPA / STATE)["program_candidates"][-1] == found.best


def test_a_reflection_model_that_fails_ends_the_search(server: FakeOpenAI, tmp_path: Path) -> None:
    server.script = lambda body: (400, {"error": {"message": "no"}}) if _reflects(body) else script(body)
    with fails(SearchInterrupted, "no_reflection"):
        search(request(server, tmp_path))


class _Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("harmed"),)


def test_a_state_that_would_run_a_program_is_not_read(
    server: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    search(request(server, tmp_path / "out"))
    (tmp_path / "out" / GEPA / STATE).write_bytes(pickle.dumps({"i": _Harmful()}))
    with fails(PromptsError, "unsafe_state", STATE):
        search(request(server, tmp_path / "out"))
    assert not Path("harmed").exists()


def test_a_folder_of_another_search_is_refused(server: FakeOpenAI, tmp_path: Path) -> None:
    search(request(server, tmp_path))
    with fails(PromptsError, "other_search", "nodes"):
        search(request(server, tmp_path, nodes=["look"]))


@pytest.mark.parametrize(
    ("fields", "score", "code"),
    [
        ({"nodes": ["anser"]}, reward, "unknown_node"),
        ({"nodes": ["dated"]}, reward, "unknown_node"),
        ({"limit": 1}, reward, "too_few_tasks"),
        ({"held_out": 0}, reward, "too_few_tasks"),
        ({"rollouts": 10}, reward, "too_few_rollouts"),
        ({}, lambda task, state: 1.0, "constant_reward"),
        ({}, lambda task, state: 0.0, "constant_reward"),
        ({}, lambda task, state: None, "no_reward"),
        ({}, lambda task, state: 7.0, "bad_reward"),
        ({}, lambda task, state: 1 / 0, "no_reward"),
    ],
)
def test_what_cannot_be_searched(
    server: FakeOpenAI, tmp_path: Path, fields: dict[str, Any], score: Any, code: str
) -> None:
    with fails(PromptsError, code):
        search(request(server, tmp_path, app(server.base_url, score), **{"rollouts": 200, **fields}))


def _reflects(body: dict[str, Any]) -> bool:
    return bool(body["messages"][0]["content"].startswith(REFLECTED))
