"""Find the regular expressions in the product's source."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

_FROM_THE_BEGINNING = {"match", "fullmatch"}
PACKAGES = ("", "cli", "console", "checks", "view", "evals", "graph", "nodes", "rl", "tools")
HOME = Path(__file__).parents[1]

MADE = {
    "agentflow.evals.atlas.oracle": "a policy of ours reads what it wrote itself",
    "agentflow.evals.audit:own_page": "a literal address between two looks at one character",
    "agentflow.evals.scorers.option:_marked": "the words of an option, one after the other",
    "agentflow.nodes.reply_parsing:label_pattern": "read_labels",
    "agentflow.nodes.planner:_named_tools": "chosen_tool",
    "agentflow.tools.borders:_own": "literals, and a look ahead of their length",
    "agentflow.view.search:_pattern": "literal letters, each in both cases",
}
"""Functions that build an expression at run time, with the parser that covers them or why none is needed."""


@dataclass(frozen=True)
class Expression:
    """A regular expression of the product, with its location.

    `whole` is true if the pattern is only used with `match` and `fullmatch`.
    """

    where: str
    pattern: re.Pattern[str] | re.Pattern[bytes]
    whole: bool

    def run(self, text: str) -> None:
        """Apply the pattern to all of `text`, as the product does."""
        pattern: Any = self.pattern
        given, empty = (text.encode(), b"") if isinstance(pattern.pattern, bytes) else (text, "")
        if self.whole:
            pattern.match(given)
            pattern.fullmatch(given)
        else:
            pattern.sub(empty, given)


def expressions() -> Iterator[Expression]:
    """Yield all expressions of the product.

    Raises LookupError for one that is built at run time and not listed in MADE.
    """
    for path in sorted(path for package in PACKAGES for path in _sources(package)):
        name = f"agentflow.{'.'.join(path.with_suffix('').parts)}".removesuffix(".__init__")
        tree = ast.parse((HOME / "agentflow" / path).read_text())
        if any(isinstance(node, ast.Name) and node.id == "re" for node in ast.walk(tree)):
            yield from _of_module(importlib.import_module(name), tree)


def _sources(package: str) -> Iterator[Path]:
    folder = (HOME / "agentflow" / package).resolve()  # some are symlinks, which rglob does not follow
    for path in folder.rglob("*.py") if package else folder.glob("*.py"):
        yield package / path.relative_to(folder)


def _of_module(module: ModuleType, tree: ast.Module) -> Iterator[Expression]:
    methods: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            methods.setdefault(node.value.id, set()).add(node.attr)
    for loop in (node for node in ast.walk(tree) if isinstance(node, ast.For)):
        match loop:
            case ast.For(target=ast.Name(id=each), iter=ast.Name(id=variable)):
                methods[variable] = methods.get(each, set())
    for variable, value in vars(module).items():
        for number, pattern in enumerate(_patterns(value)):
            whole = bool(used := methods.get(variable, set())) and used <= _FROM_THE_BEGINNING
            yield Expression(f"{module.__name__}:{variable}{number or ''}", pattern, whole)
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        yield from _inline(module, function)


def _patterns(value: object) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (pattern for item in value for pattern in _patterns(item))
    elif isinstance(value, dict):
        yield from (pattern for item in value.values() for pattern in _patterns(item))


def _inline(module: ModuleType, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Expression]:
    """Yield the expressions in a function's calls of `re`."""
    for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
        match call.func:
            case ast.Attribute(value=ast.Name(id="re"), attr=method) if method not in ("escape", "purge"):
                where = f"{module.__name__}:{function.name}"
                flags = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
                flags += call.args[2:3] if method in ("match", "fullmatch", "search", "findall", "finditer") else []
                try:
                    written, *given = (
                        eval(compile(ast.Expression(node), "expression", "eval"), vars(module))
                        for node in [call.args[0], *flags]
                    )
                except NameError:
                    if where not in MADE:
                        raise LookupError(f"{where} makes an expression as it runs; name it in MADE") from None
                    continue
                pattern = written if isinstance(written, re.Pattern) else re.compile(written, *given)
                yield Expression(f"{where}:{call.lineno}", pattern, method in _FROM_THE_BEGINNING)
