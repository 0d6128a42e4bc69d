"""Steps of a certified run that were replayed, for the terminal."""

from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:
    from agentflow.rl.certificate.replay import Replayed, ReplayedStep


def print_replayed(out: Console, replayed: "Replayed") -> None:
    """Print what a replay found, a line for each step, for the weights and for the kernels."""
    for step in replayed.steps:
        out.print(f"step {step.step} replayed: {'the same' if step.batch else 'another'} batch, {_losses(step)}")
    end = replayed.segment.end
    if replayed.weights is None:
        out.print(f"weights of step {end}: not compared, no checkpoint with safetensors files was certified")
    elif replayed.weights.largest:
        found = replayed.weights
        out.print(
            f"weights of step {end}: {found.share:.2g} of their change apart, one weight {found.largest:.2g} at most"
        )
    else:
        out.print(f"weights of step {end}: the same to the bit")
    if replayed.kernels:
        out.print(f"kernels here: {'; '.join(replayed.kernels)}")


def _losses(step: "ReplayedStep") -> str:
    different = {name: pair for name, pair in step.losses.items() if pair[0] != pair[1]}
    if not different:
        return "the same loss"
    return ", ".join(f"{name} {replayed:g} ({recorded:g})" for name, (recorded, replayed) in different.items())
