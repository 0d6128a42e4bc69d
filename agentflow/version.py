"""The version, and how to install what is missing, for the layers below the public API."""

__version__ = "0.2.0"

DISTRIBUTION = "agentflow-langgraph"


def pip_install(extra: str) -> str:
    """Return the command that adds an extra: from the clone, folder or file of the installation, else by name."""
    return f"pip install '{_source(extra)}'"


def _source(extra: str) -> str:
    import json
    from importlib.metadata import PackageNotFoundError, distribution
    from pathlib import Path
    from urllib.parse import unquote, urlsplit

    named = f"{DISTRIBUTION}[{extra}]"
    try:
        origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:
        return f".[{extra}]" if (Path(__file__).parents[1] / "pyproject.toml").is_file() else named
    if origin.get("dir_info", {}).get("editable"):
        return f".[{extra}]"
    if "dir_info" in origin:
        return f"{unquote(urlsplit(origin['url']).path)}[{extra}]"
    vcs = f"{origin['vcs_info']['vcs']}+" if "vcs_info" in origin else ""
    return f"{named} @ {vcs}{origin['url']}" if origin else named
