"""Secrets and personal data of an episode, struck out before it is stored anywhere."""

from dataclasses import replace
from typing import Any

from agentflow.rl.traces.episode import Conversation, Episode
from agentflow.rl.traces.ledger import Ledger, Reason
from agentflow.rl.traces.personal import without_personal
from agentflow.tools.redaction import MARK, redacted_data


def struck(episode: Episode, ledger: Ledger) -> Episode:
    """Return the episode without secrets and personal data.

    Token ids cannot be searched. They are left out if any text of their episode has, or had, a secret.
    """
    text = {name: value for name, value in vars(episode).items() if name not in ("calls", "exact", "reward")}
    calls = [vars(call) for call in episode.calls]
    found = clean([text, calls], ledger)
    clean_text, clean_calls = found
    exact = episode.exact
    if exact and (found != [text, calls] or MARK in str(found)):
        ledger.drop(Reason.STRUCK_IDS, episode.place)
        exact = []
    return replace(episode, **clean_text, calls=[Conversation(**call) for call in clean_calls], exact=exact)


def clean(data: Any, ledger: Ledger) -> Any:
    """Return JSON data with secrets and personal data struck out of every string, and count these strings."""
    secretless = redacted_data(data)
    ledger.struck["secrets"] += _differing(data, secretless)
    impersonal = _walked(secretless)
    ledger.struck["personal data"] += _differing(secretless, impersonal)
    return impersonal


def _walked(data: Any) -> Any:
    if isinstance(data, str):
        return without_personal(data)
    if isinstance(data, dict):
        return {_walked(name): _walked(value) for name, value in data.items()}
    return [_walked(value) for value in data] if isinstance(data, list) else data


def _differing(before: Any, after: Any) -> int:
    if before == after:
        return 0
    if isinstance(before, dict):
        pairs = list(zip(before.items(), after.items(), strict=False))
        return sum(_differing(list(old), list(new)) for old, new in pairs)
    if isinstance(before, list | tuple):
        return sum(_differing(old, new) for old, new in zip(before, after, strict=True))
    return 1
