"""Environment variables for training on a CPU, which every process needs before it imports verl."""

ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "agentflow.rl.trainer.platform",
    "VERL_PLATFORM": "cpu",
    # verl registers the FSDP engine for "cuda" and "npu" only; the engine itself also runs on a CPU.
    "VERL_ENGINE_DEVICE": "cuda",
    # Keeps Ray from changing CUDA_VISIBLE_DEVICES of actors without a GPU: there are no GPUs to hide.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
