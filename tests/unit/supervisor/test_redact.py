"""Secrets are masked wherever chunks are cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from runner.supervisor.redact import Redactor

SECRET = "hf_planted0123456789"


def test_whole_masks_plain_and_json_escaped():
    redactor = Redactor(['pa"ss/word'])
    assert redactor.whole(b'a pa"ss/word b') == b"a *** b"
    assert redactor.whole(b'{"x": "pa\\"ss\\/word"}') == b'{"x": "***"}'


def test_short_values_do_not_mask_text():
    assert Redactor(["abc", ""]).whole(b"abc") == b"abc"


@given(st.lists(st.integers(0, 60), max_size=8), st.binary(max_size=20), st.binary(max_size=20))
def test_any_chunking_masks_the_same(cuts, before, after):
    data = before + SECRET.encode() + after + SECRET.encode()
    stream = Redactor([SECRET]).stream()
    edges = sorted({0, len(data), *[cut % (len(data) + 1) for cut in cuts]})
    out = b"".join(stream.feed(data[start:end]) for start, end in itertools.pairwise(edges))
    out += stream.flush()
    assert SECRET.encode() not in out
    assert out == Redactor([SECRET]).whole(data)


def test_a_line_that_can_not_be_a_secret_is_not_held_back():
    stream = Redactor([SECRET]).stream()
    assert stream.feed(b"ready\n") == b"ready\n"
    assert stream.feed(b"token=hf_pl") == b"token="
    assert stream.feed(b"ain\n") == b"hf_plain\n"
