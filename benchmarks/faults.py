"""Measure the cost of faults in rollouts, and check that no corrupted rows are trained on.

    python -m benchmarks.faults                      2,000 rollouts of Atlas, with faults in 10 %
    python -m benchmarks.faults --rollouts 200       200 rollouts

Rollouts run in a process that is restarted whenever it dies, like the trainer's workers. A fault is injected at a call
of the policy: the endpoint fails once, or is down; the call hangs until the rollout times out; the node raises; the
judge fails; or the process is killed by SIGKILL together with all its running rollouts.

The same rollouts first run without faults, which also gives the number of calls at which a fault can be injected. A row
is poisoned if it would be trained on and is not bit-identical to one of the fault-free run. Goodput is the share of
rollouts that are trained on. Tool failures are not among these faults: the planner sees their errors and learns from
them.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.task import Task
from agentflow.rl.apps.planner import atlas
from agentflow.rl.micro.chat_model import checkpoint
from agentflow.rl.policy.chat import ChatRequest, TokenReply
from agentflow.rl.rollout.batch import counts, facts_of
from agentflow.rl.rollout.packing import pack
from agentflow.rl.rollout.replay_log import ReplayLog, ReplayLogs, digest
from agentflow.rl.rollout.rollout import run_recorded

GROUP = 8
"""Rollouts per question."""
AT_ONCE = 32
SECONDS = 60.0
"""Timeout of a rollout in seconds, which a hanging one always uses up."""
MADE, ENDED, LOG = "made", "ended.jsonl", "replay.jsonl"
"""File names: a byte for each reply of the policy; a line for each finished rollout; the recorded responses."""
FAULTS = ("fails once", "down", "hangs", "raises", "judge fails", "killed")

app = typer.Typer(add_completion=False)


class SeedPolicy:
    """The embedded seed planner, with the rollout's own random stream."""

    def __init__(self, name: str) -> None:
        self.name, self._asked = name, Counter[str]()
        self._checkpoint = checkpoint("seed")

    async def __call__(self, request: ChatRequest) -> TokenReply:
        """Sample a reply, as `agentflow.rl.policy.chat.Generate`."""
        key = digest(request.identity)
        self._asked[key] += 1
        seed = random.Random(f"{self.name} {key} {self._asked[key]}").getrandbits(31)
        ids = self._checkpoint.tokenizer.encode_chat(
            [(message["role"], message["content"]) for message in request.messages]
        )
        future = self._checkpoint.engine.submit(ids, temperature=1.0, max_tokens=request.sampling.max_tokens, seed=seed)
        found = await asyncio.wrap_future(future)
        return TokenReply(found.text, list(ids), found.token_ids, found.logprobs, found.finish_reason)


class Faulty:
    """A policy that fails at one call of the rollout; some faults occur only once."""

    def __init__(self, policy: SeedPolicy, fault: str, call: int, replay_log: ReplayLog, folder: Path) -> None:
        answered = min(replay_log.turns, call)  # replayed calls do not reach the policy
        self._policy, self._fault, self._call, self._folder = policy, fault, call - answered, folder

    async def __call__(self, request: ChatRequest) -> TokenReply:
        """Sample a reply, or inject the fault at its call."""
        self._call -= 1
        if self._call == -1:
            await self._strike()
        reply = await self._policy(request)
        with (self._folder / MADE).open("ab") as made:
            made.write(b".")
        return reply

    async def _strike(self) -> None:
        mark = self._folder / self._policy.name.replace("/", "-")
        match self._fault:
            case "fails once" if not mark.exists():
                mark.touch()
                raise ModelError("the endpoint answered 503", code="http_503")
            case "down":
                raise ModelError("the endpoint cannot be reached", code="unreachable")
            case "hangs":
                await asyncio.sleep(10 * SECONDS)
            case "raises":
                raise RuntimeError("a fault in the node")
            case "killed" if not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)


def fault_of(name: str, share: float, calls: int) -> tuple[str, int]:
    """Return the fault of a rollout ("" for none) and the index of the policy call, of `calls`, at which it occurs."""
    rng = random.Random(f"fault {name}")
    return (rng.choice(FAULTS), rng.randrange(calls)) if rng.random() < share else ("", 0)


async def judge_fails(task: Task, state: Any) -> float:
    """Raise ModelError, as a reward whose judge cannot be reached."""
    raise ModelError("the judge cannot be reached", code="unreachable")


