"""`generate` of transformers, with a compiled forward."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

if __name__ == "__main__":
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
    model = LlamaForCausalLM(config).eval()
    model.generation_config.pad_token_id = 0
    prompt = torch.tensor([[3, 1, 4, 1, 5]])
    expected = model.generate(prompt, max_new_tokens=8, do_sample=False)
    model.forward = torch.compile(model.forward, backend="eager")
    found = model.generate(prompt, max_new_tokens=8, do_sample=False)
    print(found.tolist(), torch.equal(found, expected))
    static = model.generate(
        prompt, max_new_tokens=8, do_sample=False, cache_implementation="static"
    )
    print(torch.equal(static, expected))
