"""Requests to a model's endpoint and handling of its replies, against a loopback server."""

import asyncio
import gc
import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp.client_proto import ResponseHandler
from langchain_core.messages import HumanMessage

from agentflow.graph.context import Sampling
from agentflow.graph.models import pace
from agentflow.graph.models.connections import ROLLOUT_ADDRESS
from agentflow.graph.models.loading import aload_model, complete, load_model, reply_of
from agentflow.graph.models.pace import TRIES
from agentflow.graph.models.spec import DEFAULT_SILENCE, PROVIDERS, SILENCE_VARIABLE, ModelError
from tests.cases import table
from tests.clock import Clock
from tests.failing import fails
from tests.fake_openai import FakeOpenAI, Fault, Reply
from tests.ports import free_port
from tests.processes import python
from tests.waiting import LAST_RESORT, until_async

KEY = "sk-secret-0123456789"
QUESTION = [HumanMessage("What is 2 + 2?")]
SOON = {"Retry-After": "0.01"}
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
EVENTS = {"Content-Type": "text/event-stream", **SOON}


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        monkeypatch.setenv(provider.key_variable, KEY)
    monkeypatch.setattr(pace, "FIRST", 0.001)


async def ask(server: FakeOpenAI, *, stream: bool = False, model: str = "fake-model") -> str:
    llm = load_model(f"vllm:{model}@{server.base_url}")
    return await complete(llm.model_copy(update={"streaming": stream}), QUESTION)


async def fails_with(
    server: FakeOpenAI,
    code: str,
    *named: str,
    configuration: bool = False,
    stream: bool = False,
    model: str = "fake-model",
) -> None:
    with fails(ModelError, code, server.base_url, *named, configuration=configuration) as caught:
        await ask(server, stream=stream, model=model)
    assert len(str(caught.value)) < 500
    assert KEY not in str(caught.value)


def error(status: int, message: str = "no reason", headers: dict[str, str] | None = None, **fields: Any) -> Reply:
    return status, {"error": {"message": message, **fields}}, headers or {}


# What is asked for


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(
    ("name", "temperature", "stream"),
    [("any", 0.0, False), ("any", 0.7, True), ("gpt-5-mini", 0.7, False), ("o1", 0.7, False)],
)
async def test_every_provider_sends_what_is_asked_and_its_key(
    provider: str, name: str, temperature: float, stream: bool
) -> None:
    asked = Sampling(temperature=temperature, top_p=0.9, max_tokens=5, stop=("X",), seed=1)
    with FakeOpenAI(lambda _: "4") as server:
        model = load_model(f"{provider}:{name}@{server.base_url}", asked)
        assert (await complete(model.model_copy(update={"streaming": stream}), QUESTION)).strip() == "4"
    tokens = "max_completion_tokens" if provider == "openai" else "max_tokens"
    expected = {"temperature": temperature, "top_p": 0.9, tokens: 5, "stop": ["X"], "seed": 1}
    body = server.bodies[0]
    assert body.pop("messages") == [{"role": "user", "content": "What is 2 + 2?"}]
    assert body == {**expected, **STREAMED, "model": name}
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_what_is_not_asked_for_is_absent() -> None:
    with FakeOpenAI(lambda _: "4") as server:
        await ask(server)
    assert server.bodies[0].keys() == {"model", "messages", *STREAMED}


@pytest.mark.parametrize(
    ("name", "sent"), [("gpt-4o", True), ("gpt-5-mini", False), ("o3", False), ("gpt-5-chat", True)]
)
async def test_the_default_temperature_is_not_forced_on_openais_reasoning_models(name: str, sent: bool) -> None:
    with FakeOpenAI(lambda _: "4") as server:
        await complete(load_model(f"openai:{name}@{server.base_url}", Sampling(temperature=0)), QUESTION)
    assert ("temperature" in server.bodies[0]) is sent


async def test_a_server_with_one_model_need_not_have_it_named() -> None:
    with FakeOpenAI(lambda _: "4", models=("only/one:7b",)) as server:
        for _ in range(2):
            assert await complete(await aload_model(f"openai-compatible@{server.base_url}"), QUESTION) == "4"
    assert [body["model"] for body in server.bodies] == ["only/one:7b"] * 2
    assert server.lists == 1


async def test_a_server_with_several_models_needs_a_name() -> None:
    named = ("a, b", "openai-compatible:NAME@")
    with (
        FakeOpenAI(lambda _: "4", models=("a", "b")) as server,
        fails(ModelError, "no_model", *named, configuration=True),
    ):
        await aload_model(f"openai-compatible@{server.base_url}")


# What comes back


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("reply", "requests", "configuration", "code", "named"),
    [
        *((tuple(reply), *rest) for reply, *rest in table(__file__, "failures.txt")),
        (error(429, "slow down", SOON), TRIES, False, "rate_limit", "429"),
        (Fault.RESET, 3, False, "cut", "reset"),
    ],
)
async def test_each_failure_is_one_line_with_a_remedy(
    reply: Reply, requests: int, configuration: bool, code: str, named: str, stream: bool
) -> None:
    with FakeOpenAI(lambda _: reply) as server:
        await fails_with(server, code, named, configuration=configuration, stream=stream)
    again = stream and code == "bad_reply"  # what is no stream is asked for as a whole
    assert len(server.requests) == requests + again


