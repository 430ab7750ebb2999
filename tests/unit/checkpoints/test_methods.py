"""Names of methods."""

from __future__ import annotations

import pytest

from runner.checkpoints.methods import DEPRECATED_MTP_NAMES, MethodName, parse_method
from runner.models.job import SpeculativeMethod


@pytest.mark.parametrize("method", SpeculativeMethod)
def test_every_method_has_its_own_name_in_any_spelling(method: SpeculativeMethod) -> None:
    for text in (method, method.upper(), method.replace("_", "-"), f" {method} "):
        assert parse_method(text) == MethodName(method)


@pytest.mark.parametrize(
    ("text", "method", "parallel", "note"),
    [
        ("peagle", "eagle3", True, "P-EAGLE is eagle3 with parallel drafting"),
        ("P-EAGLE", "eagle3", True, "P-EAGLE is eagle3 with parallel drafting"),
        ("pard", "draft_model", True, "PARD is draft_model with parallel drafting"),
        ("DFlash2", "dflash", False, "DFlash2 is dflash with another draft architecture"),
        ("lilicorr", "dflash", False, "LiLiCorr is dflash with another draft architecture"),
        ("eagle-3", "eagle3", False, None),
        ("draft-model", "draft_model", False, None),
        ("N-Gram", "ngram", False, None),
        ("deepseek_mtp", "mtp", False, "'deepseek_mtp' is an old name of mtp"),
        ("Qwen3.5-MTP", "mtp", False, "'qwen3_5_mtp' is an old name of mtp"),
    ],
)
def test_aliases(text: str, method: str, parallel: bool, note: str | None) -> None:
    assert parse_method(text) == MethodName(SpeculativeMethod(method), parallel, note)


def test_every_old_name_means_mtp() -> None:
    assert len(DEPRECATED_MTP_NAMES) == 26
    assert {parse_method(name).method for name in DEPRECATED_MTP_NAMES} == {SpeculativeMethod.MTP}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("eagel3", "'eagel3' is not a method; did you mean 'eagle3'?"),
        ("drafts_model", "'drafts_model' is not a method; did you mean 'draft_model'?"),
        (
            "zzz",
            "'zzz' is not a method; expected one of: ngram, ngram_gpu, draft_model, eagle, eagle3, "
            "mtp, medusa, mlp_speculator, suffix, dflash, dspark",
        ),
        (
            "extract-hidden-states",
            "no drafter can be evaluated with 'extract_hidden_states': it writes hidden states to "
            "disk and speeds nothing up",
        ),
        (
            "custom_class",
            "no drafter can be evaluated with 'custom_class': it names Python code, not a "
            "checkpoint, and is experimental",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"method|evaluated") as caught:
        parse_method(text)
    assert str(caught.value) == message
