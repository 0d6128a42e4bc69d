"""The contenders, a module each, with `DISTRIBUTION` and `rollouts`, which yields the function that runs a rollout."""
