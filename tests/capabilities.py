"""What a machine lacks of what tests exercise, with the commands that install it."""

import shutil
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ELSEWHERE = {"gpu", "vllm-cpu"}
"""Extras that need a GPU, or a venv of their own."""
PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]


def chromium() -> str:
    """Return the path of a Chromium, "" if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), "")


def missing() -> Iterator[str]:
    """Yield what this machine lacks, as commands."""
    programs = {"bubblewrap": shutil.which("bwrap"), "chromium": chromium()}
    yield from (f"apt install {name}" for name, there in programs.items() if not there)
    for extra, needed in PROJECT["optional-dependencies"].items():
        if extra not in ELSEWHERE and not all(map(_installed, needed)):
            yield f"pip install -e '.[{extra}]'"


def _installed(requirement: str) -> bool:
    try:
        return bool(distribution(Requirement(requirement).name))
    except PackageNotFoundError:
        return False
