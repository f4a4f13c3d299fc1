"""The answer that a newcomer is shown is a real one, asked over HTTP as a model would ask."""

from __future__ import annotations

from typing import Any

from slicewise.errors import ServerError
from slicewise.features.plan.deployment import Deployment
from slicewise.settings import Settings


def example(settings: Settings, deployment: Deployment) -> dict[str, Any]:
    """One answer, for an entity of the example project; for another project its global views, if
    any. Empty where nothing can be asked for."""
    import httpx

    entity = {"carrier": "UA", "origin": "EWR", "dest": "SFO"}
    feature_set = next((declared.name for declared in deployment.feature_sets), None)
    if feature_set is None:
        return {}
    body = {"feature_set": feature_set, "entities": [entity]}
    try:
        answer = httpx.post(
            f"{settings.serving_url}/v1/features", json=body, timeout=10, trust_env=False
        )
    except httpx.HTTPError as error:
        raise ServerError(
            f"the serving API does not answer: {error}",
            where=settings.serving_url,
            next_step="see its log in the state folder, then slicewise up",
        ) from error
    return {"request": body, "status": answer.status_code, "answer": answer.json()}


def values(shown: dict[str, Any]) -> dict[str, Any]:
    """The values of an example that hold anything; none where it was not answered, or nothing is
    known yet."""
    if shown.get("status") != 200:
        return {}
    answered: dict[str, Any] = shown["answer"]["results"][0]["values"]
    return answered if any(value not in (None, 0, []) for value in answered.values()) else {}
