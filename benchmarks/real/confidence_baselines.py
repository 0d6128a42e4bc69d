"""Baselines for the confidence of an answer: P(True), verbalized confidence and self-consistency.

`python -m benchmarks.real.confidence_baselines --model SPEC RUN...` reads the answers of evaluations of AgentFlow with
that model, asks it about each of them, and prints how well each signal separates right answers (by the rules) from
wrong ones, beside AgentFlow's own signals:

- P(True): the probability that it calls the answer right (S. Kadavath et al., "Language Models (Mostly) Know What They
  Know", 2022)
- verbalized: the percentage that it writes (K. Tian et al., "Just Ask for Calibration", EMNLP 2023)
- self-consistency: the share of five answers, sampled from the same results, that equal the answer (X. Wang et al.,
  "Self-Consistency Improves Chain of Thought Reasoning in Language Models", ICLR 2023)
- evidence: `agentflow.graph.confidence.signals`, which calls no model

Each is calibrated by logistic regression, cross-validated by question.
"""

import argparse
import asyncio
import re
import sys
from collections.abc import Sequence
from hashlib import sha256
from math import exp
from pathlib import Path

import numpy as np
from langchain_core.messages import BaseMessage
from langchain_openai import ChatOpenAI
from openai import OpenAIError
from pydantic import SecretStr

from agentflow.cli.report import read_folders
from agentflow.evals.confidence import logistic, reliability, signals_of
from agentflow.evals.intervals import Floats
from agentflow.evals.record import Record
from agentflow.evals.scorers.free_text import normalise
from agentflow.graph.confidence import HeldOut
from agentflow.graph.models.spec import ModelError, parse

TRUE = "Proposed answer: {answer}\nIs the proposed answer right?\n(A) yes\n(B) no\nReply with A or B alone."
VERBAL = (
    "Proposed answer: {answer}\nHow likely is it that this answer is right, in percent? Reply with the number alone."
)
AGAIN = "Reply with the answer alone, in the form that the question asks for."
SAMPLES, TEMPERATURE, AT_A_TIME, FOLDS = 5, 0.7, 16, 5


class Baselines:
    """The model that answered, asked about its answers, and the tokens that it took, by baseline."""

    def __init__(self, spec: str) -> None:
        parsed = parse(spec)
        self._model = ChatOpenAI(model=parsed.model, base_url=parsed.base_url, api_key=SecretStr("none"), temperature=0)
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self.read: dict[str, int] = {}
        self.written: dict[str, int] = {}

    async def signals(self, record: Record) -> dict[str, list[float]]:
        """Return the inputs of each calibration. Raises ModelError if the server gives no log-probabilities."""
        results = "\n".join(turn.result.output for turn in record.turns if turn.result.error is None)
        known = f"{results}\n\nQuestion: {record.task.question}\n"
        answer = {"answer": record.answer}
        truth, [said], samples = await asyncio.gather(
            self._ask("P(True)", known + TRUE.format(**answer), 1, logprobs=True, top_logprobs=20, max_tokens=1),
            self._ask("verbalized", known + VERBAL.format(**answer), 1, max_tokens=6),
            self._ask("self-consistency", known + AGAIN, SAMPLES, temperature=TEMPERATURE, max_tokens=40),
        )
        number = re.search(r"\d+(?:\.\d+)?", said.text)
        same = [normalise(sample.text) == normalise(record.answer) for sample in samples]
        evidence = [*signals_of(record).values()]
        own = {
            "P(True)": [probability_of("A", truth[0])],
            "verbalized": [min(100.0, float(number.group())) / 100 if number else 0.5],
            "self-consistency": [sum(same) / SAMPLES],
        }
        return {
            **own,
            "evidence": evidence,
            **{f"evidence and {name}": evidence + value for name, value in own.items()},
        }

    async def _ask(self, baseline: str, text: str, times: int, **settings: object) -> list[BaseMessage]:
        async def once() -> BaseMessage:
            async with self._slots:
                return await self._model.ainvoke(text, **settings)  # type: ignore[arg-type]

        replies = await asyncio.gather(*(once() for _ in range(times)))
        for reply in replies:
            usage = getattr(reply, "usage_metadata", None) or {}
            self.read[baseline] = self.read.get(baseline, 0) + usage.get("input_tokens", 0)
            self.written[baseline] = self.written.get(baseline, 0) + usage.get("output_tokens", 0)
        return list(replies)


