"""Runs a program as Python runs a script: as the module `__main__`, in its folder.

As in a notebook, the value of a last bare expression is printed, and that of a last assignment if the program prints
nothing at all. An error is reported as one line on standard error.
Only the standard library is used, since this module runs inside the sandbox.
"""

import ast
import atexit
import gc
import os
import sys
import threading
from types import ModuleType
from typing import Any

NAME = "__program__.py"
"""No name that a person's own file would have."""
MAX_MESSAGE = 300
_PRINT = {"print", "pprint"}
_STARTERS = ("subprocess", "multiprocessing", "concurrent.futures.process")
"""Prefixes of modules that start processes, including the implementation that they share."""


def main(files: dict[str, str]) -> int:
    """Write the files to the current folder, and run the one called NAME to its very end, with threads, atexit and
    finalizers. Return its exit status.
    """
    try:
        status = _run_reporting(files)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.modules.pop("__main__", None)
        gc.collect()  # runs the remaining __del__; preloaded objects are frozen and skipped
        _flush()
    except BaseException as error:  # the process ends here after any failure
        _report(error)
        return 1
    return status


def _flush() -> None:
    """Flush all output, even if the program replaced or closed its output stream."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        if stream is not None and not getattr(stream, "closed", False):
            stream.flush()


def _run_reporting(files: dict[str, str]) -> int:
    try:
        for name, text in files.items():
            with open(name, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
        run(files[NAME], NAME)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        os.write(2, f"{end.code}\n".encode("utf-8", "replace"))
        return 1
    except BaseException as error:  # every failure is reported to the host
        _report(error)
        return 1
    return 0


def _report(error: BaseException) -> None:
    # Writes to the descriptor, since the program may have replaced or closed sys.stderr.
    os.write(2, f"\n{describe(error, NAME)}\n".encode("utf-8", "replace"))


def run(source: str, path: str) -> None:
    """Run the program in a new `__main__` module and print its last value."""
    tree = ast.parse(source, path)
    last = _last_value(tree)
    main = ModuleType("__main__")
    main.__file__ = path
    sys.modules["__main__"] = main
    sys.argv = [path]
    sys.path.insert(0, os.getcwd())
    namespace: dict[str, Any] = vars(main)
    exec(compile(tree, path, "exec"), namespace)  # noqa: S102 - the purpose of this child process
    if last is not None:
        value = eval(compile(ast.Expression(last), path, "eval"), namespace)  # noqa: S307 - as above
        if value is not None:
            print(value)


def _last_value(tree: ast.Module) -> ast.expr | None:
    """Return the expression whose value is to be printed at the end, taken out of the tree if it stands there alone."""
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
        return last.value
    prints = any({getattr(node, "id", ""), getattr(node, "attr", "")} & _PRINT for node in ast.walk(tree))
    if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name) and not prints:
        return ast.Name(last.targets[0].id, ast.Load(), lineno=last.lineno, col_offset=0)
    return None


def describe(error: BaseException, path: str) -> str:
    """Return one line: the exception as Python formats it, and the line of the program that raised it."""
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
