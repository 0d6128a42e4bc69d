"""The embedded micro model: a small language model with Qwen2 architecture that runs on numpy alone.

`tokenizer` converts text to ids, `model` computes logits, `engine` batches concurrent requests, and `chat_model` is the
LangChain chat model. None of them needs torch; only training does.
"""
