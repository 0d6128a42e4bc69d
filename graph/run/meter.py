"""Usage of a run: model calls, tokens and seconds by module and model, and why replies ended."""

import threading
from collections.abc import Callable

from langchain_core.messages import AIMessage

from agentflow.graph.run.recorder import cost_of
from agentflow.graph.run.trace import FinishReasons, Tokens, Usage
from agentflow.graph.tracing.operation import Operation


class Meter:
    """Sink that counts the model calls of a run, those of tools included."""

    def __init__(self) -> None:
        self._calls = 0
        self._tokens: dict[str, dict[str, Tokens]] = {}
        self._seconds: dict[str, float] = {}
        self._reasons: dict[int | None, FinishReasons] = {}
        self._lock = threading.Lock()  # a tool may call a model from a thread of its own

    def begin(self, operation: Operation) -> None:
        """Count a call."""
        if operation.kind == "model_call":
            with self._lock:
                self._calls += 1

    def end(self, operation: Operation) -> None:
        """Add the tokens, the time and the finish reason of a call."""
        if operation.kind != "model_call":
            return
        with self._lock:
            self._seconds[operation.module] = self._seconds.get(operation.module, 0.0) + operation.seconds
            for reply in operation.replies:
                if reason := reply.response_metadata.get("finish_reason"):
                    reasons = self._reasons.setdefault(operation.turn, {})
                    reasons.setdefault(operation.module, []).append(str(reason))
                if reply.usage_metadata:
                    models = self._tokens.setdefault(operation.module, {})
                    metadata = reply.response_metadata
                    name = str(metadata.get("model_name") or metadata.get("model") or "")
                    models[name] = models.get(name, Tokens()) + _tokens(reply)

    def usage(self) -> Usage:
        """Return the counts so far."""
        with self._lock:
            modules = {module: dict(models) for module, models in self._tokens.items()}
            seconds = {module: round(taken, 3) for module, taken in self._seconds.items()}
            return Usage(calls=self._calls, modules=modules, seconds=seconds)

    def finish_reasons(self, holds: Callable[[int | None], bool]) -> FinishReasons:
        """Return why the replies ended so far, of the turns for which `holds`; None are the calls outside turns."""
        found: FinishReasons = {}
        with self._lock:
            for turn, modules in self._reasons.items():
                for module, reasons in modules.items() if holds(turn) else ():
                    found.setdefault(module, []).extend(reasons)
        return found


def _tokens(message: AIMessage) -> Tokens:
    """Return the tokens of a reply, and its cost where the server reports one."""
    return Tokens.model_validate({**dict(message.usage_metadata or {}), "calls": 1, "cost": cost_of(message)})
