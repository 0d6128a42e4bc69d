"""Entry point of the command `agentflow`, and of `python -m agentflow`."""

import sys


def main() -> None:
    """Run the command line. Ctrl-C while it is being imported ends it without a traceback, as later."""
    try:
        from agentflow.cli import main as run
    except KeyboardInterrupt:
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
