from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.packing import Break, Reason, pack
from agentflow.rl.trace import Call, ids_array, logprobs_array


def call(turn: int, prompt: list[int], response: list[int]) -> Call:
    logprobs = logprobs_array(-0.5 * token for token in response)
    return Call("r", "planner", turn, ids_array(prompt), ids_array(response), logprobs, "stop", 0)


def test_a_prompt_that_grows_is_one_row() -> None:
    (row,) = pack([call(0, [1, 2], [3, 4]), call(1, [1, 2, 3, 4, 9, 9], [5])], limit=100)
    assert (row.prompt_ids.tolist(), row.response_ids.tolist()) == ([1, 2], [3, 4, 9, 9, 5])
    assert (row.mask.tolist(), row.logprobs.tolist()) == ([1, 1, 0, 0, 1], [-1.5, -2.0, 0.0, 0.0, -2.5])
    assert row.spans == [(0, 2), (4, 1)]


def test_a_prompt_that_does_not_begins_a_row() -> None:
    rows = pack([call(0, [1, 2], [3, 4]), call(1, [1, 2, 3, 7], [5])], limit=100)
    tokens = [(row.prompt_ids.tolist(), row.response_ids.tolist()) for row in rows]
    assert tokens == [([1, 2], [3, 4]), ([1, 2, 3, 7], [5])]


def test_a_row_that_would_be_too_long_begins_another() -> None:
    rows = pack([call(0, [1], [2]), call(1, [1, 2, 3], [4]), call(2, [1, 2, 3, 4, 5], [6])], limit=3)
    assert [row.response_ids.tolist() for row in rows] == [[2, 3, 4], [6]]
    assert [row.broken for row in rows] == [None, Break(Reason.FULL, 4, 4)]


@pytest.mark.parametrize(
    ("prompt", "limit", "expected"),
    [
        ([1, 2, 3, 7], 100, Break(Reason.REPLY, 3, 4, expected=4, found=7)),
        ([1, 9, 3, 4, 5], 100, Break(Reason.PROMPT, 1, 4, expected=2, found=9)),
        ([1, 2, 3], 100, Break(Reason.REPLY, 3, 4, expected=4)),
        ([1], 100, Break(Reason.PROMPT, 1, 4, expected=2)),
        ([9], 3, Break(Reason.PROMPT, 0, 4, expected=1, found=9)),
        ([1, 2, 3, 4], 2, Break(Reason.FULL, 4, 4)),
        ([1, 2, 3, 4], 0, Break(Reason.OFF, 0, 4)),
    ],
)
def test_a_new_row_says_why(prompt: list[int], limit: int, expected: Break) -> None:
    first, second = pack([call(0, [1, 2], [3, 4]), call(1, prompt, [5])], limit=limit)
    assert (first.broken, second.broken) == (None, expected)


ids = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@st.composite
def trajectories(draw: st.DrawFn) -> list[Call]:
    """Calls whose prompts begin with as much of the call before as is drawn."""
    calls: list[Call] = []
    for turn in range(draw(st.integers(1, 6))):
        before = [*calls[-1].prompt_ids, *calls[-1].response_ids] if calls else []
        kept = draw(st.sampled_from([0, len(before) // 2, len(before), len(before)]))
        calls.append(call(turn, [*before[:kept], *draw(ids)], draw(ids)))
    return calls


@given(trajectories(), st.integers(0, 20))
def test_every_break_has_the_reason_that_holds(calls: list[Call], limit: int) -> None:
    rows = pack(calls, limit=limit)
    assert rows[0].broken is None
    for row, after in pairwise(rows):
        broken, tokens, prompt = after.broken, row.prompt_ids + row.response_ids, after.prompt_ids
        assert broken is not None
        assert broken.length == len(tokens)
        whole = len(prompt) - len(row.prompt_ids) + len(after.calls[0].response_ids)
        if broken.reason == Reason.OFF:
            assert limit == 0
        elif broken.reason == Reason.FULL:
            assert prompt[: len(tokens)] == tokens
            assert whole > limit
        else:
            at = broken.position
            assert prompt[:at] == tokens[:at]
            assert prompt[at : at + 1] != tokens[at : at + 1]
            assert (broken.expected, [broken.found]) == (tokens[at], prompt[at : at + 1].tolist() or [None])
            sampled = at >= len(row.prompt_ids) and row.mask[at - len(row.prompt_ids)] == 1
            assert sampled == (broken.reason == Reason.REPLY)


@given(trajectories(), st.integers(1, 20))
def test_every_sampled_token_is_kept_with_its_context(calls: list[Call], limit: int) -> None:
    rows = pack(calls, limit=limit)
    assert [found for row in rows for found in row.calls] == calls
    for row in rows:
        tokens = row.prompt_ids + row.response_ids
        for found, (start, length) in zip(row.calls, row.spans, strict=True):
            begin = len(row.prompt_ids) + start
            assert tokens[:begin] == found.prompt_ids
            assert tokens[begin : begin + length] == found.response_ids
            assert row.logprobs[start : start + length] == found.logprobs
            assert row.mask[start : start + length].tolist() == [1] * length
        assert sum(row.mask) == sum(len(found.response_ids) for found in row.calls)
        assert len(row.response_ids) <= limit or len(row.calls) == 1
