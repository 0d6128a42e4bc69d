"""What a setting must be, in words for its user, from pydantic's account of a wrong value."""

from collections.abc import Mapping
from typing import Any

_MUST = {
    "missing": "is missing",
    "extra_forbidden": "is unknown",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "finite_number": "must be finite",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "string_too_short": "must have at least {min_length} characters",
    "string_pattern_mismatch": "must have the form {pattern}",
    "literal_error": "must be {expected}",
    "list_type": "must be a list",
    "dict_type": "must be an object of names and values",
    "model_type": "must be an object of names and values",
    "too_short": "must not be empty",
}


def expected(error: Mapping[str, Any]) -> str:
    """Describe one of the errors of a pydantic.ValidationError, in words that follow the name of the value."""
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    words = _MUST.get(error["type"])
    return words.format_map(error.get("ctx", {})) if words else str(error["msg"]).lower()
