"""What pages say of the program is read off the program when the site is built.

A page names a table in a comment, `<!-- generated: NAME -->`, and the table takes its place: `commands`, what the
command line's help says, and `settings`, the fields of `Context` as Studio shows them.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by MkDocs for each page. Raises KeyError for a name that there is not."""
    return MARK.sub(lambda match: GENERATED[match[1]](), markdown)


def commands() -> str:
    """Every command with its options, as typer's own generator writes it; the page has the title."""
    call = [sys.executable, "-m", "typer", "agentflow.cli", "utils", "docs", "--name", "agentflow"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - nobody else's words
    printed = done.stdout
    # The usual command of the group `eval` has a name that no user sees.
    printed = printed.replace("### `agentflow eval run`", "### `agentflow eval NAME...`").replace("eval run ", "eval ")
    printed = re.sub(r"\* `run`: .*\n", "", printed)
    return printed.replace("# `agentflow`\n", "", 1)


def settings() -> str:
    """Every field of `Context`: name, type, default, and its help."""
    sys.path.insert(0, str(ROOT))
    from agentflow.graph.context import Context

    rows = ["| setting | type | default | |", "| --- | --- | --- | --- |"]
    for name, schema in Context.model_json_schema()["properties"].items():
        field = Context.model_fields[name]
        default = _default(field.get_default(call_default_factory=True))
        cells = [f"`{name}`", _type(schema), default, f"{field.description or ''} {_range(schema)}".strip()]
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows)


def _default(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(f"`{one}`" for one in value)
    return f"`{value}`" if value not in ("", {}) else ""


def _type(schema: dict[str, Any]) -> str:
    if choices := schema.get("enum"):
        return ", ".join(f"`{choice}`" for choice in choices)
    names = {"array": "list of texts", "object": "by module", "string": "text"}
    return names.get(schema.get("type", ""), schema.get("type", "settings"))


def _range(schema: dict[str, Any]) -> str:
    bounds = {"minimum": "at least {}", "exclusiveMinimum": "more than {}", "maximum": "at most {}"}
    said = [text.format(schema[key]) for key, text in bounds.items() if key in schema]
    return f"({', '.join(said)})" if said else ""


GENERATED: dict[str, Callable[[], str]] = {"commands": commands, "settings": settings}
