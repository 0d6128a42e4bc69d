"""Server of the page: static files, data as JSON, and an event for each change.

Addresses contain ids of sources and names of traces, which the index resolves; no part of an address is a path.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agentflow.evals.run_folder import RunFolderError
from agentflow.version import __version__
from agentflow.view.about import about, report, step_groups
from agentflow.view.detail import Gone, detail
from agentflow.view.groups import tokens
from agentflow.view.guard import Guard
from agentflow.view.pairs import at, pairs
from agentflow.view.query import Query, cells, choices, select
from agentflow.view.rows import Row
from agentflow.view.run_index import RunIndex
from agentflow.view.single_file import static_files
from agentflow.view.sources import Source, Training

PAUSE = 0.5
"""Seconds between looks at the files."""
BEAT = 1.0
"""Most seconds from the server's end to that of an event stream."""

_TYPES = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}


class Json(JSONResponse):
    """JSON in ASCII, so that any text of a model can be sent."""

    def render(self, content: Any) -> bytes:
        """Encode the content."""
        return json.dumps(content, separators=(",", ":")).encode("ascii")


def build_app(index: RunIndex, stopping: Callable[[], bool] = lambda: False) -> Starlette:
    """Build the server of `index`.

    `stopping` returns True before the server ends, so that event streams close.
    """
    view = _View(index, stopping)
    routes = [
        Route("/", view.static),
        Route("/static/{name}", view.static),
        Route("/api/sources", view.sources),
        Route("/api/sources/{source}", view.source),
        Route("/api/sources/{source}/traces", view.traces),
        Route("/api/sources/{source}/traces/{name}", view.trace),
        Route("/api/sources/{source}/steps/{step:int}", view.step),
        Route("/api/sources/{source}/steps/{step:int}/tokens/{group:int}", view.tokens),
        Route("/api/reports/{sources}", view.report),
        Route("/api/pairs", view.pairs),
        Route("/api/events", view.events),
    ]
    return Starlette(routes=routes, middleware=[Middleware(Guard)], lifespan=view.lifespan)


