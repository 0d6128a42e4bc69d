"""Provenance of an evaluation beyond its settings: versions, prompts, tools and inputs, recorded in settings.json."""

from pydantic import BaseModel, ConfigDict, Field


class ToolProvenance(BaseModel):
    """A tool that the agent could call."""

    model_config = ConfigDict(extra="forbid")

    model: str
    """The language model behind the tool, as named by `agentflow.tools.tool_model`."""
    card: str
    """Hash of the tool card, which is the tool's full description in prompts."""
    prompt: str = ""
    """Hash of the prompt that it sends to the run's model; "" if it does not call it."""


class Provenance(BaseModel):
    """The program and command that added samples to an evaluation; a change of either adds another entry."""

    model_config = ConfigDict(extra="forbid")

    at: str
    """Start of the first call, UTC, ISO 8601."""
    call: str
    """The command, quoted for a shell."""
    before: int = Field(default=0, ge=0)
    """Samples that had already ended, which another program or command made."""
    versions: dict[str, str]
    """Versions of packages, Python and the platform by name; "code" is a hash of AgentFlow's own source files."""
    prompts: dict[str, str]
    """Hash of each module's system message, before placeholders such as the tools are filled in."""
    tools: dict[str, ToolProvenance]
    inputs: dict[str, str] = {}
    """Hash of each local input file by purpose: "corpus", "questions", "search cache", "module my_pkg.bench"."""

    def differences(self, other: "Provenance") -> list[str]:
        """Return the differences from `other`: "langgraph 1.2.2 (1.2.1 before)", "prompt of the planner"."""
        named = [
            f"{name} {self.versions.get(name, 'absent')} ({other.versions.get(name, 'absent')} before)"
            for name in _differ(self.versions, other.versions)
        ]
        named += [f"prompt of the {module}" for module in _differ(self.prompts, other.prompts)]
        named += [f"tool {tool}" for tool in _differ(self.tools, other.tools)]
        return named + self.changed_files(other)

    def changed_files(self, other: "Provenance") -> list[str]:
        """Return the differences of the input files from those of `other`: "the file of the corpus"."""
        return [f"the file of the {name}" for name in _differ(self.inputs, other.inputs)]


def _differ(
    ours: "dict[str, str] | dict[str, ToolProvenance]", theirs: "dict[str, str] | dict[str, ToolProvenance]"
) -> list[str]:
    return [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
