"""The certificate of a training: a small signed file from which others can check the run, and repeat steps of it."""
