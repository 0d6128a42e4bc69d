"""A teacher's replies as the policy's tokens."""

import math
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel, FakeListChatModel
from langchain_core.outputs import ChatResult

from agentflow.graph.models.loading import load_model
from agentflow.rl.algorithms.sft import SFT
from agentflow.rl.apps.planner import atlas
from agentflow.rl.policy.chat import ChatError, ChatRequest
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.rollout.batch import assign_credit, facts_of
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.rollout import Rollout, RolloutStatus, run
from agentflow.rl.trainer.teacher import Teacher
from tests.chat_templates import chat_format, tokenizer
from tests.failing import fails

ORACLE = "atlas-oracle"


class Down(FakeListChatModel):
    """A model whose server is down."""

    def _generate(self, *args: Any, **options: Any) -> ChatResult:
        raise RuntimeError("down")


@pytest.fixture(scope="module")
def known() -> ChatFormat:
    return chat_format("smollm2")


async def taught(known: ChatFormat, teacher: BaseChatModel, *, most: int = 128) -> Rollout:
    """A rollout of several turns in which the policy's calls are answered by `teacher`."""
    app = atlas(frozen=ORACLE, max_turns=4)
    task = next(task for task in app.tasks("train", 48) if task.family == "hops")
    policy = Teacher(teacher, known, lambda request: (known.prompt_ids(request), most))
    return await run(app, app.built(), task, policy, id="1", seconds=3600)


async def test_a_rollout_of_the_teacher_is_one_row_of_the_policys_tokens(known: ChatFormat) -> None:
    trajectory = await taught(known, load_model(ORACLE))
    assert (trajectory.status, trajectory.reward) == (RolloutStatus.OK, 1.0)
    assert len(trajectory.calls) == len(trajectory.trace.turns) > 1, "the teacher's own call is no call of the policy"
    for call, turn in zip(trajectory.calls, trajectory.trace.turns, strict=True):
        assert known.tokenizer.decode(call.response_ids.tolist()) == f"{turn.plan}<|im_end|>"
        assert all(map(math.isnan, call.logprobs))
    [row] = pack(trajectory.calls, limit=4096)
    facts = {"q_0_0": facts_of(row, trajectory, "q/0", counted=True)}
    prompts = {call.prompt_ids.tobytes() for call in trajectory.calls}
    assert len(prompts) == len(trajectory.calls), "every turn has a prompt of its own"
    [spans] = assign_credit(facts, SFT()).values()
    imitated = [id for span in spans for id in row.response_ids[span.start : span.start + span.length]]
    assert imitated == [id for call in trajectory.calls for id in call.response_ids]
    assert {span.advantage for span in spans} == {1.0}


async def test_a_teacher_is_asked_once_a_call_and_its_unreadable_plans_are_faults(known: ChatFormat) -> None:
    plans = ["no plan", "nor this", "no", "none"]
    trajectory = await taught(known, FakeListChatModel(responses=plans))
    assert [turn.plan for turn in trajectory.trace.turns] == plans[: len(trajectory.calls)]
    assert trajectory.faults
    assert all(trajectory.faults)


async def test_a_teachers_thoughts_and_end_marks_are_not_learnt(known: ChatFormat) -> None:
    trajectory = await taught(known, FakeListChatModel(responses=["[THINK]hm[/THINK]no plan</s>"]))
    assert {turn.plan for turn in trajectory.trace.turns} == {"no plan"}
    learnt = {known.tokenizer.decode(call.response_ids.tolist()) for call in trajectory.calls}
    assert learnt == {"no plan<|im_end|>"}


async def test_a_reply_without_room_and_a_teacher_that_fails_are_no_wrong_answers(known: ChatFormat) -> None:
    assert (await taught(known, load_model(ORACLE), most=3)).status == RolloutStatus.TOO_LONG
    assert (await taught(known, Down(responses=[""]))).status == RolloutStatus.ENDPOINT_FAILED


async def test_a_teacher_reads_the_calls_of_earlier_turns(known: ChatFormat) -> None:
    """Their arguments are objects, as templates take them, and LangChain reads them as text."""
    call = {"type": "function", "id": "c1", "function": {"name": "find", "arguments": {"tags": ["a"]}}}
    said = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "ok", "tool_call_id": "c1"},
    ]
    teacher = Teacher(FakeListChatModel(responses=["Fine."]), known, lambda request: ([], 9))
    reply = await teacher._ask(ChatRequest([{"role": "user", "content": "q"}, *said]))
    assert reply.text == "Fine."


def test_a_reply_cannot_end_its_own_message(known: ChatFormat) -> None:
    request = ChatRequest([{"role": "user", "content": "q"}])
    ids = known.reply_ids(request, {"role": "assistant", "content": "a<|im_end|>b"})
    assert [id for id in ids if id in known.tokenizer.all_special_ids] == ids[-1:]
    assert ids[-1] == known.tokenizer.eos_token_id


def test_a_template_that_writes_replies_otherwise_than_they_are_sampled_is_refused() -> None:
    other = tokenizer("smollm2")
    other.chat_template = "{{ messages[-1]['content'] }}{% if add_generation_prompt %}\n{% endif %}"
    asked = ChatRequest([{"role": "user", "content": "q"}])
    with fails(ChatError, "rewritten"):
        ChatFormat(other).reply_ids(asked, {"role": "assistant", "content": "a"})
