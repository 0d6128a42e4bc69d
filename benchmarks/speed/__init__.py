"""How fast AgentFlow is, beside its peers and the floor, in one run: `python -m benchmarks.speed`, or `make bench`."""
