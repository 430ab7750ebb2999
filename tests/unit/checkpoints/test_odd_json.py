"""Reading never raises, whatever a config.json holds."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.checkpoints.families import DETAIL_KEYS, FAMILIES
from runner.checkpoints.mtp import MTP_ROWS
from runner.checkpoints.read import read_drafter, read_verifier
from runner.models.checkpoint import DrafterReading, VerifierReading
from tests.unit.checkpoints.samples import DATA, checkpoint, config_of

NAMES = sorted(
    {name for row in MTP_ROWS for name in (*row.model_types, *row.architectures)}
    | {pattern.replace("*", "X") for each in FAMILIES for pattern in each.architectures}
    | {"eagle3", "peagle", "dflash", "dspark", "llama", "LlamaForCausalLM", "yarn", "linear"}
)
KEYS = sorted(
    {
        *DETAIL_KEYS,
        *[
            "architectures",
            "model_type",
            "text_config",
            "model",
            "vocab_size",
            "hidden_size",
            "dtype",
            "torch_dtype",
            "max_position_embeddings",
            "model_max_length",
            "rope_scaling",
            "rope_parameters",
            "factor",
            "rope_type",
            "type",
            "speculators_config",
            "speculators_model_type",
            "transformer_layer_config",
            "verifier",
            "name_or_path",
            "proposal_methods",
            "speculative_tokens",
            "num_nextn_predict_layers",
            "mtp_config",
            "mtp_num_hidden_layers",
            "num_mtp_modules",
            "num_heads",
            "base_model_name_or_path",
        ],
    }
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", " ", *NAMES])
    | st.text(max_size=3)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=6,
)
CONFIGS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=7)


def read_both(config: dict[str, Any]) -> None:
    """Both readings are whole, and can be written and read back."""
    drafter = read_drafter(checkpoint(config))
    verifier = read_verifier(checkpoint(config))
    assert DrafterReading.model_validate_json(drafter.model_dump_json()).method == drafter.method
    assert VerifierReading.model_validate_json(verifier.model_dump_json()) == verifier
    if drafter.num_speculative_tokens is not None:
        assert 1 <= drafter.num_speculative_tokens.value <= 128
    if drafter.method is None:
        assert "method" in drafter.untold


@settings(max_examples=300, deadline=None)
@given(CONFIGS)
def test_random_configurations(config: dict[str, Any]) -> None:
    read_both(config)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(path.stem for path in DATA.glob("*.json"))), CONFIGS)
def test_real_configurations_with_odd_values(name: str, changes: dict[str, Any]) -> None:
    config = config_of(name)
    read_both({**config, **changes})
    layer = config.get("transformer_layer_config", {})
    read_both({**config, "transformer_layer_config": {**layer, **changes}})


def test_deep_nesting() -> None:
    config = json.loads('{"text_config": ' * 200 + "7" + "}" * 200)
    read_both(config)
