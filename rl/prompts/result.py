"""The result of a search: the prompts, a diff to read, and the held-out rewards before and after."""

import difflib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentflow.rl.held_out import HeldOut

if TYPE_CHECKING:
    from agentflow.rl.prompts.search import Progress

DIFF = "prompts.diff"


@dataclass(frozen=True)
class Found:
    """Result of a search: the best prompts with their scores."""

    default: dict[str, str]
    """Prompts by node before the search."""
    best: dict[str, str]
    """Prompts with the best validation score; the default ones if no candidate was better."""
    kept: dict[str, str]
    """Prompts of other nodes that the search began with, and did not change."""
    held_out: HeldOut
    progress: "Progress"
    refused: int
    """Prompts that could not be used, such as those without a placeholder."""
    unpriced: set[str]
    """Models for which the limit of dollars did not hold."""
    file: Path
    """File of the prompts, as `--context` takes those of AgentFlow."""

    @property
    def diff_file(self) -> Path:
        """File of the diff."""
        return self.file.with_name(DIFF)

    @property
    def changed(self) -> dict[str, str]:
        """The prompts that differ from the default ones."""
        return {node: text for node, text in self.best.items() if text != self.default[node]}

    @property
    def diff(self) -> str:
        """A unified diff of each changed prompt."""
        return "".join(
            f"{line}\n"
            for node, text in self.changed.items()
            for line in difflib.unified_diff(
                self.default[node].splitlines(), text.splitlines(), f"{node} (before)", f"{node} (after)", lineterm=""
            )
        )

    def write(self) -> None:
        """Write the prompts and their diff. Raises OSError."""
        text = json.dumps({"prompts": {**self.kept, **self.changed}}, indent=2, ensure_ascii=False)
        self.file.write_text(text + "\n", encoding="utf-8")
        self.diff_file.write_text(self.diff, encoding="utf-8")
