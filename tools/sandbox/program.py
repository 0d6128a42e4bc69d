"""Runs a program as Python runs a script: as the module `__main__`, in a folder of its own.

Like a notebook, it prints the value of a last bare expression. An error is reported as one line on stderr. The standard
library alone is used: this runs inside the sandbox.
"""

import ast
import atexit
import gc
import os
import sys
import threading
from types import ModuleType
from typing import Any

NAME = "program.py"
MAX_MESSAGE = 300
_STARTERS = ("subprocess", "multiprocessing", "concurrent.futures.process")
"""Modules that start processes, and first what these share."""


def main(source: str) -> int:
    """Runs the program in the current folder and to its very end: threads, atexit, finalizers. Its exit status."""
    try:
        status = _run_reporting(source)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.modules.pop("__main__", None)
        gc.collect()  # __del__ of what was left; what was preloaded is frozen and not looked at
        _flush()
    except BaseException as error:  # whatever it is, the process ends here
        _report(error)
        return 1
    return status


def _flush() -> None:
    """What was printed, also where the program put another stream in place of its output, or closed it."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()


def _run_reporting(source: str) -> int:
    try:
        with open(NAME, "w", encoding="utf-8") as file:
            file.write(source)
        run(source, NAME)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        os.write(2, f"{end.code}\n".encode("utf-8", "replace"))
        return 1
    except BaseException as error:  # reported to the host, whatever it is
        _report(error)
        return 1
    return 0


def _report(error: BaseException) -> None:
    # By the descriptor: the program may have replaced or closed sys.stderr.
    os.write(2, f"\n{describe(error, NAME)}\n".encode("utf-8", "replace"))


def run(source: str, path: str) -> None:
    """Runs the program in a `__main__` module of its own and prints the value of a last bare expression."""
    tree = ast.parse(source, path)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    main = ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    sys.argv = [path]
    sys.path.insert(0, os.getcwd())
    namespace: dict[str, Any] = vars(main)
    exec(compile(tree, path, "exec"), namespace)  # noqa: S102 - this is the child process whose purpose it is
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), path, "eval"), namespace)  # noqa: S307 - as above
        if value is not None:
            print(value)


def describe(error: BaseException, path: str) -> str:
    """One line: the exception as Python names it, and the program's line that it came from."""
    import traceback  # a third of the start-up time of a fresh interpreter, and most programs do not need it

    if isinstance(error, SyntaxError) and error.filename == path:
        entry, line = traceback.format_exception_only(error)[-1], error.lineno
    else:
        lines = [number for frame, number in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == path]
        entry, line = traceback.format_exception_only(error)[0], lines[-1] if lines else None
    text = " ".join(entry.split())[:MAX_MESSAGE]
    if isinstance(error, OSError) and any(
        frame.f_globals.get("__name__", "").startswith(_STARTERS) for frame, _ in traceback.walk_tb(error.__traceback__)
    ):
        text += "; programs cannot start processes"
    return f"{text} (line {line})" if line else text