async def test_a_model_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with FakeOpenAI(lambda _: error(404, "no such model"), models=("qwen2.5:7b", "llama3:8b")) as server:
        await fails_with(server, "unknown_model", "qwen9", "qwen2.5:7b, llama3:8b", configuration=True, model="qwen9")
    assert (len(server.requests), server.lists) == (1, 1)


async def test_a_wrong_base_url_is_told_from_a_wrong_model() -> None:
    with FakeOpenAI(lambda _: error(404, "no such page"), models=("fake-model",)) as server:
        await fails_with(server, "no_chat", configuration=True)
    with FakeOpenAI(lambda _: error(404, "no such page"), models=(3,)) as server:  # type: ignore[arg-type]
        await fails_with(server, "not_found", "/v1", configuration=True)


async def test_a_refused_connection_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    url, loop = f"http://127.0.0.1:{free_port()}/v1", asyncio.get_running_loop()
    connect, tries = loop.sock_connect, list[object]()
    monkeypatch.setattr(loop, "sock_connect", lambda *how: tries.append(how) or connect(*how))
    with fails(ModelError, "unreachable", url, configuration=False):
        await complete(load_model(f"vllm:m@{url}"), QUESTION)
    assert len(tries) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_compressed_reply_is_read(stream: bool) -> None:
    packed = gzip.compress(json.dumps(error(418, "short and stout")[1]).encode())
    with FakeOpenAI(lambda _: (418, packed, {"Content-Encoding": "gzip"})) as server:
        await fails_with(server, "server_error", "short and stout", stream=stream)


async def test_the_environments_proxy_is_used_but_not_for_servers_that_it_excludes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeOpenAI(lambda _: "by proxy") as proxy, FakeOpenAI(lambda _: "directly") as server:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert await complete(load_model("vllm:m@http://model.invalid/v1"), QUESTION) == "by proxy"
        assert await ask(server) == "directly"
    assert [request.path for request in proxy.requests] == ["http://model.invalid/v1/chat/completions"]


async def test_a_socks_proxy_is_refused_where_it_would_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "socks5://me:secret12@127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with FakeOpenAI(lambda _: "directly") as server:
        assert await ask(server) == "directly"
    with fails(ModelError, "socks_proxy", "HTTP_PROXY", "NO_PROXY to other.invalid", configuration=True):
        await complete(load_model("vllm:m@http://other.invalid/v1"), QUESTION)


# Streams


def event(**fields: Any) -> str:
    return f"data: {json.dumps(fields)}\n\n"


HALF = event(choices=[{"index": 0, "delta": {"content": "It is"}}])
FAILURES: list[tuple[Reply, int, str, str]] = [
    (Fault.CUT, 3, "cut", ""),
    (Fault.QUIET_CUT, 1, "cut", ""),
    ((200, HALF + event(error={"message": "out of memory"}), EVENTS), 3, "server_error", "out of memory"),
    ((200, HALF + event(error={"code": 401}) + "data: [DONE]\n\n", EVENTS), 1, "key_refused", "VLLM_API_KEY"),
    ((200, event(error={"message": "maximum context length is 8192 tokens"}), EVENTS), 1, "too_long", "8192"),
    ((200, event(choices=[3]) + event(**STREAMED), EVENTS), 1, "bad_reply", ""),
    ((200, "data: {\n\ndata: [DONE]\n\n", EVENTS), 1, "bad_reply", ""),
    ((200, "data: [DONE]\n\n", EVENTS), 1, "bad_reply", ""),
]


SHOWN = [(fault, 1, "cut", "", True) for fault in (Fault.CUT, Fault.QUIET_CUT)]
"""Streams that break after their first tokens were shown: the request is not sent again."""


@pytest.mark.parametrize(
    ("reply", "requests", "code", "named", "stream"), [*((*failure, False) for failure in FAILURES), *SHOWN]
)
async def test_a_stream_that_fails_is_one_line_with_a_remedy(
    reply: Reply, requests: int, code: str, named: str, stream: bool
) -> None:
    with FakeOpenAI(lambda _: reply) as server:
        await fails_with(server, code, named, configuration=code == "key_refused", stream=stream)
    assert len(server.requests) == requests


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_server_that_hangs_is_given_up_once(begun: bool, stream: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def half() -> Iterator[str]:
        yield "It is"
        server.closing.wait(LAST_RESORT)

    monkeypatch.setenv(SILENCE_VARIABLE, "0.2")
    with FakeOpenAI(lambda _: half() if begun else Fault.HANG) as server:
        await fails_with(server, "timeout", SILENCE_VARIABLE, "0.2", stream=stream)
        await until_async(lambda: server.requests)  # it may read the request after nobody waits for a reply
    assert len(server.requests) == 1


async def test_a_whole_reply_that_never_comes_is_given_up_by_the_same_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENCE_VARIABLE, "0.1")
    with FakeOpenAI(lambda _: Fault.HANG) as server, fails(ModelError, "timeout", SILENCE_VARIABLE, "0.1"):
        await reply_of(load_model(f"vllm:m@{server.base_url}"), QUESTION, logprobs=True)


