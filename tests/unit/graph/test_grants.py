"""Files and servers that a client's settings can reach. Each trick defeats a careless comparison."""

import string
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentflow.graph.grants import CHECKPOINTS, ENDPOINTS, FILES
from agentflow.graph.models.spec import PROVIDERS, ModelError, parse
from agentflow.graph.studio_config import StudioConfig
from agentflow.rl.micro.chat_model import SHIPPED
from tests.failing import fails

GRANT = "http://good.example:8000/v1"


def refused(**context: Any) -> bool:
    try:
        StudioConfig(**context)
    except ModelError:
        return True
    return False


@pytest.fixture(autouse=True)
def _no_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENDPOINTS, raising=False)
    monkeypatch.delenv(FILES, raising=False)


@pytest.mark.parametrize(
    "context",
    [
        {},
        {"model": "openai:gpt-4o-mini", "models": {"planner": "embedded:seed"}},
        {"model": "atlas-oracle", "corpus": "atlas"},
        {"planner_model": "vllm:my-planner@http://127.0.0.1:8000/v1"},
        {"planner_model": "vllm:my-planner@http://127.0.0.1:8000/v1/"},
        {"model": "policy:embedded", "corpus": "live", "search_cache": "use"},
        {"embeddings": "openai:text-embedding-3-small", "corpus": "package"},
    ],
)
def test_what_has_a_name_of_its_own_is_free(context: dict[str, Any]) -> None:
    assert not refused(**context)


@pytest.mark.parametrize(
    ("context", "grant"),
    [
        ({"model": "openai:gpt-4o-mini@http://evil.example/v1"}, ENDPOINTS),
        ({"models": {"executor": "openai-compatible@https://evil.example"}}, ENDPOINTS),
        ({"generator_model": "vllm:x@http://127.0.0.1:8001/v1"}, ENDPOINTS),
        ({"embeddings": "openai:x@http://evil.example/v1"}, ENDPOINTS),
        ({"corpus": "http://169.254.169.254/retrieve"}, ENDPOINTS),
        ({"model": "policy:openai:x@http://evil.example/v1"}, ENDPOINTS),
        ({"corpus": "/etc/passwd"}, FILES),
        ({"corpus": "README.md"}, FILES),
        ({"search_cache": "record:/tmp/cache.sqlite"}, FILES),
        ({"planner_model": "embedded:checkpoint"}, FILES),
        ({"model": "embedded:~/checkpoint"}, FILES),
        ({"model": "policy:embedded:/checkpoint"}, "plain name"),
    ],
)
def test_what_is_not_granted_is_refused_in_one_line_that_says_how(context: dict[str, Any], grant: str) -> None:
    with fails(ModelError, "not_granted", grant, configuration=True):
        StudioConfig(**context)


@pytest.mark.parametrize(
    "url",
    [
        GRANT,
        f"{GRANT}/",
        f"{GRANT}/deeper/path",
        "http://GOOD.example:8000/v1",
        "http://good.example:08000/v1",
    ],
)
def test_a_granted_address_and_what_lies_below_it(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINTS, f"https://other.example, {GRANT}/ ,")
    assert not refused(corpus=url)
    assert not refused(model=f"openai:gpt-4o@{url}")


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example:8000/v1",
        "http://good.example/v1",
        "http://good.example:80000/v1",
        "http://good.example:8001/v1",
        "http://good.example.:8000/v1",
        "http://good.example.evil.example:8000/v1",
        "http://good.example:8000@evil.example/v1",
        "http://good.example:8000/v1@evil.example",
        "http://user:pass@good.example:8000/v1",
        "http://evil.example/http://good.example:8000/v1",
        "http://evil.example#http://good.example:8000/v1",
        "http://evil.example?http://good.example:8000/v1",
        "http://evil.example\\@good.example:8000/v1",
        "http://good.example:8000\\@evil.example/v1",
        "http://good.example:8000/v12",
        "http://good.example:8000/v1/../admin",
        "http://good.example:8000/v1/./x",
        "http://good.example:8000/v1/%2e%2e/admin",
        "http://good.example:8000/v1%2f..%2fadmin",
        "http://good.example:8000//v1",
        "http://good.example:8000/V1",
        "http://good.example:8000/v1?x=/",
        "http://good.example:8000/v1#x",
        "http://ｇood.example:8000/v1",
        "http://good。example:8000/v1",
        "http://good.example:8000",
        "http://good.example:8000/",
        "http://good.example:٨000/v1",
        "http://good.example:/v1",
        "http://[::1]:8000/v1",
        "http:///good.example:8000/v1",
        "http://good.example:8000/v1\n",
        " http://good.example:8000/v1",
        "http://good.example:8000/v1\t",
    ],
)
def test_an_address_that_only_looks_granted_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINTS, GRANT)
    assert refused(corpus=url)
    if url == url.strip():  # a spec is read without the blanks around it
        assert refused(model=f"openai-compatible:x@{url}")


