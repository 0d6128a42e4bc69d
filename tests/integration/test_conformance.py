"""Every shape of agent that people have: by `agentflow try`, and by 32 rollouts at once as training plays them."""

import asyncio
import json
from array import array
from collections import Counter
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from agentflow.graph.run.task import Task
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import Trainable
from agentflow.rl.launch.preview import obstacles, play, rehearse
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.policy.policy import PromptTooLong
from agentflow.rl.rollout.batch import counts, parts_of
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.replay_log import ReplayLog
from agentflow.rl.rollout.rollout import Rollout, run, run_recorded
from tests.chat_templates import ScriptedPolicy, chat_format, needs_templates
from tests.conformance import ROLLOUTS, SHAPES, WORDS, Shape, weak
from tests.pages import ROOT
from tests.waiting import LAST_RESORT

pytestmark = [needs_templates, pytest.mark.filterwarnings("ignore")]  # of packages
pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def qwen() -> ChatFormat:
    return chat_format("qwen2_5")


@pytest.fixture
def app(shape: Shape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainable:
    if shape.needs and not find_spec(shape.needs):
        pytest.skip(f"{shape.needs} is not installed")
    asked = [f"Tell me about {word}." for word in WORDS]
    rows = [{"inputs": {shape.asks: text}} if shape.asks else {"question": text} for text in asked]
    lines = [json.dumps({**row, "answer": word}) for row, word in zip(rows, WORDS, strict=True)]
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(lines))
    (tmp_path / "langgraph.json").write_text(
        json.dumps({"graphs": {"mine": f"{ROOT}/tests/agents/exported.py:builder"}})
    )
    monkeypatch.chdir(tmp_path)
    return load_app(shape.app, tasks=str(tasks), test=str(tasks), reward="tests.conformance:reward", **shape.options)


MOST_REPLIES = 30
"""After as many, a conversation is longer than a policy may read; some agents ask without end."""


class Sampler(ScriptedPolicy):
    """The policy of one rollout."""

    def __init__(self, shape: Shape, task: Task, known: ChatFormat) -> None:
        self.word = task.gold
        super().__init__("", lambda request: shape.says(request, task.gold, len(self.sampled)), known)

    async def __call__(self, request: ChatRequest) -> TokenReply:
        if len(self.sampled) == MOST_REPLIES:
            raise PromptTooLong("the conversation is too long")
        return await super().__call__(request)

    @property
    def tokens(self) -> Counter[tuple[Any, ...]]:
        return Counter((tuple(one.token_ids), tuple(array("f", one.logprobs))) for one in self.sampled)


def trained(rollout: Rollout) -> Counter[Any]:
    """The replies in the rows of a rollout, with their log-probabilities."""
    return Counter(
        (tuple(row.response_ids[start : start + length]), tuple(row.logprobs[start : start + length]))
        for part, _ in parts_of(rollout, "")
        for row in pack(part.calls, limit=100_000)
        for start, length in row.spans
    )


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_32_rollouts_at_once_are_exact_and_know_nothing_of_each_other(
    shape: Shape, app: Trainable, qwen: ChatFormat
) -> None:
    tasks = app.tasks("train", ROLLOUTS)
    samplers = [Sampler(shape, task, qwen) for task in tasks]
    graph = app.built()
    logs = [ReplayLog(task.gold, keep=lambda told: None) for task in tasks]
    playing = [
        run_recorded(app, graph, task, lambda sampler=sampler: sampler, log, seconds=LAST_RESORT, tries=1)
        for task, sampler, log in zip(tasks, samplers, logs, strict=True)
    ]
    ended = await asyncio.gather(*playing)
    assert {one.status for one in ended} == shape.ends, next(one.trace.error for one in ended if one.trace.error)
    for sampler, rollout in zip(samplers, ended, strict=True):
        assert counts(rollout, mask_cut_off=True, count_as_zero=["policy"])
        assert len(rollout.calls) == shape.calls
        assert trained(rollout) == sampler.tokens
        said = json.dumps([request.messages for request in sampler.requests])
        assert {word for word in WORDS if word in said} == {sampler.word}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_try_and_the_rehearsal_of_a_training_take_it(shape: Shape, app: Trainable, qwen: ChatFormat) -> None:
    for task in app.tasks("train", 2):
        sampler = Sampler(shape, task, qwen)
        limits: Any = {"rollouts": 1, "seconds": LAST_RESORT, "count_as_zero": ["policy"]}
        preview = await play(app, app.built(), [task], sampler, **limits)
        assert set(preview.statuses) <= shape.ends, preview.rollouts[0].trace.error
        assert obstacles(preview, app.nodes) == []
    await rehearse(app, app.built(), task, qwen)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
async def test_what_a_weak_policy_breaks_is_its_own_failure(shape: Shape, app: Trainable, qwen: ChatFormat) -> None:
    """Any other cause is left out of the training."""
    [task] = app.tasks("train", 1)
    sampler = Sampler(replace(shape, says=weak), task, qwen)
    found = await run(app, app.built(), task, sampler, id="weak", seconds=LAST_RESORT)
    assert counts(found, mask_cut_off=True, count_as_zero=["policy"]), (found.status, found.trace.error)
    assert trained(found) == sampler.tokens


def test_the_page_has_an_item_for_each_shape() -> None:
    page = (ROOT / "docs" / "lab" / "conformance.md").read_text().partition("## Public")[0]
    items = [line.removeprefix("- ") for line in page.splitlines() if line.startswith("- ")]
    assert [item.partition(": ")[0] for item in items] == list(SHAPES)
