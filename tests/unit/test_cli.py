"""The command line in process: exit statuses, one line per error, the JSON object, untrusted text."""

import json
import re
import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from langchain_core.tools import tool
from langgraph.types import interrupt

from agentflow import __version__
from agentflow.checks import doctor
from agentflow.cli import solve as solving
from agentflow.cli.options import names_in
from agentflow.evals.benchmarks import store
from agentflow.graph.context import DEFAULT_TOOLS, MODULES
from agentflow.graph.models.spec import ModelError
from agentflow.graph.run.trace import Trace
from agentflow.nodes import executor
from agentflow.rl.micro.declining import REPLY
from agentflow.tools.catalogue import STANDARD_TOOLS
from tests.cases import table
from tests.command_line import call as run
from tests.command_line import succeeds
from tests.fake_openai import FakeOpenAI, Reply, completion
from tests.scripted import GUESS, Script, modules
from tests.waiting import LAST_RESORT

PLAN = str(GUESS["planner"])
SECRET = "sk-0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_data(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    monkeypatch.setattr(store, "folder", lambda name: tmp_path_factory.getbasetemp() / "no data" / name)


@pytest.fixture
def replying(scripted: Script) -> Script:
    """Every module of the default model gives these replies."""
    return lambda **replies: scripted(**{**GUESS, **replies})


def only_line(text: str) -> str:
    lines = text.splitlines()
    assert len(lines) == 1, text
    return lines[0]


def fails(text: str, *, configuration: bool = False) -> Callable[[object], str]:
    """A module whose model fails."""

    def fail(_: object) -> str:
        raise ModelError(text, configuration=configuration)

    return fail


DOWN, REFUSED = "connection refused; start the server", "the API key was not accepted (401)"

CALLS: list[tuple[str, dict[str, object], int, str, str]] = [
    *table(__file__, "calls.txt"),
    ("--version", {}, 0, f"agentflow {__version__}", ""),
    ("solve q", {"generator": f"Answer: {REPLY}"}, 0, REPLY, ""),
    ("eval atlas --limit 3", {"analyst": fails(DOWN)}, 1, f"3 x {DOWN}", ""),
    ("eval atlas --limit 9", {"analyst": fails(REFUSED, configuration=True)}, 2, "", REFUSED),
]
"""Calls: what the modules reply, the exit code, and what stdout and stderr hold; "" for stderr without a line."""


@pytest.mark.parametrize(("call", "replies", "code", "out", "err"), CALLS, ids=[call for call, *_ in CALLS])
def test_a_call(call: str, replies: dict[str, object], code: int, out: str, err: str, replying: Script) -> None:
    replying(**replies)
    done = run(*shlex.split(call))
    assert done.exit_code == code
    assert out in " ".join(done.stdout.split())
    if err or not code:
        assert err in done.stderr
        assert bool(err) == bool(done.stderr)


VERL_RUNS = sys.version_info < (3, 13)


@pytest.mark.parametrize(
    ("attribute", "value", "call", "named"),
    [
        ("agentflow.tools.catalogue.READERS", ("no_such_reader",), "solve q --tools web_search", "[web]"),
        ("agentflow.checks.doctor.TRAINING", ("no_such_package",), "train", "needs no_such_package; install it with"),
        ("agentflow.checks.doctor.find_spec", lambda name: None, "train", "[train]" if VERL_RUNS else "3.11 or 3.12"),
    ],
)
def test_an_extra_that_is_missing_is_named(
    attribute: str, value: object, call: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attribute, value)
    done = run(*call.split())
    assert done.exit_code == 2
    assert named in only_line(done.stderr)


