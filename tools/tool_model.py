"""The language model behind a tool that is not one of the run's models, which an evaluation has to report.

A tool declares it in `metadata["agentflow"]["model"]`: `RUN`, "" for none, or a name. A tool that does not declare it,
such as MCP and third-party tools, is UNKNOWN.
"""

from typing import TYPE_CHECKING

from agentflow.tools.untrusted_text import bounded_line

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

RUN = "tools"
"""The run's model for tools."""
UNKNOWN = "unknown"


def model_behind(tool: "BaseTool") -> str:
    """Return the model that the tool declares."""
    own = (tool.metadata or {}).get("agentflow")
    declared = own.get("model") if isinstance(own, dict) else None
    return bounded_line(declared, 120) if isinstance(declared, str) else UNKNOWN
