#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a small GPT-2 as Hugging Face saves it, and what it says; or checks that it is up to date.

    python3 gpt2_checkpoint.py          # writes gpt2_checkpoint, gpt2_hub and gpt2_logits.safetensors
    python3 gpt2_checkpoint.py check    # Hugging Face reads the first, and must say what the last has

The committed files were written by torch 2.15.0, numpy 2.4.6 and transformers 5.23.0 (PyPI, CPU).
V = 65 tokens, T = 16, C = 32, 4 heads, 2 layers, LayerNorm's eps 1e-5. All parameters are float.

gpt2_checkpoint is GPT2LMHeadModel.save_pretrained()'s own file, names in the order of the alphabet:
    transformer.wte.weight (V, C), transformer.wpe.weight (T, C), transformer.ln_f.weight and .bias (C), and of
    each block transformer.h.0., transformer.h.1.
    ln_1.weight, ln_1.bias, ln_2.weight, ln_2.bias      (C)
    attn.c_attn.weight (C, 3C)      attn.c_attn.bias (3C)       columns: queries, keys, values, each all heads
    attn.c_proj.weight (C, C)       attn.c_proj.bias (C)
    mlp.c_fc.weight    (C, 4C)      mlp.c_fc.bias    (4C)
    mlp.c_proj.weight  (4C, C)      mlp.c_proj.bias  (C)
These four weights are of Conv1D, (in, out): whoever has Linear weights of (out, in), as PyTorch and nanoGPT,
transposes each of them and nothing else. attn.c_proj.weight is square: its shape does not tell. There is no
lm_head.weight: it is transformer.wte.weight, which a reader must also accept where a file repeats it.

gpt2_hub is the same model as the files of the four published sizes are: the names have no "transformer.", and
each block has a buffer attn.bias (1, 1, T, T), the mask of causal attention, which is no parameter: a reader
skips it, and attn.masked_bias of still older files.

gpt2_logits has, in double but for the prompt, of these parameters in double:
    prompt      (int32, 2 x 12)
    logits      (2, 12, V), with GPT-2's own GELU, the approximation by tanh ("gelu_new")
    logits.erf  (2, 12, V), with the exact GELU, as nanoGPT has it: it differs
"""

import pathlib
import sys
import tempfile

import numpy as np
import torch
import transformers

from gpt_network import Gpt, forward
from networks import DATA, read_safetensors, write_safetensors

TRANSPOSED = ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
GPT = Gpt(mlps=("gelu_tanh", "gelu_tanh"))


def model_of(path=None):
    """With random parameters none of which is at its default, or with those of a file."""
    config = transformers.GPT2Config(vocab_size=GPT.vocabulary, n_positions=GPT.time, n_embd=GPT.channels,
                                     n_layer=len(GPT.mlps), n_head=GPT.heads, bos_token_id=None,
                                     eos_token_id=None)
    model = transformers.GPT2LMHeadModel(config).eval()
    if path:
        arrays, _ = read_safetensors(path)
        values = {name: torch.tensor(array) for name, array in arrays.items()}
    else:
        values = GPT.initial(torch.Generator().manual_seed(6))
        for name in values:
            if name.endswith(TRANSPOSED):
                values[name] = values[name].T.contiguous()
    lacking, unknown = model.load_state_dict(values, strict=False)
    assert lacking == ["lm_head.weight"] and not unknown, (lacking, unknown)
    model.tie_weights()
    return model


def logits_of(model):
    prompt = torch.randint(GPT.vocabulary, (2, 12), generator=torch.Generator().manual_seed(7))
    model = model.double()
    file = {"prompt": prompt.numpy().astype(np.int32)}
    p = {name: (value.T if name.endswith(TRANSPOSED) else value)
         for name, value in model.state_dict().items()}
    with torch.no_grad():
        file["logits"] = model(prompt).logits.numpy()
        file["logits.erf"] = forward(Gpt(), p, prompt, torch.tensor([12, 12]))[1].numpy()
        own = forward(GPT, p, prompt, torch.tensor([12, 12]))[1].numpy()
    difference = np.max(np.abs(own - file["logits"]))
    print(f"logits of {np.abs(file['logits']).max():.1f} at most; gpt_network.py differs by {difference:.0e}, "
          f"the exact GELU by {np.max(np.abs(file['logits.erf'] - file['logits'])):.0e}")
    assert difference < 1e-12
    return file


def main():
    torch.set_num_threads(1)
    saved, hub, said = (DATA / f"gpt2_{name}.safetensors" for name in ("checkpoint", "hub", "logits"))
    if sys.argv[1:2] == ["check"]:
        committed, _ = read_safetensors(said)
        for name, value in logits_of(model_of(saved)).items():
            assert np.max(np.abs(committed[name] - value)) < 1e-12, name
        return
    model = model_of()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        saved.write_bytes((pathlib.Path(folder) / "model.safetensors").read_bytes())
    arrays, metadata = read_safetensors(saved)
    mask = np.tril(np.ones((1, 1, GPT.time, GPT.time), np.float32))
    published = {name.removeprefix("transformer."): value for name, value in arrays.items()}
    published |= {f"h.{i}.attn.bias": mask for i in range(len(GPT.mlps))}
    write_safetensors(hub, dict(sorted(published.items())), metadata)
    write_safetensors(said, logits_of(model), {"torch": torch.__version__, "numpy": np.__version__,
                                               "transformers": transformers.__version__})


if __name__ == "__main__":
    main()
