"""The embedded model's seed checkpoint: its training data, its initial weights and `python -m recipes.micro.pretrain`.

`traces` renders the conversations of all modules on Atlas, `everyday` and `outside` generate questions beside it, and
`initial` writes the copying heads. What runs the checkpoint is in `rl/micro/`.
"""
