from hypothesis import given
from hypothesis import strategies as st

from agentflow.rl.packing import Row, pack
from agentflow.rl.trace import Call


def call(turn: int, prompt: list[int], response: list[int]) -> Call:
    return Call("r", "planner", turn, prompt, response, [-0.5 * token for token in response], "stop", 0)


def test_a_prompt_that_grows_is_one_row() -> None:
    rows = pack([call(0, [1, 2], [3, 4]), call(1, [1, 2, 3, 4, 9, 9], [5])], limit=100)
    assert rows == [
        Row([1, 2], [3, 4, 9, 9, 5], [1, 1, 0, 0, 1], [-1.5, -2.0, 0.0, 0.0, -2.5], rows[0].calls),
    ]
    assert rows[0].spans == [(0, 2), (4, 1)]


def test_a_prompt_that_does_not_begins_a_row() -> None:
    rows = pack([call(0, [1, 2], [3, 4]), call(1, [1, 2, 3, 7], [5])], limit=100)
    assert [(row.prompt_ids, row.response_ids) for row in rows] == [([1, 2], [3, 4]), ([1, 2, 3, 7], [5])]


def test_a_row_that_would_be_too_long_begins_another() -> None:
    rows = pack([call(0, [1], [2]), call(1, [1, 2, 3], [4]), call(2, [1, 2, 3, 4, 5], [6])], limit=3)
    assert [row.response_ids for row in rows] == [[2, 3, 4], [6]]


ids = st.lists(st.integers(0, 3), min_size=1, max_size=4)


@given(st.lists(st.tuples(ids, ids, st.booleans()), min_size=1, max_size=6), st.integers(1, 20))
def test_every_sampled_token_is_kept_with_its_context(
    parts: list[tuple[list[int], list[int], bool]], limit: int
) -> None:
    calls: list[Call] = []
    for turn, (added, response, grows) in enumerate(parts):
        known = [*calls[-1].prompt_ids, *calls[-1].response_ids] if calls and grows else []
        calls.append(call(turn, [*known, *added], response))
    rows = pack(calls, limit=limit)
    assert [found for row in rows for found in row.calls] == calls
    for row in rows:
        tokens = [*row.prompt_ids, *row.response_ids]
        for found, (start, length) in zip(row.calls, row.spans, strict=True):
            begin = len(row.prompt_ids) + start
            assert tokens[:begin] == found.prompt_ids
            assert tokens[begin : begin + length] == found.response_ids
            assert row.logprobs[start : start + length] == found.logprobs
            assert row.mask[start : start + length] == [1] * length
        assert sum(row.mask) == sum(len(found.response_ids) for found in row.calls)
        assert len(row.response_ids) <= limit or len(row.calls) == 1
