"""Provenance that an evaluation records: versions, prompts, tools and the files that it reads."""

from collections.abc import Sequence
from pathlib import Path

from langchain_core.tools import tool

from agentflow.evals import provenance
from agentflow.evals.agent_names import AgentName
from agentflow.evals.judge import prompt_hash
from agentflow.evals.record import Provenance
from agentflow.graph.context import Context
from agentflow.nodes import analyst, planner
from agentflow.tools.tool_model import RUN, UNKNOWN


@tool
def stock(article: str) -> str:
    """Looks up the stock."""
    return article


ROWS = [{"question": "Where?", "answer": "here"}]


async def made(agent: AgentName = "agentflow", benchmarks: Sequence[str] = (), **context: object) -> Provenance:
    return await provenance.provenance_of(agent, Context.model_validate(context), "agentflow eval atlas", benchmarks)


async def test_versions_prompts_and_tools_are_written_down() -> None:
    found = await made(tools=["base_generator", "python_coder", f"{__name__}:stock"])
    assert {"agentflow", "code", "python", "platform", "langgraph", "langchain-core"} <= set(found.versions)
    assert [*found.prompts] == ["analyst", "planner", "executor", "verifier", "generator"]
    assert found.prompts["analyst"] == prompt_hash(analyst.PROMPT)
    assert {name: one.model for name, one in found.tools.items()} == {
        "base_generator": RUN,
        "python_coder": "",
        "stock": UNKNOWN,
    }
    assert [name for name, one in found.tools.items() if one.prompt] == ["base_generator"]
    assert len({one.card for one in found.tools.values()}) == 3


async def test_a_prompt_of_ones_own_and_a_file_of_the_same_name_are_told_apart(tmp_path: Path) -> None:
    own = f"Plan.\n{{tools}}\n{planner.PROMPT}"
    found = await made(prompts={"planner": own})
    assert found.prompts["planner"] == prompt_hash(own)
    assert found.differences(await made()) == ["prompt of the planner"]
    corpus = tmp_path / "index.sqlite"
    corpus.write_bytes(b"one")
    before = await made(corpus=str(corpus))
    assert [*before.inputs] == ["corpus"]
    corpus.write_bytes(b"two")
    assert (await made(corpus=str(corpus))).differences(before) == ["the file of the corpus"]


async def test_every_file_that_an_evaluation_reads_is_an_input(tmp_path: Path) -> None:
    quiz, recording, servers = (tmp_path / name for name in ("quiz.jsonl", "found.sqlite", "servers.json"))
    for path in (quiz, recording):
        path.touch()
    servers.write_text('{"mcpServers": {}}')
    tools, benchmarks = ["python_coder", f"mine={__name__}:stock", f"mcp:{servers}"], [str(quiz), f"{__name__}:ROWS"]
    given = {"benchmarks": [*benchmarks, "atlas"], "tools": tools}
    found = await made(**given, search_cache=f"replay:{recording}")
    module = f"module {__name__}"
    assert {*found.inputs} == {"questions quiz.jsonl", "search cache", "MCP servers servers.json", module}
    assert found.inputs[module] == provenance.file_hash(Path(__file__))
    written = await made("direct", **given, search_cache=f"use:{recording}")
    assert {*written.inputs} == {"questions quiz.jsonl", module}, "a cache that a run writes is no input"
