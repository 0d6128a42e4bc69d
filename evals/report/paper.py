"""The paper's numbers, for comparison in reports: `paper.json`, copied from the tables of the authors' repository."""

from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Group(_Strict):
    """A group of adjacent columns of the table."""

    name: str
    benchmarks: tuple[str, ...]
    average: bool
    """Whether the table has a column with their mean."""


class Method(_Strict):
    """A row of the table."""

    name: str
    averages: dict[str, float]
    """Mean accuracy by group, in percent, as printed."""
    accuracy: dict[str, float]
    """Accuracy by benchmark, in percent."""


class Since(_Strict):
    """An agent of 7 or 8 billion parameters that was published after the paper."""

    name: str
    accuracy: dict[str, float]
    """Accuracy by benchmark, in percent, as reported by its authors."""
    url: str
    protocol: str
    differs: str
    """Differences that make it incomparable with the paper's rows."""


class Paper(_Strict):
    """The results that the paper reports, and later ones of comparable agents."""

    source: str
    url: str
    groups: tuple[Group, ...]
    titles: dict[str, str]
    """Column heading by benchmark."""
    questions: dict[str, int]
    """Number of tasks by benchmark."""
    methods: tuple[Method, ...]
    since: tuple[Since, ...]
    tools: dict[str, dict[str, tuple[float, float]]]
    """Percent of the tool calls before and after training, by benchmark and tool (figure 3)."""
    fewer_errors: dict[str, float]
    """Percentage points by which training lowered the share of failed calls, by benchmark (figure 4)."""


@cache
def paper() -> Paper:
    """Return the numbers of `paper.json`."""
    return Paper.model_validate_json((files(__package__) / "paper.json").read_bytes())
