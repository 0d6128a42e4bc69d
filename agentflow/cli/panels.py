"""The panels in which the help of a command with many options shows them."""

from typing import Any

from typer.core import TyperCommand, TyperOption

PANELS = {
    "Agent": "agent planner model tools context_file max_turns max_seconds temperature approve reply_tokens "
    "memory_tokens structured_output",
    "Learning": "learn tasks test reward nodes reflection rollouts held_out share batch trial training",
    "Questions": "limit subset ids span family sample per_family seed file epochs",
    "Scoring and limits": "judge timeout max_tokens max_cost price",
    "Running and resuming": "concurrency out retry retry_on_error fail_on_error thread checkpoints",
    "Output": "as_json trace usage",
    "Search": "corpus search_engine search_cache",
    "Server": "host port",
    "Tracing": "tracing tracing_content log",
}
"""Parameters by panel; an option stands in the same panel of every command."""


class PanelledCommand(TyperCommand):
    """A command whose options stand in `PANELS`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        panel_of = {name: panel for panel, names in PANELS.items() for name in names.split()}
        for param in self.params:
            if isinstance(param, TyperOption) and param.name in panel_of:
                param.rich_help_panel = panel_of[param.name]
