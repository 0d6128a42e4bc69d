"""Generate the reference of commands and settings from the program when MkDocs builds the site, and llms.txt.

A comment `<!-- generated: NAME -->` in a page becomes one of three texts: `commands`, the help of the command line,
`settings`, the fields of `Context` as Studio shows them, or `algorithms`, the formula of each.
"""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


PAGES: dict[str, str] = {}
"""The text of each page, by its path."""


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace the comments of a page; MkDocs calls this for each. Raises KeyError for an unknown name."""
    text = MARK.sub(lambda match: GENERATED[match[1]](), markdown)
    PAGES[page.file.src_uri] = text
    return text


def on_post_build(config: Any, **_: Any) -> None:
    """Write llms.txt, the contents for language models, and the pages as Markdown, which it leads to."""
    site = Path(config.site_dir)
    for path, text in PAGES.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text, encoding="utf-8")
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", "", *_contents(config.nav)]
    (site / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")


def _contents(nav: list[dict[str, Any]], depth: int = 2) -> Iterator[str]:
    """Yield a line for each page, with its first sentence, and a heading for each group."""
    for title, where in (item for entry in nav for item in entry.items()):
        if isinstance(where, list):
            yield from ["", f"{'#' * depth} {title}", "", *_contents(where, depth + 1)]
        else:
            body = re.sub(r"\]\([^)]*\)|[\[\]*`]", "", re.sub(r"^(#|```|!|\|).*$", "", PAGES[where], flags=re.M))
            first = re.split(r"(?<=[.?])\s|\n\n", body.strip())[0]
            yield f"- [{title}]({where}): {' '.join(first.split())}"


def commands() -> str:
    """Return every command with its options, from typer's own generator, without its title."""
    call = [sys.executable, "-m", "typer", "agentflow.cli", "utils", "docs", "--name", "agentflow"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - constant arguments
    printed = _whole(done.stdout)
    # The default command of the group `eval` has a name that users never type.
    printed = printed.replace("### `agentflow eval run`", "### `agentflow eval NAME...`").replace("eval run ", "eval ")
    printed = re.sub(r"\* `run`: .*\n", "", printed)
    return printed.replace("# `agentflow`\n", "", 1)


def _whole(printed: str) -> str:
    """Replace each entry in a list of commands, which typer cuts, by the first paragraph of the command's section."""
    heading = re.compile(r"^#+ `(agentflow[^`]*)`\n\n(.+?)\n\n", re.MULTILINE | re.DOTALL)
    first = {command: " ".join(paragraph.split()) for command, paragraph in heading.findall(printed)}
    sections = re.split(r"^(?=#+ `agentflow)", printed, flags=re.MULTILINE)
    for index, section in enumerate(sections):
        if group := heading.match(section):
            entry = re.compile(r"^\* `([a-z][\w-]*)`: .*$", re.MULTILINE)
            sections[index] = entry.sub(lambda match: f"* `{match[1]}`: {first[f'{group[1]} {match[1]}']}", section)
    return "".join(sections)


def settings() -> str:
    """Return a table of the fields of `Context`: name, type, default and help."""
    sys.path.insert(0, str(ROOT))
    from agentflow.graph.context import Context

    rows = ["| setting | type | default | |", "| --- | --- | --- | --- |"]
    for name, schema in Context.model_json_schema()["properties"].items():
        field = Context.model_fields[name]
        default = _default(field.get_default(call_default_factory=True))
        cells = [f"`{name}`", _type(schema), default, f"{field.description or ''} {_range(schema)}".strip()]
        rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows)


def algorithms() -> str:
    """Return a table of the algorithms: name and formula."""
    sys.path.insert(0, str(ROOT))
    from agentflow.rl.algorithms import FORMULAS

    rows = ["| algorithm | advantage |", "| --- | --- |"]
    return "\n".join([*rows, *(f"| `{name}` | {formula} |" for name, formula in FORMULAS.items())])


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


GENERATED: dict[str, Callable[[], str]] = {"commands": commands, "settings": settings, "algorithms": algorithms}
