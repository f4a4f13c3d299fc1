"""The registry's pages show what is deployed, since when and by whom, and find it by words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx
import pytest

from slicewise.features.plan.deployment import Deployment, PlannedDescription
from slicewise.offsets.vector import OffsetVector
from slicewise.stores.lake.registered import PART, Registered, added
from slicewise.stores.online.operations.connecting import ReadMetadata
from slicewise.stores.online.operations.deploying import Deploy
from slicewise.stores.online.redis.status import record_part
from tests.integration.serving.support import deployment, serving
from tests.support.platform.servers import RedisServer
from tests.support.stores.served import Served

AT_US = 1_700_000_000_000_000
MARKUP = "<script>alert('pii & more')</script>"


def described(whole: Deployment, text: str) -> Deployment:
    words = (
        PlannedDescription("feature", "listening:seconds", "How long they listened", (), "shop"),
        PlannedDescription("view", "listening", text, ("gold", "pii"), "shop"),
    )
    return replace(whole, described=words)


@pytest.fixture
def api(own_redis: RedisServer) -> Iterator[httpx.Client]:
    """A service over a store on which `listening` was described, and then described otherwise."""
    first, second = described(deployment(), "Plays of a user"), described(deployment(), MARKUP)
    with Served.on(own_redis.url, first) as served:
        before = served.store.run(ReadMetadata())
        topics = dict(before.topics)
        after = served.store.run(Deploy(second, before.deployment_version, topics, OffsetVector()))
        text = None
        for metadata, by in ((before, "ana"), (after, "bob <b>")):
            one = Registered(
                metadata.set_or_store_id,
                metadata.deployment_version,
                metadata.units,
                AT_US + metadata.deployment_version,
                by,
                "apply",
            )
            text = added(text, one)
        assert text is not None
        record_part(own_redis.url, PART, text)
        with (
            serving(own_redis.url) as url,
            httpx.Client(base_url=url, trust_env=False, timeout=30) as client,
        ):
            yield client


def test_a_name_is_shown_with_its_words_versions_uses_and_condition(api: httpx.Client) -> None:
    shown = api.get("/v1/registry/listening").json()
    (view,) = shown["definitions"]
    assert (view["kind"], view["description"], view["tags"]) == ("view", MARKUP, ["gold", "pii"])
    assert view["condition"]["ready"] is True
    features = {feature["column"]: feature["description"] for feature in view["features"]}
    assert features["seconds_1h"] == "How long they listened"
    assert features["plays_1h"] == ""
    assert [(one["number"], one["by"], one["differences"]) for one in shown["versions"]] == [
        (1, "ana", []),
        (2, "bob <b>", ["it is described otherwise"]),
    ]
    assert shown["versions"][0]["until_us"] == shown["versions"][1]["at_us"]
    assert (shown["unread"], shown["gaps"]) == ([], [])
    (source,) = api.get("/v1/registry/plays").json()["definitions"]
    assert "view listening" in source["uses"]
    page = api.get("/registry/listening")
    assert page.headers["content-type"].startswith("text/html")
    assert "seconds_1h" in page.text
    assert "How long they listened" in page.text
    assert "it is described otherwise" in page.text
    # what an author wrote is text
    assert "<script" not in page.text
    assert "bob &lt;b&gt;" in page.text


def test_a_search_meets_all_of_its_words_and_lists_all_without_any(api: httpx.Client) -> None:
    every = api.get("/v1/registry").json()
    assert {"plays", "listening", "places"} <= {one["name"] for one in every["matches"]}
    listed = api.get("/v1/registry", params={"q": "PII listened"}).json()
    assert [one["name"] for one in listed["matches"]] == ["listening"]
    page = api.get("/registry", params={"q": "PII listened"}).text
    assert 'href="/registry/listening"' in page
    assert 'href="/registry/places"' not in page
    assert 'value="PII listened"' in page
    assert api.get("/v1/registry", params={"q": "no such words"}).json()["matches"] == []
    for path in ("/registry", "/v1/registry"):
        refused = api.get(path, params={"q": "e " * 300})
        assert (refused.status_code, refused.json()["error"]["where"]) == (400, "q")
    page = api.get("/registry", params={"q": '"><script>'}).text
    assert "<script" not in page
    assert "0 definitions" in page
    assert "href=/registry" in api.get("/").text
    # who lists what can be asked for reads the same words
    view = api.get("/v1/features/listening").json()
    assert (view["description"], view["tags"]) == (MARKUP, ["gold", "pii"])
    feature = api.get("/v1/features/listening:seconds_1h").json()
    assert feature["description"] == "How long they listened"


def test_a_name_that_is_not_deployed_is_refused_with_one_that_is(api: httpx.Client) -> None:
    for path in ("/v1/registry/listning", "/registry/listning"):
        refused = api.get(path)
        assert refused.status_code == 404
        assert "listening" in refused.json()["error"]["next_step"]
    assert api.get("/registry", headers={"accept": "application/json"}).status_code == 406
    assert api.get("/v1/registry", headers={"accept": "text/html"}).status_code == 406
    assert api.post("/v1/registry").status_code == 405


def test_deployments_that_the_store_has_lost_are_told_on_the_page(
    api: httpx.Client, own_redis: RedisServer
) -> None:
    lost = Registered(1, 77, "0" * 64, AT_US, "eve", "apply")
    record_part(own_redis.url, PART, added(None, lost))
    shown = api.get("/v1/registry/listening").json()
    assert shown["unread"] == [{"version": 77, "reason": "its definitions are lost"}]
    assert (
        "deployment 77 is not shown: its definitions are lost"
        in api.get("/registry/listening").text
    )


def test_where_there_are_older_deployments_no_version_has_a_number(
    api: httpx.Client, own_redis: RedisServer
) -> None:
    with Served.on(own_redis.url, described(deployment(), MARKUP), deploy=False) as served:
        metadata = served.store.run(ReadMetadata())
    text = None
    for version in range(40):
        one = Registered(
            metadata.set_or_store_id, version + 100, metadata.units, AT_US + version, "", "apply"
        )
        text = added(text, one)
    assert text is not None
    record_part(own_redis.url, PART, text)
    shown = api.get("/v1/registry/listening").json()
    assert shown["gaps"] == ["older deployments are not read here: slicewise history"]
    assert all("number" not in version for version in shown["versions"])
    assert "older deployments are not read here" in api.get("/registry/listening").text
