"""Initial weights that can copy: a previous-token head in the first layer, induction heads in the second.

Most of what the micro model writes is copied from its prompt, names above all. A model of this size finds the circuit
for that (Olsson et al. 2022, "In-context Learning and Induction Heads") only after millions of tokens. Here it is laid
out in the initial weights, from which everything is trained as usual: untrained, the model repeats half of the random
spans that it has seen before.
"""

import torch
from torch import Tensor
from transformers import Qwen2ForCausalLM

EMBEDDING_STD = 0.08
POSITION_SCORE = 30.0
"""Squared length of the previous-token head's position vector, per frequency: sharp enough to pick one position."""
PREVIOUS_SCALE = 0.15
"""How strongly a token's predecessor is written beside it."""
MATCH_SCORE = 12.0
"""Squared scale of queries and keys of the induction heads."""
COPY_SCALE = 1.2
"""How strongly a found token is written to be said next."""
FAST, SLOW = 0.03, 0.01
"""Rotary frequencies, in radians a token, above which position is told, and below which it hardly matters."""


@torch.no_grad()
def lay_out_copying(model: Qwen2ForCausalLM, seed: int) -> None:
    """Overwrites the embedding, one head of layer 0 and one head per key-value head of layer 1, in place."""
    generator = torch.Generator().manual_seed(seed)
    config = model.config
    width = config.hidden_size // config.num_attention_heads
    group = config.num_attention_heads // config.num_key_value_heads
    frequencies = config.rope_parameters["rope_theta"] ** (-torch.arange(width // 2) / (width // 2))

    def projection() -> Tensor:
        """(width, hidden) with orthonormal rows."""
        return torch.linalg.qr(torch.randn(config.hidden_size, width, generator=generator))[0].T

    model.model.embed_tokens.weight.normal_(0, EMBEDDING_STD, generator=generator)
    identity, beside = projection(), projection()

    # Layer 0: query and key are constant, and the key is turned one token ahead, so that the score depends on the
    # distance alone and is highest at one.
    previous = model.model.layers[0].self_attn
    length = (frequencies > FAST) * POSITION_SCORE**0.5
    previous.q_proj.weight[:width] = 0
    previous.k_proj.weight[:width] = 0
    previous.q_proj.bias[:width] = torch.cat([length, torch.zeros_like(length)])
    previous.k_proj.bias[:width] = torch.cat([length * torch.cos(frequencies), length * torch.sin(frequencies)])
    previous.v_proj.weight[:width] = identity
    previous.o_proj.weight[:, :width] = PREVIOUS_SCALE * beside.T

    # Layer 1: a token looks for places whose predecessor it is, and reads what stands there.
    induction = model.model.layers[1].self_attn
    unturned = (frequencies < SLOW).repeat(2)[:, None] * MATCH_SCORE**0.5
    for head in range(config.num_key_value_heads):
        query = slice(head * group * width, head * group * width + width)
        key = slice(head * width, (head + 1) * width)
        read = projection()
        induction.q_proj.weight[query] = unturned * identity
        induction.k_proj.weight[key] = unturned * beside
        induction.v_proj.weight[key] = read
        induction.o_proj.weight[:, query] = COPY_SCALE * read.T
