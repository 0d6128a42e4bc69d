"""Table of a run's usage: calls, tokens and cost in USD of each module and model."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentflow.tools.untrusted_text import one_line

if TYPE_CHECKING:
    from agentflow.graph.run.cost import Price
    from agentflow.graph.run.trace import Tokens, Usage


def print_usage(out: Console, usage: "Usage", prices: "Mapping[str, Price]") -> None:
    """Print a row for each module and model whose server counts tokens, and their sum; costs if any is known."""
    from agentflow.graph.run.cost import cost
    from agentflow.graph.run.trace import Tokens

    costs = {
        (module, model): cost({model: tokens}, prices)
        for module, models in usage.modules.items()
        for model, tokens in models.items()
    }
    known = [each for each in costs.values() if each is not None]
    table = Table("module", "model", box=None, pad_edge=False)
    for heading in ("calls", "read", "written", *(["dollars"] if known else [])):
        table.add_column(heading, justify="right")
    for module, models in usage.modules.items():
        for model, tokens in models.items():
            table.add_row(
                Text(one_line(module)), Text(one_line(model)), *_counts(tokens), *_dollars(costs[module, model], known)
            )
    table.add_section()
    total = sum(usage.models.values(), Tokens())
    whole = sum(known) if len(known) == len(costs) else None
    table.add_row("all", "", *_counts(total), *_dollars(whole, known), style="bold")
    out.print()
    out.print(table)
    if usage.calls > total.calls:
        out.print(Text(f"{usage.calls - total.calls} further calls failed, or their server counts no tokens", "dim"))


def _counts(tokens: "Tokens") -> tuple[str, str, str]:
    return f"{tokens.calls:,}", f"{tokens.input_tokens:,}", f"{tokens.output_tokens:,}"


def _dollars(cost: float | None, known: list[float]) -> list[str]:
    if not known:
        return []
    return ["?" if cost is None else f"{cost:.6f}"]