def test_zero_seconds_are_no_limit_to_synchronous_calls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENCE_VARIABLE, "0")
    with FakeOpenAI(lambda _: "4") as server:
        assert load_model(f"vllm:m@{server.base_url}").invoke(QUESTION).text == "4"


async def test_a_server_that_writes_is_never_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock is put forward after each part, by less than the limit, and by several times it in all."""
    clock, arrived, received = Clock(monkeypatch), threading.Event(), ResponseHandler.data_received

    def receive(connection: ResponseHandler, data: bytes) -> None:
        received(connection, data)
        if data:  # aiohttp calls itself without any
            clock.advance(asyncio.get_running_loop(), 0.8 * float(DEFAULT_SILENCE))
            arrived.set()

    def slowly() -> Iterator[str]:
        for part in ("It ", "is ", "4", "."):
            yield part
            assert arrived.wait(LAST_RESORT)
            arrived.clear()

    monkeypatch.setattr(ResponseHandler, "data_received", receive)
    with FakeOpenAI(lambda _: slowly()) as server:
        assert await ask(server) == "It is 4."


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_server_that_refuses_to_stream_is_asked_for_the_whole_and_remembered(stream: bool) -> None:
    refused = error(400, "Your organization must be verified to stream this model.", param="stream")
    with FakeOpenAI(lambda body: refused if body["stream"] else "4") as server:
        model = load_model(f"vllm:m@{server.base_url}").model_copy(update={"streaming": stream})
        assert await complete(model, QUESTION) == "4"
        assert await complete(model.model_copy(update={"streaming": False}), QUESTION) == "4"
    assert [body["stream"] for body in server.bodies] == [True, False, False]


async def test_another_refusal_is_not_one_to_stream() -> None:
    with FakeOpenAI(lambda _: error(400, "upstream refused the prompt")) as server:
        await fails_with(server, "bad_request")
    assert [body["stream"] for body in server.bodies] == [True]


@pytest.mark.parametrize("fields", [{"tools": [{"type": "function", "function": {"name": "f"}}]}, {"logprobs": True}])
async def test_calls_and_log_probabilities_are_asked_for_as_a_whole(fields: dict[str, Any]) -> None:
    with FakeOpenAI(lambda _: "4") as server:
        await reply_of(load_model(f"vllm:m@{server.base_url}"), QUESTION, **fields)
    assert [body["stream"] for body in server.bodies] == [False]


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "3 minutes"])
def test_a_limit_that_is_no_number_of_seconds_is_said(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SILENCE_VARIABLE, seconds)
    with fails(ModelError, "bad_seconds", SILENCE_VARIABLE, configuration=True):
        load_model("vllm:m")


# Event loops


@contextmanager
def background_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own, ended in the way in which `asyncio.run` ends one."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop).result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_model_works_on_any_event_loop_and_leaves_no_connection_behind() -> None:
    with FakeOpenAI(lambda _: "4") as server, background_loop() as loop:
        model = load_model(f"vllm:m@{server.base_url}")
        for _ in range(2):
            assert asyncio.run(complete(model, QUESTION)) == "4"
            assert asyncio.run_coroutine_threadsafe(complete(model, QUESTION), loop).result() == "4"
        assert asyncio.run(complete(model, QUESTION)) == "4"
        assert model.invoke(QUESTION).text == "4"
    assert len(server.requests) == 6
    gc.collect()  # an unclosed connection warns here, and warnings are errors


def test_a_program_ends_without_a_word_about_its_connections() -> None:
    """aiohttp reports connections that are open at exit, such as those of a loop that is never shut down."""
    program = (Path(__file__).parent / "cases/loops.py.txt").read_text()
    with FakeOpenAI(lambda _: "4") as server:
        done = python("-c", program, f"vllm:m@{server.base_url}")
    assert (done.stdout, done.stderr, done.returncode) == ("4\n4\n4\n", "", 0)


async def test_the_host_of_a_training_is_where_it_runs_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded responses are found again by a model's settings, which must not hold an address that changes."""
    model = load_model("vllm:base@http://rollout/v1")
    settings = model._get_llm_string()
    for _ in range(2):
        with FakeOpenAI(lambda body: f"I am {body['model']}.") as server:
            monkeypatch.setenv(ROLLOUT_ADDRESS, httpx.URL(server.base_url).netloc.decode())
            assert await complete(model, QUESTION) == "I am base."
        assert not server.bodies[0]["stream"]
    assert model._get_llm_string() == settings
