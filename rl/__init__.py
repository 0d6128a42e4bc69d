"""Training: the embedded micro model, and Flow-GRPO on verl. The only package that may import torch, verl or ray."""
