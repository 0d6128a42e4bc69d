"""The version, and how to install what is missing, for the layers below the public API."""

__version__ = "0.2.0"

DISTRIBUTION = "agentflow-langgraph"


def pip_install(extra: str) -> str:
    """Return the command that adds an extra: from the clone where the package was installed from one, else by name."""
    return f"pip install '{'.' if _in_clone() else DISTRIBUTION}[{extra}]'"


def _in_clone() -> bool:
    """Return whether the package is an editable installation, or runs without one."""
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path

    try:
        origin = distribution(DISTRIBUTION).read_text("direct_url.json") or ""
    except PackageNotFoundError:
        return (Path(__file__).parents[1] / "pyproject.toml").is_file()
    return '"editable": true' in origin
