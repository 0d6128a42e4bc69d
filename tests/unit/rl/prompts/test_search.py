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
from agentflow.graph.run.task import Task
from agentflow.graph.studio_config import StudioConfig
from agentflow.nodes import generator, planner
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.prompts import PromptsError, SearchInterrupted
from agentflow.rl.prompts.feedback import NOT_REACHED, PromptRollout
from agentflow.rl.prompts.search import GEPA, ROLLOUTS, STATE, Search
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, Reply
from tests.prompted import PROMPT, REFLECTED, SENTENCE, app, reward, script


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(script) as started:
        yield started


def spec(server: FakeOpenAI) -> str:
    return f"openai-compatible:fake-model@{server.base_url}"


def search(server: FakeOpenAI, out: Path, trained: Trainable | None = None, **fields: Any) -> Search:
    known = {"nodes": ["answer"], "limit": 8, "held_out": 4, "most": 60, **fields}
    return Search(app=trained or app(server.base_url), reflection=spec(server), out=out, **known)


def own_app(server: FakeOpenAI, score: Callable[[Task, Any], float] | None = None, **fields: Any) -> Trainable:
    context = Context(model=spec(server), **fields)
    scored = score or (lambda task, state: float(state["answer"] == task.gold))
    return replace(app(server.base_url), name="own", graph=agentflow, reward=scored, context=lambda: context)


def reflections(server: FakeOpenAI) -> list[str]:
    return [body["messages"][0]["content"] for body in server.bodies if _reflects(body)]


def rollouts(out: Path) -> list[PromptRollout]:
    return [PromptRollout.model_validate_json(line) for line in (out / ROLLOUTS).read_text().splitlines()]


def _reflects(body: dict[str, Any]) -> bool:
    return bool(body["messages"][0]["content"].startswith(REFLECTED))


def test_the_prompt_of_a_graphs_node_evolves(server: FakeOpenAI, tmp_path: Path) -> None:
    seen: list[str] = []
    asked = search(server, tmp_path, nodes=[], on_progress=seen.append)
    changed, held_out = asked.run()
    assert asked.target.defaults == {"look": "You look.", "answer": PROMPT}, "a prompt that changes is no candidate"
    assert changed["answer"] == (PROMPT, f"{PROMPT}\n{SENTENCE}")
    assert (held_out.before, held_out.after) == (0.25, 1.0)
    assert held_out.low < held_out.high <= 1.0
    assert "0.000" in seen[0]
    assert "1.000" in seen[-1]
    assert json.loads((tmp_path / "prompts.json").read_text())["prompts"]["answer"] == changed["answer"][1]


def test_the_prompt_of_a_module_of_ours_evolves(server: FakeOpenAI, tmp_path: Path) -> None:
    """The result is a context, for the command line and for Studio; a prompt that was set before is kept."""
    own = f"{planner.PROMPT}\nMine."
    _, held_out = search(server, tmp_path, own_app(server, prompts={"planner": own}), nodes=["generator"]).run()
    assert held_out.after == 1.0
    content = json.loads((tmp_path / "context.json").read_text())
    evolved = {"planner": own, "generator": f"{generator.LEAN}\n{SENTENCE}"}
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
    search(server, tmp_path, scored, nodes=["executor"], most=30).run()
    asked = reflections(server)
    assert asked
    assert all(NOT_REACHED in text and "no plan" in text for text in asked)
    assert len({one.candidate for one in rollouts(tmp_path)}) > 2, "the default prompts, theirs by name, and another"


@pytest.mark.parametrize("placeholder", ["", "{tools}"])
def test_a_prompt_without_its_placeholder_is_never_run(server: FakeOpenAI, tmp_path: Path, placeholder: str) -> None:
    new = f"You are the planner, and plan. {placeholder}"
    server.script = lambda body: f"```\n{new}\n```" if _reflects(body) else script(body)
    search(server, tmp_path, own_app(server), nodes=["planner"], most=24).run()
    assert all("letter for letter: {tools}" in text for text in reflections(server))
    asked = [body["messages"][0]["content"] for body in server.bodies]
    ran = [text for text in asked if text.startswith("You are the planner, and plan.")]
    assert bool(ran) is bool(placeholder)
    assert all("base_generator" in text for text in ran), "the placeholder was filled"


