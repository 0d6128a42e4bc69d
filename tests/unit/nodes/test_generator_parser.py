"""The generator's parser on realistic replies: the answer, or else the whole reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.nodes.answer_text import parse
from tests.attacks import Attack
from tests.linear import assert_linear

READ = {
    "as asked": ("He was born in London.\nAnswer: 1912", "1912"),
    "alone": ("Answer: 1912", "1912"),
    "no label": ("1912", "1912"),
    "a sentence without a label": ("Turing was born in 1912.", "Turing was born in 1912."),
    "final answer": ("So it is.\nFinal Answer: 1912", "1912"),
    "the answer": ("The answer: 1912", "1912"),
    "the final answer beats the first": ("Answer: 1911?\n\nFinal answer: 1912", "1912"),
    "repeated: the last wins": ("Answer: 1911\nNo.\nAnswer: 1912", "1912"),
    "an empty repetition is none": ("Answer: 1912\nAnswer:", "1912"),
    "tags": ("It is <answer>1912</answer>.", "1912"),
    "tags in capitals": ("<ANSWER> 1912 </ANSWER>", "1912"),
    "tags repeated": ("<answer>1911</answer> no, <answer>1912</answer>", "1912"),
    "an empty tag is none": ("<answer>1912</answer><answer> </answer>", "1912"),
    "a tag opened twice": ("<answer>so <answer>1912</answer>", "1912"),
    "a tag over several lines": ("<answer>\n1912\n</answer>", "1912"),
    "tags beat labels": ("Answer: 1911\n<answer>1912</answer>", "1912"),
    "a tag not closed": ("Answer: 1912\n<answer>", "1912\n<answer>"),
    "bold label": ("**Answer:** 1912", "1912"),
    "bold label, colon outside": ("**Answer**: 1912", "1912"),
    "bold value": ("Answer: **1912**", "1912"),
    "bold line": ("**Answer: 1912**", "1912"),
    "code": ("Answer: `1912`", "1912"),
    "quotes": ('Answer: "The Hobbit"', "The Hobbit"),
    "quotes inside stay": ('Answer: "a" and "b"', '"a" and "b"'),
    "heading": ("### Answer\n1912", "1912"),
    "heading and a blank line": ("## Final Answer:\n\n1912", "1912"),
    "label below": ("Answer:\n1912", "1912"),
    "bullet": ("- Answer: 1912", "1912"),
    "numbered": ("1. He was born in 1912.\n2. Answer: 1912", "1912"),
    "other case": ("ANSWER: 1912", "1912"),
    "full-width colon": ("Answer：1912", "1912"),
    "Windows line ends": ("Thus.\r\nAnswer: 1912\r\n", "1912"),
    "fenced": ("```\nAnswer: 1912\n```", "1912"),
    "fence not closed": ("```\nAnswer: 1912", "1912"),
    "JSON": ('{"answer": "1912"}', "1912"),
    "JSON, number": ('{"answer": 1912}', "1912"),
    "JSON, other key": ('{"finalAnswer": "1912"}', "1912"),
    "JSON, list": ('{"answer": ["a", "b"]}', '["a", "b"]'),
    "JSON in a fence": ('```json\n{"answer": "1912"}\n```', "1912"),
    "Python dict": ("{'answer': '1912'}", "1912"),
    "an answer that is JSON": ('Answer: {"year": 1912}', '{"year": 1912}'),
    "an answer that is code": ("Answer:\n```python\nprint(1)\n```", "```python\nprint(1)\n```"),
    "an expression": ("Answer: (8 - 4) * 7 - 4", "(8 - 4) * 7 - 4"),
    "a product keeps its stars": ("Answer: 2 * 3 * 4", "2 * 3 * 4"),
    "a negative number": ("Answer: -3", "-3"),
    "an answer with a colon": ("Answer: 12:30", "12:30"),
    "several lines": ("Answer: first\nsecond", "first\nsecond"),
    "the word in a sentence": ("The answer is 1912.", "The answer is 1912."),
    "thinking first": ("<think>Answer: 1911</think>Answer: 1912", "1912"),
    "thinking in a tag that is answered in": ("<think><answer>1911</answer></think>1912", "1912"),
    "only thinking": ("<think>Answer: 1912", ""),
    "an answer about the tag": ("Answer: the <think> tag", "the <think> tag"),
    "empty": ("", ""),
    "white space": (" \n", ""),
    "label without a value": ("Answer:", "Answer:"),
    "refusal": ("I'm sorry, but I can't help with that.", "I'm sorry, but I can't help with that."),
    "markdown table": ("| Answer |\n|---|\n| 1912 |", "| Answer |\n|---|\n| 1912 |"),
}


@pytest.mark.parametrize(("text", "answer"), READ.values(), ids=READ)
def test_is_read(text: str, answer: str) -> None:
    assert parse(text) == answer


PIECES = [
    "Answer", "Final answer", ":", "\n", "<answer>", "</answer>", "<think>", "</think>", "**", '"', "```", "{", "}",
    "42", " ", "'", "_", "İ", "\x00", "\r\n",
]  # fmt: skip
FRAGMENTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(st.one_of(st.text(), FRAGMENTS))
def test_any_text_is_an_answer_without_space_around_it(text: str) -> None:
    answer = parse(text)
    assert answer == answer.strip()


@given(st.text("abc 12.,+-()", min_size=1).filter(str.strip))
def test_what_the_prompt_asks_for_is_read_exactly(answer: str) -> None:
    assert parse(f"Because of that.\nAnswer: {answer}") == answer.strip()


UNITS = [
    *("{", '{"a":', "#", "*", "`", "```\n", " "),
    *("\n", "Answer:", "Answer:\n", "<answer>", "</answer>", "<", '"'),
]
HOSTILE = [*(Attack((unit,)) for unit in UNITS), Attack((" ",), "```\n"), Attack(("'",), "Answer: ")]


def test_hostile_text_takes_linear_time() -> None:
    assert_linear(parse, HOSTILE)
