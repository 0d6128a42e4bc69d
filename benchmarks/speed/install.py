"""Disk space of an installation, without pip and its dependencies: `python -m benchmarks.speed.install`.

Ours is the core, without extras, in its own venv.
"""

from benchmarks.speed.catalogue import Role, site_packages
from benchmarks.speed.command import command
from benchmarks.speed.results import SpeedResults

INSTALLED: tuple[tuple[str, str, Role], ...] = (
    ("agentflow", "AgentFlow, core", "ours"),
    ("langgraph", "langgraph + langchain-openai", "floor"),
    ("agentlightning", "Agent Lightning", "peer"),
    ("smolagents", "smolagents", "peer"),
    ("autogen", "AutoGen", "peer"),
    ("openai", "openai SDK", "peer"),
    ("rllm-gateway", "rLLM's gateway", "peer"),
)
"""Venv, label and role."""

OTHER = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "wheel")


def measure(results: SpeedResults) -> None:
    """Return the bytes."""
    for venv, label, role in INSTALLED:
        what = {"measure": "install", "name": venv, "label": label, "role": role, "repeat": 0}
        results.once(lambda venv=venv: {"values": {"bytes": size(venv)}}, **what)  # type: ignore[misc]


def size(venv: str) -> float:
    """Return the bytes of a venv's packages as compiled by pip. Raises NotMeasured."""
    ours = (path for path in site_packages(venv).iterdir() if path.name.partition("-")[0] not in OTHER)
    files = (file for path in ours for file in (path.rglob("*") if path.is_dir() else [path]))
    return float(sum(file.stat().st_size for file in files if file.is_file()))


if __name__ == "__main__":
    command(measure, __doc__)