@pytest.mark.parametrize(
    ("package", "user", "call", "extra"),
    [
        ("mcp", "agentflow.mcp_server", "mcp", "[mcp]"),
        ("openinference.instrumentation.langchain", "agentflow.graph.tracing.otlp", "solve q --tracing otel", "[otel]"),
    ],
)
def test_the_extra_of_a_package_that_is_missing_is_named(
    package: str, user: str, call: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith((user, "agentflow.tools.mcp", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    done = run(*call.split())
    assert (done.exit_code, extra in only_line(done.stderr)) == (2, True)


def test_tools_are_tried_for_real(replying: Script) -> None:
    replying()
    done = run("tools", "test")
    assert (done.exit_code, done.stderr) == (0, "")
    shown = " ".join(done.stdout.split())
    assert re.search(r'python_coder ok \d+\.\d\d s \S.*: {"code": "print\(12 \* 7\)"} → 84', shown)
    assert '{"query": "Song of Fupoz"} → Song of Fupoz: Book with' in shown
    assert all(f"{name} ok" in shown for name in DEFAULT_TOOLS)


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("a, b,,a", ("a", "b")),
        ("a,\nb", ("a", "b")),
        ('a, "mcp:stdio:b --in c,d"', ("a", "mcp:stdio:b --in c,d")),
        ('mcp:stdio:sh -c "b",a', ('mcp:stdio:sh -c "b"', "a")),
    ],
)
def test_names_of_tools_are_split_at_commas_outside_of_quotes(written: str, names: tuple[str, ...]) -> None:
    assert names_in(written) == names


@tool
def asking(text: str) -> str:
    """Asks the person."""
    return f"{interrupt('which colour?')} {text}"


@pytest.mark.parametrize(("typed", "code"), [("blue\n", 0), ("", 1)])
def test_a_tool_that_asks_gets_the_line_that_is_typed(typed: str, code: int, replying: Script) -> None:
    replying(planner=PLAN.replace("base_generator", "asking"), executor='{"text": "is liked"}')
    done = run("solve", "q", "--tools", f"{__name__}:asking", input=typed)
    assert (done.exit_code, "which colour?" in done.stdout, "blue is liked" in done.stdout) == (code, True, not code)
    assert done.exception is None or isinstance(done.exception, SystemExit)


release, given_up = threading.Event(), list[str]()


@tool
def slow(text: str) -> str:
    """Ends when the command has printed its answer."""
    if not release.wait(LAST_RESORT):
        given_up.append(text)
    return text


def test_an_answer_does_not_wait_for_a_tool_that_was_given_up(
    replying: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "TOOL_SECONDS", 0.1)
    monkeypatch.setattr(solving, "answer_text", lambda trace: release.set() or "told")
    replying(planner=PLAN.replace("base_generator", "slow"), executor='{"text": "said"}')
    assert "told" in run("solve", "q", "--tools", f"{__name__}:slow").stdout
    assert not given_up


def test_json_is_one_object_of_the_pinned_form(replying: Script) -> None:
    replying(planner=["no step at all", PLAN], verifier=["Analysis: No.\nVerdict: continue", "Verdict: stop"])
    done = succeeds("solve", "Say hello.", "--json")
    assert done.stderr == ""
    trace = json.loads(only_line(done.stdout))
    assert list(trace) == ["task", "analysis", "answer", "status", "turns", "usage", "seconds"]
    assert (trace["task"]["question"], trace["answer"], trace["status"]) == ("Say hello.", "hello", "answered")
    failed, worked = trace["turns"]
    assert list(worked) == ["turn", "sub_goal", "context", "tool", "arguments", "result", "verdict", "plan"]
    assert list(worked["result"]) == ["status", "output", "error", "seconds", "sandbox", "provider"]
    assert list(worked["verdict"]) == ["analysis", "signal"]
    assert (worked["turn"], worked["sub_goal"], worked["context"]) == (2, "repeat it", "hello")
    assert (worked["tool"], worked["arguments"]) == ("base_generator", {"query": "hello"})
    found = {name: worked["result"][name] for name in ("status", "output", "error", "sandbox", "provider")}
    assert found == {"status": "ok", "output": "a guess", "error": None, "sandbox": "", "provider": ""}
    assert (failed["tool"], failed["result"]["status"], failed["result"]["error"]) == ("", "error", "bad_plan")
    # analyst, planner and verifier twice, executor and the tool's model once, generator
    assert trace["usage"].pop("seconds").keys() == {*MODULES}
    assert trace["usage"] == {"calls": 8, "modules": {}, "models": {}}
    assert trace["seconds"] > 0


def test_usage_counts_the_tokens_that_the_server_counts() -> None:
    with FakeOpenAI(modules(**GUESS)) as server:
        done = succeeds("solve", "q", "--json", "--model", f"openai-compatible:fake@{server.base_url}")
    one, all_four = ({"input_tokens": n, "output_tokens": n, "total_tokens": 2 * n, "calls": n} for n in (1, 4))
    asked = ("planner", "tools", "verifier", "generator")
    usage = json.loads(done.stdout)["usage"]
    assert usage.pop("seconds").keys() >= {*asked}
    assert usage == {"calls": 4, "modules": {module: {"fake": one} for module in asked}, "models": {"fake": all_four}}


@pytest.mark.parametrize(("configuration", "status"), [(True, 2), (False, 1)])
def test_a_failed_run_says_why_and_keeps_its_turns(
    configuration: bool, status: int, replying: Script, tmp_path: Path
) -> None:
    replying(generator=fails("the endpoint is down; start it", configuration=configuration))
    done = run("solve", "q", "--json", "--trace", str(tmp_path / "trace"))
    assert done.exit_code == status
    assert only_line(done.stderr) == "error: the endpoint is down; start it"
    trace = json.loads(only_line(done.stdout))
    assert (trace["status"], trace["error"], len(trace["turns"])) == ("failed", "the endpoint is down; start it", 1)
    assert json.loads((tmp_path / "trace").read_text()) == trace


def test_text_of_models_and_tools_cannot_steer_the_terminal(replying: Script) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[31mRED\x9b1m\x08 [bold]markup[/bold] :smile: [/nothing]\u202e"
    replying(
        planner=f"Sub-Goal: go {evil}\nTool: base_generator\nContext: x",
        executor=json.dumps({"query": evil}),
        tools=f"said {evil}",
        verifier=f"Analysis: found {evil}\nVerdict: stop",
        generator=f"Answer: end {evil}",
    )
    done = succeeds("solve", "q")
    assert all(character.isprintable() for character in done.stdout.replace("\n", "")), done.stdout
    for shown in ("go", "said", "found", "end"):
        assert f"{shown} RED [bold]markup[/bold] :smile: [/nothing]" in done.stdout
    assert done.stdout.count("owned") == 1, "only in the arguments, whose JSON spells the escape sequence out"


@pytest.mark.parametrize(
    ("call", "keys"),
    [
        ("compare q --planner embedded:seed --planner embedded", {"embedded:seed", "embedded"}),
        ("eval atlas --limit 2", {"atlas"}),
        ("tools", {"checks"}),
        ("tools test", {"trials"}),
        ("doctor", {"checks"}),
        ("threads list", {"threads"}),
    ],
)
def test_commands_print_one_json_object(
    call: str, keys: set[str], replying: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if "threads" in call:
        pytest.importorskip("langgraph.checkpoint.sqlite")
    replying(generator="Answer: caf\xe9 \x9b31m")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    done = succeeds(*call.split(), "--json")
    assert only_line(done.stdout).isascii()
    assert set(json.loads(done.stdout)) == keys


def test_an_evaluation_in_json_has_its_figures(replying: Script) -> None:
    replying()
    found = json.loads(run("eval", "atlas", "--limit", "3", "--json").stdout)["atlas"]
    assert (found["tries"], found["correct"], found["accuracy"]) == (3, 0, 0.0)
    assert sum(family["tries"] for family in found["families"].values()) == 3


def test_presets_are_shown_without_the_extra_of_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "TRAINING", ("no_such_package",))
    done = run("train", "--preset", "none")
    assert (done.exit_code, "atlas-gpu" in only_line(done.stderr)) == (2, True)
    done = run("train", "--preset", "atlas-gpu", "--show")
    assert (done.exit_code, "preset: atlas-gpu" in done.stdout.splitlines()) == (0, True)
    assert "no_such_package" in only_line(done.stderr)
    assert run("train", "--show", "steps=3").exit_code == 2


def test_tools_says_what_a_tool_needs() -> None:
    done = succeeds("tools")
    state = {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line and line[0] != " "}
    assert list(state) == list(STANDARD_TOOLS)
    assert state.items() >= {**dict.fromkeys(DEFAULT_TOOLS, "ok"), "google_search": "no"}.items()
    assert "TAVILY_API_KEY" in done.stdout
    assert "python_coder" not in run("tools", "--tools", "web_search,google_search").stdout


def test_replies_that_were_cut_off_are_in_the_trace_and_in_the_text(tmp_path: Path) -> None:
    plans, answer = [PLAN, "no plan"], (200, completion("m", "Answer: 4", "length"))

    def plan(_: object) -> Reply:
        return 200, completion("m", plans.pop(), "length" if plans else "stop")

    with FakeOpenAI(modules(planner=plan, executor=GUESS["executor"], generator=lambda _: answer)) as server:
        model = ("--model", f"openai-compatible:m@{server.base_url}", "--context", "max_tokens=40", "--max-turns", "1")
        done = run("solve", "What is 2 + 2?", *model, "--json")
        trace = Trace.model_validate_json(done.stdout)
        assert trace.turns[0].finish_reasons["planner"] == ["length", "stop"]
        assert trace.finish_reasons["generator"] == ["length"]
        plans += [PLAN, PLAN]
        shown = run("solve", "What is 2 + 2?", *model).stdout
        assert {body["max_tokens"] for body in server.bodies} == {40}
    assert "cut off at max_tokens: planner" in shown
    assert "generator cut off at max_tokens" in " ".join(shown.split())


def test_what_a_model_wrote_in_place_of_a_plan_is_offered_as_not_verified() -> None:
    with FakeOpenAI(lambda _: "That is 9 feet.") as server:
        model = ("--model", f"openai-compatible:m@{server.base_url}")
        done = run("solve", "How many feet are 3 yards?", *model)
        said = run("chat", *model, input="How many feet are 3 yards?\n")
    assert (done.exit_code, "nothing verified: That is 9 feet." in done.stdout) == (1, True)
    assert "nothing verified: That is 9 feet." in said.stdout


def test_doctor_names_keys_and_never_shows_them(replying: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "SERPER_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    replying()
    with FakeOpenAI(lambda _: "4") as server:
        done = run("doctor", "--model", f"vllm:fake-model@{server.base_url}")
    assert done.exit_code == 1, done.output  # a model that only ever writes "4" is of no use as a planner
    assert SECRET not in done.output
    shown = " ".join(done.stdout.split())
    assert "OPENAI_API_KEY ok set" in shown
    assert "TOGETHER_API_KEY - set it" in shown
    assert "search: serper ok asks serper" in shown
    assert "TAVILY" not in shown, "one engine is enough"
    assert "Atlas index ok" in shown
    assert "offers fake-model" in shown.partition("TOGETHER_API_KEY")[2], "what was asked for comes last"


def test_doctor_fails_when_what_is_needed_does(replying: Script) -> None:
    replying(tools=fails("no checkpoint; install again", configuration=True))
    done = run("doctor", "--model", "vllm:m@http://127.0.0.1:9/v1")
    assert done.exit_code == 1
    shown = " ".join(done.stdout.split())
    assert "embedded model no no checkpoint; install again" in shown
    assert "is the server running?" in shown
    assert done.stderr.startswith("error: embedded model, ")
    assert "google_search" not in done.stderr, "it is not needed"


def test_an_evaluation_ends_at_the_first_failure_if_it_is_asked_to(replying: Script, tmp_path: Path) -> None:
    replying(analyst=fails(DOWN))
    out = tmp_path / "out"
    done = run("eval", "atlas", "--limit", "9", "--concurrency", "1", "--fail-on-error", "--out", str(out))
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1].startswith("error: question ")
    assert len((out / "traces.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("preset", "says"),
    [("qwen2.5-7b", "samples with vllm; install it"), ("atlas-gpu", "needs 1 GPU(s) and torch finds 0 here")],
)
def test_a_preset_for_another_machine(preset: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("verl")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    (tmp_path / "data.jsonl").write_text('{"question": "q", "result": "a"}\n' * 40)
    files = [f"options.{option}={tmp_path / 'data.jsonl'}" for option in ("name", "test")] if "qwen" in preset else []
    monkeypatch.chdir(tmp_path)
    done = run("train", "--preset", preset, f"out={tmp_path / 'run'}", *files)
    assert done.exit_code == 2
    assert says in only_line(done.stderr)


def test_a_corpus_is_built_and_asked(tmp_path: Path) -> None:
    dump = tmp_path / "my wiki.2024.jsonl"
    dump.write_text('{"title": "Tarn", "text": "Tarn is a country. It is small."}\n' * 20)
    done = succeeds("corpus", "build", dump)
    index = tmp_path / "my wiki.2024.sqlite"
    assert done.stdout.splitlines()[0].startswith(f"20 passages are in {index} (")
    assert done.stdout.splitlines()[1] == f"next: agentflow solve ... --corpus '{index}'"
    assert "100 %, 20 passages" in done.stderr
    assert run("corpus", "look-up", str(index), "tarn").stdout == "Tarn: Tarn is a country. It is small.\n"
    missed = run("corpus", "look-up", str(index), "quux")
    assert (missed.exit_code, only_line(missed.stderr)) == (1, 'error: no page matches "quux"')
    dump.write_text("{\n")
    done = run("corpus", "build", str(dump))
    assert (done.exit_code, "wiki.2024.jsonl, line 1: not JSON" in done.stderr.splitlines()[-1]) == (1, True)
