"""Speed of AgentFlow, its peers and the floor: `python -m benchmarks.speed`, or `make bench`."""
