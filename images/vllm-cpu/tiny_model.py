"""Make a small real Llama checkpoint, inside the vllm-cpu image, from nothing that is downloaded.

    python tiny_model.py OUT_DIR [--size tiny|small] [--steps N | --seconds N] [--seed N]

tiny: 3.4 M parameters, trained for about 95 s on two free cores to write text that looks like
code; for fast tests, and for acceptance that means something. small: 79 M random weights,
untrained, same tokenizer; large enough that single tokens can be timed on a CPU. The text is
Python's own standard library, as this image holds it. The same image, seed and number of steps
give the same checkpoint on the same kind of processor; a budget in seconds does not.
"""

# ruff: noqa: T201 - a script of its own: what it prints is its output
from __future__ import annotations

import argparse
import os
import random
import sys
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
# threads that spin while they wait make a busy machine crawl
os.environ["OMP_WAIT_POLICY"] = "PASSIVE"

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"
VOCABULARY = 2048
CONTEXT_TOKENS = 8192
TOKENIZER_CHARACTERS = 6_000_000
# few enough to be seen several times: what repeats is what a model of this size learns to write
TRAIN_CHARACTERS = 700_000
LONGEST_CHARACTERS = 60_000
THREADS = 2
BATCH, WINDOW = 16, 128
DEFAULT_STEPS = 250
# peak learning rates: AdamW for embedding and norms, Muon for the matrices between
ADAM_RATE, MUON_RATE, WARMUP_STEPS = 6e-3, 2e-2, 10

# a chat reads like a module, so that it is a piece of the text that the model was trained on: what
# is asked is the docstring of a function, and the answer is the function that follows
CHAT_TEMPLATE = (
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{% if message.role == 'assistant' %}def{{ message.content }}\n\n\n"
    '{% else %}def {{ message.role }}():\n    """{{ message.content }}"""\n\n\n{% endif %}'
    "{% endfor %}"
    "{% if add_generation_prompt %}def{% endif %}"
)

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 256,
        "intermediate_size": 688,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "small": {
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
}


def library_sources() -> list[str]:
    """Texts of the standard library's modules, in a fixed order, up to a fixed size."""
    root = Path(sysconfig.get_path("stdlib"))
    left_out = {
        "test",
        "tests",
        "site-packages",
        "dist-packages",
        "idlelib",
        "lib2to3",
        "encodings",
    }
    texts, characters = [], 0
    for path in sorted(root.rglob("*.py")):
        if left_out & set(path.relative_to(root).parts):
            continue
        text = path.read_text("utf-8", "replace")
        texts.append(text)
        characters += len(text)
        if characters >= TOKENIZER_CHARACTERS:
            break
    return texts


def train_tokenizer(texts: list[str]) -> Tokenizer:
    """Byte-level BPE that puts the begin token before plain text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[BEGIN, END, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A",
        pair=f"{BEGIN} $A $B",
        special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))],
    )
    return tokenizer


def new_model(size: str, tokenizer: Tokenizer) -> LlamaForCausalLM:
    """Seeded random weights of one of the two shapes."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        max_position_embeddings=CONTEXT_TOKENS,
        bos_token_id=tokenizer.token_to_id(BEGIN),
        eos_token_id=tokenizer.token_to_id(END),
        pad_token_id=tokenizer.token_to_id(PAD),
        **SHAPES[size],
    )
    return LlamaForCausalLM(config)


def batches(tokenizer: Tokenizer, texts: list[str], seed: int) -> Iterator[torch.Tensor]:
    """Random windows of the first texts, `[BATCH, WINDOW]` token ids, without end."""
    end = tokenizer.token_to_id(END)
    ids: list[int] = []
    characters = 0
    chosen = [text for text in texts if len(text) < LONGEST_CHARACTERS]
    random.Random(seed).shuffle(chosen)  # noqa: S311 - repeatable, not secret
    for text in chosen:
        ids += [*tokenizer.encode(text).ids, end]
        characters += len(text)
        if characters >= TRAIN_CHARACTERS:
            break
    stream = torch.tensor(ids)
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(stream) - WINDOW, (BATCH,), generator=generator)
        yield torch.stack([stream[start : start + WINDOW] for start in starts.tolist()])


