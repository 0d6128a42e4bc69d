"""Time and memory of an import, each in a new process: `python -m benchmarks.speed.imports`."""

from functools import partial
from typing import Any

from benchmarks.speed.catalogue import Role, interpreter, printed
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults

MODULES: tuple[tuple[str, str, Role, str], ...] = (
    ("agentflow", "import agentflow", "ours", ""),
    ("langgraph.graph", "langgraph alone", "floor", "langgraph"),
    ("agentflow.graph.agent", "AgentFlow's graph", "ours", ""),
    ("smolagents", "smolagents", "peer", "smolagents"),
    ("autogen_agentchat.agents", "AutoGen", "peer", "autogen"),
    ("agentlightning.server.app", "Agent Lightning's server", "peer", "agentlightning"),
    ("openai", "openai SDK", "peer", "openai"),
)
"""Module, label, role and venv."""

PROGRAM = """\
import time
start = time.perf_counter()
import {module}
seconds = time.perf_counter() - start
import json
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({{"values": {{"seconds": seconds, "memory": 1024 * int(peak.split()[1])}}}}))
"""


def measure(results: SpeedResults) -> None:
    """Return seconds and bytes. The first round, which reads files from the disk, is not counted."""
    for repeat in range(-1, 1 if results.small else 3 * results.repeats):
        for module, label, role, venv in MODULES:
            kind = "warm-up" if repeat < 0 else "imports"
            results.once(
                partial(_imported, module, venv),
                measure=kind,
                name=module,
                label=label,
                role=role,
                repeat=repeat,
            )


def _imported(module: str, venv: str) -> dict[str, Any]:
    return printed(interpreter(venv), ["-c", PROGRAM.format(module=module)])


if __name__ == "__main__":
    command(measure, __doc__)
