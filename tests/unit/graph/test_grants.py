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
from tests.cases import cases, table
from tests.failing import fails

CASES = Path(__file__).with_name("cases")
GRANT = "http://good.example:8000/v1"


def refused(**context: Any) -> bool:
    try:
        StudioConfig(**context)
    except ModelError:
        return True
    return False


@pytest.mark.parametrize(("context", "grant"), cases(CASES / "ungranted.jsonl", "context", "refused"))
def test_what_has_no_name_of_its_own_needs_a_grant(context: dict[str, Any], grant: str | None) -> None:
    if grant is None:
        assert not refused(**context)
    else:
        with fails(ModelError, "not_granted", grant, configuration=True):
            StudioConfig(**context)


@pytest.mark.parametrize(("url", "granted"), cases(CASES / "addresses.jsonl", "url", "granted"))
def test_a_granted_address_what_lies_below_it_and_what_only_looks_so(
    url: str, granted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINTS, f"https://other.example, {GRANT}/ ,")
    assert refused(corpus=url) != granted
    if url == url.strip():  # a spec is read without the blanks around it
        assert refused(model=f"openai-compatible:x@{url}") != granted


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
    for outside in table(__file__, "outside.txt"):
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
