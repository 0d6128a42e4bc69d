"""How sure an answer is, and what is said in its place where the run promises more."""

from agentflow.graph.confidence import Calibration, Call, signals, unasked
from agentflow.graph.context import Context
from agentflow.graph.models.loading import Fingerprinted, aload_model
from agentflow.graph.state import State
from agentflow.nodes.verifier import own_words

UNKNOWN = "no calibration covers this kind of question"


async def assess(state: State, context: Context, answer: str) -> tuple[float | None, str]:
    """Return the confidence of the answer, None if it is unknown, and what is said in its place, "" for the answer."""
    calibration = context.calibrated()
    calls = [Call(turn.plan.context, turn.action.arguments, turn.action.result) for turn in state.memory]
    confidence = None
    if calibration and await _has_its_weights(calibration):
        given = signals(state.question, answer, state.status, calls)
        confidence = calibration.confidence(state.question, given)
    needed = context.needed_confidence
    if context.abstain is None or (confidence is not None and confidence >= needed):
        return confidence, ""
    why = UNKNOWN if confidence is None else f"the confidence is {confidence:.2f}, and {needed:.2f} is needed"
    missing = _missing(state, calls)
    doubt = f"I do not know: {why}, for {context.abstain:g} of the answers to be right."
    return confidence, f"{doubt} Missing: {missing}" if missing else doubt


async def _has_its_weights(calibration: Calibration) -> bool:
    """Return whether the local models still have the weights with which it was fitted."""
    for spec, digest in calibration.checkpoints.items():
        model = await aload_model(spec)
        if not isinstance(model, Fingerprinted) or model.fingerprint != digest:
            return False
    return True


def _missing(state: State, calls: list[Call]) -> str:
    """Return what a verifier that would have continued wrote, else what the question names and no call asked for."""
    last = state.memory[-1].verdict if state.memory else None
    if last and last.signal == "continue" and (said := own_words(last)):
        return said
    return ", ".join(unasked(state.question, calls))
