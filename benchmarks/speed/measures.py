"""Measures of speed: the contenders of each, and how they run.

- call: CPU time of a model call and the tool call after it, with a model that takes no time, a rollout at a time
- load: 256 rollouts of five calls at once, with a model that takes 100 ms, so that 512 rollouts a second are the bound
- imports: time and memory of an import, in a new process
- pack: calls of 256 rollouts to the trainer's rows; a call repeats the one before, as the prompts of the planner do
"""

import json
import random
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.speed.server import running
from benchmarks.speed.work import Work

ROOT = Path(__file__).parents[2]
VENVS = ROOT / ".venvs" / "speed"
"""A venv per peer, which `make bench` fills from `benchmarks/requirements`."""
SECONDS = 900
"""Timeout of one measurement of one contender, in seconds."""

Role = Literal["ours", "peer", "floor"]
Measured = dict[str, Any]
"""`values` by name, and `version`."""


class NotMeasured(RuntimeError):
    """A contender is not installed or does not run; `str()` is one line with the reason."""


@dataclass(frozen=True)
class Contender:
    """Who is measured."""

    label: str
    role: Role
    name: str
    """A function of `benchmarks.speed.contenders` as MODULE:FUNCTION, a module to import, or a way to pack."""
    venv: str = ""
    """Name of its venv in `VENVS`; "" for this interpreter."""


@dataclass(frozen=True)
class Measure:
    """One kind of measurement."""

    columns: Mapping[str, tuple[str, float]]
    """Title and scale of each value."""
    contenders: Sequence[Contender]
    make: Callable[[Contender, bool], Measured]
    """Measures a contender; with True, with a few rollouts, to see that it runs. Raises NotMeasured."""


AGENTS = (
    Contender("plain graph, our policy", "ours", "ours:plain"),
    Contender("openai SDK loop", "peer", "openai_sdk:rollouts", "openai"),
    Contender("StateGraph + aiohttp", "floor", "state_graph:rollouts"),
    Contender("AgentFlow's graph, policy", "ours", "ours:agent"),
    Contender("create_react_agent + ChatOpenAI", "peer", "langgraph_react:rollouts", "langgraph"),
    Contender("AgentFlow's graph, endpoint", "ours", "ours:endpoint"),
    Contender("AutoGen AssistantAgent", "peer", "autogen_agent:rollouts", "autogen"),
)
"""In the order of measurement: ours, peers and the floor alternate, so that noise affects all of them."""

IMPORT = """\
import time
start = time.perf_counter()
import {}
seconds = time.perf_counter() - start
import json
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"values": {{"seconds": seconds, "memory": 1024 * int(peak.split()[1])}}}}))
"""


def call(contender: Contender, small: bool) -> Measured:
    """Measure rollouts one after the other; of AgentFlow's graph with five turns, which make 17 calls."""
    work = Work("", rollouts=20 if small else 200)
    return driven(contender, replace(work, calls=17) if contender.label.startswith("AgentFlow") else work)


def load(contender: Contender, small: bool) -> Measured:
    """Measure concurrent rollouts; AgentFlow's graph makes five calls in one turn as well."""
    return driven(contender, Work("", delay=100, concurrent=256, rollouts=256 * (1 if small else 4)))


def imported(contender: Contender, small: bool) -> Measured:
    """Measure an import."""
    return printed(interpreter(contender.venv), "-c", IMPORT.format(contender.name))


def driven(contender: Contender, work: Work) -> Measured:
    """Return the result of `benchmarks.speed.drive` beside a server of its own. Raises NotMeasured."""
    with running() as server:
        words = json.dumps(asdict(replace(work, server=server)))
        return printed(interpreter(contender.venv), "-m", "benchmarks.speed.drive", contender.name, words)


def interpreter(venv: str) -> str:
    """Return the path of a venv's Python. Raises NotMeasured, with the reason if its installation failed."""
    path, log = VENVS / venv / "bin" / "python", VENVS / f"{venv}.log"
    if not venv:
        return sys.executable
    if not path.exists():
        lines = log.read_text().strip().splitlines() if log.exists() else []
        raise NotMeasured(f"not installed: {lines[-1]}" if lines else "not installed; make bench installs it")
    return str(path)


