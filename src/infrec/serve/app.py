"""The addresses of the service, as a FastAPI application behind the security middleware."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException
from starlette.responses import Response

from infrec import __version__
from infrec.serve import schemas
from infrec.serve.answers import explain, recommend, similar
from infrec.serve.batching import Service
from infrec.serve.schemas import Problem, internal, of_status, too_large, too_slow
from infrec.serve.security import Handler, SecurityMiddleware
from infrec.serve.served_model import Served, compact
from infrec.serve.settings import MAX_BODY

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FILES = {path.name: path for path in STATIC.iterdir() if path.suffix in _TYPES}
ModelName = Annotated[
    str | None,
    Query(max_length=1000, description="A name from /v1/models; the first one when left out."),
]


def create(service: Service) -> SecurityMiddleware:
    """The application for one process."""
    app = FastAPI(
        title="infrec",
        version=__version__,
        summary="Recommendations in closed form, with reasons.",
        openapi_url=None,  # served below, with the bodies' schemas
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # another spelling is no address: one shape for every error
    )
    for kind in (Problem, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, _failed)
    direct = _recommend_routes(app, service)
    _catalogue_routes(app, service)
    _status_routes(app, service)
    return SecurityMiddleware(app, service, direct)


# ---- recommendations and reasons ----------------------------------------------------------------
def _recommend_routes(app: FastAPI, service: Service) -> dict[str, Handler]:
    """Add the addresses of recommendations and reasons.

    Returns their handlers too, to be called without FastAPI's detours."""
    seconds = service.settings.timeout

    @app.post(
        "/v1/recommend",
        summary="The best items for a history or a known user.",
        responses={200: {"model": schemas.RecommendAnswer}, **schemas.errors(408, 413, 415, 422, 500, 503)},
        openapi_extra=_body(schemas.RecommendRequest),
    )
    async def recommend_(http: Request) -> Response:
        request = schemas.read(schemas.RecommendRequest, await body_of(http, seconds))
        served = service.get(request.model)
        if request.explain:  # takes longer: kept out of the batches
            (answer,) = await service.aside.run(lambda: recommend(served, [request]))
            if isinstance(answer, Exception):
                raise answer
        else:
            answer, served = await service.recommend(served.name, request)
        return _json(answer, served)

    @app.post(
        "/v1/explain",
        summary="Why an item has its score for a history or a known user.",
        responses={200: {"model": schemas.ExplainAnswer}, **schemas.errors(408, 413, 415, 422, 500, 503)},
        openapi_extra=_body(schemas.ExplainRequest),
    )
    async def explain_(http: Request) -> Response:
        request = schemas.read(schemas.ExplainRequest, await body_of(http, seconds))
        served = service.get(request.model)
        return _json(await service.aside.run(lambda: explain(served, request)), served)

    return {"/v1/recommend": recommend_, "/v1/explain": explain_}


# ---- items, models, summaries -------------------------------------------------------------------
def _catalogue_routes(app: FastAPI, service: Service) -> None:
    @app.get(
        "/v1/items",
        summary="Items by their title or id; the most popular without a text.",
        responses={200: {"model": schemas.ItemsAnswer}, **schemas.errors(422, 500, 503)},
    )
    async def items_(
        q: Annotated[str, Query(max_length=200, description="A part of a title, or an id.")] = "",
        limit: Annotated[int, Query(ge=1, le=100, description="How many.")] = 20,
        model: ModelName = None,
    ) -> Response:
        served = service.get(model)
        catalogue = served.catalogue
        columns = await service.aside.run(lambda: catalogue.search(q, limit))
        listed = b",".join(
            b'%b,"popularity":%d}' % (catalogue.json[at], catalogue.counts[at]) for at in columns
        )
        return _json(b'{"model":%b,"items":[%b]}' % (served.label_json, listed), served)

    @app.get(
        "/v1/similar",
        summary="The items most like one.",
        responses={200: {"model": schemas.SimilarAnswer}, **schemas.errors(422, 500, 503)},
    )
    async def similar_(
        item: Annotated[str, Query(max_length=1000, description="The id of the item.")],
        k: Annotated[int, Query(ge=1, le=100, description="How many.")] = 10,
        model: ModelName = None,
    ) -> Response:
        served = service.get(model)
        return _json(await service.aside.run(lambda: similar(served, item, k)), served)

    @app.get(
        "/v1/models",
        summary="The models that answer.",
        responses={200: {"model": schemas.ModelsAnswer}, **schemas.errors(500)},
    )
    async def models_() -> Response:
        entries = [{**one.facts(), "default": at == 0} for at, one in enumerate(service.models())]
        return _json(compact({"models": entries}))

    @app.get(
        "/v1/summary",
        summary="The synthetic users of a summary, and how popular items are with them.",
        responses={200: {"model": schemas.SummaryAnswer}, **schemas.errors(422, 500, 503)},
    )
    async def summary_(model: ModelName = None) -> Response:
        served = service.get(model)
        original = service.original_of(served)
        return _json(await service.aside.run(lambda: compact(served.explore(original))), served)


