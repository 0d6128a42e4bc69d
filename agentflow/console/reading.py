"""Questions that a person types: several lines, with a history that outlasts the command."""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

MORE = "\\"
"""End of a line that is continued on the next one."""

MAX_HISTORY = 1000
"""Lines that the history keeps."""


def read_question(prompt: str = "> ", further: str = ". ") -> str | None:
    """Return the next question that is not empty, None at the end of the input. Raises KeyboardInterrupt.

    A line that ends in a backslash continues on the next. A pasted text of several lines is one question.
    """
    lines: list[str] = []
    shown = sys.stdin.isatty()
    while True:
        try:
            with interruptible():
                line = input((further if lines else prompt) if shown else "")
        except EOFError:
            return "\n".join(lines).strip() or None
        lines.append(line.removesuffix(MORE))
        if line.endswith(MORE):
            continue
        if question := "\n".join(lines).strip():
            return question.encode("utf-8", "replace").decode()
        lines.clear()


@contextmanager
def history(path: Path) -> Iterator[None]:
    """Edit lines with the shell's keys inside the block, and keep them in `path`, which only its owner may read."""
    try:
        import readline
    except ImportError:  # Python without it, as on Windows
        yield
        return
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(MAX_HISTORY)
    try:
        yield
    finally:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(0o600)
            readline.write_history_file(path)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end a prompt inside the block at once; asyncio's own handler waits until a line was read.

    A timer interrupts the read ten times a second, whereupon Python looks for signals. One that comes after Python last
    looked and before it reads would else be noticed with the next line only.
    """
    with ExitStack() as stack:
        for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGALRM, lambda *_: None)):
            stack.callback(signal.signal, number, signal.signal(number, handler))
        stack.callback(signal.setitimer, signal.ITIMER_REAL, *signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1))
        yield
