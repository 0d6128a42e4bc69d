"""Dates in the formats that occur in answers. Of dates with slashes, only 1929/11/03 is read: 3/11 is ambiguous."""

import re
from typing import NamedTuple

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY, _YEAR = r"(?:the )?(?P<day>\d{1,2})(?:st|nd|rd|th)?", r"(?P<year>\d{3,4})"
_FORMS = tuple(
    re.compile(rf"(?:on |in )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day,? )?{form}\.?", re.IGNORECASE | re.ASCII)
    for form in (
        rf"{_DAY} (?:of )?{_NAMES},? (?:of )?{_YEAR}",
        rf"{_NAMES} {_DAY},? {_YEAR}",
        rf"{_NAMES},? (?:of )?{_YEAR}",
        rf"{_YEAR},? {_NAMES} {_DAY}",
        r"(?P<year>\d{4})(?P<mark>[-/])(?P<month>\d{2})(?P=mark)(?P<day>\d{2})",
    )
)


class Date(NamedTuple):
    """A day, or a whole month if `day` is 0."""

    year: int
    month: int
    day: int

    def may_be(self, other: "Date") -> bool:
        """Return whether both may be the same date: one of them may lack the day."""
        return self[:2] == other[:2] and not (self.day and other.day and self.day != other.day)


def as_date(text: str) -> Date | None:
    """Return the date if all of `text` is one, else None. A date inside a longer text is not read."""
    text = " ".join(text.split())
    for form in _FORMS:
        if match := form.fullmatch(text):
            parts = match.groupdict()
            month = parts["month"].casefold()
            number = int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1
            day = int(parts.get("day") or 0)
            return Date(int(parts["year"]), number, day) if number <= 12 and day <= 31 else None
    return None
