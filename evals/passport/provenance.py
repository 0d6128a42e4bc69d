"""What an evaluation was made with, as far as its settings do not say: written down while it runs, in settings.json."""

from pydantic import BaseModel, ConfigDict, Field


class ToolProvenance(BaseModel):
    """A tool that was there to be chosen."""

    model_config = ConfigDict(extra="forbid")

    model: str
    """The language model behind it, as `agentflow.tools.tool_model` has it."""
    card: str
    """Hash of all that prompts say of it."""
    prompt: str = ""
    """Hash of what it asks the run's model with; "" if it asks none."""


class Provenance(BaseModel):
    """The program and the call that added tries to an evaluation; another program or call adds another one of these."""

    model_config = ConfigDict(extra="forbid")

    at: str
    """When its first call began, UTC, as ISO 8601 has it."""
    call: str
    """What was called, as a shell reads it."""
    before: int = Field(default=0, ge=0)
    """Tries that had ended before: these are another's."""
    versions: dict[str, str]
    """Of packages, Python and platform by name; "code" is a hash of AgentFlow's own programs."""
    prompts: dict[str, str]
    """Hash of the system message of each module, before tools and the like are put in."""
    tools: dict[str, ToolProvenance]
    inputs: dict[str, str] = {}
    """Hash of each file of this machine that it reads, by what it is there for: "corpus", "questions"."""

    def differences(self, other: "Provenance") -> list[str]:
        """In what this is another program than `other`: "langgraph 1.2.2 (1.2.1 before)", "prompt of the planner"."""
        named = [
            f"{name} {self.versions.get(name, 'absent')} ({other.versions.get(name, 'absent')} before)"
            for name in _differ(self.versions, other.versions)
        ]
        named += [f"prompt of the {module}" for module in _differ(self.prompts, other.prompts)]
        named += [f"tool {tool}" for tool in _differ(self.tools, other.tools)]
        return named + [f"the file of the {name}" for name in _differ(self.inputs, other.inputs)]


def _differ(
    ours: "dict[str, str] | dict[str, ToolProvenance]", theirs: "dict[str, str] | dict[str, ToolProvenance]"
) -> list[str]:
    return [name for name in {**theirs, **ours} if ours.get(name) != theirs.get(name)]
