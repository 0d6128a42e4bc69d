"""Expects an error by its class and code, and the data that its line names: never by its wording."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from agentflow.tools.coded_error import CodedError


@contextmanager
def fails(
    kind: type[CodedError], code: str, *named: object, configuration: bool | None = None
) -> Iterator[pytest.ExceptionInfo[CodedError]]:
    """Expect an error with this code, in one line that names the data: a file, a number, a variable, a command.

    `configuration` is that of the error, where it has one.
    """
    with pytest.raises(kind) as caught:
        yield caught
    line = str(caught.value)
    assert caught.value.code == code, f"{caught.value.code}: {line}"
    assert configuration in (None, getattr(caught.value, "configuration", None))
    assert len(line.splitlines()) == 1
    for one in named:
        assert str(one) in line
