"""Cost of model calls, at the user's prices or as reported by the server. No prices are included, since they change."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from agentflow.graph.run.trace import Tokens, Usage
from agentflow.tools.coded_error import CodedError

MILLION = 1_000_000


class PriceError(CodedError, ValueError):
    """A price cannot be parsed; `str()` is one line with the expected format."""


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens: `read` for input, `written` for output."""

    read: float
    written: float

    @classmethod
    def parse(cls, text: str) -> tuple[str, "Price"]:
        """Parse `MODEL=READ/WRITTEN` and return the model and its price. Raises PriceError."""
        model, _, price = text.rpartition("=")
        match = re.fullmatch(r"(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)", price.strip())
        if not model.strip() or match is None:
            problem = "is no price; write MODEL=READ/WRITTEN, dollars for a million tokens, as in my-model=0.15/0.60"
            raise PriceError(f"'{text}' {problem}")
        return model.strip(), cls(float(match[1]), float(match[2]))

    def of(self, tokens: Tokens) -> float:
        """Return the cost of `tokens` in US dollars."""
        return (self.read * tokens.input_tokens + self.written * tokens.output_tokens) / MILLION


def cost(models: Mapping[str, Tokens], prices: Mapping[str, Price]) -> float | None:
    """Return the cost of `models` in US dollars: at the user's price, else as reported by the server.

    Return None if the cost of one of them is unknown.
    """
    costs = [prices[model].of(tokens) if model in prices else tokens.cost for model, tokens in models.items()]
    known = [each for each in costs if each is not None]
    return sum(known) if known and len(known) == len(costs) else None


@dataclass(frozen=True)
class Budget:
    """Limits of one run. They are checked between modules, so that the call that exceeds a limit is still made."""

    tokens: int | None = None
    """Most input and output tokens of all modules together."""
    dollars: float | None = None
    """Most dollars of all models whose price is known; other models count as free."""
    prices: Mapping[str, Price] = field(default_factory=dict)

    def exceeded(self, usage: Usage) -> str:
        """Return a sentence on the limit that `usage` exceeds; "" if none."""
        models = [(name, tokens) for found in usage.modules.values() for name, tokens in found.items()]
        taken = sum(tokens.input_tokens + tokens.output_tokens for _, tokens in models)
        if self.tokens is not None and taken > self.tokens:
            return f"the run took {taken:,} tokens, more than {self.tokens:,}"
        spent = sum(cost({name: tokens}, self.prices) or 0.0 for name, tokens in models)
        if self.dollars is not None and spent > self.dollars:
            return f"the run cost ${spent:.4f}, more than ${self.dollars:.4f}"
        return ""

    def unpriced(self, usage: Usage) -> list[str]:
        """Return the models in `usage` for which the limit of dollars does not hold, since their price is unknown."""
        if self.dollars is None:
            return []
        return [name for name, tokens in usage.models.items() if cost({name: tokens}, self.prices) is None]


UNLIMITED = Budget()
