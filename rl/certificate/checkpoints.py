"""Checkpoints of a run, their weights, and what training changed from one to the next."""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentflow.rl.certificate.errors import CertificateError

if TYPE_CHECKING:
    import torch

CHECKPOINT = "global_step_"


def saved_steps(run: Path) -> list[int]:
    """Return the steps whose checkpoints the run folder has, in order."""
    names = (path.name.removeprefix(CHECKPOINT) for path in (run / "checkpoints").glob(f"{CHECKPOINT}*"))
    return sorted(int(name) for name in names if name.isdecimal())


def checkpoint_of(run: Path, step: int) -> Path:
    """Return the folder of a step's checkpoint."""
    return run / "checkpoints" / f"{CHECKPOINT}{step}"


class Weights:
    """Weights of a model, or of each policy of a checkpoint, in the safetensors files of a folder; read one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, list[Path]] = {}
        for path in sorted(folder.rglob("*.safetensors")):
            parts = path.relative_to(folder).parts[:-1]
            policy = "/".join(part for part in parts if part not in ("actor", "huggingface"))
            self._files.setdefault(policy, []).append(path)

    @property
    def policies(self) -> list[str]:
        """Names of the policies; "" where there is one without a name."""
        return sorted(self._files)

    def tensors(self, policy: str) -> "Iterator[tuple[str, torch.Tensor]]":
        """Yield the tensors of a policy by name, file by file. Raises CertificateError."""
        from safetensors import SafetensorError, safe_open

        for path in self._files[policy]:
            try:
                with safe_open(path, "pt") as file:
                    for name in sorted(file.keys()):
                        yield name, file.get_tensor(name)
            except (SafetensorError, OSError) as error:
                raise CertificateError(f"{path} cannot be read ({error})", code="bad_weights") from error


class Delta:
    """Weights after minus weights before, as float32, by policy and tensor."""

    def __init__(self, before: Weights, after: Weights) -> None:
        """`before` may be one model that several policies start from."""
        self.before, self.after = before, after

    def __bool__(self) -> bool:
        """Return whether both have weights of the same policies."""
        return bool(self.after.policies) and self.before.policies in ([""], self.after.policies)

    def parts(self) -> "Iterator[tuple[str, torch.Tensor]]":
        """Yield each tensor's change by name, in order. Raises CertificateError."""
        import torch

        for policy in self.after.policies:
            start = "" if self.before.policies == [""] else policy
            old = dict(self.before.tensors(start))
            for name, tensor in sorted(self.after.tensors(policy)):
                known = old.get(name)
                if known is None or known.shape != tensor.shape:
                    raise CertificateError(
                        f"{self.after.folder} has a tensor {name}, and {self.before.folder} none of its shape",
                        code="other_shape",
                    )
                yield f"{policy}/{name}", tensor.to(torch.float32) - known.to(torch.float32)

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
