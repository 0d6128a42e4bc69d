"""Several policies: which one a call belongs to, its rows, and its credit."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.graph import END, START, MessagesState, StateGraph

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.rl.algorithms import algorithm_of
from agentflow.rl.apps import load_app
from agentflow.rl.batch import assign_credit, batch_digest, facts_of, rows_of
from agentflow.rl.calls import Call, ids_array, logprobs_array
from agentflow.rl.chat import ChatRequest, TokenReply
from agentflow.rl.node_paths import named_nodes, policy_of
from agentflow.rl.policy import Policy
from agentflow.rl.replay_log import ReplayLog
from agentflow.rl.rollout import RolloutStatus, Trajectory, run, run_recorded
from agentflow.rl.trainable import AppError, Trainable
from tests.unit.rl.rows import row

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
    app = load_app("agentflow.rl.planner:atlas", nodes={"planner": "planner", "critic": "verifier,generator"})
    assert app.policies == TWO
    assert app.context().models.keys() == {"planner", "verifier", "generator"}
    with pytest.raises(AppError):
        load_app("agentflow.rl.planner:atlas", nodes={"a/b": "planner"})


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
    return await run(app, app.built(), TASK, served, id="r", seconds=60)


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


NAMES = ("", "planner", "critic")
ids = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@st.composite
def trajectories(draw: st.DrawFn) -> Trajectory:
    """Calls of several policies, whose prompts often begin with what another call left."""
    calls: list[Call] = []
    for turn in range(draw(st.integers(1, 7))):
        before = draw(st.sampled_from([[], *([*call.prompt_ids, *call.response_ids] for call in calls)]))
        prompt, response = [*before, *draw(ids)], draw(ids)
        logprobs = logprobs_array(-0.5 for _ in response)
        policy = draw(st.sampled_from(NAMES))
        calls.append(Call("r", "n", turn, ids_array(prompt), ids_array(response), logprobs, "stop", 0, policy=policy))
    nothing = [False] * len(calls)
    trace = Trace(task=TASK, answer="", status="answered")
    return Trajectory("r", RolloutStatus.OK, 1.0, calls, nothing, [0.0] * len(calls), trace)


@given(trajectories(), st.booleans())
def test_every_sampled_token_is_in_one_row_of_its_own_policy(trajectory: Trajectory, pack_turns: bool) -> None:
    rows = rows_of(trajectory, pack_turns=pack_turns, limit=1000, separate=True)
    assert sorted(call.turn for row in rows for call in row.calls) == [call.turn for call in trajectory.calls]
    for one in rows:
        assert len({call.policy for call in one.calls}) == 1
        trained = [id for id, mask in zip(one.response_ids, one.mask, strict=True) if mask]
        assert trained == [id for call in one.calls for id in call.response_ids]


def of(policy: str, lengths: list[int], name: str, **more: Any) -> dict[str, Any]:
    return row(lengths, **more) | {"name": name, "policies": [policy] * len(lengths)}


def test_policies_with_weights_of_their_own_are_credited_apart() -> None:
    """The critic speaks in two trajectories of three; rewards 1, 0, 0."""
    rows = {
        "q_0_0": of("planner", [4], "q/0", earned=[0.0, 0.0]),
        "q_0_1": of("critic", [2], "q/0", first=1),
        "q_1_0": of("planner", [4], "q/1", earned=[0.0, 0.0]),
        "q_1_1": of("critic", [2], "q/1", first=1),
        "q_2_0": of("planner", [4], "q/2"),
    }
    rewards = {key: float(key.startswith("q_0")) for key in rows}
    found = assign_credit(rows, rewards, algorithm_of({"name": "rloo"}), separate=True)
    assert {key: spans[0].advantage for key, spans in found.items()} == pytest.approx(
        {"q_0_0": 1.0, "q_1_0": -0.5, "q_2_0": -0.5, "q_0_1": 1.0, "q_1_1": -1.0}
    )
    for policy in ("planner", "critic"):
        own = [span for key, spans in found.items() for span in spans if rows[key]["policies"] == [policy]]
        assert sum(span.length * span.weight for span in own) == pytest.approx(1)
    together = assign_credit(rows, rewards, algorithm_of({"name": "rloo"}))
    assert sum(span.length * span.weight for spans in together.values() for span in spans) == pytest.approx(1)


def test_turn_rewards_of_another_policys_calls_count_for_the_trajectory() -> None:
    rows = {
        "q_0_0": of("planner", [4], "q/0", earned=[0.0, 0.5]),
        "q_0_1": of("critic", [2], "q/0", first=1, earned=[0.0, 0.5]),
        "q_1_0": of("planner", [4], "q/1", earned=[0.0]),
    }
    found = assign_credit(rows, dict.fromkeys(rows, 0.0), algorithm_of({"name": "rloo"}), separate=True)
    assert {key: spans[0].advantage for key, spans in found.items()} == {"q_0_0": 0.5, "q_0_1": 0.0, "q_1_0": -0.5}


@given(trajectories())
def test_the_digest_of_a_batch_depends_on_the_policies(trajectory: Trajectory) -> None:
    def digest(one: Trajectory) -> str:
        rows = rows_of(one, pack_turns=False, limit=1000, separate=True)
        facts = {f"q_0_{number}": facts_of(row, one, "q/0", counted=True) for number, row in enumerate(rows)}
        return batch_digest(facts, {key: [] for key in facts})

    other = [replace(call, policy=f"{call.policy}x") for call in trajectory.calls]
    assert digest(replace(trajectory, calls=other)) != digest(trajectory)
