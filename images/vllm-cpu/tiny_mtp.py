"""Make a checkpoint whose configuration names a native MTP head that its weights do not have.

    python tiny_mtp.py LLAMA_DIR OUT_DIR

The small Llama becomes a MiMo, which differs from it by biases that are zero here: it serves, and
writes the same text. Its configuration says that it has one layer for multi-token prediction, as
re-uploads of quantised models often do when that layer was dropped: a server that is asked to
draft with it refuses to start, and says why.
"""

# ruff: noqa: T201 - a script of its own: what it prints is its output
from __future__ import annotations

import argparse
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

DROPPED = ("config.json", "model.safetensors", "generation_config.json")
KEPT = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "max_position_embeddings",
    "rms_norm_eps",
    "rope_theta",
    "rope_parameters",
    "tie_word_embeddings",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "dtype",
    "torch_dtype",
)


def with_biases(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same weights, and a zero bias beside each projection into attention."""
    more = {
        name.replace(".weight", ".bias"): torch.zeros(value.shape[0], dtype=value.dtype)
        for name, value in weights.items()
        if name.endswith(("q_proj.weight", "k_proj.weight", "v_proj.weight"))
    }
    return {**weights, **more}


def main(arguments: list[str]) -> int:
    """Command line; 0 when the checkpoint lies in OUT_DIR."""
    parser = argparse.ArgumentParser(description="Make a checkpoint that claims an MTP head.")
    parser.add_argument("llama_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    options = parser.parse_args(arguments)

    config = json.loads((options.llama_dir / "config.json").read_text(encoding="utf-8"))
    kept = {key: config[key] for key in KEPT if key in config}
    mimo = {
        **kept,
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        "num_nextn_predict_layers": 1,
    }
    options.out_dir.mkdir(parents=True, exist_ok=True)
    for file in options.llama_dir.iterdir():
        if file.is_file() and file.name not in DROPPED:
            shutil.copyfile(file, options.out_dir / file.name)
    weights = with_biases(load_file(options.llama_dir / "model.safetensors"))
    save_file(weights, options.out_dir / "model.safetensors", metadata={"format": "pt"})
    text = json.dumps(mimo, indent=2) + "\n"
    (options.out_dir / "config.json").write_text(text, encoding="utf-8")
    for file in options.out_dir.iterdir():
        file.chmod(0o644)
    print(f"checkpoint: {options.out_dir}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
