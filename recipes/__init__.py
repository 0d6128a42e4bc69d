"""Making of the checkpoints that ship; the wheel has none of it."""