def probability_of(word: str, reply: BaseMessage) -> float:
    """Return the probability of `word` as the first token of a reply, among those that the server names."""
    given = reply.response_metadata.get("logprobs") or {}
    if not given.get("content"):
        raise ModelError("the server gives no log-probabilities; vLLM and llama.cpp do", code="no_logprobs")
    first = given["content"][0]["top_logprobs"]
    return sum(exp(one["logprob"]) for one in first if one["token"].strip(" (") == word)


def held_out(inputs: Floats, right: Floats, folds: Floats) -> Floats:
    """Return the confidence of each answer, from a regression on the other folds."""
    found = np.zeros(len(right))
    for fold in np.unique(folds):
        weights, bias = logistic(inputs[folds != fold], right[folds != fold])
        found[folds == fold] = 1 / (1 + np.exp(-(inputs[folds == fold] @ weights + bias)))
    return found


def fold_of(record: Record) -> int:
    """Return the fold of a question."""
    return int.from_bytes(sha256(record.task.id.encode()).digest()[:4], "big") % FOLDS


def within(confidence: Floats, records: Sequence[Record]) -> float:
    """Return the mean AUC within a benchmark, by its number of answers: benchmarks differ in how hard they are."""
    sets: dict[str, list[HeldOut]] = {}
    for record, one in zip(records, confidence, strict=True):
        sets.setdefault(record.benchmark, []).append(HeldOut(float(one), record.correct))
    told = [
        (len(answers), reliability(answers).auc)
        for answers in sets.values()
        if len({one.right for one in answers}) == 2
    ]
    return sum(number * auc for number, auc in told) / sum(number for number, _ in told)


async def compared(spec: str, records: Sequence[Record]) -> list[str]:
    """Return the table's lines."""
    baselines = Baselines(spec)
    inputs = await asyncio.gather(*(baselines.signals(record) for record in records))
    right, folds = np.array([float(one.correct) for one in records]), np.array([float(fold_of(one)) for one in records])
    lines = [
        "| signal | AUC | within a benchmark | calibration error | tokens read | written |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name in inputs[0]:
        confidence = held_out(np.array([one[name] for one in inputs]), right, folds)
        measured = reliability(
            [HeldOut(float(one), is_right == 1) for one, is_right in zip(confidence, right, strict=True)]
        )
        asked = name.removeprefix("evidence and ")
        read, written = (round(of.get(asked, 0) / len(records)) for of in (baselines.read, baselines.written))
        figures = f"{measured.auc:.3f} | {within(confidence, records):.3f} | {measured.error:.3f}"
        lines.append(f"| {name} | {figures} | {read} | {written} |")
    return lines


def main() -> int:
    """Read, ask and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real.confidence_baselines", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of an evaluation")
    parser.add_argument("--model", required=True, metavar="SPEC", help="the model that answered, with its address")
    options = parser.parse_args()
    records = [record for run in read_folders(options.runs) for record in run.records if record.scorable]
    right = sum(record.correct for record in records)
    print(f"{len(records)} answers, {right} right")
    if not FOLDS <= right <= len(records) - FOLDS:
        print(f"at least {FOLDS} right answers and {FOLDS} wrong ones are needed: name more runs", file=sys.stderr)
        return 2
    try:
        print("\n".join(asyncio.run(compared(options.model, records))))
    except (ModelError, OpenAIError) as error:
        print(f"{options.model} could not be asked: {error} Check it with agentflow doctor --model", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
