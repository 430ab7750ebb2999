"""The command line of one AIPerf run: one prompt set, one concurrency, one repeat."""

from __future__ import annotations

import json

from runner.models.job import LoadSettings, Sampling

DEFAULT_ENTRYPOINT = ("aiperf",)
MULTI_TURN = "multi_turn"
INPUTS = "/inputs"
EXPORTS = "/out"

# With either set to anything, even "0", AIPerf takes a tokenizer's path for a hub name and fails.
OFFLINE_SWITCHES = frozenset({"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"})


def extra_inputs(sampling: Sampling, output_tokens: int, ignore_eos: bool | None = None) -> str:
    """What every request body carries, as compact JSON with sorted keys.

    The cap on the answer stands here because it holds for every row format; where rows carry
    `output_length` as well, AIPerf lets this value win.
    """
    values: dict[str, object] = {
        "ignore_eos": sampling.ignore_eos if ignore_eos is None else ignore_eos,
        "max_completion_tokens": output_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
    }
    if sampling.seed is not None:
        values["seed"] = sampling.seed
    if sampling.thinking is not None:
        values["chat_template_kwargs"] = {"enable_thinking": sampling.thinking}
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def load_arguments(
    *,
    model: str,
    url: str,
    tokenizer: str,
    tokenizer_revision: str | None = None,
    prompts: str,
    aiperf_format: str,
    output_tokens: int,
    requests: int,
    conversations: int,
    concurrency: int,
    sampling: Sampling,
    load: LoadSettings,
    ignore_eos: bool | None = None,
    duration_s: float | None = None,
) -> tuple[str, ...]:
    """What follows `aiperf`.

    Args:
        model: the served name.
        url: where the server listens on the run's network.
        tokenizer: a folder, at the same path inside the container, or a name on a hub.
        tokenizer_revision: of the hub's name.
        prompts: name of the prompt set; its rows are mounted under `INPUTS`.
        requests: turns of all rows; always passed, since AIPerf's default wraps short files.
        conversations: rows; passed where they have several turns. With a count of requests alone
            AIPerf begins the file anew when a conversation ends while others still have a turn to
            come, and some last turns are never sent.
        ignore_eos: of this prompt set; None leaves it to the sampling.
        duration_s: no request is sent after that time; rows that are left are not measured. What
            comes first ends the load, the time or the count.
    """
    return (
        "profile",
        *("--model", model, "--url", url),
        *("--endpoint-type", "chat", "--streaming"),
        *("--tokenizer", tokenizer),
        *(("--tokenizer-revision", tokenizer_revision) if tokenizer_revision else ()),
        "--use-server-token-count",
        "--per-chunk-usage",
        *_rows(prompts, aiperf_format),
        *("--request-count", str(requests)),
        *(("--num-sessions", str(conversations)) if aiperf_format == MULTI_TURN else ()),
        *_time_limit(duration_s, load),
        *("--concurrency", str(concurrency)),
        *("--random-seed", str(load.random_seed)),
        *("--extra-inputs", extra_inputs(sampling, output_tokens, ignore_eos)),
        *("--request-timeout-seconds", _number(load.request_timeout_s)),
        *("--export-level", "records", "--export-outputs-json", "--artifact-dir", EXPORTS),
        *("--ui", "none", "--no-gpu-telemetry"),
        *("--workers-max", str(load.workers)),
        *("--record-processors", "1"),
    )


def _rows(prompts: str, aiperf_format: str) -> tuple[str, ...]:
    return (
        *("--input-file", f"{INPUTS}/{prompts}.jsonl"),
        *("--custom-dataset-type", aiperf_format),
        # A trace without this flag replays its timestamps instead of holding a concurrency.
        *(("--no-fixed-schedule",) if aiperf_format == "mooncake_trace" else ()),
        *("--dataset-sampling-strategy", "sequential"),
    )


def _time_limit(duration_s: float | None, load: LoadSettings) -> tuple[str, ...]:
    """Requests under way when the time is over get as long as any request.

    AIPerf drops what its grace period (30 s of its own) cuts off, without a record: the longest
    answers would be missing, and acceptance and speed be those of the short ones.
    """
    if duration_s is None:
        return ()
    return (
        *("--benchmark-duration", _number(duration_s)),
        *("--benchmark-grace-period", _number(load.request_timeout_s)),
    )


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
