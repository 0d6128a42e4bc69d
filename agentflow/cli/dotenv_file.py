"""The file `.env` of the current folder: variables of the environment, such as keys, for every command."""

import sys
from pathlib import Path

from agentflow.cli.group import MISUSED, say


def read_dotenv() -> None:
    """Add the variables of `.env` that the environment does not have; ends the program if the file cannot be read."""
    path = Path(".env")
    if not path.is_file():
        return
    from dotenv import load_dotenv

    try:
        load_dotenv(path, override=False)
    except (OSError, ValueError) as error:
        say(f"error: .env cannot be read ({error}); mend or remove it")
        sys.exit(MISUSED)
