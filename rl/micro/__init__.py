"""The embedded micro model: a small Qwen2-architecture language model of this project's own, run on numpy alone.

`tokenizer` turns text into ids, `model` computes logits, `engine` serves many requests at once, and `chat_model` is
the LangChain chat model over it. None of them needs torch; only training does.
"""
