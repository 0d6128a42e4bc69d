"""A headless Chromium, for the pages."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.capabilities import chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Playwright's browser; tests that ask for it are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api")
    if not chromium():
        pytest.skip("there is no Chromium to look at the page: apt install chromium")
    with sync_api.sync_playwright() as playwright:
        sandbox = ["--no-sandbox"] if os.getuid() == 0 else []
        opened = playwright.chromium.launch(executable_path=chromium(), args=sandbox)
        yield opened
        opened.close()
