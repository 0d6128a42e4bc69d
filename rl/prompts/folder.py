"""The run folder of a search: its settings, every rollout and every reflection, so that it can be resumed.

- `settings.json` has the settings. Another search cannot continue in the folder.
- `rollouts.jsonl` and `reflections.jsonl` have a line for each; budgets are counted from them. A lock on the first
  ensures that only one process writes.
- `gepa/` is the state of the package, which it writes before each iteration, as a pickle. A pickle can run any
  program when it is read, so a state is read only after `check_state` has found nothing but plain data in it.
"""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from agentflow.evals.results_store import ResultsError, drop_torn_line, lines_of, lock
from agentflow.evals.run_folder import SETTINGS, RunFolderError, RunSettings, read_settings, write_settings
from agentflow.graph.run.trace import Trace, Usage, to_line
from agentflow.rl.prompts.errors import PromptsError
from agentflow.rl.rollout import RolloutStatus
from agentflow.tools.redaction import redacted_data

ROLLOUTS, REFLECTIONS, GEPA, STATE = "rollouts.jsonl", "reflections.jsonl", "gepa", "gepa_state.bin"

Phase = Literal["before", "search", "after"]
"""before: held-out tasks with the default prompts. after: the same tasks with the best ones."""


class SearchSettings(RunSettings):
    """Settings that identify a search. The budget is not one of them, so that a search can resume with a larger one."""

    kind: Literal["prompts"] = "prompts"
    app: str
    nodes: list[str]
    """Patterns of the nodes; empty for all."""
    context: JsonValue = None
    """The settings of AgentFlow's runs; None for another graph."""
    reflection: str
    """Model that writes prompts."""
    tasks: str
    """Hash of the tasks, in their order."""
    seconds: float
    """Time limit of a rollout."""
    seed: int


class PromptRollout(Trace):
    """A rollout with a candidate's prompts; a line of rollouts.jsonl."""

    phase: Phase
    candidate: str
    """Hash of the prompts."""
    outcome: RolloutStatus
    reward: float
    """0 to 1; 0.0 unless the outcome is OK."""
    systems: dict[str, list[str]] = Field(default_factory=dict, exclude_if=lambda systems: not systems)
    """System messages by node; only of the rollouts before the search."""


class Reflection(BaseModel):
    """A prompt that the reflection model wrote; a line of reflections.jsonl."""

    model_config = ConfigDict(extra="forbid")

    node: str
    text: str
    refused: str = ""
    """Why the prompt cannot be used; "" for a candidate."""
    usage: Usage


class SearchFolder:
    """An open run folder. Use as a context manager."""

    def __init__(self, folder: Path, settings: SearchSettings) -> None:
        """Open or create `folder`. Raises PromptsError if it holds another run or cannot be used."""
        self.folder, self.gepa = folder, folder / GEPA
        settings = SearchSettings.model_validate(redacted_data(settings.model_dump()))
        try:
            self.gepa.mkdir(parents=True, exist_ok=True)
            self._rollouts, self._reflections = (folder / ROLLOUTS).open("ab+"), (folder / REFLECTIONS).open("ab+")
        except OSError as error:
            raise PromptsError(
                f"cannot write to {folder} ({error.strerror}); choose another --out", code="unwritable"
            ) from error
        try:
            lock(self._rollouts, folder)
            _check_same(folder, settings)
            write_settings(folder, settings)
            drop_torn_line(self._rollouts)
            drop_torn_line(self._reflections)
            self.rollouts = [*lines_of(folder / ROLLOUTS, PromptRollout, "a rollout")]
            self.reflections = [*lines_of(folder / REFLECTIONS, Reflection, "a reflection")]
            check_state(self.gepa / STATE)
        except (ResultsError, RunFolderError) as error:
            self.close()
            raise PromptsError(str(error), code=error.code) from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files and release the lock."""
        self._rollouts.close()
        self._reflections.close()

    def add_rollout(self, rollout: PromptRollout) -> None:
        """Add a rollout and write it. Raises OSError."""
        self.rollouts.append(rollout)
        self._rollouts.write(to_line(rollout).encode() + b"\n")
        self._rollouts.flush()

    def add_reflection(self, reflection: Reflection) -> None:
        """Add a reflection and write it. Raises OSError."""
        self.reflections.append(reflection)
        self._reflections.write(to_line(reflection).encode() + b"\n")
        self._reflections.flush()


def _check_same(folder: Path, settings: SearchSettings) -> None:
    """Raise PromptsError if the folder holds another search, RunFolderError if it holds something else."""
    if not (folder / SETTINGS).exists():
        return
    earlier, now = (one.model_dump() for one in (read_settings(folder, SearchSettings), settings))
    if other := [name for name in now if now[name] != earlier[name]]:
        raise PromptsError(
            f"{folder} holds a search with other settings ({', '.join(other)}); choose another --out",
            code="other_search",
        )


class _PlainData(pickle.Unpickler):
    """Reads a pickle of plain data, such as dictionaries and numbers; anything else is an error."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")


def check_state(path: Path) -> Mapping[str, Any]:
    """Return the state in a file, {} if there is none. Raises PromptsError for anything but plain data."""
    try:
        with path.open("rb") as file:
            return dict(_PlainData(file).load())
    except FileNotFoundError:
        return {}
    except Exception as error:  # a broken pickle may raise any exception
        raise PromptsError(
            f"{path} is not a state of the search and is not read ({type(error).__name__}); choose another --out",
            code="unsafe_state",
        ) from error
