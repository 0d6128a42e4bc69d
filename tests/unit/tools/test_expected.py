from typing import Literal

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


WRONG = {
    "steps": [0, 9, "x"],
    "seconds": [0, 10],
    "mode": ["x"],
    "names": [[]],
    "show": [3],
    "name": [3, "Y"],
    "o": [1],
}


def test_what_is_expected() -> None:
    words = []
    for name, value in ((name, value) for name, values in WRONG.items() for value in values):
        with pytest.raises(ValidationError) as caught:
            Settings.model_validate({name: value})
        words.append(expected(caught.value.errors()[0]))
    assert words == [
        *("must be at least 1", "must be less than 9", "must be a whole number", "must be more than 0"),
        *("must be at most 9", "must be 'on' or 'off'", "must not be empty", "must be true or false"),
        *("must be a text", "is not X", "is unknown"),
    ]