def printed(python: str, *arguments: str) -> Measured:
    """Return the JSON on the last line of a program's output. Raises NotMeasured."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
    try:
        done = subprocess.run(  # noqa: S603 - ours
            [python, "-W", "ignore", *arguments],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"not done after {SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise NotMeasured(" ".join(lines[-1].split())[:200] if lines else f"it ended with status {done.returncode}")
    found: Measured = json.loads(done.stdout.strip().splitlines()[-1])
    return found


Sampled = tuple[list[int], list[int], list[float]]
"""Ids of a prompt and of its reply, and the log-probabilities of the reply."""


def pack(contender: Contender, small: bool) -> Measured:
    """Measure the packing of rollouts, in tokens of their calls a second, the best of three."""
    made, seconds = rollouts(32 if small else 256), float("inf")
    run = PACKERS[contender.name](made)
    for _ in range(3):
        start = time.process_time()
        forward = run()
        seconds = min(seconds, time.process_time() - start)
    calls = [one for calls in made for one in calls]
    tokens, trained = sum(len(ids) + len(reply) for ids, reply, _ in calls), sum(len(reply) for _, reply, _ in calls)
    return {"values": {"rate": tokens / seconds, "forward": forward / trained}}


def rollouts(number: int) -> list[list[Sampled]]:
    """Return the calls of rollouts of two to five turns, as of a 7B planner; a prompt extends the previous call."""
    chance = random.Random(0)

    def ids(low: int, high: int) -> list[int]:
        return [chance.randrange(1000, 150_000) for _ in range(chance.randint(low, high))]

    found = []
    for _ in range(number):
        prompt, calls = ids(1850, 1850), list[Sampled]()
        for _ in range(chance.randint(2, 5)):
            reply = ids(150, 450)
            calls.append((list(prompt), reply, [-chance.random() for _ in reply]))
            prompt += [*reply, *ids(200, 700)]
        found.append(calls)
    return found


def ours(made: list[list[Sampled]]) -> Callable[[], int]:
    """Return the trainer's packing, which returns the number of tokens of its rows."""
    from agentflow.rl.rollout.calls import Call
    from agentflow.rl.rollout.packing import pack as packed

    calls = [
        [
            Call("r", "planner", turn, array("i", ids), array("i", reply), array("f", chances), "stop", 0)
            for turn, (ids, reply, chances) in enumerate(rollout)
        ]
        for rollout in made
    ]
    return lambda: sum(
        len(row.prompt_ids) + len(row.response_ids) for one in calls for row in packed(one, limit=100_000)
    )


def floor(made: list[list[Sampled]]) -> Callable[[], int]:
    """Return the same with numpy: a flat array of each field, without a row's prompt, response and origins."""
    arrays = [[[np.array(field) for field in one] for one in calls] for calls in made]

    def run() -> int:
        fields: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
        for calls in arrays:
            before = np.zeros(0, np.int64)
            for prompt, reply, chances in calls:
                extends = len(prompt) >= len(before) and np.array_equal(prompt[: len(before)], before)
                added = prompt[len(before) if extends else 0 :]
                fields[0].extend((added, reply))
                fields[1].extend((np.zeros(len(added), np.int64), np.ones(len(reply), np.int64)))
                fields[2].extend((np.zeros(len(added), np.float32), chances.astype(np.float32)))
                before = np.concatenate([prompt, reply])
        flat, _, _ = (np.concatenate(field) for field in fields)
        return len(flat)

    return run


PACKERS = {"ours": ours, "floor": floor}

MEASURES = {
    "call": Measure({"call": ("ms a call", 1e-3)}, AGENTS, call),
    "load": Measure(
        {"rate": ("rollouts/s", 1.0), "p50": ("p50, s", 1.0), "memory": ("kB a rollout", 1e3)}, AGENTS, load
    ),
    "imports": Measure(
        {"seconds": ("s", 1.0), "memory": ("MB", 1e6)},
        (
            Contender("import agentflow", "ours", "agentflow"),
            Contender("langgraph alone", "floor", "langgraph.graph", "langgraph"),
            Contender("AgentFlow's graph", "ours", "agentflow.graph.agent"),
            Contender("AutoGen", "peer", "autogen_agentchat.agents", "autogen"),
            Contender("openai SDK", "peer", "openai", "openai"),
        ),
        imported,
    ),
    "pack": Measure(
        {"rate": ("M tokens/s", 1e6), "forward": ("tokens of rows per trained one", 1.0)},
        (Contender("AgentFlow's rows", "ours", "ours"), Contender("numpy", "floor", "floor")),
        pack,
    ),
}
