from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from agentflow.graph.run.task import Task
from agentflow.rl.planner import atlas
from agentflow.tools.result import ErrorClass
from benchmarks.turn_rewards import ERROR, GAIN, compared_verdicts, informed_turns, judged_turns, probabilities


def test_a_turn_with_an_error_earns_less() -> None:
    errors = (None, ErrorClass.TOOL_ERROR)
    memory = [SimpleNamespace(action=SimpleNamespace(result=SimpleNamespace(error=error))) for error in errors]
    assert list(judged_turns().turn_rewards(Task(id="t", question="q"), {"memory": memory, "status": "answered"})) == [
        0,
        ERROR,
    ]


async def test_a_turn_earns_by_how_much_likelier_it_makes_the_right_answer() -> None:
    app = atlas(frozen="atlas-oracle")
    task = next(task for task in app.tasks("train", 48) if task.family == "hops")
    context = app.context().model_copy(update={"models": {}})
    state = await app.built().ainvoke(app.inputs(task), context=context)
    memory = state["memory"]
    assert len(memory) > 1
    likely = probabilities(task, memory)
    # The first turns are not read again for the later ones, which changes nothing.
    afresh = [probabilities(task, memory[:turns])[-1] for turns in range(len(memory) + 1)]
    assert likely == pytest.approx(afresh, rel=1e-3)
    assert likely[0] < 0.5 < likely[-1]
    action = memory[0].action
    result = action.result.model_copy(update={"error": ErrorClass.BAD_ARGUMENTS})
    unread = memory[0].model_copy(update={"action": action.model_copy(update={"result": result})})
    before, after = probabilities(task, [unread])
    assert before == pytest.approx(after, rel=1e-3), "the generator does not read a turn with a format error"
    earned = informed_turns().turn_rewards(task, state)
    assert list(earned) == pytest.approx([GAIN * (b - a) for a, b in pairwise(likely)])


async def test_a_verdict_earns_by_what_followed_it_and_a_plan_earns_nothing() -> None:
    app = atlas(frozen="atlas-oracle")
    task = next(task for task in app.tasks("train", 48) if task.family == "hops")
    state = await app.built().ainvoke(app.inputs(task), context=app.context().model_copy(update={"models": {}}))
    memory = state["memory"]
    likely = probabilities(task, memory)
    earned = compared_verdicts().turn_rewards(task, state)
    credits = np.cumsum(earned[::-1])[::-1]  # the sum from a call on, as `algorithm=turn` takes it
    plans, verdicts = credits[::2], credits[1::2]
    assert list(plans) == pytest.approx([0.0] * len(memory))
    assert list(verdicts) == pytest.approx([GAIN * (likely[-1] - stopped) for stopped in likely[1:]])
    assert verdicts[0] > 0.25, "the answer was not known after the first turn"
