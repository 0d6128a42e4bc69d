"""Entry point of `python -m agentflow`."""

from agentflow.cli import main

main()
