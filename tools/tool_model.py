"""Which language model answers from behind a tool, beside those that the run has set: what an evaluation has to say.

A tool says so in `metadata["agentflow"]["model"]`: `RUN`, "" for none, or a name. Of one that does not say, as MCP's
tools and other people's, it is UNKNOWN.
"""

from typing import TYPE_CHECKING

from agentflow.tools.untrusted_text import bounded_line

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

RUN = "tools"
"""The model that the run has set for its tools."""
UNKNOWN = "unknown"


def model_behind(tool: "BaseTool") -> str:
    """What the tool says."""
    own = (tool.metadata or {}).get("agentflow")
    said = own.get("model") if isinstance(own, dict) else None
    return bounded_line(said, 120) if isinstance(said, str) else UNKNOWN