URLISH = st.lists(
    st.sampled_from([*"@:/\\.#?%&[]~ \t", "..", "good.example", "evil.example", "http://", "8000", "v1"]), max_size=6
).map("".join)


@given(before=URLISH, after=URLISH)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_allowed_leads_to_the_granted_server(
    before: str, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The URL is compared as httpx reads it, which sends the request."""
    monkeypatch.setenv(ENDPOINTS, GRANT)
    for url in (f"http://{before}{after}", f"{GRANT}{after}", f"http://{before}good.example:8000/v1{after}"):
        if url.startswith(("http://", "https://")) and not refused(corpus=url):
            read = httpx.URL(url)
            assert (read.scheme, read.host, read.port) == ("http", "good.example", 8000)
            assert read.path == "/v1" or read.path.startswith("/v1/")
            assert not read.userinfo


def test_an_empty_grant_grants_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINTS, " , ")
    monkeypatch.setenv(FILES, " , ")
    assert refused(corpus="http://good.example/")
    assert refused(corpus=str(Path.cwd() / "README.md"))


def test_files_below_a_granted_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    granted, other = tmp_path / "granted", tmp_path / "granted-not"
    (granted / "deeper").mkdir(parents=True)
    other.mkdir()
    (granted / "to-other").symlink_to(other)
    (other / "to-granted").symlink_to(granted / "deeper")
    (granted / "loop").symlink_to(granted / "loop")
    monkeypatch.setenv(FILES, f"{tmp_path / 'single.db'}, {granted}")

    for allowed in ("granted", "granted/new.db", "granted/deeper/../x", "single.db", "granted-not/to-granted/x"):
        assert not refused(corpus=f"{tmp_path}/{allowed}"), allowed
        assert not refused(search_cache=f"use:{tmp_path}/{allowed}"), allowed
        assert not refused(planner_model=f"embedded:{tmp_path}/{allowed}"), allowed
    for outside in (
        "granted-not",
        "granted/../granted-not",
        "granted/to-other/x",
        "granted/deeper/../../other",
        "single.db2",
        "granted\0/x",
        "",
    ):
        assert refused(corpus=f"{tmp_path}/{outside}"), outside
        assert refused(search_cache=f"use:{tmp_path}/{outside}"), outside


@given(parts=st.lists(st.sampled_from(["..", ".", "granted", "to-other", "x", "", "deeper"]), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_file_is_allowed_lies_in_the_granted_folder(
    parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    granted, other = tmp_path / "granted", tmp_path / "other"
    (granted / "deeper").mkdir(parents=True, exist_ok=True)
    other.mkdir(exist_ok=True)
    if not (granted / "to-other").exists():
        (granted / "to-other").symlink_to(other)
    monkeypatch.setenv(FILES, str(granted))
    name = "/".join([str(granted), *parts])
    real = Path(name).resolve()
    assert refused(corpus=name) == (real != granted.resolve() and granted.resolve() not in real.parents)


PROVIDER = st.sampled_from([*PROVIDERS, "embedded", "policy", "other"])


@given(
    provider=PROVIDER, name=st.text(string.printable, max_size=20), url=st.sampled_from(["", "@http://evil.example/v1"])
)
def test_without_a_grant_a_model_is_one_by_name(provider: str, name: str, url: str) -> None:
    try:
        spec = parse(StudioConfig(model=f"{provider}:{name}{url}").model)
    except ModelError:
        return
    assert spec.base_url is None or spec.base_url == PROVIDERS[spec.provider].base_url
    assert spec.provider in PROVIDERS or not {"/", ".", ":", "@", "~"} & set(spec.model)
    assert spec.provider != "embedded" or spec.model in SHIPPED


def test_the_shipped_checkpoints_are_free() -> None:
    assert set(CHECKPOINTS) == set(SHIPPED)
