"""What must be in the environment of every process before verl is imported, to train on a CPU."""

ENVIRONMENT = {
    "VERL_USE_EXTERNAL_MODULES": "agentflow.rl.trainer.platform",
    "VERL_PLATFORM": "cpu",
    # The registry of training engines knows FSDP for "cuda" and "npu"; the code behind it is the same.
    "VERL_ENGINE_DEVICE": "cuda",
    # Ray would otherwise hide devices that do not exist.
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
