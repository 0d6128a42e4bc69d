"""Flow-GRPO on verl's V1 trainer: platform, rollout servers, agent loop, loss and the trainer itself.

Only this package imports verl, ray and hydra; it needs the extra `train`.
"""
