"""The environment of a training run's processes."""

import os
import sys
from contextlib import nullcontext

import pytest

pytest.importorskip("verl")

from omegaconf import DictConfig, OmegaConf

from agentflow.rl.launch.engine_config import concurrency, ray_options
from agentflow.rl.launch.workers import TrainingFailed, _start_ray, environment, worker_base
from agentflow.rl.settings import compose_settings

KERNELS = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
THREADS = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in THREADS + KERNELS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def config() -> DictConfig:
    return compose_settings("atlas-cpu", [])


@pytest.mark.parametrize("ranks", [1, 2, 1000])
def test_ranks_share_the_cores_and_their_threads_do_not_spin_for_long(ranks: int, config: DictConfig) -> None:
    found = environment(OmegaConf.merge(config, {"trainer": {"n_gpus_per_node": ranks}}))
    assert int(found["OMP_NUM_THREADS"]) == max(1, len(os.sched_getaffinity(0)) // ranks)
    assert int(found["GOMP_SPINCOUNT"]) <= 10_000


def test_kernels_for_other_lengths_do_not_fill_the_memory(config: DictConfig) -> None:
    """A training ended in its fourth step, since 24 GB were full; neither limit alone is enough."""
    found = environment(config)
    assert all(int(found[name]) <= 128 for name in KERNELS)


@pytest.mark.parametrize(
    ("name", "value", "unset"),
    [
        ("OMP_NUM_THREADS", "7", ""),
        ("GOMP_SPINCOUNT", "77", ""),
        ("OMP_WAIT_POLICY", "active", "GOMP_SPINCOUNT"),
        ("LRU_CACHE_CAPACITY", "1024", ""),
    ],
)
def test_what_the_user_has_set_holds(
    name: str, value: str, unset: str, config: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    found = environment(config)
    assert found.get(name, value) == value
    assert unset not in found


def test_macos_has_no_affinity_and_its_processes_are_not_forked(
    config: DictConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A training ended in an AttributeError; a fork of a process with threads may crash there, as Python's docs say."""
    monkeypatch.setattr("agentflow.rl.launch.workers.worker_template", lambda variables: nullcontext("forks"))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert environment(config)["OMP_NUM_THREADS"] == "64"
    assert ray_options(config)["num_cpus"] == 64
    assert concurrency(config) > 64
    with worker_base(config) as executable:
        assert executable is None


def test_a_ray_that_does_not_start_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    # On a machine with a load of 150, it ended in a traceback: Ray gives its daemon 30 s and raises a plain Exception.
    def too_slow(**options: object) -> None:
        raise Exception("The current node timed out during startup.\nMore.")

    monkeypatch.setattr("ray.init", too_slow)
    with pytest.raises(TrainingFailed) as raised:
        _start_ray(num_cpus=1)
    assert "timed out during startup" in str(raised.value)
    assert "\n" not in str(raised.value)
