"""A benchmark as something to train on: the tasks, the split, and the reward that evaluation uses too."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentflow.graph.context import MODULES
from agentflow.graph.models.spec import ModelError
from agentflow.rl.apps.benchmark import benchmark
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError
from agentflow.tools.search_settings import SearchSettings
from tests.cases import table
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, Reply


def test_game_of_24_is_split_and_rewarded_by_the_same_check_that_evaluates_it() -> None:
    app = benchmark("game24", frozen="atlas-oracle", tools=["python_coder"])
    train, test = app.tasks("train", 2000), app.tasks("test", 2000)
    assert len(train) + len(test) == 1362
    assert 200 < len(test) < 350
    assert not {task.id for task in train} & {task.id for task in test}
    assert app.tasks("train", 3) == train[:3]


@pytest.mark.parametrize(("name", "row", "answer", "reward"), table(__file__, "rewards.txt"))
async def test_rewards(name: str, row: Any, answer: str, reward: float | None, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    app = benchmark(name, frozen="atlas-oracle", file=str(path))
    [task] = [*app.tasks("train", 5), *app.tasks("test", 5)]
    assert await app.reward(task, {"answer": answer}) == reward  # type: ignore[misc]


async def test_a_judge_decides_what_the_rule_does_not_and_one_that_fails_rewards_nothing(tmp_path: Path) -> None:
    """The judge is asked only where the rule does not decide. If it fails, the reward raises its error."""
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"question": "Where?", "result": "Istanbul; Stamboul"}) + "\n")
    verdicts: list[Reply] = ["Verdict: correct", "Verdict: incorrect", "Verdict: undecided", (401, {})]
    with FakeOpenAI(lambda _: verdicts[len(server.requests) - 1]) as server:
        judge = f"vllm:judge@{server.base_url}"
        app = benchmark(str(path), frozen="atlas-oracle", test=str(path), judge=judge)
        [task] = app.tasks("train", 5)
        answers = ("stamboul", "Constantinople", "Byzantium", "Nova Roma")
        assert [await app.reward(task, {"answer": answer}) for answer in answers] == [1, 1, 0, None]  # type: ignore[misc]
        with pytest.raises(ModelError):
            await app.reward(task, {"answer": "Miklagard"})  # type: ignore[misc]


def test_its_options_are_given_by_name_and_set_the_search() -> None:
    """`load_app` has a parameter `name` of its own, which took the option's place."""
    search = {"corpus": "http://127.0.0.1:8000/retrieve", "search_engine": "serper", "search_cache": "use"}
    app = load_app("agentflow.rl.apps.benchmark:benchmark", name="game24", frozen="atlas-oracle", **search)
    assert app.name == "game24"
    assert app.context().search == SearchSettings(corpus=search["corpus"], engine="serper", cache="use")
    assert app.context().opening == "plan"


def test_no_module_writes_without_end() -> None:
    """A frozen module that wrote 2,048 tokens kept eight of sixteen steps of a training waiting."""
    context = benchmark("game24", frozen="atlas-oracle", max_tokens=77).context()
    assert {context.sampling_of(module).max_tokens for module in MODULES} == {77}
    assert context.sampling_of("generator").temperature == 0


def test_what_cannot_be_had_is_one_line(tmp_path: Path) -> None:
    with fails(AppError, "unknown_benchmark", "mmlu"):
        benchmark("mmlu", frozen="atlas-oracle")
    with fails(AppError, "unreadable", "none.jsonl"):
        benchmark("bamboogle", frozen="atlas-oracle", file=str(tmp_path / "none.jsonl")).tasks("train", 1)


async def test_a_file_is_read_for_tasks_and_not_for_rewards(tmp_path: Path) -> None:
    """A worker rewards rollouts without reading a training set of 182,190 questions."""
    path = tmp_path / "train.jsonl"
    app = benchmark(str(path), frozen="atlas-oracle", test=str(path))
    path.write_text(json.dumps({"question": "Where?", "result": "Istanbul; Stamboul", "source": "nq"}) + "\n")
    [task] = app.tasks("train", 5)
    assert (task.family, task.gold) == ("nq", "Istanbul")
    path.unlink()
    assert await app.reward(task, {"answer": "Stamboul"}) == 1.0


async def test_tasks_of_several_take_turns_and_each_is_rewarded_by_its_own(tmp_path: Path) -> None:
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps({"question": f"Where {n}?", "answer": "Istanbul"}) + "\n" for n in range(3)))
    app = benchmark([str(path), "game24"], frozen="atlas-oracle", test=str(path), subset="tot-rest", undecided=0.25)
    tasks = app.tasks("train", 8)
    assert [task.family == "game of 24" for task in tasks] == [False, True] * 3 + [True] * 2
    assert len(app.tasks("train", 2000)) == 3 + 1262
    answers = ("Istanbul", "Constantinople", tasks[1].gold)
    given = zip((tasks[0], tasks[0], tasks[1]), answers, strict=True)
    assert [await app.reward(task, {"answer": answer}) for task, answer in given] == [1, 0.25, 1]  # type: ignore[misc]
    assert [task.question for task in app.tasks("test", 2)] == ["Where 0?", "Where 1?"]
