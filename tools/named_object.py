"""Python objects by name, `module:attribute`, by which configuration refers to the user's code."""

import asyncio
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from agentflow.tools.coded_error import CodedError
from agentflow.tools.untrusted_text import bounded_line

_NAME = re.compile(r"([A-Za-z_][\w.]*|.+\.py):([A-Za-z_][\w.]*)")


class NamedObjectError(CodedError, ValueError):
    """A name that refers to no object; `str()` is one line with the reason."""


def is_object_name(name: str) -> bool:
    """Return whether `name` has the form module:attribute or path/file.py:attribute."""
    return _NAME.fullmatch(name) is not None


def named_object(name: str) -> object:
    """Return the object that `module:attribute` or `path/file.py:attribute` names.

    A module may be in the current folder. This imports and so runs the user's code. Raises NamedObjectError.
    """
    if (match := _NAME.fullmatch(name)) is None:
        raise NamedObjectError(f"'{bounded_line(name, 120)}' is not of the form module:attribute", code="bad_name")
    try:
        if match[1].endswith(".py"):
            found: object = _imported(Path(match[1]))
        else:
            with _first_on_path(os.getcwd()):
                found = importlib.import_module(match[1])
        for attribute in match[2].split("."):
            found = getattr(found, attribute)
    except (Exception, SystemExit) as error:  # the user's module may raise any exception
        raise NamedObjectError(f"{name} cannot be imported ({error_line(error)})", code="import_failed") from error
    return found


def made_by(function: Callable[[], object], name: str, kind: str, hint: str = "") -> object:
    """Return what the user's function of this name makes, which may be async. Raises NamedObjectError."""
    try:
        made = function()
        return asyncio.run(made) if inspect.iscoroutine(made) else made
    except Exception as error:  # it may raise any exception
        raise NamedObjectError(
            f"{name} makes no {kind} when it is called without arguments ({error_line(error)}){hint}",
            code="factory_failed",
        ) from error


def _imported(path: Path) -> ModuleType:
    """Import a file: as the module of its package, with relative imports, or under its path, which no other has."""
    file = path.resolve()
    root, name = file.parent, file.stem
    while (root / "__init__.py").exists():
        root, name = root.parent, f"{root.name}.{name}"
    with _first_on_path(str(root)):
        if root != file.parent:
            return importlib.import_module(name)
        if (known := sys.modules.get(str(file))) is not None:
            return known
        spec = spec_from_file_location(str(file), file)
        assert spec
        assert spec.loader
        sys.modules[str(file)] = module = module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[str(file)]
            raise
        return module


@contextmanager
def _first_on_path(folder: str) -> Iterator[None]:
    """Let the user's modules in a folder precede others of the same names while one is imported, as `python -m` does.

    Afterwards they come last: none is taken for a library that is imported late.
    """
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module took it out itself
            sys.path.remove(folder)
        if folder not in sys.path:
            sys.path.append(folder)


def error_line(error: BaseException) -> str:
    """Return the error on one bounded line."""
    return bounded_line(f"{type(error).__name__}: {error}", 200)
