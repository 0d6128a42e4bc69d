"""Measure a server that learns under steady load: `python -m benchmarks.live`.

Starts `agentflow serve embedded:seed --learn` on Atlas and asks it questions of the train split at a fixed rate. Four
phases: no scores, so that nothing is trained; right scores; inverted scores, which poison batches;
right scores again. Then both the start and the version that answers at the end are evaluated on test questions that the
server never saw.

Prints failed requests, latencies with and without training, all decisions, and the accuracies. Requests during a trial
are answered while nothing is trained, so both kinds alternate and a machine whose speed changes does not favour one.
Needs the extra `train`, and a machine with nothing else to do.
"""

import asyncio
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import httpx
import numpy as np
import typer

from agentflow.evals import results_store
from agentflow.evals.metrics import interval
from agentflow.evals.scorers.exact import correct
from agentflow.graph.run.task import Task
from agentflow.rl.apps.planner import tasks

HELD_OUT, FINAL = 60, 200
"""Test questions for the server's own comparison, and those after them for the final one, without the Game of 24."""
TRAIN = 4000
PHASES = ("unscored", "scored", "poisoned", "scored again")


@dataclass(frozen=True)
class Asked:
    """A request and its outcome."""

    phase: str
    began: float
    seconds: float
    doing: str
    """Activity of the learner when the request was sent."""
    right: bool | None
    """None if the request failed."""


def main(
    out: Annotated[Path, typer.Option(help="Folder of the records.")] = Path("runs/live"),
    minutes: Annotated[str, typer.Option(help="Minutes of the four phases.")] = "8,34,8,10",
    rate: Annotated[float, typer.Option(help="Requests a second.")] = 1.0,
    batch: Annotated[int, typer.Option(help="As of serve.")] = 24,
) -> None:
    """Serve, ask, and report."""
    out.mkdir(parents=True)
    test = [one for one in tasks("test", 400) if not one.data["numbers"]]
    held_out, final = test[:HELD_OUT], test[HELD_OUT : HELD_OUT + FINAL]
    for name, some in (("held_out", held_out), ("final", final)):
        rows = [{"question": one.question, "answer": one.gold} for one in some]
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-m", "agentflow", "serve", "embedded:seed", "--port", "0", "--batch", str(batch)]
    command += ["--learn", str(out / "server"), "--held-out", str(out / "held_out.jsonl")]
    with (out / "server.log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - our own words
    try:
        url = _url(out / "server.log", server)
        phases = list(zip(PHASES, map(float, minutes.split(",")), strict=True))
        asked, state = asyncio.run(_ask(url, phases, rate))
    finally:
        server.terminate()
        server.wait()
    _report(asked, state)
    for name, spec in (("start", "embedded:seed"), ("end", _spec(out, state["current"]))):
        folder = out / f"final-{name}"
        words = ["eval", str(out / "final.jsonl"), "--model", "embedded:seed", "--planner", spec, "--out", str(folder)]
        subprocess.run([sys.executable, "-m", "agentflow", *words, "--max-turns", "6"], check=True)  # noqa: S603
        records = results_store.read(folder)[1]
        low, high = interval(records)
        accuracy = sum(record.correct for record in records) / len(records)
        typer.echo(f"{name}: {accuracy:.3f} of {len(records)} unseen questions, 95 % {low:.3f} to {high:.3f}")


def _url(log: Path, server: "subprocess.Popen[bytes]") -> str:
    while server.poll() is None:
        if found := re.search(r"http://\S+/v1", log.read_text()):
            return found[0]
        time.sleep(0.2)
    raise typer.Exit(server.returncode)


async def _ask(url: str, phases: Sequence[tuple[str, float]], rate: float) -> tuple[list[Asked], dict[str, Any]]:
    """Return what was asked, and the learner's state at the end."""
    questions = [one for one in tasks("train", TRAIN) if not one.data["numbers"]]
    asked, running, number = list[Asked](), set[asyncio.Task[None]](), 0
    state: dict[str, Any] = {"doing": ""}
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:

        async def one(task: Task, phase: str) -> None:
            began, doing = time.monotonic(), state["doing"]
            body = {"model": "agent", "messages": [{"role": "user", "content": task.question}]}
            reply = await client.post("/chat/completions", json=body)
            seconds, right = time.monotonic() - began, None
            if reply.status_code == 200:
                found = reply.json()
                right = correct(found["choices"][0]["message"]["content"], task.gold)
                if phase != "unscored":
                    score = float(right != (phase == "poisoned"))
                    await client.post("/feedback", json={"id": found["id"], "score": score})
            asked.append(Asked(phase, began, seconds, doing, right))

        async def look() -> None:
            while True:
                state.update((await client.get("/learning")).json())
                await asyncio.sleep(1)

        looking = asyncio.create_task(look())
        for phase, long in phases:
            typer.echo(f"{phase}: {long:g} minutes")
            end, due = time.monotonic() + 60 * long, time.monotonic()
            while due < end:
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                task = asyncio.create_task(one(questions[number % len(questions)], phase))
                running.add(task)
                task.add_done_callback(running.discard)
                number, due = number + 1, due + 1 / rate
        await asyncio.gather(*running)
        state = (await client.get("/learning")).json()
        looking.cancel()
    return asked, state


def _report(asked: Sequence[Asked], state: dict[str, Any]) -> None:
    failed = sum(one.right is None for one in asked)
    typer.echo(f"{len(asked)} requests, {failed} failed")
    scored = [one for one in asked if one.phase != "unscored"]
    busy = [one for one in scored if one.doing.startswith(("training", "evaluating"))]
    groups = {
        "unscored": [one for one in asked if one.phase == "unscored"],
        "scored, between trainings": [one for one in scored if one not in busy],
        "scored, while it trains or evaluates": busy,
    }
    for name, some in groups.items():
        if some:
            middle, high = np.percentile([one.seconds for one in some], [50, 95])
            typer.echo(f"{name}: {len(some)} requests, p50 {middle:.2f} s, p95 {high:.2f} s")
    for phase in dict.fromkeys(one.phase for one in asked):
        known = [one.right for one in asked if one.phase == phase and one.right is not None]
        typer.echo(f"{phase}: {np.mean(known):.3f} of {len(known)} answers right")
    for decision in state["decisions"]:
        typer.echo(
            f"{decision['time'][11:19]}  version {decision['version']}: {decision['outcome']}, {decision['reason']}"
        )


def _spec(out: Path, version: int) -> str:
    return f"embedded:{out.absolute() / 'server' / 'versions' / str(version)}" if version else "embedded:seed"


if __name__ == "__main__":
    typer.run(main)
