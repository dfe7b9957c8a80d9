"""The application: routes, refusals and what happens at start and end."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

import discreet
from discreet.errors import DiscreetError
from discreet.service import _schema
from discreet.service._api import Api, House
from discreet.service._errors import INTERNAL, GoneError, RequestError, envelope, status_of
from discreet.service._http import App, Door, Receive, Scope, Send, to_json
from discreet.service._marks import MarkRoutes
from discreet.service._owner import OwnerPages
from discreet.service._pages import Pages

if TYPE_CHECKING:
    from discreet.service._talk import Talk

_SILENT: Final[Any] = {"tracing": False, "metrics": False, "logs": False,
                       "operation_spans": False, "auto_configure": False}  # fmt: skip
"""FastAPI would else hand durations and bodies to whatever telemetry the process has."""


def build(house: House) -> App:
    """Make the application of a service."""
    talk = _talk(house)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        for desk in house.desks.values():
            await desk.start()
        async with talk.running() if talk is not None else nullcontext():
            yield
        for desk in house.desks.values():
            await desk.close()

    app = FastAPI(
        title="discreet", version=discreet.__version__, lifespan=life, docs_url=None,
        redoc_url=None, telemetry=_SILENT,
    )  # fmt: skip
    api = Api(house)
    app.include_router(api.router)
    app.include_router(MarkRoutes(house, house.sessions.home).router)
    pages = Pages(house, house.sessions)
    OwnerPages(house, pages)
    app.include_router(pages.router)
    app.add_api_route("/healthz", _health, methods=["GET"], response_class=Response,
                      responses=_schema.responses())  # fmt: skip

    async def refuse_route(request: Request, error: Exception) -> Response:
        if _wants_page(request) and getattr(error, "status_code", 0) == 404:
            return pages.missing(request)
        return await _refuse_route(request, error)

    async def fail(request: Request, error: Exception) -> Response:
        return pages.failed() if _wants_page(request) else await _fail(request, error)

    app.add_exception_handler(DiscreetError, _refuse)
    app.add_exception_handler(HTTPException, refuse_route)
    app.add_exception_handler(RequestValidationError, _refuse_shape)
    app.add_exception_handler(Exception, fail)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]  # as FastAPI says to

    async def routed(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
        elif talk is not None and scope["path"] in ("/mcp", "/mcp/"):
            await talk(scope, receive, send)
        elif (handler := api.shortcut(scope)) is not None:
            request = Request(scope, receive)
            try:
                response = await handler(request)
            except DiscreetError as error:
                response = await _refuse(request, error)
            await response(scope, receive, send)
        else:
            await app(scope, receive, send)

    return Door(routed)


def _talk(house: House) -> Talk | None:
    """Offer tools to assistants, where the package for it is installed."""
    if importlib.util.find_spec("mcp") is None:
        return None
    from discreet.service._talk import Talk  # noqa: PLC0415 - an extra

    return Talk(house, house.cap)


def _wants_page(request: Request) -> bool:
    """Whether somebody looks at a page, and not at the interface for programs."""
    return "text/html" in request.headers.get("accept", "") and request.url.path[:4] != "/v1/"


async def _health() -> Response:
    """Say that the service is there; nothing else."""
    return Response(b'{"ok":true}', media_type="application/json")


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, DiscreetError)
    status = status_of(error)
    headers = {"Retry-After": "2"} if status in (429, 503) else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(to_json(envelope(error)), status, headers, "application/json")


async def _refuse_route(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return await _refuse(request, GoneError("there is nothing at this address"))
    refusal = envelope(RequestError("this address does not take this method"))
    headers = dict(error.headers or {})
    return Response(to_json(refusal), error.status_code, headers, "application/json")


async def _refuse_shape(request: Request, _: Exception) -> Response:
    return await _refuse(request, RequestError("this address does not take such a request"))


async def _fail(_: Request, __: Exception) -> Response:
    """Say one constant; the door notes what it was and where."""
    return Response(to_json(INTERNAL), 500, media_type="application/json")


def _document(app: FastAPI) -> dict[str, Any]:
    """Write the OpenAPI document: the routes' own, with bodies, refusals and keys."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, routes=app.routes)
        parts = document.setdefault("components", {})
        parts["schemas"] = {**parts.get("schemas", {}), **_schema.SCHEMAS}
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"key": []}]
        app.openapi_schema = document
    return app.openapi_schema
