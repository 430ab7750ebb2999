"""Make a small EAGLE3 drafter for a small Llama, in the format of the speculators library.

    python tiny_eagle3.py VERIFIER_DIR OUT_DIR [--untrained] [--steps N] [--seed N]
                          [--draft-tokens K] [--verifier-name NAME]

One Llama layer over the verifier's hidden states. Trained, it learns to say what the verifier
itself would say next, on the verifier's own answers to pieces of Python's standard library, put to
it as a chat: two to four minutes on two cores. Untrained, its weights are random and no
draft of it is ever accepted; with the trained one, that makes two known answers for tests. The
verifier is written into the configuration under its own path, or under --verifier-name.
"""

# ruff: noqa: T201 - a script of its own: what it prints is its output
from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

import tiny_model
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

DEFAULT_STEPS = 300
BATCH = 10
HELD_OUT = 16
# prompts of these lengths, so many of each, and answers of this length: as long as what is measured
PROMPT_TOKENS, PROMPTS, ANSWER_TOKENS = (32, 64, 128, 224), 256, 64
RATE, WARMUP_STEPS = 2e-3, 20
# a second step on its own hidden states, as when it drafts: it counts a little less
UNROLLED, LATER_WEIGHT = 2, 0.8


class RmsNorm(nn.Module):
    """Root mean square norm, as Llama has it."""

    def __init__(self, size: int, epsilon: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.epsilon = epsilon

    def forward(self, x: Tensor) -> Tensor:
        """`x` with its last axis scaled to a root mean square of 1, times the weight."""
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * x * scale


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; the input is twice as wide as the output."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        size, heads, groups = (
            config.hidden_size,
            config.num_attention_heads,
            config.num_key_value_heads,
        )
        self.heads, self.groups, self.width = heads, groups, size // heads
        self.q_proj = nn.Linear(2 * size, heads * self.width, bias=False)
        self.k_proj = nn.Linear(2 * size, groups * self.width, bias=False)
        self.v_proj = nn.Linear(2 * size, groups * self.width, bias=False)
        self.o_proj = nn.Linear(heads * self.width, size, bias=False)
        self.base = rope_base(config)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, length, 2 x hidden]` -> `[batch, length, hidden]`, each position over those
        before it."""
        batch, length, _ = x.shape

        def split(y: Tensor, heads: int) -> Tensor:
            return y.view(batch, length, heads, self.width).transpose(1, 2)

        q = self.turn(split(self.q_proj(x), self.heads))
        k = self.turn(split(self.k_proj(x), self.groups))
        v = split(self.v_proj(x), self.groups)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(seen.transpose(1, 2).reshape(batch, length, -1))

    def turn(self, x: Tensor) -> Tensor:
        """Rotary position embedding over the last axis, halves against each other."""
        half = self.width // 2
        rates = self.base ** (-torch.arange(half, dtype=torch.float32) / half)
        angles = torch.arange(x.shape[2], dtype=torch.float32)[:, None] * rates
        cosine, sine = angles.cos(), angles.sin()
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class Mlp(nn.Module):
    """Gated feed-forward layer."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        size, inner = config.hidden_size, config.intermediate_size
        self.gate_proj = nn.Linear(size, inner, bias=False)
        self.up_proj = nn.Linear(size, inner, bias=False)
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """`[…, hidden]` -> `[…, hidden]`."""
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """The drafter's one layer; its names are those that vLLM loads."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = RmsNorm(size, epsilon)
        self.hidden_norm = RmsNorm(size, epsilon)
        self.post_attention_layernorm = RmsNorm(size, epsilon)
        self.self_attn = Attention(config)
        self.mlp = Mlp(config)

    def forward(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """Hidden states before the last norm, `[batch, length, hidden]`."""
        hidden = self.hidden_norm(hidden)
        both = torch.cat([self.input_layernorm(embedded), hidden], dim=-1)
        residual = hidden + self.self_attn(both)
        return residual + self.mlp(self.post_attention_layernorm(residual))


class Drafter(nn.Module):
    """EAGLE3: three hidden states of the verifier and the next token's embedding in, drafts out."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        size = config.hidden_size
        self.fc = nn.Linear(3 * size, size, bias=False)
        self.layers = nn.ModuleList([Layer(config)])
        self.norm = RmsNorm(size, config.rms_norm_eps)
        self.lm_head = nn.Linear(size, config.vocab_size, bias=False)

    def step(self, embedded: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of one draft for each position, and the hidden states for the next draft."""
        after = self.layers[0](embedded, hidden)
        return self.lm_head(self.norm(after)), after


def rope_base(config: LlamaConfig) -> float:
    """The base of the rotary rates, wherever this version of the configuration keeps it."""
    parameters = getattr(config, "rope_parameters", None) or {}
    return float(parameters.get("rope_theta") or getattr(config, "rope_theta", None) or 10000.0)


def auxiliary_layers(config: LlamaConfig) -> list[int]:
    """After how many layers the verifier's hidden states are taken: early, middle, late."""
    depth = config.num_hidden_layers
    return sorted({1, max(1, depth // 2), max(1, depth - 1)}) if depth >= 4 else [1] * 3


def own_answers(verifier: LlamaForCausalLM, tokenizer: Tokenizer, seed: int) -> list[Tensor]:
    """Chats that the verifier has answered greedily: one `[PROMPTS, length]` of ids for each
    length of prompt."""
    chosen = random.Random(seed)  # noqa: S311 - repeatable, not secret
    texts = [text for text in tiny_model.library_sources() if len(text) > 4000]
    # as the verifier's chat template writes a question and the beginning of its answer
    before, after = 'def user():\n    """', '"""\n\n\ndef'
    start = tokenizer.encode(before).ids
    end = tokenizer.encode(after, add_special_tokens=False).ids
    stop = tokenizer.token_to_id(tiny_model.END)
    made = []
    for length in PROMPT_TOKENS:
        prompts = []
        while len(prompts) < PROMPTS:
            text = chosen.choice(texts)
            at = chosen.randrange(len(text) - 3000)
            piece = tokenizer.encode(text[at : at + 2000], add_special_tokens=False).ids
            inner = piece[: length - len(start) - len(end)]
            if len(inner) == length - len(start) - len(end):
                prompts.append([*start, *inner, *end])
        ids = torch.tensor(prompts)
        with torch.no_grad():
            made.append(
                verifier.generate(
                    ids,
                    attention_mask=torch.ones_like(ids),
                    min_new_tokens=ANSWER_TOKENS,
                    max_new_tokens=ANSWER_TOKENS,
                    do_sample=False,
                    pad_token_id=stop,
                )
            )
    return made


def train(
    drafter: Drafter, verifier: LlamaForCausalLM, tokenizer: Tokenizer, steps: int, seed: int
) -> None:
    """Teach the drafter the verifier's own next tokens; prints loss and agreement as it goes."""
    answers = own_answers(verifier, tokenizer, seed)
    windows = tiny_model.batches(tokenizer, tiny_model.library_sources(), seed)
    print(f"{sum(len(group) for group in answers)} answers of the verifier", flush=True)
    chosen = random.Random(seed + 1)  # noqa: S311 - repeatable, not secret
    optimizer = torch.optim.AdamW(drafter.parameters(), lr=RATE, betas=(0.9, 0.95))
    layers = auxiliary_layers(verifier.config)
    started = time.monotonic()
    for step in range(steps):
        # by turns what the verifier answers and what it was trained on: few answers are soon learnt
        # by heart
        group = answers[step // 2 % len(answers)][HELD_OUT:]
        ids = (
            group[torch.tensor(chosen.sample(range(len(group)), BATCH))]
            if step % 2
            else next(windows)
        )
        loss, agreed = loss_of(drafter, verifier, layers, ids)
        for parameters in optimizer.param_groups:
            parameters["lr"] = RATE * tiny_model.rate(step / steps, step * tiny_model.WARMUP_STEPS
                                                 // WARMUP_STEPS)  # fmt: skip
        loss.backward()
        nn.utils.clip_grad_norm_(drafter.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 50 == 49:
            elapsed = time.monotonic() - started
            held = agreement(drafter, verifier, layers, [group[:HELD_OUT] for group in answers])
            print(
                f"step {step + 1} loss {loss.item():.3f} agreement {agreed:.2f}, on answers held "
                f"out {held:.2f}, elapsed {elapsed:.0f} s",
                flush=True,
            )


def agreement(
    drafter: Drafter, verifier: LlamaForCausalLM, layers: list[int], groups: list[Tensor]
) -> float:
    """Share of the answers' tokens, held out from training, that a first draft would get right."""
    right = total = 0.0
    with torch.no_grad():
        for ids in groups:
            told = verifier(input_ids=ids, output_hidden_states=True)
            embedded = verifier.get_input_embeddings()(ids)
            features = torch.cat([told.hidden_states[layer] for layer in layers], dim=-1)
            logits, _ = drafter.step(embedded[:, 1:], drafter.fc(features)[:, :-1])
            same = logits.argmax(-1) == told.logits.argmax(-1)[:, 1:]
            answers = same[:, -ANSWER_TOKENS:].float()
            right, total = right + answers.sum().item(), total + answers.numel()
    return right / total


def loss_of(
    drafter: Drafter, verifier: LlamaForCausalLM, layers: list[int], ids: Tensor
) -> tuple[Tensor, float]:
    """Cross entropy against the verifier's choice over the unrolled steps, and the share of first
    drafts that the verifier would have accepted."""
    with torch.no_grad():
        told = verifier(input_ids=ids, output_hidden_states=True)
        choice = told.logits.argmax(-1)
        embedded = verifier.get_input_embeddings()(ids)
        features = torch.cat([told.hidden_states[layer] for layer in layers], dim=-1)
    # at position t: the verifier's states of token t and the embedding of token t + 1; the draft is
    # what the verifier chooses after t + 1
    hidden, following, target = drafter.fc(features)[:, :-1], embedded[:, 1:], choice[:, 1:]
    total, agreed = torch.zeros(()), 0.0
    for unrolled in range(UNROLLED):
        logits, after = drafter.step(following, hidden)
        loss = functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        total = total + LATER_WEIGHT**unrolled * loss
        if unrolled == 0:
            agreed = (logits.argmax(-1) == target).float().mean().item()
        # the next draft stands one token further on, upon this one's hidden state
        hidden, following, target = after[:, :-1], following[:, 1:], target[:, 1:]
    return total, agreed


def configuration(config: LlamaConfig, verifier: str, draft_tokens: int) -> dict[str, object]:
    """`config.json` as the speculators library writes it."""
    layer = {
        key: value
        for key, value in config.to_dict().items()
        if key not in ("architectures", "transformers_version", "_name_or_path", "dtype")
    }
    layer |= {"model_type": "llama", "num_hidden_layers": 1, "tie_word_embeddings": False}
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "draft_vocab_size": config.vocab_size,
        "target_hidden_size": None,
        "norm_before_residual": True,
        "eagle_aux_hidden_state_layer_ids": auxiliary_layers(config),
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "transformer_layer_config": layer,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "proposal_methods": [
                {
                    "proposal_type": "greedy",
                    "speculative_tokens": draft_tokens,
                    "verifier_accept_k": 1,
                    "accept_tolerance": 0.0,
                }
            ],
            "verifier": {"name_or_path": verifier, "architectures": ["LlamaForCausalLM"]},
        },
    }


def save(drafter: Drafter, config: dict[str, object], target: Path) -> None:
    """Weights and configuration, readable by everybody."""
    target.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous() for name, value in drafter.state_dict().items()}
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    (target / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for file in target.iterdir():
        file.chmod(0o644)


def main(arguments: list[str]) -> int:
    """Command line; 0 when the drafter lies in OUT_DIR."""
    parser = argparse.ArgumentParser(description="Make a small EAGLE3 drafter.")
    parser.add_argument("verifier_dir", type=Path)
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--untrained", action="store_true", help="random weights")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draft-tokens", type=int, default=3)
    parser.add_argument("--verifier-name", help="how the configuration names the verifier")
    options = parser.parse_args(arguments)

    torch.set_num_threads(tiny_model.THREADS)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(options.seed)
    verifier = LlamaForCausalLM.from_pretrained(options.verifier_dir, dtype=torch.float32).eval()
    tokenizer = Tokenizer.from_file(str(options.verifier_dir / "tokenizer.json"))
    drafter = Drafter(verifier.config)
    count = sum(parameter.numel() for parameter in drafter.parameters())
    print(f"drafter: {count:,} parameters", flush=True)
    if not options.untrained:
        train(drafter, verifier, tokenizer, options.steps, options.seed)
    name = options.verifier_name or str(options.verifier_dir)
    save(drafter, configuration(verifier.config, name, options.draft_tokens), options.out_dir)
    print(f"checkpoint: {options.out_dir}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
