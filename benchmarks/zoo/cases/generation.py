"""Language models that generate with a key-value cache, one compiled call per step."""

from collections.abc import Callable
from typing import Any, Final

import torch

from benchmarks.zoo.case import Case, Entry, ids, library
from benchmarks.zoo.cases.shared import LLM

STEPS: Final = 4


def llama_static_cache() -> Case:
    config = library("transformers", "LlamaConfig")(**LLM)
    model = library("transformers", "LlamaForCausalLM")(config)
    cache = library("transformers", "StaticCache")(config=config, max_cache_len=32)

    def drive(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outputs = []
        (tokens,) = args
        with torch.no_grad():
            begin = 0
            for _ in range(STEPS):
                places = torch.arange(begin, begin + tokens.shape[1])
                output = fn(
                    input_ids=tokens,
                    past_key_values=cache,
                    cache_position=places,
                    position_ids=torch.arange(begin, begin + tokens.shape[1]).unsqueeze(0),
                    use_cache=True,
                )
                begin += tokens.shape[1]
                tokens = output.logits[:, -1:].argmax(-1)
                outputs += [output.logits, tokens]
        return outputs

    return Case(model, (ids(1, 5),), {}, drive)


def gpt2_dynamic_cache() -> Case:
    config = library("transformers", "GPT2Config")(
        vocab_size=99,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = library("transformers", "GPT2LMHeadModel")(config)

    def drive(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        outputs = []
        (tokens,), cache = args, None
        with torch.no_grad():
            for _ in range(STEPS):
                output = fn(input_ids=tokens, past_key_values=cache, use_cache=True)
                cache = output.past_key_values
                tokens = output.logits[:, -1:].argmax(-1)
                outputs += [output.logits, tokens]
        return outputs

    return Case(model, (ids(1, 5),), {}, drive)


ENTRIES: Final[tuple[Entry, ...]] = (
    Entry("LlamaForCausalLM:static_cache_decode", "hf-decode", "clean", llama_static_cache),
    Entry("GPT2LMHeadModel:dynamic_cache_decode", "hf-decode", "clean", gpt2_dynamic_cache),
)
