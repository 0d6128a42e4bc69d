"""Weights of models and checkpoints, and what training changed from one to the next."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.checkpoints import ACTOR

if TYPE_CHECKING:
    import torch

MODEL = "huggingface"
"""Folder of a policy's model in a checkpoint."""


class Weights:
    """Weights in safetensors files, of a model or of each policy of a checkpoint; tensors are read one by one."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        """`folders` has the folder of each policy's model by name."""
        self._files = {policy: sorted(folder.glob("*.safetensors")) for policy, folder in folders.items()}

    @classmethod
    def of_model(cls, folder: Path) -> Self:
        """Return the weights of one model, whose policy has the name ""."""
        return cls({"": folder})

    @classmethod
    def of_checkpoint(cls, folder: Path) -> Self:
        """Return the weights of a checkpoint; without any where it has only the shards of the trainer."""
        actor = folder / ACTOR
        saved = [path.parent for path in actor.rglob(MODEL) if any(path.glob("*.safetensors"))]
        return cls({"" if path == actor else path.relative_to(actor).as_posix(): path / MODEL for path in saved})

    @property
    def policies(self) -> list[str]:
        """Names of the policies; "" where there is one without a name."""
        return sorted(self._files)

    def shapes(self, policy: str) -> dict[str, list[int]]:
        """Return the shape of each tensor of a policy by name. Raises CertificateError."""
        found: dict[str, list[int]] = {}
        for file in self._opened(policy):
            found |= {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118 (no mapping)
        return found

    def tensors(self, policy: str) -> "Iterator[tuple[str, torch.Tensor]]":
        """Yield the tensors of a policy by name, file by file. Raises CertificateError."""
        for file in self._opened(policy):
            for name in sorted(file.keys()):
                yield name, file.get_tensor(name)

    def _opened(self, policy: str) -> Iterator[Any]:
        from safetensors import SafetensorError, safe_open

        for path in self._files[policy]:
            try:
                with safe_open(path, "pt") as file:
                    yield file
            except (SafetensorError, OSError) as error:
                raise CertificateError(f"{path} cannot be read ({error})", code="bad_weights") from error


class Delta:
    """Weights after minus weights before, as float32, by policy and tensor."""

    def __init__(self, before: Weights, after: Weights) -> None:
        """`before` may be one model that several policies start from."""
        self.before, self.after = before, after

    def __bool__(self) -> bool:
        """Return whether there are weights after, each with one of its shape before. Raises CertificateError."""
        if not self.after.policies or self.before.policies not in ([""], self.after.policies):
            return False
        pairs = ((self.before.shapes(self._start(policy)), self.after.shapes(policy)) for policy in self.after.policies)
        return all(before.get(name) == shape for before, after in pairs for name, shape in after.items())

    def _start(self, policy: str) -> str:
        """Return the policy of the weights before."""
        return "" if self.before.policies == [""] else policy

    def parts(self) -> "Iterator[tuple[str, torch.Tensor]]":
        """Yield each tensor's change by name, in order. Raises CertificateError."""
        import torch

        for policy in self.after.policies:
            old = dict(self.before.tensors(self._start(policy)))
            for name, tensor in sorted(self.after.tensors(policy)):
                yield f"{policy}/{name}", tensor.to(torch.float32) - old[name].to(torch.float32)

    def hash(self) -> str:
        """Return the SHA-256 of all changes."""
        digest = hashlib.sha256()
        for name, change in self.parts():
            digest.update(f"{name} {list(change.shape)}\n".encode())
            digest.update(change.contiguous().numpy().astype("<f4", copy=False).tobytes())
        return digest.hexdigest()

    def largest(self) -> float:
        """Return the largest change of a weight."""
        return max(float(change.abs().max()) for _, change in self.parts())

    def norm(self) -> float:
        """Return the Euclidean length of the change."""
        return math.sqrt(sum(float(change.double().square().sum()) for _, change in self.parts()))
