"""The trainer's side of a preset in one process, without Ray and without vLLM: `python -m tests.preset_engine`.

verl's worker computes log-probabilities, takes one step of our loss, and saves a checkpoint, which is exported. The
settings are the preset's; only the device, the number of GPUs and the model differ, and the learning rate, so that one
step moves the policy. Prints one line of JSON.
"""

import hashlib
import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

ROWS = [(700, 400), (30, 60), (512, 33), (900, 120)]
"""Tokens of prompt and response."""
DEVICE = ("trainer.device=cpu", "trainer.n_gpus_per_node=1")


def main(preset: str, model: Path, out: Path, *overrides: str) -> dict[str, Any]:
    """Return differences of log-probabilities, in nats: means over all response tokens."""
    from agentflow.rl.trainer.cpu_environment import ENVIRONMENT

    ranks = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "RAY_LOCAL_WORLD_SIZE": "1"}
    os.environ.update({**ENVIRONMENT, **ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"})
    import torch
    from omegaconf import OmegaConf
    from transformers import AutoModelForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM

    from agentflow.rl.run.export import export
    from agentflow.rl.settings import compose_settings

    plain = {kind: kind.forward for kind in (Qwen2ForCausalLM, Qwen3ForCausalLM)}  # before verl replaces them
    small = [*DEVICE, f"start={model}", f"out={out}", "lr=1e-2", *overrides]
    config = compose_settings(preset, small)
    OmegaConf.set_struct(config, False)
    OmegaConf.resolve(config)
    from torch import distributed
    from verl.utils import tensordict_utils
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.engine_workers import ActorRolloutRefWorker
    from verl.workers.utils.padding import response_from_nested

    import agentflow.rl.trainer.platform  # noqa: F401
    from agentflow.rl.trainer.loss import flow_grpo_loss

    distributed.init_process_group("gloo", init_method=f"file://{out}.store", rank=0, world_size=1)
    verl, temperature = config.actor_rollout_ref, config.temperature
    torch.manual_seed(0)  # an adapter begins at random
    worker = ActorRolloutRefWorker(verl, role="actor")
    worker.init_model()
    worker.set_loss_fn(partial(flow_grpo_loss, config=omega_conf_to_dataclass(verl.actor)))
    random = torch.Generator().manual_seed(0)
    parts = [[torch.randint(3, 4000, (size,), generator=random) for size in row] for row in ROWS]

    def nested(rows: list[Any]) -> Any:
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    mask = nested([torch.ones_like(response) for _, response in parts])
    batch = {
        "prompts": nested([prompt for prompt, _ in parts]),
        "responses": nested([response for _, response in parts]),
        "input_ids": nested([torch.cat(row) for row in parts]),
        "position_ids": nested([torch.arange(sum(row)) for row in ROWS]),
        "response_mask": mask,
        "loss_mask": mask,
    }

    def data(more: dict[str, Any], **options: Any) -> Any:
        known = {"temperature": temperature, "calculate_entropy": False, **options}
        return tensordict_utils.get_tensordict({**batch, **more}, non_tensor_dict=known)

    def log_probs(**options: Any) -> Any:
        found = worker.actor.infer_batch(data({}, compute_loss=False, **options))["log_probs"]
        return response_from_nested(found, mask)

    @torch.no_grad()
    def transformers(folder: Path, kind: Any) -> list[Any]:
        loaded: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=kind)
        found = []
        for prompt, response in parts:
            logits = plain[type(loaded)](loaded, torch.cat([prompt, response])[None]).logits[0, len(prompt) - 1 : -1]
            chosen = (logits.float() / temperature).log_softmax(-1).gather(1, response[:, None])
            found.append(chosen.squeeze(1))
        return found

    def apart(ours: Any, theirs: Any) -> float:
        return float((torch.cat(list(ours)) - torch.cat(list(theirs))).abs().mean())

    def each(values: list[float]) -> Any:
        return nested([torch.full((size,), value) for (_, size), value in zip(ROWS, values, strict=True)])

    before = log_probs()
    reference = log_probs(no_lora_adapter=True) if verl.model.lora_rank else before
    exact = transformers(model, torch.float32)
    step = {"old_log_probs": before, "ref_log_prob": reference, "advantages": each([1.0, 1.0, -1.0, -1.0])}
    step |= {"token_weights": each([1 / 613] * 4), "rollout_is_weights": each([1.0] * 4)}
    options = {"mini_batch_size": 4, "global_batch_size": 4, "epochs": 1, "seed": 1}
    updated = worker.actor.train_mini_batch(data(step, **options, dataloader_kwargs={"shuffle": False}))
    checkpoint = out / "checkpoints" / "global_step_1"
    worker.actor.save_checkpoint(str(checkpoint / "actor"), global_step=1)
    after = log_probs()
    held = dict(worker.actor.engine.module.named_parameters())
    trained = [part.data.to_local() for _, part in sorted(held.items()) if part.requires_grad]
    export(checkpoint, out / "exported")
    return {
        "trainer": apart(before.unbind(), exact),
        "bfloat16": apart(transformers(model, torch.bfloat16), exact),
        "gradient": float(tensordict_utils.get(updated, "metrics")["grad_norm"][0]),
        "moved": apart(after.unbind(), before.unbind()),
        "export": apart(transformers(out / "exported", torch.float32), after.unbind()),
        "trained": hashlib.sha256(b"".join(part.float().numpy().tobytes() for part in trained)).hexdigest(),
        "checkpoint": float(sum(path.stat().st_size for path in checkpoint.rglob("*") if path.is_file())),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), *sys.argv[4:])))
