"""The benchmarks as Inspect tasks: `inspect eval agentflow/game24 --model-role planner=openai/gpt-4o`.

Questions, scorers and graph are the same as in `agentflow eval`. Every model call of a module uses Inspect's model of
that role, so that its viewer shows each call. Inspect is in the extra `inspect`, since it installs 80 packages;
`agentflow eval` does not need it.
"""

from collections.abc import Callable
from typing import Any

from inspect_ai import Task as InspectTask
from inspect_ai import task as register
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import transcript
from inspect_ai.model import ModelOutput
from inspect_ai.scorer import CORRECT, INCORRECT, NOANSWER, Score, Scorer, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.util import registry_info

from agentflow.evals import inspect_models
from agentflow.evals.benchmarks.benchmark import Benchmark
from agentflow.evals.benchmarks.catalogue import BENCHMARKS, benchmark
from agentflow.evals.judge import Judge
from agentflow.evals.scorers.score import Decision
from agentflow.graph.agent import graph
from agentflow.graph.context import DEFAULT_TOOLS, MODULES, Context
from agentflow.graph.run.runner import Event, rollout
from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace, TraceTurn

VALUES = {Decision.CORRECT: CORRECT, Decision.INCORRECT: INCORRECT, Decision.UNDECIDED: NOANSWER}
"""Inspect's value of each decision. Inspect counts "no answer" as 0, as AgentFlow counts undecided answers."""


@solver
def planner_executor_verifier_generator(name: str, max_turns: int, tools: str, corpus: str) -> Solver:
    """Return a solver that runs the agent on a question of the benchmark `name`, with Inspect's models."""
    context = Context(
        models={module: inspect_models.role_spec(module) for module in MODULES},
        max_turns=max_turns,
        tools=[one.strip() for one in tools.split(",")] if tools else list(DEFAULT_TOOLS),
        corpus=corpus or benchmark(name).corpus,
    )

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        trace = await _trace(state.input_text, context)
        state.output = ModelOutput.from_content("agentflow", trace.answer)
        state.metadata["trace"] = trace.model_dump(mode="json")
        return state

    return solve


async def _trace(question: str, context: Context) -> Trace:
    """Run the agent and log its turns in Inspect's transcript. Raises what Inspect raised, such as a limit."""

    async def record(event: Event) -> None:
        if isinstance(event, TraceTurn):
            transcript().info(event.model_dump(mode="json"), source=f"turn {event.turn}: {event.tool}")

    finished = await rollout(graph, Task.from_question(question), context, on_event=record)
    if finished.failure:
        raise finished.failure.__cause__ or finished.failure
    return finished.trace


@scorer(metrics=[accuracy(), stderr()])
def benchmark_scorer(name: str, judge: bool) -> Scorer:
    """Return a scorer with the rule of the benchmark `name`.

    If `judge` is set, the model of the role `judge` decides undecided answers.
    """
    asked = Judge(inspect_models.role_spec(inspect_models.JUDGE)) if judge else None

    async def score(state: TaskState, target: Target) -> Score:
        task, answer = Task.model_validate(state.metadata["task"]), state.output.completion
        found = await benchmark(name).decide(task, answer, asked)
        return Score(
            value=VALUES[found.decision],
            answer=answer,
            explanation=f"{found.decision}, decided by {found.decided_by}",
            metadata=dict(found.metrics),
        )

    return score


def _task_of(one: Benchmark) -> Callable[..., InspectTask]:
    def evaluate(
        subset: str = "", max_turns: int = 10, tools: str = "", corpus: str = "", judge: bool = False
    ) -> InspectTask:
        samples = [_sample(task) for task in one.tasks(subset)]
        return InspectTask(
            dataset=MemoryDataset(samples, name=one.name),
            solver=planner_executor_verifier_generator(one.name, max_turns, tools, corpus),
            scorer=benchmark_scorer(one.name, judge),
            metadata={"benchmark": one.title},
        )

    evaluate.__name__, evaluate.__doc__ = one.name, one.title
    return evaluate


def _sample(task: Task) -> Sample:
    data: dict[str, Any] = {"task": task.model_dump(mode="json")}
    return Sample(input=task.question, target=task.gold, id=task.id, metadata=data)


def _register(one: Benchmark) -> None:
    """Register the benchmark as `agentflow/NAME`.

    Inspect adds the prefix `agentflow/` itself, except in an editable install with another name.
    """
    found = register(name=one.name)(_task_of(one))
    if "/" not in registry_info(found).name:
        register(name=f"agentflow/{one.name}")(_task_of(one))


for _one in BENCHMARKS.values():
    _register(_one)
