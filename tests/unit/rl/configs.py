"""Configurations of trainings for tests: composing one takes a second."""

from functools import lru_cache
from typing import cast

from omegaconf import DictConfig, OmegaConf

from agentflow.rl.settings import compose_settings


@lru_cache
def composed(preset: str, *overrides: str) -> DictConfig:
    """Not to be changed."""
    return compose_settings(preset, list(overrides))


def changed(config: DictConfig, *settings: str) -> DictConfig:
    """A copy with other values."""
    return cast(DictConfig, OmegaConf.merge(config, OmegaConf.from_dotlist(list(settings))))
