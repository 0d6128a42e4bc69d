"""Initial weights that can copy: a previous-token head in the first layer, induction heads in the second.

Most of the micro model's output is copied from its prompt, above all names. A model of this size learns the circuit for
copying (Olsson et al. 2022, "In-context Learning and Induction Heads") only after millions of tokens. This module
writes the circuit into the initial weights and keeps it fixed while the rest of the model learns to use it. With it,
the untrained model repeats half of the random spans that occurred before.
"""

import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM

EMBEDDING_STD = 0.08
POSITION_SCORE = 30.0
"""Squared length of the previous-token head's position vector, per frequency; large enough to select one position."""
PREVIOUS_SCALE = 0.15
"""Scale of the preceding token's embedding in the output of the previous-token head."""
MATCH_SCORE = 12.0
"""Squared scale of queries and keys of the induction heads."""
COPY_SCALE = 1.2
"""Scale of a matched token's embedding in the output of the induction heads, which predicts it as the next token."""
FAST, SLOW = 0.03, 0.01
"""Rotary frequencies in radians per token: those above FAST encode position, those below SLOW are nearly independent of
it."""

Place = tuple[Tensor, tuple[slice, ...]]
"""A part of a parameter: rows, or all rows of some columns."""


class CopyingHeads:
    """Copying heads of a model, written into its initial weights."""

    @torch.no_grad()
    def __init__(self, model: Qwen2ForCausalLM, seed: int, look_back: int = 1) -> None:
        """Overwrite the embedding, heads of layer 0 and one head per key-value head of layer 1, in place.

        Args:
            model: The model.
            seed: Seed of the projections.
            look_back: Number of heads of layer 0 that read the token 1, 2, ... positions back; at most the number of
                key-value heads. The induction heads use the first.

        Raises ValueError if the model's configuration lacks rope_parameters or num_key_value_heads.
        """
        generator = torch.Generator().manual_seed(seed)
        config = model.config
        if config.rope_parameters is None or config.num_key_value_heads is None:
            raise ValueError("the model's configuration must give rope_parameters and num_key_value_heads")
        width = config.hidden_size // config.num_attention_heads
        group = config.num_attention_heads // config.num_key_value_heads
        turn = float(config.rope_parameters["rope_theta"] or 10_000.0)
        frequencies = torch.pow(turn, -torch.arange(width // 2) / (width // 2))

        def projection() -> Tensor:
            """Return a matrix [width, hidden] with orthonormal rows."""
            square: Tensor = torch.linalg.qr(torch.randn(config.hidden_size, width, generator=generator))[0]
            return square.T

        model.model.embed_tokens.weight.normal_(0, EMBEDDING_STD, generator=generator)
        identity, beside = projection(), projection()
        nothing = torch.zeros(width)

        # Layer 0: query and key are constant, and the key is rotated ahead by the distance, at which the score is
        # therefore highest; it depends on nothing else.
        previous, length = model.model.layers[0].self_attn, (frequencies > FAST) * POSITION_SCORE**0.5
        layout: list[tuple[Place, Tensor]] = []
        for distance in range(1, look_back + 1):
            query, key = _head((distance - 1) * group, width), _head(distance - 1, width)
            turned = distance * frequencies
            written = beside if distance == 1 else projection()
            layout += [
                ((previous.q_proj.weight, (query,)), torch.zeros(width, config.hidden_size)),
                ((previous.q_proj.bias, (query,)), torch.cat([length, torch.zeros_like(length)])),
                ((previous.k_proj.weight, (key,)), torch.zeros(width, config.hidden_size)),
                ((previous.k_proj.bias, (key,)), torch.cat([length * torch.cos(turned), length * torch.sin(turned)])),
                ((previous.v_proj.weight, (key,)), identity),
                ((previous.v_proj.bias, (key,)), nothing),
                ((previous.o_proj.weight, (slice(None), query)), PREVIOUS_SCALE * written.T),
            ]
        # Layer 1: a token attends to positions whose preceding token equals it, and reads the tokens there.
        induction = model.model.layers[1].self_attn
        unturned = (frequencies < SLOW).repeat(2)[:, None] * MATCH_SCORE**0.5
        for head in range(config.num_key_value_heads):
            query, key = _head(head * group, width), _head(head, width)
            read = projection()
            layout += [
                ((induction.q_proj.weight, (query,)), unturned * identity),
                ((induction.q_proj.bias, (query,)), nothing),
                ((induction.k_proj.weight, (key,)), unturned * beside),
                ((induction.k_proj.bias, (key,)), nothing),
                ((induction.v_proj.weight, (key,)), read),
                ((induction.v_proj.bias, (key,)), nothing),
                ((induction.o_proj.weight, (slice(None), query)), COPY_SCALE * read.T),
            ]
        self._layout = layout
        self.restore()

    @torch.no_grad()
    def restore(self) -> None:
        """Write the initial weights of the heads again."""
        for (parameter, place), value in self._layout:
            parameter[place] = value


def _head(number: int, width: int) -> slice:
    return slice(number * width, (number + 1) * width)
