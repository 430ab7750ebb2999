"""The true cause is one line among many."""

import pytest

from runner.supervisor.causes import explain, find_cause

NOISE = "\n".join(f"(APIServer pid=1)   File 'x.py', line {n}, in call" for n in range(100))


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("OSError: You are trying to access a gated repo. 401 Client Error", "gated_model"),
        (
            "ValueError: The model's max seq len (163840) is larger than the maximum number of"
            " tokens that can be stored in KV cache (13360)",
            "context_too_long",
        ),
        ("ValueError: num_speculative_tokens must be provided", "missing_draft_length"),
        ("AssertionError: vocab sizes of draft and target must match", "vocabulary_differs"),
        ("vllm serve: error: unrecognized arguments: --nope", "unknown_argument"),
        ("torch.OutOfMemoryError: HIP out of memory.", "out_of_memory"),
        ("RuntimeError: Failed to initialize NVML: Unknown Error", "lost_device"),
    ],
)
def test_known_lines(line, name):
    cause = find_cause(f"{NOISE}\n{line}\n{NOISE}")
    assert cause is not None
    assert cause.name == name
    assert cause.line == line


def test_first_in_time_order_wins():
    log = "unrecognized arguments: --x\nlater: out of memory\n"
    assert find_cause(log).name == "unknown_argument"


def test_unknown_cause_shows_the_last_lines():
    assert explain("a\n\nb\n") == "no known cause; last lines: a | b"
    assert explain("") == "it printed nothing"