class _View:
    """Request handlers. Those that are not coroutines run in threads, and hold the index's lock while they read it."""

    def __init__(self, index: RunIndex, stopping: Callable[[], bool]) -> None:
        self.index, self.stopping = index, stopping
        self.static_files = static_files()
        self.reported: tuple[list[tuple[str, float]], dict[str, Any]] = [], {}
        self.changed = asyncio.Condition()

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Refresh the index while the server runs."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self) -> None:
        while True:
            version, start = self.index.version, time.monotonic()
            more = await asyncio.to_thread(self.index.refresh)
            if self.index.version != version:
                async with self.changed:
                    self.changed.notify_all()
            taken = time.monotonic() - start
            await asyncio.sleep(0.01 if more else max(PAUSE, 5 * taken))

    def static(self, request: Request) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in self.static_files:
            raise HTTPException(404)
        return Response(self.static_files[name], media_type=_TYPES[name.rpartition(".")[2]])

    def sources(self, request: Request) -> Response:
        with self.index.lock:
            found = [source.summary() for source in self.index.sources.values()]
        found.sort(key=lambda one: one["changed"], reverse=True)
        roots = [str(root.path).encode("utf-8", "replace").decode() for root in self.index.roots]
        return Json({"sources": found, "roots": roots, "complete": self.index.complete, "version": __version__})

    def source(self, request: Request) -> Response:
        with self.index.lock:
            return Json(about(self._source(request.path_params["source"])))

    def report(self, request: Request) -> Response:
        """The figures of some evaluations, which are computed again only when a file has changed."""
        with self.index.lock:
            sources = self._sources(request.path_params["sources"])
            known = [(source.id, source.changed) for source in sources]
            rows = [named for source in sources for named in source.rows()]
        if known != self.reported[0]:
            try:
                self.reported = known, report(sources)
            except RunFolderError as error:
                raise HTTPException(404, str(error)) from error
        return Json({**self.reported[1], "choices": choices(rows)})

    def traces(self, request: Request) -> Response:
        query = _query(request)
        with self.index.lock:
            sources = self._sources(request.path_params["source"])
            rows = [(source.id, *named) for source in sources for named in source.rows()]
        found = select(rows, query)
        page = found[query.offset : query.offset + query.limit]
        return Json(
            {
                "all": len(rows),
                "number": len(found),
                "correct": sum(row.outcome == "correct" for *_, row in found),
                "rows": [{"source": source, **cells(name, row)} for source, name, row in page],
            }
        )

    def trace(self, request: Request) -> Response:
        name = request.path_params["name"]
        with self.index.lock:
            source = self._source(request.path_params["source"])
            row = _row(source, name)
            try:
                found = detail(source, name, row)
            except Gone as error:
                raise HTTPException(404, str(error)) from error
            elsewhere = self._elsewhere(source, name, row)
        return Json({**found, "source": {"id": source.id, "name": source.name, "kind": source.kind}, **elsewhere})

    def _elsewhere(self, source: Source, name: str, row: Row) -> dict[str, Any]:
        """Return the previous and next trace, and traces of the same question in other sources."""
        names = [other for other, _ in source.rows()]
        here = names.index(name)
        same = [
            {"source": other.id, "from": other.name, **cells(own, one)}
            for other in self.index.sources.values()
            for own, one in other.rows()
            if one.question == row.question and (other.id, own) != (source.id, name)
        ]
        return {
            "previous": names[here - 1] if here else None,
            "next": names[here + 1] if here + 1 < len(names) else None,
            "same": same[:60],
            "same_number": len(same),
        }

    def step(self, request: Request) -> Response:
        with self.index.lock:
            return Json(step_groups(self._training(request), request.path_params["step"]))

    def tokens(self, request: Request) -> Response:
        step, group = request.path_params["step"], request.path_params["group"]
        with self.index.lock:
            source = self._training(request)
            named = source.of_step(step, "train")
        found = source.tokens(step)
        if found is None or group >= len(found.tasks):
            raise HTTPException(404, "the tokens of this group were not kept")
        return Json(tokens(found, found.tasks[group], named))

    def _training(self, request: Request) -> Training:
        source = self._source(request.path_params["source"])
        if not isinstance(source, Training):
            raise HTTPException(404, "only a training has steps")
        return source

    def pairs(self, request: Request) -> Response:
        with self.index.lock:
            sides = [self._side(request, side) for side in ("before", "after")]
            (before, first), (after, second) = sides
            found = pairs(at(before, first), at(after, second), request.query_params.get("benchmark", ""))
            return Json(
                {
                    **found,
                    **{
                        side: {**source.summary(), "step": step, "test_steps": _test_steps(source)}
                        for side, (source, step) in zip(("before", "after"), sides, strict=True)
                    },
                }
            )

    def _side(self, request: Request, side: str) -> tuple[Source, int | None]:
        source = self._source(request.query_params.get(side, ""))
        step = request.query_params.get(f"{side}_step", "")
        steps = _test_steps(source)
        return source, int(step) if step.isdecimal() and len(step) < 10 else (steps[-1] if steps else None)

    def _source(self, id: str) -> Source:
        if id not in self.index.sources:
            raise HTTPException(404, "there is no such run (any more)")
        return self.index.sources[id]

    def _sources(self, ids: str) -> list[Source]:
        return [self._source(id) for id in dict.fromkeys(ids.split(","))]

    async def events(self, request: Request) -> Response:
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        sent = -1
        yield "retry: 1000\n\n"
        while not self.stopping():
            if self.index.version == sent:
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT), self.changed:
                        await self.changed.wait()
            if self.index.version != sent:
                sent = self.index.version
                yield f"data: {sent}\n\n"


def _test_steps(source: Source) -> list[int]:
    return source.steps("test") if isinstance(source, Training) else []


def _row(source: Source, name: str) -> Row:
    for own, row in source.rows():
        if own == name:
            return row
    raise HTTPException(404, "there is no such trace (any more)")


def _query(request: Request) -> Query:
    try:
        return Query.model_validate({name: value for name, value in request.query_params.items() if value})
    except ValidationError as error:
        raise HTTPException(400, "the filters cannot be read") from error
