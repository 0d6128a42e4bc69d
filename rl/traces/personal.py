"""Personal data with a fixed shape, struck out beside secrets; names and postal addresses have none and stay.

Cards and IBANs are struck out only if their check digits hold, so that long numbers of arithmetic stay, as a rule.
"""

import re
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

from agentflow.rl.traces.episode import Episode
from agentflow.tools.json_codec import with_texts
from agentflow.tools.redaction import MARK, redacted_data

_EMAIL = re.compile(r"(?<![\w.+%-])[\w.+%-]{1,64}@(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_PHONE = re.compile(r"\+(?<![\w+].)\d[\d ()./-]{8,20}\d(?!\w)")
_CARD = re.compile(r"[2-6](?<![\w.,-].)\d{3}(?:[ -]?\d){11,12}(?![\w.,-]*\d)")
_IBAN = re.compile(r"[A-Z](?<!\w.)[A-Z]\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_SSN = re.compile(r"\d(?<![\w-].)\d\d-\d\d-\d{4}(?![\w-])")

_ISSUERS = re.compile(r"4|5[1-5]|2[2-7]|6011|65|3[47]")  # beginnings of card numbers


def clean(episode: Episode) -> Episode:
    """Return the episode without secrets and personal data."""
    return Episode(**with_texts(redacted_data(asdict(episode)), without_personal))


def without_personal(text: str) -> str:
    """Return `text` with a mark in place of personal data."""
    for sign, pattern, holds in _SHAPES:
        if sign in text:
            text = pattern.sub(partial(_struck, holds), text)
    return text


def _struck(holds: Callable[[str], bool], found: re.Match[str]) -> str:
    return MARK if holds(found.group()) else found.group()


def _is_phone(number: str) -> bool:
    return 10 <= sum(map(str.isdigit, number)) <= 15


def _is_card(number: str) -> bool:
    """Check the issuer and the last digit (Luhn, ISO/IEC 7812-1)."""
    digits = [int(digit) for digit in number if digit.isdigit()][::-1]
    doubled = sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])
    return bool(_ISSUERS.match(number)) and (sum(digits[::2]) + doubled) % 10 == 0


def _is_iban(number: str) -> bool:
    """Check the two digits after the country (ISO 13616)."""
    plain = number.replace(" ", "")
    return 15 <= len(plain) <= 34 and int("".join(str(int(sign, 36)) for sign in plain[4:] + plain[:4])) % 97 == 1


_SHAPES: tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...] = (
    ("@", _EMAIL, bool),
    ("+", _PHONE, _is_phone),
    ("", _IBAN, _is_iban),
    ("", _CARD, _is_card),
    ("-", _SSN, bool),
)
"""A sign that the text must have, the pattern, and a check of what it finds."""
