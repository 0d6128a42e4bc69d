"""The paper's own numbers, to stand beside ours: `paper.json`, copied from the tables of the authors' repository."""

from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Group(_Strict):
    """Neighbouring columns of the table."""

    name: str
    benchmarks: tuple[str, ...]
    average: bool
    """Whether the table has their mean as a column."""


class Method(_Strict):
    """A row of the table."""

    name: str
    averages: dict[str, float]
    """By group, as printed."""
    accuracy: dict[str, float]
    """By benchmark, in percent."""


class Since(_Strict):
    """An agent of 7 or 8 billion parameters that was published after the paper."""

    name: str
    accuracy: dict[str, float]
    """By benchmark, in percent, as its authors report it."""
    url: str
    protocol: str
    differs: str
    """What makes it incomparable with the paper's rows."""


class Paper(_Strict):
    """What the paper reports."""

    source: str
    url: str
    groups: tuple[Group, ...]
    titles: dict[str, str]
    """Of the benchmarks, as columns are headed."""
    questions: dict[str, int]
    """How many were asked."""
    methods: tuple[Method, ...]
    since: tuple[Since, ...]
    tools: dict[str, dict[str, tuple[float, float]]]
    """By benchmark and tool: percent of the calls before and after training (figure 3)."""
    fewer_errors: dict[str, float]
    """By benchmark: points by which training lowered the share of calls that fail (figure 4)."""


@cache
def paper() -> Paper:
    """The numbers."""
    return Paper.model_validate_json((files(__package__) / "paper.json").read_bytes())
