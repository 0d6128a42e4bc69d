"""Segments of a run that can be repeated: from a checkpoint, or the start weights, to a later step."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from agentflow.rl.certificate.errors import CertificateError


class Segment(NamedTuple):
    """The steps `begin` + 1 to `end`."""

    begin: int
    """Step of the checkpoint that it begins from; 0 for the start weights."""
    end: int

    @property
    def steps(self) -> range:
        """Return its steps."""
        return range(self.begin + 1, self.end + 1)


def segments_of(chosen: Iterable[int], checkpoints: Collection[int], last: int) -> list[Segment]:
    """Return the segments that repeat the `chosen` steps of a run of `last` steps.

    A segment goes on to the first checkpoint after a chosen step, where weights can be compared, or else ends with the
    step. Raises CertificateError for a step that the run does not have.
    """
    ends: dict[int, int] = {}
    for step in chosen:
        if not 1 <= step <= last:
            raise CertificateError(f"the certificate has no step {step}; it has 1 to {last}", code="unknown_step")
        begin = max((saved for saved in checkpoints if saved < step), default=0)
        end = min((saved for saved in checkpoints if saved >= step), default=step)
        ends[begin] = max(end, ends.get(begin, 0))
    return [Segment(begin, end) for begin, end in sorted(ends.items())]
