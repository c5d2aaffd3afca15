"""The OpenAPI description is true: answers are as described, and whatever is sent is never a 5xx."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.serve.conftest import Running, serving

try:
    import schemathesis
    from schemathesis.specs.openapi import checks as conformance
except ImportError:
    if os.environ.get("INFREC_REQUIRE_SCHEMATHESIS"):
        raise
    pytest.skip(
        "needs schemathesis, which only .ci/run installs: pip install 'infrec[fuzz]'", allow_module_level=True
    )


@pytest.fixture(scope="module")
def server(folders: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("openapi") / "log"
    with serving(log, folders / "full", folders / "small") as running:
        yield running
        assert running.process.poll() is None
        assert "Traceback" not in log.read_text()


@pytest.fixture(scope="module")
def api(server: Running) -> Any:
    return schemathesis.openapi.from_url(f"{server.started['url']}openapi.json")


OPERATIONS = [
    ("POST", "/v1/recommend"),
    ("POST", "/v1/explain"),
    ("GET", "/v1/items"),
    ("GET", "/v1/similar"),
    ("GET", "/v1/models"),
    ("GET", "/v1/summary"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
]
WITH_INPUT = ("/v1/recommend", "/v1/explain", "/v1/items", "/v1/similar", "/v1/summary")
CHECKS = [
    schemathesis.checks.not_a_server_error,
    conformance.status_code_conformance,
    conformance.content_type_conformance,
    conformance.response_schema_conformance,
]


def test_the_description_holds_every_operation_with_examples(api: Any) -> None:
    described = {
        (method.upper(), path)
        for path, operations in api.raw_schema["paths"].items()
        for method in operations
        if method in ("get", "post", "put", "patch", "delete")
    }
    assert described == set(OPERATIONS)
    schemas = api.raw_schema["components"]["schemas"]
    for name in ("RecommendRequest", "ExplainRequest", "RecommendAnswer", "ExplainAnswer", "Error"):
        assert schemas[name]["examples"], name


@pytest.mark.parametrize(
    ("method", "path", "mode"),
    [
        *((method, path, "POSITIVE") for method, path in OPERATIONS),
        # The others take neither a body nor a query: there is nothing to get wrong.
        *((method, path, "NEGATIVE") for method, path in OPERATIONS if path in WITH_INPUT),
    ],
)
def test_whatever_is_sent_is_answered_as_described(
    method: str, path: str, mode: str, api: Any, server: Running
) -> None:
    """Requests that fit the description, and requests that break it."""
    operation = api[path][method]

    @settings(
        max_examples=50,
        deadline=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=schemathesis.GenerationMode[mode]))
    def ask(case: Any) -> None:
        answer = case.call()
        assert answer.status_code < 500, answer.content
        if mode == "NEGATIVE":
            assert answer.status_code >= 400 or path != "/v1/recommend", answer.request.body
        case.validate_response(answer, checks=CHECKS)

    ask()
