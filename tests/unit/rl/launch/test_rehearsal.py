"""Errors that a rehearsal finds in other apps, and apps that it accepts."""

from typing import Any, TypedDict

import pytest

from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.task import Task
from agentflow.rl.apps.trainable import AppError, Trainable
from agentflow.rl.launch.preview import rehearse
from agentflow.rl.micro.chat_model import SEED
from agentflow.rl.micro.tokenizer import TOOL_TEMPLATE
from agentflow.rl.policy.chat_format import ChatFormat
from agentflow.rl.policy.policy import Policy
from agentflow.rl.rollout.template import load_tokenizer
from tests.graphs import TASK, Server, chain, rollout, trainable


class Sum(TypedDict):
    question: str
    answer: str


async def ask(state: Sum) -> dict[str, str]:
    return {"answer": str((await Policy().ainvoke(state["question"])).text)}


async def read_a_number(state: Sum) -> dict[str, str]:
    return {"answer": str(int((await Policy().ainvoke(state["question"])).text))}


def app(answer: Any = ask, **changes: Any) -> Trainable:
    graph = chain(Sum, answer=answer, other=lambda state: {})
    return trainable(graph, **({"nodes": ("answer",), "reward": lambda task, state: 0.0} | changes))


def _raises(error: Exception) -> Any:
    def part(*_: Any) -> Any:
        raise error

    return part


async def _awaits_and_raises(task: Task, state: Any) -> float:
    raise ZeroDivisionError("no judge")


async def ask_until_it_counts(state: Sum) -> dict[str, str]:
    while not (said := str((await Policy().ainvoke(state["question"])).text)).isdecimal():
        pass
    return {"answer": said}


async def test_an_agent_that_asks_without_end_is_stopped_and_a_failure_names_its_node_and_line() -> None:
    """A rehearsal of such an agent took two minutes."""
    assert "calls of the policy" in (
        await rehearse(app(ask_until_it_counts), app(ask_until_it_counts).built(), TASK) or ""
    )
    found = await rollout(app(read_a_number), Server("no number"))
    line = read_a_number.__code__.co_firstlineno + 1
    assert found.trace.error.endswith(f"(node answer, test_rehearsal.py:{line})")


async def test_an_app_in_order_passes_and_a_graph_that_stumbles_over_the_stand_ins_reply_is_a_remark() -> None:
    for faultless in (app(), app(reward=lambda task, state: None)):
        assert await rehearse(faultless, faultless.built(), TASK) is None
    assert "ValueError" in str(await rehearse(app(read_a_number), app(read_a_number).built(), TASK))


@pytest.mark.parametrize(
    ("faulty", "named"),
    [
        (app(lambda state: {"answer": "2"}), ("never called a model", "'answer'")),
        (app(_raises(KeyError("thread"))), ("KeyError: 'thread'",)),
        (app(nodes=("other",)), ("'answer'", "'other'")),
        (app(reward=_raises(KeyError("gold"))), ("its reward raised KeyError: 'gold'",)),
        (app(reward=_raises(ModelError("the judge is down"))), ("its reward raised", "the judge is down")),
        (app(reward=_awaits_and_raises), ("its reward raised ZeroDivisionError",)),
        (app(inputs=_raises(KeyError("x"))), ("its inputs raised",)),
        (app(read_a_number, inputs=lambda task: []), ("raised",)),
    ],
)
async def test_what_no_reply_can_mend_is_an_error_that_names_it(faulty: Trainable, named: tuple[str, ...]) -> None:
    with pytest.raises(AppError) as error:
        await rehearse(faulty, faulty.built(), TASK)
    assert all(part in str(error.value) for part in (*named, f"'{TASK.id}'")), error.value


async def use_tools(state: Sum) -> dict[str, str]:
    return {"answer": str((await Policy().bind_tools([add]).ainvoke(state["question"])).text)}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def test_tools_need_a_model_whose_template_has_them() -> None:
    pytest.importorskip("verl")
    tokenizer = load_tokenizer(SEED)
    with pytest.raises(AppError) as raised:
        await rehearse(app(use_tools), app(use_tools).built(), TASK, ChatFormat(tokenizer))
    assert raised.value.code == "no_tools"
    assert await rehearse(app(), app().built(), TASK, ChatFormat(tokenizer)) is None
    tokenizer.chat_template = TOOL_TEMPLATE
    assert await rehearse(app(use_tools), app(use_tools).built(), TASK, ChatFormat(tokenizer)) is None
