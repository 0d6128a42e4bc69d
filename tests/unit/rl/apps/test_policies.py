"""Names of groups of nodes: which one a call belongs to, and what is recorded of it."""

from dataclasses import replace
from typing import Any

import pytest
from langgraph.graph import END, START, MessagesState, StateGraph

from agentflow.graph.run.task import Task
from agentflow.rl.apps.loading import load_app
from agentflow.rl.apps.trainable import AppError, Trainable
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.policy.node_paths import named_nodes, policy_of
from agentflow.rl.policy.policy import Policy
from agentflow.rl.rollout.batch import batch_digest, facts_of, rows_of
from agentflow.rl.rollout.replay_log import ReplayLog
from agentflow.rl.rollout.rollout import RolloutStatus, Trajectory, run, run_recorded

TASK = Task(id="1", question="q", gold="a")
TWO = {"planner": ["planner"], "critic": ["verifier", "generator"]}


@pytest.mark.parametrize(
    ("path", "policy"),
    [("planner", "planner"), ("outer/verifier", "critic"), ("planner/verifier", "planner"), ("analyst", None)],
)
def test_a_node_belongs_to_the_first_policy_that_fits(path: str, policy: str | None) -> None:
    assert policy_of(path.split("/"), TWO) == policy
    assert policy_of(path.split("/"), {**TWO, "others": []}) == (policy or "others")


def test_nodes_are_given_for_one_policy_or_by_name() -> None:
    assert named_nodes("a, b") == ["a", "b"]
    assert named_nodes({"one": "a, b", "two": ["c"]}) == {"one": ["a", "b"], "two": ["c"]}
    app = load_app("agentflow.rl.apps.planner:atlas", nodes={"planner": "planner", "critic": "verifier,generator"})
    assert app.policies == TWO
    assert app.context().models.keys() == {"planner", "verifier", "generator"}
    with pytest.raises(AppError):
        load_app("agentflow.rl.apps.planner:atlas", nodes={"a/b": "planner"})


def debate(nodes: Any, **calls: Policy) -> Trainable:
    """An app of one node for each of `calls`, which asks its model."""
    builder = StateGraph(MessagesState)
    before = START
    for name, model in calls.items():

        async def node(state: MessagesState, model: Policy = model) -> MessagesState:
            return {"messages": [await model.ainvoke(state["messages"])]}

        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return Trainable(
        name="debate",
        graph=builder.compile(),
        nodes=nodes,
        tasks=lambda split, number: [TASK],
        inputs=lambda task: {"messages": [("user", task.question)]},
        reward=lambda task, state: 1.0,
    )


class Served:
    """Policies whose replies are their names; keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest) -> TokenReply:
        self.requests.append(request)
        ids = [len(self.requests)]
        return TokenReply(request.policy, [0], ids, [-0.5], "stop")


async def rollout(app: Trainable, served: Served) -> Trajectory:
    return await run(app, app.built(), TASK, served, id="r", seconds=3600)


async def test_a_call_is_answered_by_the_policy_of_its_node_and_recorded_as_that() -> None:
    served = Served()
    found = await rollout(debate(TWO, planner=Policy(), verifier=Policy(), generator=Policy()), served)
    assert found.status == RolloutStatus.OK, found.trace.error
    assert [request.policy for request in served.requests] == ["planner", "critic", "critic"]
    assert [(call.node, call.policy) for call in found.calls] == [
        ("planner", "planner"),
        ("verifier", "critic"),
        ("generator", "critic"),
    ]


async def test_a_policy_that_is_named_in_the_graph_is_that_one() -> None:
    """So that one node can ask two policies."""
    nodes = {"pro": ["first"], "con": ["second"]}
    found = await rollout(debate(nodes, first=Policy("con"), second=Policy()), Served())
    assert [call.policy for call in found.calls] == ["con", "con"]


async def test_names_in_the_graph_mean_nothing_where_one_policy_is_trained() -> None:
    served = Served()
    found = await rollout(debate(["first"], first=Policy("con")), served)
    assert [call.policy for call in found.calls] == [""]
    assert served.requests[0].policy == ""


@pytest.mark.parametrize("model", [Policy("other"), Policy()], ids=["unknown", "no_policy_of_its_node"])
async def test_a_call_of_no_policy_ends_the_rollout(model: Policy) -> None:
    served = Served()
    found = await rollout(debate({"pro": ["elsewhere"], "con": ["nowhere"]}, first=model), served)
    assert (found.status, served.requests) == (RolloutStatus.CRASHED, [])


async def test_equal_requests_to_two_policies_are_recorded_apart() -> None:
    app = debate({"pro": ["first"], "con": ["second"]}, first=Policy(), second=Policy())
    app = replace(app, inputs=lambda task: {"messages": []})
    log = ReplayLog("r", keep=lambda entry: None)

    async def said(generate: Any) -> list[str]:
        found = await run_recorded(app, app.built(), TASK, lambda: generate, log, seconds=60, tries=1)
        return [call.policy for call in found.calls]

    async def nobody(request: ChatRequest) -> TokenReply:
        raise AssertionError("all was recorded")

    assert await said(Served()) == await said(nobody) == ["pro", "con"]


async def test_the_digest_of_a_batch_depends_on_the_names() -> None:
    found = await rollout(debate(TWO, planner=Policy(), verifier=Policy()), Served())

    def digest(one: Trajectory) -> str:
        rows = rows_of(one, pack_turns=False, limit=1000)
        facts = {f"q_0_{number}": facts_of(row, one, "q/0", counted=True) for number, row in enumerate(rows)}
        return batch_digest(facts, {key: [] for key in facts})

    other = [replace(call, policy=f"{call.policy}x") for call in found.calls]
    assert digest(replace(found, calls=other)) != digest(found)
