"""Presets that cannot run here are valid for verl."""

import pytest

from agentflow.rl.launch.checks import check
from agentflow.rl.presets.files import presets
from agentflow.rl.settings import compose_settings


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("preset", presets())
def test_verl_accepts_it(preset: str) -> None:
    check(compose_settings(preset, []))
