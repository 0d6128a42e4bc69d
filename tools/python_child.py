"""What runs inside python_coder's child process: limits itself, then runs the program as `__main__`.

Started as a script by `python_process`, with the standard library alone. The limits are set here and not in a
`preexec_fn`, so that the parent, which may be large and threaded, need not fork.

Like a notebook, it prints the value of a last bare expression. An error is reported as one line on stderr.
"""

import ast
import contextlib
import os
import resource
import sys
from types import ModuleType
from typing import Any

MAX_MESSAGE = 300
NEW_TASKS = 64
"""Processes and threads that the program may start, where the system enforces it: not for root."""


def limit_resources(cpu_seconds: int, memory_bytes: int, file_bytes: int) -> None:
    """Hard limits, which the program cannot raise again; where a system lacks one (macOS: memory), it goes without."""
    limits = {
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_CORE: 0,
    }
    with contextlib.suppress(OSError, ValueError), open("/proc/loadavg", encoding="ascii") as loadavg:
        # The limit counts all tasks of the user; the system's total ("running/total") is a bound for these.
        limits[resource.RLIMIT_NPROC] = int(loadavg.read().split()[3].split("/")[1]) + NEW_TASKS
    for kind, value in limits.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (value, value))


def run(source: str, path: str) -> None:
    """Runs the program in a `__main__` module of its own and prints the value of a last bare expression."""
    tree = ast.parse(source, path)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    main = ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    sys.argv = [path]
    namespace: dict[str, Any] = vars(main)
    exec(compile(tree, path, "exec"), namespace)  # noqa: S102 - this is the child process whose purpose it is
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), path, "eval"), namespace)  # noqa: S307 - as above
        if value is not None:
            print(value)


def describe(error: BaseException, path: str) -> str:
    """One line: the exception as Python names it, and the program's line that it came from."""
    import traceback  # a third of the start-up time, and most programs do not need it

    if isinstance(error, SyntaxError) and error.filename == path:
        entry, line = traceback.format_exception_only(error)[-1], error.lineno
    else:
        lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == path]
        entry, line = traceback.format_exception_only(error)[0], lines[-1] if lines else None
    text = " ".join(entry.split())[:MAX_MESSAGE]
    return f"{text} (line {line})" if line else text


def main() -> None:
    """Arguments: path of the program, seconds of CPU, bytes of memory, bytes per file."""
    path, cpu_seconds, memory_bytes, file_bytes = sys.argv[1], *map(int, sys.argv[2:5])
    with open(path, encoding="utf-8") as file:
        source = file.read()
    limit_resources(cpu_seconds, memory_bytes, file_bytes)
    try:
        run(source, path)
        sys.stdout.flush()
    except SystemExit:
        raise
    except BaseException as error:  # reported to the parent, whatever it is
        # By the descriptor: the program may have replaced or closed sys.stderr.
        os.write(2, f"\n{describe(error, path)}\n".encode("utf-8", "replace"))
        sys.exit(1)


if __name__ == "__main__":
    main()