def test_rollouts_stay_within_their_budget_and_none_is_better(server: FakeOpenAI, tmp_path: Path) -> None:
    server.script = lambda body: "```\nWorse.\n```" if _reflects(body) else script(body)
    changed, held_out = search(server, tmp_path, most=40).run()
    assert 30 < len(rollouts(tmp_path)) <= 40
    assert not changed
    assert held_out.before == held_out.after
    number = len(server.requests)
    search(server, tmp_path, most=40).run()
    assert len(server.requests) == number, "an ended search runs nothing more"


def test_an_interrupted_search_resumes(server: FakeOpenAI, tmp_path: Path) -> None:
    """The rollouts that were recorded are not run again, and the failures of the endpoint are no rewards."""

    def fails_once_reflected(body: dict[str, Any]) -> Reply:
        if any(_reflects(earlier) for earlier in server.bodies[:-1]) and SENTENCE in body["messages"][0]["content"]:
            return 403, {"error": {"message": "not now"}}
        return script(body)

    server.script = fails_once_reflected
    with fails(SearchInterrupted, "no_answer"):
        search(server, tmp_path).run()
    server.script = script
    changed, held_out = search(server, tmp_path).run()
    assert held_out.after == 1.0
    assert list(changed) == ["answer"]
    validation = {task.id for task in app(server.base_url).tasks("train", 8)[1::2]}
    validated = [(one.candidate, one.task.id) for one in rollouts(tmp_path) if one.task.id in validation]
    assert len(validated) == len(set(validated)) == 8, "four tasks, with the first and with the best prompt"


def test_a_reflection_model_that_fails_ends_the_search(server: FakeOpenAI, tmp_path: Path) -> None:
    server.script = lambda body: (400, {"error": {"message": "no"}}) if _reflects(body) else script(body)
    with fails(SearchInterrupted, "no_reflection"):
        search(server, tmp_path).run()


class _Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("harmed"),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_state_that_would_run_a_program_is_not_read(
    server: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out" / GEPA).mkdir(parents=True)
    (tmp_path / "out" / GEPA / STATE).write_bytes(pickle.dumps({"i": _Harmful()}, protocol))
    with fails(PromptsError, "unsafe_state", STATE):
        search(server, tmp_path / "out").run()
    assert not Path("harmed").exists()


def test_a_folder_of_another_search_is_refused(server: FakeOpenAI, tmp_path: Path) -> None:
    search(server, tmp_path).run()
    with fails(PromptsError, "other_search"):
        search(server, tmp_path, nodes=["look"]).run()
    (tmp_path / "settings.json").write_text('{"kind": "prompts", "app": "of version 0.1"}')
    with fails(PromptsError, "other_version"):
        search(server, tmp_path).run()


@pytest.mark.parametrize(
    ("fields", "score", "code"),
    [
        ({"nodes": ["anser"]}, reward, "no_prompt"),
        ({"nodes": ["dated"]}, reward, "no_prompt"),
        ({"limit": 1}, reward, "too_few"),
        ({"held_out": 0}, reward, "too_few"),
        ({"most": 10}, reward, "too_few"),
        ({}, lambda task, state: None, "no_reward"),
        ({}, lambda task, state: 7.0, "bad_reward"),
        ({}, lambda task, state: 1 / 0, "no_reward"),
    ],
)
def test_what_cannot_be_searched(
    server: FakeOpenAI, tmp_path: Path, fields: dict[str, Any], score: Any, code: str
) -> None:
    with fails(PromptsError, code):
        search(server, tmp_path, app(server.base_url, score), **{"most": 200, **fields}).run()
