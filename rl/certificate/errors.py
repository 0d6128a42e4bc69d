"""The error of certificates."""

from agentflow.tools.coded_error import CodedError


class CertificateError(CodedError, ValueError):
    """A certificate cannot be written, read or checked; `str()` is one line with the reason and a remedy."""
