"""The tables of docs/reproduce.md: seven benchmarks, a real small model, AgentFlow beside its rivals.

`python -m benchmarks.real.tables --data DIR` serves Qwen2.5-Coder-Instruct with llama.cpp, asks each agent the first
questions of each benchmark, and prints the table; `--record` adds it to docs/lab/tables.json. What was evaluated
before is kept under --out and is not asked again, so that a table can be made in pieces: `--only hotpotqa:rag`, or a
larger `--limit`.

DIR has the questions (gsm8k/test.jsonl, multihop/test.jsonl, multihop/passages.jsonl, medqa_test.jsonl, amc23.jsonl).
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.real.figures import measured
from benchmarks.real.llamacpp import PORTS, lacking, serving

RECORDED = Path(__file__).parents[2] / "docs" / "lab" / "tables.json"
SEARCHED = ("hotpotqa", "2wiki", "musique")
FILES = {"gsm8k": "gsm8k/test.jsonl", "amc23": "amc23.jsonl", "medqa": "medqa_test.jsonl"}
BENCHMARKS = ("gsm8k", "game24", *SEARCHED, "medqa", "amc23")
REASONING = """Answer the question. Reason step by step, then end with:
Answer: the answer alone, in the form that the question asks for"""
"""A prompt of the model alone: better on sums in words, worse on other questions."""
VARIANTS = {
    "direct_instructions": ("direct", "profile=paper"),
    "direct": ("direct", ""),
    "direct_reasoning": ("direct", f"prompts.generator={REASONING}"),
    "rag_instructions": ("rag", "profile=paper"),
    "rag": ("rag", ""),
} | {agent: (agent, "") for agent in ("react", "create_agent", "team", "agentflow")}
"""The agents of the table by name, each with a setting; `profile=paper` shows the model no examples."""
SETTINGS = (
    "--retry",
    "--max-turns",
    "6",
    "--concurrency",
    "16",
    "--context",
    "max_tokens=800",
    "--context",
    "max_seconds=7200",
)


def arguments(benchmark: str, variant: str, limit: int, data: Path, out: Path) -> list[str]:
    """Return the words after `agentflow eval` of one cell of the table, without the model."""
    agent, setting = VARIANTS[variant]
    own = ["--context", setting] if setting else []
    words = [
        benchmark,
        "--agent",
        agent,
        *own,
        "--limit",
        str(limit),
        "--out",
        str(out / benchmark / variant),
        *SETTINGS,
    ]
    if benchmark in SEARCHED:
        file, index = out.parent / f"{benchmark}.jsonl", out.parent / "passages.sqlite"
        return [
            *words,
            "--file",
            str(file),
            "--tools",
            "base_generator,python_coder,wikipedia_search",
            "--corpus",
            str(index),
        ]
    words += ["--tools", "base_generator,python_coder"]
    if benchmark == "gsm8k":  # no benchmark of ours: a file of questions
        words[0] = str(data / FILES[benchmark])
    elif benchmark in FILES:
        words += ["--file", str(data / FILES[benchmark])]
    return words


def prepare(data: Path, out: Path) -> None:
    """Write the questions of each search benchmark to a file of its own, and the index of their passages."""
    out.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in (data / "multihop" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    for benchmark in SEARCHED:
        own = [row for row in rows if row["dataset"] == benchmark]
        lines = (json.dumps({key: row[key] for key in ("id", "question", "golden_answers")}) for row in own)
        (out / f"{benchmark}.jsonl").write_text("\n".join(lines), encoding="utf-8")
    if not (index := out / "passages.sqlite").exists():
        _agentflow("corpus", "build", str(data / "multihop" / "passages.jsonl"), "--out", str(index))


def table(cells: dict[str, dict[str, dict[str, float]]]) -> str:
    """Return the table in Markdown: a row a benchmark and variant."""
    lines = [
        "| benchmark | variant | right (95 %) | EM, F1 | titles found | calls | tokens | tokens each right | seconds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for benchmark in BENCHMARKS:
        variants = {variant: cells.get(benchmark, {}).get(variant) for variant in VARIANTS}
        best = max((one["right"] / one["questions"] for one in variants.values() if one), default=0)
        for variant, one in variants.items():
            if one:
                lines.append(_line(benchmark, variant, one, best))
    return "\n".join(lines)


def _line(benchmark: str, variant: str, one: dict[str, float], best: float) -> str:
    share = one["right"] / one["questions"]
    right = f"{one['right']:.0f} of {one['questions']} ({one['low']:.2f} to {one['high']:.2f})"
    texts = f"{one['em']:.2f}, {one['f1']:.2f}" if "em" in one and benchmark in SEARCHED else ""
    recall = f"{one['gold titles found']:.2f}" if "gold titles found" in one else ""
    cost = f"{one['calls']:.1f} | {one['tokens']:,.0f} | {one['tokens per right answer']:,.0f} | {one['seconds']:.0f}"
    return f"| {benchmark} | {variant} | {f'**{right}**' if share == best else right} | {texts} | {recall} | {cost} |"


def main() -> int:
    """Evaluate, print and record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real.tables", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the questions and passages")
    parser.add_argument("--size", choices=("0.5b", "1.5b"), default="1.5b", help="the model")
    parser.add_argument("--model", default="", metavar="SPEC", help="a server of that model which runs, not llama.cpp")
    parser.add_argument("--limit", type=int, default=50, help="most questions of a benchmark")
    parser.add_argument("--only", action="append", default=[], metavar="BENCHMARK[:VARIANT]", help="only these cells")
    parser.add_argument("--out", type=Path, default=Path("runs/tables"), help="folder of the traces")
    parser.add_argument("--record", action="store_true", help="keep the figures beside the page")
    parser.add_argument("--table", action="store_true", help="print what was recorded, and evaluate nothing")
    options = parser.parse_args()
    recorded = json.loads(RECORDED.read_text(encoding="utf-8")) if RECORDED.exists() else {}
    if options.table:
        print(table(recorded.get(options.size, {})))
        return 0
    if not options.model and (lacks := lacking()):
        print(f"no real model can be served: {lacks}", file=sys.stderr)
        return 2
    prepare(options.data, options.out)
    rows = [json.loads(line) for line in (options.data / "multihop" / "test.jsonl").read_text("utf-8").splitlines()]
    titles = {row["question"]: row["titles"] for row in rows}
    cells: dict[str, dict[str, dict[str, float]]] = recorded.setdefault(options.size, {})
    with serving(options.size, PORTS[options.size], options.model) as spec:
        for benchmark in BENCHMARKS:
            for variant in (
                VARIANTS if benchmark in SEARCHED else [one for one in VARIANTS if VARIANTS[one][0] != "rag"]
            ):
                if options.only and not {benchmark, variant, f"{benchmark}:{variant}"} & {*options.only}:
                    continue
                words = arguments(benchmark, variant, options.limit, options.data, options.out / options.size)
                _agentflow("eval", *words, "--model", spec)
                traces = options.out / options.size / benchmark / variant / "traces.jsonl"
                lines = traces.read_text("utf-8").splitlines()
                last = {trace["task"]["id"]: trace for trace in map(json.loads, lines)}  # of tries that were repeated
                found = measured(last.values(), titles)
                cells.setdefault(benchmark, {})[variant] = {key: round(value, 4) for key, value in found.items()}
                if options.record:
                    RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")
    print(table(cells))
    return 0


def _agentflow(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "agentflow", *words], check=True)  # noqa: S603 - our own words


if __name__ == "__main__":
    sys.exit(main())
