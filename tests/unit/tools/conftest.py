"""Surroundings of every test of the tools: no robots.txt rules of an earlier test."""

import pytest

from agentflow.tools.web import robots


@pytest.fixture(autouse=True)
def no_rules() -> None:
    robots._kept.clear()