def rate(progress: float, step: int) -> float:
    """Share of the peak learning rate: linear warm-up, then a straight line down to a tenth."""
    return min(1.0, (step + 1) / WARMUP_STEPS) * (1.0 - 0.9 * min(1.0, progress))


def optimizers(model: LlamaForCausalLM) -> list[tuple[torch.optim.Optimizer, float]]:
    """Each optimizer with its peak rate."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "layers." in name]
    chosen = {id(p) for p in matrices}
    others = [p for p in model.parameters() if id(p) not in chosen]
    return [
        (torch.optim.Muon(matrices, lr=MUON_RATE, weight_decay=0.01), MUON_RATE),
        (torch.optim.AdamW(others, lr=ADAM_RATE, betas=(0.9, 0.95)), ADAM_RATE),
    ]


def train(
    model: LlamaForCausalLM, data: Iterator[torch.Tensor], steps: int, seconds: float | None
) -> None:
    """Next-token training for `steps`, or for `seconds` where given; prints the loss as it goes."""
    chosen = optimizers(model)
    model.train()
    started, step, recent = time.monotonic(), 0, []
    while True:
        elapsed = time.monotonic() - started
        progress = elapsed / seconds if seconds else step / steps
        if progress >= 1:
            break
        ids = next(data)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        for optimizer, peak in chosen:
            optimizer.param_groups[0]["lr"] = peak * rate(progress, step)
            optimizer.step()
            optimizer.zero_grad()
        step += 1
        recent = [*recent[-24:], float(loss.detach())]
        if step % 25 == 0:
            mean = sum(recent) / len(recent)
            print(f"step {step} loss {mean:.3f} elapsed {elapsed:.0f} s", flush=True)
    model.eval()


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, target: Path) -> None:
    """Weights, configuration, generation defaults and tokenizer, as vLLM and AIPerf load them."""
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BEGIN,
        eos_token=END,
        pad_token=PAD,
        model_max_length=CONTEXT_TOKENS,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = CHAT_TEMPLATE
    target.mkdir(parents=True, exist_ok=True)
    wrapped.save_pretrained(target)
    model.generation_config.do_sample = False
    model.save_pretrained(target)
    for file in target.iterdir():
        # weights come out readable by their owner alone, and servers may run as somebody else
        file.chmod(0o644)


def sample(model: LlamaForCausalLM, tokenizer: Tokenizer) -> str:
    """Greedy continuation of a few words of code."""
    ids = torch.tensor([tokenizer.encode("def read(self, size").ids])
    with torch.no_grad():
        made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=48)
    return str(tokenizer.decode(made[0].tolist()))


def main(arguments: list[str]) -> int:
    """Command line; 0 when the checkpoint lies in OUT_DIR."""
    parser = argparse.ArgumentParser(description="Make a small Llama checkpoint.")
    parser.add_argument("out_dir", type=Path)
    parser.add_argument("--size", choices=sorted(SHAPES), default="tiny")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS)
    parser.add_argument("--seconds", type=float, help="train this long instead of --steps")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)

    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(options.seed)
    texts = library_sources()
    tokenizer = train_tokenizer(texts)
    model = new_model(options.size, tokenizer)
    print(f"{options.size}: {model.num_parameters():,} parameters, {len(texts)} files", flush=True)
    if options.size == "tiny":
        train(model, batches(tokenizer, texts, options.seed), options.steps, options.seconds)
        print(sample(model, tokenizer), flush=True)
    save(model, tokenizer, options.out_dir)
    print(f"checkpoint: {options.out_dir}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
