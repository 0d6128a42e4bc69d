"""`python -m agentflow`."""

from agentflow.cli import main

main()
