"""Who is measured: in each module `DISTRIBUTION` and context managers that yield the function which runs a rollout."""
