"""Libraries, instruction sets and threads that determine the rounding of a process."""

import pytest

pytest.importorskip("torch")

from agentflow.rl.kernels import FORCED, kernels


def test_two_looks_at_a_process_are_equal() -> None:
    found = kernels(2, "cpu")
    assert found.differences(kernels(2, "cpu")) == []
    assert found.device == "cpu"
    assert found.torch
    assert found.processor


def test_threads_and_variables_that_force_kernels_are_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in FORCED:
        monkeypatch.delenv(name, raising=False)
    before = kernels(2, "cpu")
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    [threads, forced] = kernels(3, "cpu").differences(before)
    assert threads == "threads 3 (2 before)"
    assert forced.startswith("forced {'ATEN_CPU_CAPABILITY': 'default'}")
