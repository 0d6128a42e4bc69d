from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from agentflow.tools.expected import expected


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    steps: int = Field(default=1, ge=1, lt=9)
    seconds: float = Field(default=1, gt=0, le=9)
    mode: Literal["on", "off"] = "on"
    names: list[str] = Field(default=["a"], min_length=1)
    show: bool = True
    name: str = "x"

    @field_validator("name")
    @classmethod
    def _is_x(cls, name: str) -> str:
        if name != "x":
            raise ValueError("is not X")
        return name


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"steps": 0}, "must be at least 1"),
        ({"steps": 9}, "must be less than 9"),
        ({"steps": "x"}, "must be a whole number"),
        ({"seconds": 0}, "must be more than 0"),
        ({"seconds": 10}, "must be at most 9"),
        ({"mode": "x"}, "must be 'on' or 'off'"),
        ({"names": []}, "must not be empty"),
        ({"show": 3}, "must be true or false"),
        ({"name": 3}, "must be a text"),
        ({"name": "Y"}, "is not X"),
        ({"other": 3}, "is unknown"),
    ],
)
def test_what_is_expected(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate(given)
    assert expected(caught.value.errors()[0]) == words
