r"""Benchmark the GPU presets in ten minutes: memory, speed and drift, beside `train --estimate`.

On a machine with the extra `train` and a GPU of 80 GB: `python -m benchmarks.gpu --out FOLDER`. FOLDER/gpu.json is
written after each measurement, with a log of each. `--device cpu` rehearses it on tiny shapes.

Part A, 300 s: the full shapes of two presets with random weights, in verl's worker, without Ray and vLLM.
Part B, 180 s: `atlas-gpu`, two steps and a third after a resume, export, and the digest of step 1 on the CPU.
Part C, 60 s: three updates of a 0.5B model in bfloat16 on tokens that transformers sampled, and how far both are apart.

A bare machine has torch and no network: the wheels that it lacks travel with the tree, 64 MiB a call, in two calls.
Here, once, with a Python of the extra `train` alone; THERE names that machine's packages, except transformers,
tokenizers and huggingface-hub:
    echo /.whl/ >>.git/info/exclude; mkdir -p .whl/1 .whl/2
    lean='^(-e|#|agentflow|antlr4|bm25s|cuda|distlib|nvidia|py-spy|tavily|torch=|triton|virtualenv|wandb|zstandard)'
    pip freeze | grep -viE "$lean" | grep -vif <(sed 's/[-_.]/[-_.]/g; s/.*/^&=/' THERE) | xargs pip download \
        --no-deps --only-binary=:all: --python-version 3.12 --implementation cp -d .whl/2 \
        $(printf -- '--platform manylinux%s_x86_64 ' _2_28 _2_27 _2_17 2014 1)
    pip wheel --no-deps -w .whl/2 antlr4-python3-runtime==4.9.3 .; mv .whl/2/ray-* .whl/1
    zip -qd .whl/1/ray-* ray/jars/ray_dist.jar          # 31 MiB for Java; 45 MiB are left
    zip -qd .whl/2/agentflow_* 'agentflow/*'            # the tree has the code; the entry points are left

Call 1 carries .whl/1, with a limit of 60 s; call 2 carries .whl/2, at once after it, with a limit of 600 s:
    mkdir /tmp/whl && cp .whl/1/*.whl /tmp/whl && nvidia-smi
    python3 -m pip install -q --no-index --no-deps --no-compile --target /tmp/site /tmp/whl/* .whl/2/*.whl
    PYTHONPATH=$PWD:/tmp/site python3 -m benchmarks.gpu --out /tmp/out
    cp /tmp/out/gpu.json /tmp/out/*.log $OUT    # at most eight files come back
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from agentflow.rl.launch.estimate import SHAPES, estimate, gpus_here, shape_of
from agentflow.rl.settings import compose_settings

PACKAGES = ("torch", "verl", "ray", "transformers", "TransferQueue")
# Operations a second in bfloat16, without sparsity, by a part of the GPU's name.
PEAKS = {"H100": 989e12, "H200": 989e12, "A100": 312e12, "L40S": 362e12}
# Tokens of prompt and response: of the rows of a step, and of the longest row of the presets.
LONG = {"cuda": [(1200, 1450)] * 16, "cpu": [(70, 40)] * 4}
LONGEST = {"cuda": [(4096, 16384)], "cpu": [(200, 300)]}
HEADS = ("num_attention_heads", "num_key_value_heads")
SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", *HEADS, "vocab_size")
TINY = (64, 192, 2, 2, 1, 4096)
END = "<|im_end|>"
SMALL = "Qwen/Qwen2.5-Coder-0.5B-Instruct"
ATLAS = ("--preset", "atlas-gpu", "save_every=1", "rollouts=8", "train_tasks=64", "test_tasks=2", "validate_every=9")
ATLAS_ON_CPU = ("ray_kwargs.ray_init.num_gpus=1", "actor_rollout_ref.rollout.agent.num_workers=1")

A = {"lora": ("qwen2.5-7b-lora", ""), "full": ("qwen2.5-3b", "")}
A["logits"] = "qwen2.5-3b", "actor_rollout_ref.model.use_fused_kernels=false"
SECONDS = {"lora": 130.0, "full": 100.0, "logits": 70.0, "atlas": 180.0, "sampled": 60.0}
"""Seconds of each measurement; one that takes longer is stopped, and the next begins. 540 in all."""


def run(out: Path, device: str) -> dict[str, Any]:
    """Take the measurements, each in a process of its own, and write gpu.json after each."""
    there = {one.metadata["Name"]: one.version for one in distributions()}
    found: dict[str, Any] = {"packages": {name: there.get(name) for name in PACKAGES}, "gpus": gpus_here()}
    out.mkdir(parents=True, exist_ok=True)
    for name, seconds in SECONDS.items():
        began, own = time.monotonic(), out / f"{name}.json"
        command = [sys.executable, "-m", "benchmarks.gpu", "--measure", name, "--out", str(out), "--device", device]
        print(f"{name}; the log is {out / name}.log", flush=True)
        with (out / f"{name}.log").open("w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)  # noqa: S603
            try:
                status: int | str = process.wait(seconds if device == "cuda" else 10 * seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = f"stopped after {seconds:.0f} s"
        told = json.loads(own.read_text()) if own.exists() else {}
        found[name] = {**told, "ended": status, "seconds": round(time.monotonic() - began, 1)}
        (out / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")
    return found


class Bench:
    """A preset's trainer in this process: verl's worker with random weights of the full shape, or a tiny one."""

    def __init__(self, preset: str, device: str, out: Path, *overrides: str, start: str = "") -> None:
        if device == "cpu":
            from agentflow.rl.trainer.cpu_environment import ENVIRONMENT

            os.environ.update(ENVIRONMENT)
            import agentflow.rl.trainer.platform  # noqa: F401
        os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "RAY_LOCAL_WORLD_SIZE": "1"})
        os.environ.update({"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"})
        import torch
        from omegaconf import OmegaConf
        from torch import distributed

        self.torch, self.device, began = torch, device, time.monotonic()
        self.nested = partial(torch.nested.as_nested_tensor, layout=torch.jagged)
        folder = self._model(out / "model", start or compose_settings(preset, []).start)
        here = [f"trainer.device={device}", "trainer.n_gpus_per_node=1", f"start={folder}", f"out={out}"]
        self.config = config = compose_settings(preset, [*here, *filter(None, overrides)])
        OmegaConf.set_struct(config, False)
        OmegaConf.resolve(config)
        from verl.utils.config import omega_conf_to_dataclass
        from verl.utils.device import get_torch_device
        from verl.workers.engine_workers import ActorRolloutRefWorker

        from agentflow.rl.trainer.loss import flow_grpo_loss

        backend, store = "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", f"file://{out}/store-{os.getpid()}"
        distributed.init_process_group(backend, init_method=store, rank=0, world_size=1)
        self.card = get_torch_device()
        self.worker = ActorRolloutRefWorker(config.actor_rollout_ref, role="actor")
        self.worker.init_model()
        self.worker.set_loss_fn(partial(flow_grpo_loss, config=omega_conf_to_dataclass(config.actor_rollout_ref.actor)))
        self.started = {"seconds": round(time.monotonic() - began, 1), **self.memory()}

    def _model(self, folder: Path, start: str) -> Path:
        """Write configuration and tokenizer of a model of this shape, and let verl fill its weights with noise."""
        from tokenizers import Tokenizer, models, pre_tokenizers
        from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
        from transformers.initialization import no_init_weights

        torch, shape = self.torch, SHAPES[start]
        full = (shape.hidden, shape.mlp, shape.layers, shape.heads, shape.kv_heads, shape.vocabulary)
        sizes = dict(zip(SIZES, TINY if self.device == "cpu" else full, strict=True))
        known = {"tie_word_embeddings": shape.tied, "max_position_embeddings": 32768, "eos_token_id": 0}
        AutoConfig.for_model("qwen2", **sizes, **known, architectures=["Qwen2ForCausalLM"]).save_pretrained(folder)
        letters = {letter: number for number, letter in enumerate([END, *pre_tokenizers.ByteLevel.alphabet()])}
        raw = Tokenizer(models.BPE(vocab=letters, merges=[]))
        PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=END).save_pretrained(folder)

        def filled(*_: Any, config: Any, torch_dtype: Any, **__: Any) -> Any:
            with no_init_weights():
                model: Any = AutoModelForCausalLM.from_config(config, dtype=torch_dtype)
            noise = torch.randn(1 << 20, generator=torch.Generator().manual_seed(0)) * 0.02
            for name, weight in model.named_parameters():
                tiled = noise.repeat(-(-weight.numel() // len(noise)))[: weight.numel()].view_as(weight)
                weight.data.copy_(tiled + 1 if "norm" in name else tiled)
            return model

        AutoModelForCausalLM.from_pretrained = filled  # type: ignore[method-assign]
        return folder

    def memory(self) -> dict[str, float]:
        """Return the most memory since the last call, in GB: of the GPU, or of this process."""
        most = round(self.card.max_memory_allocated() / 1e9, 2)
        self.card.reset_peak_memory_stats()
        return {"GB": most}

    def timed(self, batch: dict[str, Any], passes: float, call: Any) -> tuple[Any, dict[str, float]]:
        """Return a result, and what it took; `passes` are operations a parameter and token."""
        tokens = int(batch["input_ids"].offsets()[-1])
        self.memory()
        began = time.perf_counter()
        found = call()
        self.card.synchronize()
        seconds = time.perf_counter() - began
        took: dict[str, float] = {"seconds": round(seconds, 3), "tokens": tokens, **self.memory()}
        name = self.torch.cuda.get_device_name() if self.device == "cuda" else ""
        if peak := next((peak for part, peak in PEAKS.items() if part in name), 0):
            size = shape_of(self.config.start).parameters
            took["share of peak"] = round(passes * size * tokens / seconds / peak, 3)
        return found, took

    def rows(self, sizes: Sequence[tuple[int, int]], parts: Sequence[Any] = ()) -> dict[str, Any]:
        """Return a batch of rows of these sizes: of `parts`, pairs of prompt and response, or of random tokens."""
        torch, seed = self.torch, self.torch.Generator().manual_seed(0)
        parts = parts or [[torch.randint(3, 4000, (size,), generator=seed) for size in row] for row in sizes]
        prompts, responses = ([row[side] for row in parts] for side in (0, 1))
        mask = self.nested([torch.ones_like(response) for response in responses])
        batch = {"prompts": self.nested(prompts), "responses": self.nested(responses), "response_mask": mask}
        batch["input_ids"] = self.nested([torch.cat(list(row)) for row in parts])
        batch["position_ids"] = self.nested([torch.arange(sum(row)) for row in sizes])
        return {**batch, "loss_mask": mask}

    def log_probs(self, batch: dict[str, Any]) -> tuple[Any, dict[str, float]]:
        """Return the log-probabilities of a batch's responses, and what they took."""

        from verl.workers.utils.padding import response_from_nested

        data = self._data(batch, compute_loss=False)
        found, took = self.timed(batch, 2, lambda: self.worker.actor.infer_batch(data)["log_probs"])
        return response_from_nested(found.cpu(), batch["response_mask"]), took

    def update(self, batch: dict[str, Any], before: Any) -> dict[str, float]:
        """Update once, half of the rows up and half down, and return what it took, with the gradient."""
        from verl.utils import tensordict_utils

        each = before.unbind()
        ones, total = [self.torch.ones_like(row) for row in each], sum(map(len, each))
        more = {"old_log_probs": before, "ref_log_prob": before, "rollout_is_weights": self.nested(ones)}
        more["advantages"] = self.nested([one * (1 if number % 2 else -1) for number, one in enumerate(ones)])
        more["token_weights"] = self.nested([one / total for one in ones])
        options = {"mini_batch_size": len(each), "global_batch_size": len(each), "epochs": 1, "seed": 1}
        data = self._data({**batch, **more}, **options, dataloader_kwargs={"shuffle": False})
        frozen = self.config.actor_rollout_ref.model.lora_rank  # a base without gradients of its own
        found, took = self.timed(batch, 4 if frozen else 6, lambda: self.worker.actor.train_mini_batch(data))
        return {**took, "gradient": float(tensordict_utils.get(found, "metrics")["grad_norm"][0])}

    def _data(self, batch: dict[str, Any], **options: Any) -> Any:
        from verl.utils import tensordict_utils

        known = {"temperature": self.config.temperature, "calculate_entropy": False, **options}
        return tensordict_utils.get_tensordict(batch, non_tensor_dict=known)


