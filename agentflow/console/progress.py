"""Progress of long-running work: a bar on a terminal, lines elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from agentflow.console.terminal import percent

if TYPE_CHECKING:
    from agentflow.rl.apps.trainable import Split
    from agentflow.rl.run.training_log import Line
    from agentflow.rl.settings import TrainingSettings


class Bar(Progress):
    """A progress bar shown while the `with` block runs; disabled if the output is not a terminal."""

    def __init__(
        self, out: Console, says: str, total: int | None = None, done: int = 0, amount: ProgressColumn | None = None
    ) -> None:
        """Begin with `done` of `total` items; `amount` is the column that shows them, by default as "3/10"."""
        columns = (
            BarColumn(bar_width=20),
            amount or MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
        )
        super().__init__(*columns, console=out, transient=True, disable=not out.is_terminal)
        self._task = self.add_task(says, total=total, completed=done)


class EvalProgress(Bar):
    """Finished items, accuracy so far and time left; without a terminal, a line every 10 %."""

    def __init__(self, out: Console, total: int, ended: int, correct: int) -> None:
        self._total, self._ended, self._correct = total, ended, correct
        super().__init__(out, self._accuracy(), total, ended)

    def add(self, *, correct: bool) -> None:
        """Count one finished item."""
        tenths = self._ended * 10 // self._total
        self._ended, self._correct = self._ended + 1, self._correct + correct
        self.update(self._task, advance=1, description=self._accuracy())
        if not self.console.is_terminal and self._ended * 10 // self._total > tenths:
            self.console.print(f"{self._ended}/{self._total}, {self._accuracy()}")

    def _accuracy(self) -> str:
        return f"accuracy {self._correct / self._ended:.2f}" if self._ended else "accuracy -"


class CountProgress(Bar):
    """Finished items of a known total, and time left."""

    def add(self) -> None:
        """Count one finished item."""
        self.advance(self._task)


class BuildView(Bar):
    """Progress of a corpus build: share of the dump read; without a terminal, a line every 10 %."""

    def __init__(self, out: Console) -> None:
        self._tenths = 0
        super().__init__(out, "starting", amount=TextColumn("{task.percentage:>3.0f} %"))

    def show(self, passages: int, done: int, total: int) -> None:
        """Update after a batch was written, when `done` bytes of the dump were read."""
        reading = done < total
        says = f"{passages:,} passages{'' if reading else ', merging the index'}"
        # Merging reports no progress, so the total is unknown.
        self.update(self._task, completed=done, total=total if reading else None, description=says)
        tenths = done * 10 // max(1, total)
        if not self.console.is_terminal and (tenths > self._tenths or not reading):
            self._tenths = tenths
            self.console.print(f"{10 * tenths} %, {says}")


class TrainView(Bar):
    """Progress of a training run: a line for each validation, then the last step's metrics and time left."""

    def __init__(self, out: Console) -> None:
        super().__init__(out, "checking the settings and the app")
        self._cause, self._tenth = "", (0, -1)

    def _say(self, text: str, total: int | None = None) -> None:
        """Show what is done now; without a terminal, as a line."""
        self.update(self._task, description=text, total=total)
        if not self.console.is_terminal:
            self.console.print(text)

    def begin(self, settings: "TrainingSettings") -> None:
        """Set the total number of steps before the workers start."""
        tasks = (Path(settings.out) / "tasks" / "test.jsonl").read_bytes().count(b"\n")
        self._validated = tasks * settings.validation_rollouts
        self._say("starting workers, then the first validation", total=settings.steps)

    def rollouts(self, step: int, split: "Split", ended: int) -> None:
        """Show how far a validation is: on a terminal each rollout, elsewhere a line every 10 %."""
        tenth = (step, ended * 10 // max(1, self._validated))
        if split == "test" and (self.console.is_terminal or tenth > self._tenth):
            from agentflow.rl.run.training_log import doing

            self._tenth = tenth
            self._say(doing(step, split, ended, self._validated))

    def show(self, line: "Line") -> None:
        """Show a line of metrics.jsonl."""
        for worker in line.get("restarted", ()):
            self.console.print(f"step {line['step']:>4}  {worker}")
        if line["split"] == "test":
            passed = "".join(f", pass@{k} {share:.3f}" for k, share in list(line.get("pass_at", {}).items())[-1:])
            figures = f"{passed}, {line['turns']:.2f} turns, tool errors {percent(line['tool_error_rate'])}"
            self.console.print(
                f"step {line['step']:>4}  {line['lost']}"
                if "lost" in line
                else f"step {line['step']:>4}  held-out accuracy {line['accuracy']:.3f} of {line['rollouts']} rollouts"
                f"{figures}{_lost_text(line)}"
            )
            return
        raised = line.get("alarm", {"cause": ""})
        if raised["cause"] not in ("", self._cause):
            self.console.print(
                f"step {line['step']:>4}  alarm ({raised['cause']}): {raised['evidence']}; {raised['remedy']}"
            )
        self._cause = raised["cause"]
        text = train_text(line)
        self.update(self._task, completed=line["step"], description=text)
        if not self.console.is_terminal:
            self.console.print(f"step {line['step']:>4}  {text}")


def train_text(line: "Line") -> str:
    """Format a training step's metrics in one line."""
    finished, left_out = line.get("reward_finished", line["reward"]), line.get("left_out")
    both = f" ({finished:.3f} of the finished)" if finished != line["reward"] else ""
    return (
        f"reward {line['reward']:.3f}{both}  turns {line['turns']:.2f}  "
        f"tool errors {percent(line['tool_error_rate'])}  {_signal_text(line)}{_loss_text(line)}  "
        f"{line['tokens_per_second']:.0f} tok/s  {line['seconds/step']:.1f} s"
        f"{f'  left out {percent(left_out)}' if left_out else ''}{_lost_text(line)}"
    )


def _lost_text(line: "Line") -> str:
    """Format the rollouts that did not end by themselves, by their outcome."""
    lost = {name.removeprefix("status/"): number for name, number in line.items() if name.startswith("status/")}
    return "".join(f", {number:.0f} {status}" for status, number in lost.items() if number and status != "ok")


def _signal_text(line: "Line") -> str:
    if "nll" in line or "groups_with_signal" not in line:  # supervised, or a step of an older version
        return ""
    return f"signal in {percent(line['groups_with_signal'])} of groups  "


def _loss_text(line: "Line") -> str:
    if "nll" in line:  # supervised
        return f"loss {line['nll']:.4f}"
    divergence = f"KL {line['kl']:.4f}  " if "kl" in line else ""
    return f"{divergence}clipped {percent(line.get('clip_fraction', 0.0))}"
