"""What is a secret, and where its value comes from."""

from __future__ import annotations

import pytest

from runner.errors import UsageError
from runner.plan.secret_names import is_secret, secret_values, split_environment


@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("HF_TOKEN", "hf_x", True),
        ("hf_token", "hf_x", True),
        ("WANDB_API_KEY", "x", True),
        ("AWS_SECRET_ACCESS_KEY", "x", True),
        ("DB_PASSWORD", "x", True),
        ("CLIENT_SECRETS_FILE", "x", True),
        ("PLAIN", "${HF_TOKEN}", True),
        ("PLAIN", "a${X}b", True),
        ("HF_TOKEN_READ", "hf_x", True),
        ("DB_PASSWORD", "1234", True),
        ("PREFILL_TOKEN_THRESHOLD", "2048", False),
        ("STEP_TOKEN_DELAY_MS", "0.5", False),
        ("KV_KEY_SCALES", "true", False),
        ("PLAIN", "$HOME", False),
        ("TOKENIZERS_PARALLELISM", "false", False),
        ("VLLM_CPU_KVCACHE_SPACE", "1", False),
        ("OMP_NUM_THREADS", "4", False),
    ],
)
def test_is_secret(name: str, value: str, secret: bool) -> None:
    assert is_secret(name, value) is secret


def test_split() -> None:
    assert split_environment({"B": "2", "A": "1", "HF_TOKEN": "x", "C": "3"}, ["C", "D"]) == (
        {"A": "1", "B": "2"},
        ("C", "D", "HF_TOKEN"),
    )


def test_values_from_files_references_and_the_callers_environment() -> None:
    values = secret_values(
        ("HF_TOKEN", "URL", "OWN", "LITERAL"),
        [{"HF_TOKEN": "old", "LITERAL": "as is"}, {"HF_TOKEN": "${MY_HF}", "URL": "a-${U}-b"}],
        {"MY_HF": "hf_1", "U": "u", "OWN": "o"},
    )
    assert values == {"HF_TOKEN": "hf_1", "URL": "a-u-b", "OWN": "o", "LITERAL": "as is"}


@pytest.mark.parametrize("environ", [{}, {"MY_HF": ""}, {"MY_HF": "  "}])
def test_blank_is_not_a_value(environ: dict[str, str]) -> None:
    with pytest.raises(UsageError) as caught:
        secret_values(["HF_TOKEN"], [{"HF_TOKEN": "${MY_HF}"}], environ)
    assert caught.value.what == (
        "secret 'HF_TOKEN' needs the environment variable MY_HF, which is not set"
    )
