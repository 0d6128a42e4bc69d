"""The verifier's parser on realistic replies. Only a clear stop may end a run."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentflow.nodes.verifier import MAX_CHARACTERS, UNREADABLE, parse, reply_text
from tests.attacks import Attack
from tests.linear import assert_linear

FINDING = "Turing was born in 1912."

STOP = {
    "as asked": f"Analysis: {FINDING}\nVerdict: stop",
    "other order": f"Verdict: stop\nAnalysis: {FINDING}",
    "capitals": f"ANALYSIS: {FINDING}\nVERDICT: STOP",
    "full stop": f"Analysis: {FINDING}\nVerdict: Stop.",
    "bold label": f"**Analysis:** {FINDING}\n**Verdict:** stop",
    "bold value": f"Analysis: {FINDING}\nVerdict: **STOP**",
    "all bold": f"**Analysis: {FINDING}**\n**Verdict: STOP**",
    "headings": f"### Analysis\n{FINDING}\n\n### Verdict\nSTOP",
    "reference's label": f"{FINDING}\n\nConclusion: STOP",
    "reason after the word": f"Analysis: {FINDING}\nVerdict: stop, since the question is answered",
    "reason after a dash": f"Analysis: {FINDING}\nVerdict: STOP - no need to continue",
    "reason below": f"Analysis: {FINDING}\nVerdict: stop\n\nThe agent need not continue.",
    "reference bug: the value below the label": f"Analysis: {FINDING}\nConclusion:\nSTOP",
    "in backticks": f"Analysis: {FINDING}\nVerdict: `stop`",
    "in brackets": f"Analysis: {FINDING}\nVerdict: [STOP]",
    "in a sentence, in capitals": f"Analysis: {FINDING}\nVerdict: we can STOP here",
    "numbered": f"1. Analysis: {FINDING}\n2. Verdict: stop",
    "bullets": f"- Analysis: {FINDING}\n- Verdict: stop",
    "Windows line ends": f"Analysis: {FINDING}\r\nVerdict: stop\r\n",
    "full-width colon": f"Analysis：{FINDING}\nVerdict：stop",
    "fenced": f"```\nAnalysis: {FINDING}\nVerdict: stop\n```",
    "fence not closed": f"```\nAnalysis: {FINDING}\nVerdict: stop",
    "no labels": f"{FINDING}\nSTOP",
    "verdict repeated: the last wins": f"Verdict: continue\nAnalysis: {FINDING}\nVerdict: stop",
    "a conclusion that is none beside the verdict": f"Analysis: {FINDING}\nVerdict: stop\nConclusion: He was 41.",
    "thinking first": f"<think>Verdict: continue</think>Analysis: {FINDING}\nVerdict: stop",
    "JSON of the reference": f'{{"analysis": "{FINDING}", "stop_signal": true}}',
    "JSON in a fence": f'```json\n{{"analysis": "{FINDING}", "stop_signal": true}}\n```',
    "JSON, text": f'{{"analysis": "{FINDING}", "verdict": "STOP"}}',
    "JSON, boolean as text": f'{{"analysis": "{FINDING}", "stopSignal": "True"}}',
    "Python dict": f"{{'analysis': '{FINDING}', 'stop_signal': True}}",
    "trailing comma": f'{{"analysis": "{FINDING}", "stop_signal": true,}}',
    "signal as a label": f"Analysis: {FINDING}\nStop signal: True",
}


@pytest.mark.parametrize("text", STOP.values(), ids=STOP)
def test_stops(text: str) -> None:
    verdict = parse(text)
    assert verdict.signal == "stop"
    assert FINDING in verdict.analysis
    assert "Verdict" not in verdict.analysis
    assert UNREADABLE not in verdict.analysis


CONTINUE = {
    "as asked": f"Analysis: {FINDING}\nVerdict: continue",
    "full stop": f"Analysis: {FINDING}\nConclusion: Continue.",
    "capitals": f"Analysis: {FINDING}\nVerdict: CONTINUE",
    "and not stop": f"Analysis: {FINDING}\nVerdict: continue, do not stop yet",
    "until we can stop": f"Analysis: {FINDING}\nVerdict: Continue until we can STOP",
    "reference bug: bus stop": f"Analysis: {FINDING} The bus stop is missing.\nVerdict: continue",
    "JSON": f'{{"analysis": "{FINDING}", "stop_signal": false}}',
    "JSON, text": f'{{"analysis": "{FINDING}", "verdict": "continue"}}',
    "no labels": f"{FINDING}\nContinue",
    "last wins": f"Verdict: stop\nAnalysis: {FINDING}\nVerdict: continue",
    "a tool's output that is quoted": f'Analysis: {FINDING} It said {{"verdict": "stop"}}.\nVerdict: continue',
}


@pytest.mark.parametrize("text", CONTINUE.values(), ids=CONTINUE)
def test_continues(text: str) -> None:
    verdict = parse(text)
    assert verdict.signal == "continue"
    assert FINDING in verdict.analysis
    assert UNREADABLE not in verdict.analysis


UNCLEAR = {
    "empty": "",
    "white space": "\n \t",
    "refusal": "I'm sorry, but I can't help with that.",
    "only thinking": "<think>\nVerdict: stop",
    "verdict missing": f"Analysis: {FINDING}",
    "verdict empty": f"Analysis: {FINDING}\nVerdict:",
    "reference bug: 'stop' anywhere in the text": "The bus stop in question is Acacia Road.",
    "reference bug: stop at the end of a sentence": "The agent must find the bus stop",
    "bus stop as a conclusion": "Conclusion: The bus stop is on Acacia Road.",
    "bus stop in the verdict": f"Analysis: {FINDING}\nVerdict: the bus stop is missing",
    "do not stop": f"Analysis: {FINDING}\nVerdict: do not stop",
    "do not STOP": f"Analysis: {FINDING}\nVerdict: do not STOP",
    "don't STOP, typographic": f"Analysis: {FINDING}\nVerdict: Don’t STOP",
    "cannot STOP": f"Analysis: {FINDING}\nVerdict: We cannot STOP yet",
    "nonstop": f"Analysis: {FINDING}\nVerdict: nonstop",
    "stopped": f"Analysis: {FINDING}\nVerdict: the bus stopped",
    "the prompt read back": "Analysis: what is established and what is missing\nVerdict: stop or continue",
    "STOP or CONTINUE": f"Analysis: {FINDING}\nVerdict: STOP or CONTINUE",
    "STOP/CONTINUE": f"Analysis: {FINDING}\nVerdict: STOP/CONTINUE",
    "either, in capitals": f"Analysis: {FINDING}\nVerdict: I could STOP, I could CONTINUE",
    "true amid words": f"Analysis: {FINDING}\nVerdict: True or not, who knows",
    "true as the last line": "Is the question answered?\nTrue",
    "JSON, null": '{"analysis": "a", "stop_signal": null}',
    "JSON, number": '{"analysis": "a", "stop_signal": 7}',
    "JSON quoted amid a sentence": 'The page says {"stop_signal": true} and nothing else',
    "JSON cut off": '{"analysis": "a", "stop_signal": tr',
    "markdown table": "| Analysis | Verdict |\n|---|---|\n| a | stop |",
    "other language": "Analyse: fertig\nUrteil: halt",
    "reference bug: an error where a reply was expected": "{'error': 'Rate limit', 'message': 'stop'}",
}


@pytest.mark.parametrize("text", UNCLEAR.values(), ids=UNCLEAR)
def test_continues_and_says_that_the_verdict_was_unreadable(text: str) -> None:
    verdict = parse(text)
    assert verdict.signal == "continue"
    assert verdict.analysis.endswith(UNREADABLE)


def test_the_analysis_is_what_stands_before_an_unlabelled_verdict() -> None:
    assert parse(f"{FINDING}\n\n**Verdict:** stop").analysis == FINDING


def test_a_long_analysis_is_cut() -> None:
    assert len(parse("Analysis: " + "x" * 100_000 + "\nVerdict: stop").analysis) == MAX_CHARACTERS


PIECES = [
    "Analysis", "Verdict", "Conclusion", ":", "\n", "\r\n", "stop", "STOP", "continue", "CONTINUE", "not ", "{", "}",
    '"', "'", "true", "```", "**", "<think>", "</think>", " ", ",", "or", "stop_signal", "ſtop ſignal", "\x00",
]  # fmt: skip
FRAGMENTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


@given(st.one_of(st.text(), FRAGMENTS))
def test_any_text_is_a_valid_verdict(text: str) -> None:
    verdict = parse(text)
    assert verdict.signal in ("stop", "continue")
    assert len(verdict.analysis) <= MAX_CHARACTERS + len(UNREADABLE) + 1
    assert verdict.signal == "continue" or "stop" in text.lower() or "true" in text


@given(st.text("abc xyz,1", min_size=1).filter(str.strip), st.sampled_from(["stop", "continue"]))
def test_a_verdict_reads_back_as_it_was_written(analysis: str, signal: str) -> None:
    verdict = parse(f"Analysis: {analysis}\nVerdict: {signal}")
    assert (verdict.analysis, verdict.signal) == (analysis.strip(), signal)
    assert parse(reply_text(verdict)) == verdict


UNITS = [
    *("{", "{}", '{"a":', "#", "*", ">", "_", "`"),
    *("```\n", " ", "\n", "Verdict:", "Verdict:\n", "not ", "STOP CONTINUE "),
]
HOSTILE = [
    *(Attack((unit,)) for unit in UNITS),
    Attack(("stop ",), "Verdict: ", "continue"),
    Attack((" ",), "```\n"),
]


def test_hostile_text_takes_linear_time() -> None:
    assert_linear(parse, HOSTILE)
    assert {parse(attack.text(10_000)).signal for attack in HOSTILE} == {"continue"}