def measure_shape(name: str, out: Path, device: str) -> dict[str, Any]:
    """Part A: log-probabilities and updates of packed, unpacked and longest rows, beside the estimate."""
    preset, override = A[name]
    bench = Bench(preset, device, out / name, override)
    expected = estimate(compose_settings(preset, ["trainer.n_gpus_per_node=1"])).memory
    found: dict[str, Any] = {"preset": preset, "override": override, "started": bench.started}
    found["estimate, GB"] = {name: round(value / 1e9, 1) for name, value in expected.items()}
    packed, step = LONG[device], 650 if device == "cuda" else 20
    turns = [(prompt + step * turn, 150 if device == "cuda" else 10) for prompt, _ in packed for turn in range(3)]
    with bench.torch.profiler.profile() as profile:
        bench.log_probs(bench.rows(packed[:1]))
    kernels = {one.key for one in profile.key_averages()}
    found["kernel"] = sorted(one for one in kernels if any(part in one for part in ("attention", "flash", "sdpa")))
    for kind, sizes in (("packed", packed), ("unpacked", turns), ("longest", LONGEST[device])):
        batch = bench.rows(sizes)
        before, took = bench.log_probs(batch)
        found[kind] = {"rows": len(sizes), "log-probabilities": took, "update": bench.update(batch, before)}
        (out / f"{name}.json").write_text(json.dumps(found))  # what follows may not fit
    return found


