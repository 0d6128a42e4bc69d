"""Evolution of the prompts of named nodes by reflection: an adapter of an app for the package `gepa`, without torch.

Source: L. A. Agrawal et al., "GEPA: Reflective prompt evolution can outperform reinforcement learning", 2025.
"""

from agentflow.tools.coded_error import CodedError


class PromptsError(CodedError, ValueError):
    """The search cannot begin or go on as it was asked for; `str()` is one line with the reason and a remedy."""


class SearchInterrupted(CodedError, RuntimeError):
    """A model or the sandbox does not answer; the search continues where it stopped when it is started again."""
