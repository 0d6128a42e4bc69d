"""Training: the embedded micro model and, on verl, Flow-GRPO. The only package that may import torch, verl or ray."""