def measure_atlas(out: Path, device: str) -> dict[str, Any]:
    """Part B: two steps, a third after a resume, export; and the first step with its update on the CPU."""
    found, questions = dict[str, Any](), 16 if device == "cuda" else 2

    def train(folder: Path, on: str, steps: int) -> list[dict[str, Any]]:
        words = [*ATLAS, f"questions={questions}", f"out={folder}", f"steps={steps}", f"trainer.device={on}"]
        words += [*ATLAS_ON_CPU] if on == "cpu" else []
        subprocess.run([sys.executable, "-m", "agentflow", "train", *words], check=True)  # noqa: S603
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if line["split"] == "train"]

    for steps in (2, 3):
        found["steps"] = train(out / "atlas", device, steps)
        (out / "atlas.json").write_text(json.dumps(found))
    export = [sys.executable, "-m", "agentflow", "export", str(out / "atlas"), str(out / "planner")]
    found["export"] = subprocess.run(export, capture_output=True, text=True, check=False).stdout.splitlines()[-1:]  # noqa: S603
    found["same digest on the CPU"] = train(out / "on-cpu", "cpu", 1)[0]["batch"] == found["steps"][0]["batch"]
    return found


def measure_sampled(out: Path, device: str) -> dict[str, Any]:
    """Part C: sample with transformers in bfloat16, compare, update, and send the weights, three times."""
    from transformers import AutoConfig, AutoModelForCausalLM

    logits = "actor_rollout_ref.model.use_fused_kernels=false"  # verl's fused forward has none to sample from
    bench = Bench("qwen2.5-3b", device, out / "sampled", "lr=1e-4", logits, start=SMALL)
    torch, steps, known = bench.torch, list[dict[str, float]](), AutoConfig.from_pretrained(bench.config.start)
    sampler: Any = AutoModelForCausalLM.from_config(known, dtype=torch.bfloat16).to(device).eval()
    prompt, heat, most = LONG[device][0][0], bench.config.temperature, 150 if device == "cuda" else 20
    asked = torch.randint(3, 4000, (8, prompt), generator=torch.Generator().manual_seed(0)).to(device)
    for _ in range(3):
        state = bench.worker.actor.engine.module.state_dict()
        whole = {name: one.full_tensor() if hasattr(one, "full_tensor") else one for name, one in state.items()}
        sampler.load_state_dict({name: one.to(device) for name, one in whole.items()}, strict=False)
        options = {"do_sample": True, "temperature": heat, "top_p": 1.0, "top_k": 0, "max_new_tokens": most}
        with torch.inference_mode():
            began = time.perf_counter()
            ids = sampler.generate(asked, **options, eos_token_id=None, pad_token_id=0)
            seconds = time.perf_counter() - began
            scores = (sampler(ids).logits[:, prompt - 1 : -1].float() / heat).log_softmax(-1)
        theirs = scores.gather(2, ids[:, prompt:, None])[..., 0].cpu()
        parts = [(row[:prompt], row[prompt:]) for row in ids.clone().cpu()]
        batch = bench.rows([(prompt, most)] * len(parts), parts)
        ours, took = bench.log_probs(batch)
        drift = float((torch.stack(list(ours.cpu().unbind())) - theirs).abs().mean())
        speed = {"sampled tokens/s": round(8 * most / seconds, 1), "drift": drift, "log-probabilities": took["seconds"]}
        steps.append({**speed, **bench.update(batch, ours)})
    return {"steps": steps}


def main() -> None:
    """Measure all, or one thing in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=lambda text: Path(text).absolute(), required=True, help="folder of the results")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--measure", choices=[*SECONDS], help="only this, here")
    given = parser.parse_args()
    if not (name := given.measure):
        return print(json.dumps(run(given.out, given.device), indent=1))
    (given.out / name).mkdir(parents=True, exist_ok=True)
    measure = {"atlas": measure_atlas, "sampled": measure_sampled}.get(name, partial(measure_shape, name))
    found = measure(given.out, given.device)
    (given.out / f"{name}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
