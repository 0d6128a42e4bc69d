"""How long a server that refuses a request asks to wait, in all the forms in which servers say so."""

import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

READ = 4_000
"""Characters of a refusal that are read."""

_UNITS = {"ms": 0.001, "mil": 0.001, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = r"(\d{1,9}(?:\.\d{1,9})?)\s?(ms|mil|h|m|s)(?:liseconds?|ours?|in(?:ute)?s?|ec(?:ond)?s?)?(?![a-z])"
_DURATION = re.compile(_PART, re.IGNORECASE)
_SAID = re.compile(
    r"retry[ _-]?after[\"']?\s?[:=]?\s?[\"']?(?P<number>\d{1,9}(?:\.\d{1,9})?)[\"']?\s?(?![\w.])"
    rf"|(?:retry|try again|wait|reset)\D{{0,30}}(?P<duration>(?:{_PART}[ ,]?)+)",
    re.IGNORECASE,
)
"""What bodies say: "try again in 2.31s", "retry_after": 5, "retryDelay": "17s"."""


def asked_to_wait(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return the seconds that a refusal asks to wait, None if it says nothing: as a number, a date or a duration in a
    header, in the body, or as the time at which a rate limit resets.
    """
    known = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        if (seconds := _seconds(known.get(name, ""), unit)) is not None:
            return seconds
    if (date := _date(known.get("retry-after", ""))) is not None:
        return max(0.0, date - (_date(known.get("date", "")) or time.time()))
    if said := _SAID.search(body[:READ]):
        return _seconds(said["number"] or said["duration"])
    resets = (_seconds(value) for name, value in known.items() if "ratelimit" in name and "reset" in name)
    return min((seconds for seconds in resets if seconds is not None), default=None)


def _seconds(text: str, unit: float = 1.0) -> float | None:
    """Return a duration such as "20", "1.5s" or "6m0s", or the time until a moment in seconds or milliseconds of Unix.

    A number without a unit counts `unit` seconds.
    """
    try:
        number = float(text)
    except ValueError:
        parts = _DURATION.findall(text)
        return sum(float(count) * _UNITS[of.lower()] for count, of in parts) if parts else None
    if not 0 <= number < float("inf"):
        return None
    if number > 1e9:
        return max(0.0, (number / 1000 if number > 1e12 else number) - time.time())
    return number * unit


def _date(text: str) -> float | None:
    """Return the moment that an HTTP date names."""
    try:
        found = parsedate_to_datetime(text)
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
