"""One conversion of traces to a trainer's batch, timed in its own process; prints a line of JSON.

    python -m benchmarks.speed.batches ours --append-only

The measured part is from captured calls to tensors. A call holds ids as its library captures them: in arrays (ours)
or lists (Agent Lightning). Ours is the outputs of the trainer's agent loop as verl queues them; Agent Lightning's is
its `RolloutAdapter` with the least padding; the floor is a flat array of each field with offsets.
"""

import json
import sys
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Annotated, Any, Literal

import numpy as np
import typer

from agentflow.graph.run.task import Task
from agentflow.graph.run.trace import Trace
from agentflow.rl.calls import Call, ids_array, logprobs_array
from agentflow.rl.packing import pack
from agentflow.rl.rollout import RolloutStatus, Trajectory
from benchmarks.speed.traces import ROLLOUTS, SampledCall, tokens, trajectories

Traces = list[list[SampledCall]]
ROUNDS = 3
"""Number of rounds, of which the best counts, since the first ones allocate."""


@dataclass(frozen=True)
class Batch:
    """Size of a batch."""

    forward: int
    """Tokens in the forward pass, without padding."""
    places: int
    """Positions, including padding."""


def ours(traces: Traces) -> Callable[[], Batch]:
    """Run `FlowAgentLoop.outputs` and make verl's tensors."""
    from agentflow.rl.trainer.agent_loop import FlowAgentLoop

    loop = object.__new__(FlowAgentLoop)  # without the trainer around it
    loop.rollout_config = SimpleNamespace(response_length=100_000)
    loop.mask_cut_off, loop.pack_turns = False, True
    task = Task(id="t", question="q")
    trace = Trace(task=task, status="answered", seconds=1.0)
    row = {"extra_info": {"task": task.model_dump_json()}, "session_id": 0, "global_steps": 0}
    runs = [Trajectory("r", RolloutStatus.OK, 1.0, calls, [False] * 5, [0.0] * 5, trace) for calls in _calls(traces)]

    def batch() -> Batch:
        rows = [output.as_dict() for run in runs for output in loop.outputs(run, row)]
        size = sum(row["prompts"].numel() + row["responses"].numel() for row in rows)
        return Batch(size, size)

    return batch


def rows(traces: Traces) -> Callable[[], Batch]:
    """Make the rows of ours, without verl's tensors."""
    calls = _calls(traces)

    def batch() -> Batch:
        size = sum(len(row.prompt_ids) + len(row.response_ids) for one in calls for row in pack(one, limit=100_000))
        return Batch(size, size)

    return batch


def floor(traces: Traces) -> Callable[[], Batch]:
    """Make jagged arrays of the tokens that extend the previous prompt."""
    arrays = [[[np.array(ids) for ids in (one.prompt, one.reply, one.logprobs)] for one in calls] for calls in traces]

    def batch() -> Batch:
        ids: list[Any] = []
        masks: list[Any] = []
        logprobs: list[Any] = []
        for calls in arrays:
            before = np.zeros(0, np.int64)
            for prompt, reply, chances in calls:
                extends = len(prompt) >= len(before) and np.array_equal(prompt[: len(before)], before)
                added = prompt[len(before) if extends else 0 :]
                ids += [added, reply]
                masks += [np.zeros(len(added), np.int64), np.ones(len(reply), np.int64)]
                logprobs += [np.zeros(len(added), np.float32), chances.astype(np.float32)]
                before = np.concatenate([before, added, reply]) if extends else np.concatenate([prompt, reply])
        flat = [np.concatenate(field) for field in (ids, masks, logprobs)]
        return Batch(len(flat[0]), len(flat[0]))

    return batch


def agentlightning(traces: Traces, level: str = "trajectory") -> Callable[[], Batch]:
    """Run Agent Lightning's adapter on rollouts as its server reports them; `level` is its setting."""
    import torch
    from agentlightning.verl.agl_rollout_manager import CompletedRollout, Triplet
    from agentlightning.verl.rollout_adapter import RolloutAdapter

    whole = [len(one.prompt) + len(one.reply) for calls in traces for one in calls]
    first = max(len(one.prompt) for calls in traces for one in calls)
    adapter = RolloutAdapter(
        max_prompt_length=first,
        max_response_length=max(whole) if level == "trajectory" else max(len(c.reply) for t in traces for c in t),
        device=torch.device("cpu"),
        pad_token_id=0,
        trace_aggregator_level=level,
    )
    done = [
        CompletedRollout(
            rollout_id=str(number),
            data_id="0",
            step=0,
            sample_idx_in_step=number,
            enqueue_time=0.0,
            final_reward=1.0,
            triplets=[
                Triplet(prompt={"token_ids": c.prompt}, response={"token_ids": c.reply, "log_probs": c.logprobs})
                for c in calls
            ],
        )
        for number, calls in enumerate(traces)
    ]

    def batch() -> Batch:
        made, _ = adapter.get_train_data_batch(done)
        return Batch(int(made.batch["attention_mask"].sum()), made.batch["attention_mask"].numel())

    return batch


def transitions(traces: Traces) -> Callable[[], Batch]:
    """Run Agent Lightning's adapter with a row per call."""
    return agentlightning(traces, "transition")


WAYS = {one.__name__: one for one in (ours, rows, floor, agentlightning, transitions)}


def _calls(traces: Traces) -> list[list[Call]]:
    return [
        [Call("r", "planner", turn, *_arrays(sampled), "stop", 0) for turn, sampled in enumerate(calls)]
        for calls in traces
    ]


def _arrays(sampled: SampledCall) -> "tuple[array[int], array[int], array[float]]":
    return ids_array(sampled.prompt), ids_array(sampled.reply), logprobs_array(sampled.logprobs)


def main(
    way: Annotated[Literal["ours", "rows", "floor", "agentlightning", "transitions"], typer.Argument()],
    append_only: bool = False,
    rollouts: int = ROLLOUTS,
    packages: Annotated[str, typer.Option(help="A folder with packages that ours has not.")] = "",
) -> None:
    """Make the batch, and print the measurements."""
    sys.path.append(packages)  # last, for what is compiled there may be for another Python
    traces = trajectories(append_only, rollouts)
    make, seconds = WAYS[way](traces), float("inf")
    for _ in range(ROUNDS):
        start = time.process_time()
        found = make()
        seconds = min(seconds, time.process_time() - start)
    trained = sum(len(one.reply) for calls in traces for one in calls)
    values = {
        "rate": tokens(traces) / seconds,
        "padding": 1 - found.forward / found.places,
        "forward": found.forward / trained,
    }
    print(json.dumps({"values": values}))


if __name__ == "__main__":
    typer.run(main)
