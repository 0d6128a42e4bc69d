"""How sure an answer is, and what is said in its place where the run promises more."""

from agentflow.graph.confidence import Call, signals, unasked
from agentflow.graph.context import Context
from agentflow.graph.state import State
from agentflow.nodes.calibrated import applicable_calibration, calls_of
from agentflow.nodes.verifier import own_words

UNKNOWN = "no calibration covers this kind of question"


async def assess(state: State, context: Context, answer: str) -> tuple[float | None, str]:
    """Return the confidence of the answer, None if it is unknown, and what is said in its place, "" for the answer."""
    calibration = await applicable_calibration(state.question, context)
    calls = calls_of(state.memory)
    confidence = None
    if calibration:
        confidence = calibration.probability(signals(state.question, answer, state.status, calls))
    needed = context.needed_confidence
    if context.abstain is None or (confidence is not None and confidence >= needed):
        return confidence, ""
    why = UNKNOWN if confidence is None else f"the confidence is {confidence:.2f}, and {needed:.2f} is needed"
    missing = _missing(state, calls)
    doubt = f"I do not know: {why}, for {context.abstain:g} of the answers to be right."
    return confidence, f"{doubt} Missing: {missing}" if missing else doubt


def _missing(state: State, calls: list[Call]) -> str:
    """Return what a verifier that would have continued wrote, else what the question names and no call asked for."""
    last = state.memory[-1].verdict if state.memory else None
    if last and last.signal == "continue" and (said := own_words(last)):
        return said
    return ", ".join(unasked(state.question, calls))
