from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.rollout.calls import Call
from agentflow.rl.rollout.packing import PrefixMismatch, Reason, TrainingSample, longest_prompt, pack


def call(turn: int, prompt: list[int], response: list[int]) -> Call:
    logprobs = array("f", (-0.5 * token for token in response))
    return Call("r", "planner", turn, array("i", prompt), array("i", response), logprobs, "stop", 0)


def test_a_prompt_that_grows_is_one_row() -> None:
    (row,) = pack([call(0, [1, 2], [3, 4]), call(1, [1, 2, 3, 4, 9, 9], [5])], limit=100)
    assert (row.prompt_ids.tolist(), row.response_ids.tolist()) == ([1, 2], [3, 4, 9, 9, 5])
    assert (row.mask.tolist(), row.logprobs.tolist()) == ([1, 1, 0, 0, 1], [-1.5, -2.0, 0.0, 0.0, -2.5])
    assert row.spans == [(0, 2), (4, 1)]


@pytest.mark.parametrize(
    ("prompt", "limit", "expected"),
    [
        ([1, 2, 3, 7], 100, PrefixMismatch(Reason.REPLY, 3, 4, expected=4, found=7)),
        ([1, 2, 7], 100, PrefixMismatch(Reason.REPLY, 2, 4, expected=3, found=7)),
        ([1, 9, 3, 4, 5], 100, PrefixMismatch(Reason.PROMPT, 1, 4, expected=2, found=9)),
        ([1, 2, 3], 100, PrefixMismatch(Reason.REPLY, 3, 4, expected=4)),
        ([1], 100, PrefixMismatch(Reason.PROMPT, 1, 4, expected=2)),
        ([9], 3, PrefixMismatch(Reason.PROMPT, 0, 4, expected=1, found=9)),
        ([1, 2, 3, 4], 2, PrefixMismatch(Reason.FULL, 4, 4)),
        ([1, 2, 3, 4], 0, PrefixMismatch(Reason.OFF, 0, 4)),
    ],
)
def test_a_new_row_says_why(prompt: list[int], limit: int, expected: PrefixMismatch) -> None:
    first, second = pack([call(0, [1, 2], [3, 4]), call(1, prompt, [5])], limit=limit)
    assert (tokens(first), tokens(second)) == ([1, 2, 3, 4], [*prompt, 5])
    assert (first.mismatch, second.mismatch) == (None, expected)


def test_a_call_continues_the_longest_row_that_its_prompt_extends() -> None:
    rows = pack([call(0, [1], [2]), call(1, [1], [2, 3]), call(2, [1, 2, 3, 4], [5])], limit=100)
    assert [[one.turn for one in row.calls] for row in rows] == [[0], [1, 2]]


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


def tokens(row: TrainingSample) -> list[int]:
    return [*row.prompt_ids, *row.response_ids]


@given(trajectories(), st.integers(1, 20))
def test_every_sampled_token_is_kept_with_its_context(calls: list[Call], limit: int) -> None:
    rows = pack(calls, limit=limit)
    assert sorted((found for row in rows for found in row.calls), key=lambda found: found.turn) == calls
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


@pytest.mark.parametrize(
    ("reply", "packed", "longest"),
    [(2048, True, 4096 + 16384 - 2048), (16384, True, 4096), (2048, False, 4096)],
)
def test_a_later_prompt_takes_all_of_a_packed_row_but_the_room_for_its_reply(
    reply: int, packed: bool, longest: int
) -> None:
    assert longest_prompt(4096, 16384, reply, packed=packed) == longest
