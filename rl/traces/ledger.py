"""The ledger of a conversion: how many lines were read, what was written, and what was dropped with its reason."""

from collections import Counter, defaultdict
from enum import StrEnum
from typing import Any

PLACES = 1_000
"""Most places of one reason that are listed; the count is always complete."""


class Reason(StrEnum):
    """Why something was dropped; the value completes "dropped: ..."."""

    MALFORMED = "line that is no JSON object"
    OTHER_FORMAT = "line of another format"
    TOO_LONG = "line or span of more than 64 MiB"
    ENDS_EARLY = "end of a file that was cut off"
    NO_QUESTION = "run without a question"
    BEYOND_LIMIT = "run whose question is beyond --limit"
    REPEATED = "question that an earlier run asked"
    NO_REWARD = "run without a reward: in no sft.jsonl, in no preferences.jsonl"
    REJECTED = "run with a reward below --min-reward: not in sft.jsonl"
    NO_CONVERSATION = "accepted run whose model calls have no recorded text: not in sft.jsonl"
    NOT_TEXT = "model call with parts that are not text, or that cannot be read"
    SAME_CONVERSATION = "conversation that is in sft.jsonl already"
    BAD_SCORE = "score that is no number from 0 to 1"
    STRUCK_IDS = "rollout whose text holds a secret: its token ids are not in tokens.jsonl"
    UNPLACED_IDS = "rollout whose token ids do not fit its model calls: not in tokens.jsonl"


class Ledger:
    """Counts of one conversion."""

    def __init__(self) -> None:
        self.read: Counter[str] = Counter()
        """Lines, spans and runs that were read."""
        self.written: Counter[str] = Counter()
        """Lines of each file."""
        self.struck: Counter[str] = Counter()
        """Texts in which secrets, or personal data, were struck out."""
        self.dropped: Counter[Reason] = Counter()
        self.places: dict[Reason, list[str]] = defaultdict(list)
        """Places of what was dropped, as in "line 12", in order."""

    def drop(self, reason: Reason, place: str) -> None:
        """Count something that is dropped."""
        self.dropped[reason] += 1
        if len(self.places[reason]) < PLACES:
            self.places[reason].append(place)

    def as_data(self) -> dict[str, Any]:
        """Return the content of dropped.json."""
        dropped = {
            reason.name.lower(): {"what": reason.value, "count": count, "places": self.places[reason]}
            for reason, count in self.dropped.most_common()
        }
        return {"read": self.read, "written": self.written, "struck": self.struck, "dropped": dropped}