def ended_in(folder: Path) -> dict[str, Any]:
    """Read the lines of the finished rollouts, by rollout name."""
    lines = map(json.loads, (folder / ENDED).read_text(encoding="utf-8").splitlines())
    return {line["name"]: line for line in lines}


@app.command(hidden=True)
def work(folder: Path, rollouts: int, share: float, calm: Annotated[Path | None, typer.Argument()] = None) -> None:
    """Run the unfinished rollouts in this process; with `calm`, the folder of the fault-free run, inject faults."""
    asyncio.run(_work(folder, rollouts, share, ended_in(calm) if calm else {}))


async def _work(folder: Path, rollouts: int, share: float, calm: Mapping[str, Any]) -> None:
    ours = atlas()
    graph, replay_logs, free = ours.built(), ReplayLogs(folder / LOG), asyncio.Semaphore(AT_ONCE)
    ended = set(replay_logs.rollouts)

    async def rollout(task: Task, session: int) -> None:
        name = f"{task.id}/{session}"
        if name in ended:
            return
        fault, call = fault_of(name, share, calm[name]["calls"]) if calm else ("", 0)
        trainable = replace(ours, reward=judge_fails) if fault == "judge fails" else ours
        replay_log = replay_logs.of(name)

        def faulty() -> Faulty:
            return Faulty(SeedPolicy(name), fault, call, replay_log, folder)

        async with free:
            rollout = await run_recorded(trainable, graph, task, faulty, replay_log, seconds=SECONDS, tries=2)
            counted = counts(rollout, mask_cut_off=False, count_as_zero=())
            rows = pack(rollout.calls, limit=1600) if counted else []
            digests = [facts_of(row, rollout, name, counted=counted)["digest"] for row in rows]
            line = {"name": name, "fault": fault, "status": rollout.status, "rows": digests}
            line["calls"] = len(rollout.calls)
            with (folder / ENDED).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
            replay_log.ended(rollout.status, rollout.reward)

    tasks = ours.tasks("train", rollouts // GROUP)
    await asyncio.gather(*(rollout(task, session) for task in tasks for session in range(GROUP)))


def run_all(folder: Path, rollouts: int, share: float, *calm: Path) -> tuple[dict[str, Any], int, float]:
    """Run all rollouts; return their lines by name, the number of process starts and the total seconds."""
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "benchmarks.faults", "work", *map(str, (folder, rollouts, share, *calm))]
    begun, starts = time.monotonic(), 0
    while True:
        starts += 1
        done = subprocess.run(command, check=False)  # noqa: S603
        if done.returncode == 0:
            break
        if done.returncode != -signal.SIGKILL:
            raise typer.Exit(done.returncode)
    return ended_in(folder), starts, time.monotonic() - begun


def goodput(lines: Mapping[str, Any]) -> float:
    """Return the share of rollouts that are trained on, 0 to 1."""
    return sum(bool(line["rows"]) for line in lines.values()) / len(lines)


@app.callback(invoke_without_command=True)
def main(
    context: typer.Context,
    rollouts: Annotated[int, typer.Option(min=GROUP, help="How many, in groups of eight.")] = 2000,
    share: Annotated[float, typer.Option(min=0, max=1, help="Of them, how many meet a fault.")] = 0.1,
) -> None:
    """Run rollouts without and with faults, and compare the rows that would be trained on."""
    if context.invoked_subcommand:
        return
    with tempfile.TemporaryDirectory() as work_folder:
        before, folder = Path(work_folder) / "calm", Path(work_folder) / "faulty"
        calm, _, calm_seconds = run_all(before, rollouts, 0.0)
        found, starts, seconds = run_all(folder, rollouts, share, before)
        made = (folder / MADE).stat().st_size
        kept = sum(json.loads(line)["kind"] == "policy" for line in (folder / LOG).read_bytes().splitlines())
    poisoned = [name for name, line in found.items() if line["rows"] and line["rows"] != calm[name]["rows"]]
    for fault in FAULTS:
        statuses = Counter(line["status"] for line in found.values() if line["fault"] == fault)
        typer.echo(f"{fault:<12} {', '.join(f'{number} {status}' for status, number in statuses.most_common())}")
    typer.echo(f"{starts - 1} times the process was killed; answers of the policy {made}, kept {kept}")
    typer.echo(f"{len(found)} rollouts, {seconds / calm_seconds:.2f} times as long as without faults")
    typer.echo(f"goodput {goodput(found):.1%}, without faults {goodput(calm):.1%}")
    typer.echo(f"rollouts with poisoned rows {len(poisoned)} {' '.join(poisoned[:8])}".rstrip())


if __name__ == "__main__":
    app()
