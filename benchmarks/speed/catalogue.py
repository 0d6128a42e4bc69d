"""The contenders of the load measurements, and their installations."""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from benchmarks.speed.drive import arguments
from benchmarks.speed.work import Work

Role = Literal["ours", "peer", "floor"]

ROOT = Path(__file__).parents[2]
VENVS = ROOT / ".venvs" / "speed"
"""A venv per peer, which `make bench` fills from `benchmarks/requirements`."""

SECONDS = 900
"""Timeout of one measurement of one contender, in seconds."""


class NotMeasured(RuntimeError):
    """A contender is not installed or does not run; `str()` is one line with the reason."""


@dataclass(frozen=True)
class Contender:
    """A module of `benchmarks.speed.contenders`."""

    name: str
    """Name of the module."""
    label: str
    role: Role
    venv: str = ""
    """Name of its venv in `VENVS`; "" for this interpreter."""

    def driven(self, work: Work, *options: str) -> dict[str, Any]:
        """Return the result of `benchmarks.speed.drive`. Raises NotMeasured."""
        command = ["-m", "benchmarks.speed.drive", self.name, *arguments(work), *options]
        return printed(interpreter(self.venv), command)


def interpreter(venv: str) -> str:
    """Return the path of a venv's Python. Raises NotMeasured."""
    if not venv:
        return sys.executable
    path = VENVS / venv / "bin" / "python"
    if not path.exists():
        raise NotMeasured(why_not_installed(venv))
    return str(path)


def site_packages(venv: str) -> Path:
    """Return the folder of a venv's packages. Raises NotMeasured."""
    found = next((VENVS / venv).glob("lib/python*/site-packages"), None)
    if found is None:
        raise NotMeasured(why_not_installed(venv))
    return found


def why_not_installed(venv: str) -> str:
    """Return the last line of the failed installation, if one was tried."""
    log = VENVS / f"{venv}.log"
    lines = log.read_text().strip().splitlines() if log.exists() else []
    return f"not installed: {lines[-1]}" if lines else "not installed; make bench installs it"


def printed(python: str, arguments: list[str]) -> dict[str, Any]:
    """Return the JSON on the last line of a program's output. Raises NotMeasured."""
    command = [python, "-W", "ignore", *arguments]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), "NO_PROXY": "127.0.0.1"}
    try:
        done = subprocess.run(  # noqa: S603 - ours
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise NotMeasured(f"not done after {SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise NotMeasured(" ".join(lines[-1].split())[:200] if lines else f"it ended with status {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


AGENT = Contender("agentflow_agent", "AgentFlow's graph, policy", "ours")
ENDPOINT = Contender("agentflow_endpoint", "AgentFlow's graph, endpoint", "ours")
PLAIN = Contender("agentflow_policy", "plain graph, our policy", "ours")
TOOLS = Contender("agentflow_tools", "plain graph with tools, our policy", "ours")
TRACED = Contender("agentflow_traced", "plain graph, our endpoint model", "ours")
AIOHTTP = Contender("aiohttp_loop", "aiohttp loop", "floor")
STATE_GRAPH = Contender("state_graph", "StateGraph + aiohttp", "floor")
RLLM = Contender("rllm_gateway", "aiohttp through rLLM's gateway", "peer", "rllm-gateway")
LIGHTNING = Contender("agentlightning_gateway", "aiohttp through Agent Lightning", "peer", "agentlightning")
KEPT = Contender("agentflow_kept", "AgentFlow's traces", "ours")

CONTENDERS = (
    PLAIN,
    TOOLS,
    Contender("openai_sdk", "openai SDK loop", "peer", "openai"),
    STATE_GRAPH,
    AGENT,
    Contender("langgraph_react", "create_react_agent + ChatOpenAI", "peer", "langgraph"),
    AIOHTTP,
    TRACED,
    Contender("autogen_agent", "AutoGen AssistantAgent", "peer", "autogen"),
    ENDPOINT,
    Contender("smolagents_agent", "smolagents ToolCallingAgent", "peer", "smolagents"),
    RLLM,
    LIGHTNING,
)
"""Contenders in the order of measurement. Ours, peers and floors alternate, so that noise affects all of them."""
