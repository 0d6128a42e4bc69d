"""The servers of a module's tests end with it."""

from collections.abc import Iterator

import pytest

from tests.sandboxes import close_all


@pytest.fixture(scope="module", autouse=True)
def servers() -> Iterator[None]:
    yield
    close_all()
