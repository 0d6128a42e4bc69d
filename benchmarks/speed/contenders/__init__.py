"""Who is measured: a module each, with `DISTRIBUTION`, and `rollouts`, which gives what runs one rollout."""
