"""The OpenAPI document is true to the code: what it allows is answered, in the shapes it states."""

from __future__ import annotations

from typing import Any

import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import positive_data_acceptance

from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import Served

SEED = 7
EXAMPLES = 25


def test_the_openapi_document_is_true_to_the_code(own_redis: RedisServer) -> None:
    print(f"seed {SEED}")
    called: dict[str, int] = {}
    with Served.on(own_redis.url, deployment()), serving(own_redis.url) as url:
        document = httpx.get(url + "/openapi.json", trust_env=False, timeout=30).json()
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=url)
        with requests.Session() as session:
            session.trust_env = False
            for operations in schema.get_all_operations():
                assert isinstance(operations, Ok)
                operation = operations.ok()
                quick = settings(
                    max_examples=EXAMPLES,
                    deadline=None,
                    database=None,
                    suppress_health_check=list(HealthCheck),
                )

                @seed(SEED)
                @quick
                @given(case=operation.as_strategy())
                def holds(case: schemathesis.Case[Any]) -> None:
                    label = case.operation.label
                    called[label] = called.get(label, 0) + 1
                    reply = case.call(session=session)
                    assert reply.status_code < 500, reply.text
                    # well-formed requests name features that do not exist: rightly refused
                    case.validate_response(reply, excluded_checks=[positive_data_acceptance])

                holds()
    print(f"called {called}")
    assert len(called) == len(
        [1 for path in document["paths"].values() for method in path if method != "parameters"]
    )
    assert called["POST /v1/features"] >= EXAMPLES
