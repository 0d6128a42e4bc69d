"""How long a server that refuses a request asks to wait, in all the forms in which servers say so."""

import re
import time
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_UNITS = {"ms": 0.001, "mil": 0.001, "h": 3600.0, "m": 60.0, "s": 1.0}
_PART = r"(\d{1,9}(?:\.\d{1,9})?)\s?(ms|mil|h|m|s)(?:liseconds?|ours?|in(?:ute)?s?|ec(?:ond)?s?)?(?![a-z])"
_DURATION = re.compile(_PART, re.IGNORECASE)
_SAID = re.compile(
    r"retry[ _-]?after[\"']?\s?[:=]?\s?[\"']?(\d{1,9}(?:\.\d{1,9})?)[\"']?\s?(?![\w.])"
    rf"|(?:retry|try again|wait|reset)\D{{0,30}}((?:{_PART}[ ,]?)+)",
    re.IGNORECASE,
)
"""What bodies say: "try again in 2.31s", "retry_after": 5, "retryDelay": "17s"."""


def asked_to_wait(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return the seconds that a refusal asks to wait, None if it says nothing: as a number, a date or a duration in a
    header, in the body, or as the time at which a rate limit resets.
    """
    known, said = {name.lower(): value for name, value in headers.items()}, _SAID.search(body[:4_000])
    asked = [f"{known.get('retry-after-ms')}ms", known.get("retry-after", ""), *(said.groups("")[:2] if said else ())]
    for text in asked:
        if (seconds := _seconds(text, known.get("date", ""))) is not None:
            return seconds
    resets = [_seconds(value) for name, value in known.items() if "ratelimit" in name and "reset" in name]
    return min((seconds for seconds in resets if seconds is not None), default=None)


def _seconds(text: str, date: str = "") -> float | None:
    """Return a duration ("20", "1.5s", "6m0s"), or the time from `date`, or from now, until a moment: an HTTP date, or
    seconds or milliseconds of Unix.
    """
    try:
        number = float(text)
    except ValueError:
        if parts := _DURATION.findall(text):
            return sum(float(count) * _UNITS[unit.lower()] for count, unit in parts)
        moment = _moment(text)
        return None if moment is None else max(0.0, moment - (_moment(date) or time.time()))
    if number > 1e9:
        number = max(0.0, number / (1000 if number > 1e12 else 1) - time.time())
    return number if 0 <= number < float("inf") else None


def _moment(text: str) -> float | None:
    try:
        found = parsedate_to_datetime(text)
        return found.replace(tzinfo=found.tzinfo or UTC).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