# ---- the process and the page -------------------------------------------------------------------
def _status_routes(app: FastAPI, service: Service) -> None:
    @app.get(
        "/healthz",
        summary="Whether the process lives.",
        responses={200: {"model": schemas.Health}, **schemas.errors(500)},
    )
    async def healthz() -> Response:
        return _json(b'{"status":"ok"}')

    @app.get(
        "/readyz",
        summary="Whether every model is loaded and the service is not stopping.",
        responses={200: {"model": schemas.Health}, **schemas.errors(500, 503)},
    )
    async def readyz() -> Response:
        if not service.ready:
            raise Problem(503, "not_ready", "the service is starting or stopping.", [(b"retry-after", b"1")])
        return _json(b'{"status":"ready"}')

    @app.get(
        "/metrics",
        summary="Counts and times in Prometheus' text format.",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **schemas.errors(500)},
    )
    async def metrics() -> Response:
        service.counters.set("waiting", service.waiting)
        return Response(
            service.counters.text(service.models()), media_type="text/plain; version=0.0.4; charset=utf-8"
        )

    @app.get("/", include_in_schema=False)
    async def page() -> Response:
        return _file("index.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return _file(name)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return _json(compact(_description(app)))


async def body_of(request: Request, seconds: float) -> bytes:
    """The whole body, or why not: no JSON, too large, too slow."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem(415, "not_json", f"the Content-Type is {kind[:60]!r}; expected 'application/json'.")
    message = None
    chunks, size = [], 0
    try:
        async with asyncio.timeout(seconds):
            while message is None or message.get("more_body", False):
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise Problem(400, "bad_request", "the client left before its request was complete.")
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > MAX_BODY:
                    raise too_large(MAX_BODY)
    except TimeoutError:
        raise too_slow(seconds) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _json(body: bytes, served: Served | None = None) -> Response:
    headers = None if served is None else {"x-infrec-model": served.hash}
    return Response(body, media_type="application/json", headers=headers)


def _file(name: str) -> Response:
    path = _FILES.get(name)
    if path is None:
        raise of_status(404)
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})


async def _failed(_: Request, failure: Exception) -> Response:
    match failure:
        case Problem():
            problem = failure
        case RequestValidationError():
            problem = schemas.invalid(list(failure.errors()))
        case HTTPException():
            given = (failure.headers or {}).items()
            problem = of_status(
                failure.status_code, [(name.lower().encode(), value.encode()) for name, value in given]
            )
        case _:
            problem = internal()  # the middleware logs what it was
    headers = {name.decode(): value.decode() for name, value in problem.headers}
    return Response(problem.body, problem.status, headers, media_type="application/json")


# ---- the description ----------------------------------------------------------------------------
def _body(kind: Any) -> dict[str, Any]:
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{kind.__name__}"}}},
        }
    }


def _description(app: FastAPI) -> dict[str, Any]:
    """OpenAPI, with the requests' schemas: they are read by hand, so FastAPI does not see them."""
    if app.openapi_schema is None:
        document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
        components = document.setdefault("components", {}).setdefault("schemas", {})
        for kind in (schemas.RecommendRequest, schemas.ExplainRequest):
            schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
            components.update(schema.pop("$defs", {}))
            components[kind.__name__] = schema
        for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own shape; ours is Error
            components.pop(name, None)
        document["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{}, {"token": []}]
        app.openapi_schema = document
    return app.openapi_schema
