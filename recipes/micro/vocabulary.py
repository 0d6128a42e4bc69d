"""The vocabulary of the micro model: byte-level BPE with pre-tokens suited to copying names and to arithmetic.

A model of this size mostly copies, so equal words must have equal tokens. The token of a capitalised word does not
include the leading space: an invented name has the same ids after a space, after a quote and at the start of a line.
Every digit is a token, so numbers align. Tokens of lower-case words include the space, which halves the length of
prose.
"""

from collections.abc import Iterable

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from agentflow.rl.micro.tokenizer import SPECIAL_TOKENS

PRE_TOKEN = "|".join(
    (
        r" ?\p{Ll}+",  # a lower-case word with its space
        r"\p{Lu}\p{Ll}+",  # a capitalised word without
        r"\p{Lu}+(?!\p{Ll})",  # an acronym, up to a capitalised word
        r"\p{N}",  # one digit
        r"\n+",
        r" +(?= \p{Ll})",  # spaces, leaving one to a lower-case word
        r" +",
        r"[^\S \n]+",  # other white space
        r"[\p{Lt}\p{Lm}\p{Lo}]+",  # scripts without case
        r"[^\s\p{L}\p{N}]+",  # punctuation, symbols, marks
    )
)


def train(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn `vocab_size` tokens from `texts`: the special tokens, all 256 bytes, and the most frequent merges.

    The vocabulary is smaller if the texts yield fewer merges. Any text can be encoded and decodes to itself. The result
    is deterministic. Raises ValueError if `vocab_size` is too small for the special tokens and all bytes.
    """
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    smallest = len(SPECIAL_TOKENS) + len(alphabet)
    if vocab_size < smallest:
        raise ValueError(f"vocab_size {vocab_size} is too small: the special tokens and all bytes take {smallest}")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PRE_TOKEN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[AddedToken(token, special=True, normalized=False) for token in SPECIAL_TOKENS],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer=trainer)
    return tokenizer
