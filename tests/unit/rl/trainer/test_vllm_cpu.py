import importlib
import sys
from importlib.metadata import PackageNotFoundError, distributions, version
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from agentflow.rl.trainer import vllm_cpu


def install(folder: Path, name: str, release: str) -> None:
    info = folder / f"{name.replace('-', '_')}-{release}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {release}\nRequires-Dist: torch\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder with packages."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "meta_path", [one for one in sys.meta_path if not isinstance(one, vllm_cpu._Finder)])
    importlib.invalidate_caches()
    return tmp_path


def test_vllm_has_a_version_where_only_the_wheel_for_cpus_is_installed(packages: Path) -> None:
    install(packages, "vllm-cpu", "0.28.0")
    with pytest.raises(PackageNotFoundError):
        version("vllm")
    vllm_cpu.answer_for_vllm()
    assert version("vllm") == "0.28.0+cpu"
    assert version("vllm-cpu") == "0.28.0"
    assert [one.metadata["Name"] for one in distributions()] == ["vllm-cpu"]
    with pytest.raises(PackageNotFoundError):
        version("vllm-gpu")


def test_a_vllm_that_is_installed_answers_for_itself(packages: Path) -> None:
    install(packages, "vllm", "0.24.0")
    vllm_cpu.answer_for_vllm()
    vllm_cpu.answer_for_vllm()
    assert version("vllm") == "0.24.0"
    assert sum(isinstance(one, vllm_cpu._Finder) for one in sys.meta_path) == 1


@pytest.mark.parametrize(
    ("name", "release", "is_for_cpus"),
    [
        ("vllm-cpu", "0.28.0", True),
        ("vllm", "0.28.0+cpu", True),
        ("vllm", "0.28.0", False),
        ("torch", "2.13+cpu", False),
    ],
)
def test_a_vllm_for_cpus_is_recognised(name: str, release: str, is_for_cpus: bool, packages: Path) -> None:
    install(packages, name, release)
    assert vllm_cpu.installed() is is_for_cpus


def test_linear_layers_compute_from_weights_that_a_sync_replaces(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    name = "vllm.model_executor.layers.utils"
    monkeypatch.setitem(sys.modules, name, ModuleType(name))
    vllm_cpu.keep_linear_weights()
    layer = SimpleNamespace(weight=torch.ones(2, 3))
    sys.modules[name].dispatch_cpu_unquantized_gemm(layer, remove_weight=True)
    assert layer.cpu_linear(torch.ones(3), layer.weight, None).tolist() == [3, 3]
    layer.weight *= 2
    assert layer.cpu_linear(torch.ones(3), layer.weight, None).tolist() == [6, 6]
