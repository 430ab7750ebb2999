"""Secrets are masked wherever chunks are cut."""

import itertools
import json

from hypothesis import given, settings
from hypothesis import strategies as st

from runner.supervisor.redact import Redactor

SECRET = "hf_planted0123456789"


def test_whole_masks_plain_and_json_escaped():
    redactor = Redactor(['pa"ss/word'])
    assert redactor.whole(b'a pa"ss/word b') == b"a *** b"
    assert redactor.whole(b'{"x": "pa\\"ss\\/word"}') == b'{"x": "***"}'


def test_short_values_do_not_mask_text():
    assert Redactor(["abc", ""]).whole(b"abc") == b"abc"


@settings(deadline=None)
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


@settings(deadline=None)
@given(st.text(min_size=4, max_size=12).filter(lambda text: text.strip("*0123456789")))
def test_whatever_json_makes_of_a_secret_is_masked(secret):
    redactor = Redactor([secret])
    for ascii_only in (True, False):
        written = json.dumps({"a": f"<<{secret}>>"}, ensure_ascii=ascii_only)
        assert json.loads(redactor.whole(written.encode()))["a"] == "<<***>>"


def test_a_backslash_beside_a_slash_is_masked():
    redactor = Redactor(["a\\b/c"])
    assert redactor.whole(json.dumps("a\\b/c").encode()) == b'"***"'
    assert redactor.text('quoted "a\\b/c"') == 'quoted "***"'


def test_an_environment_value_that_is_not_utf8_is_masked():
    value = b"caf\xe9-secret".decode("utf-8", "surrogateescape")
    assert Redactor([value]).whole(b"<caf\xe9-secret>") == b"<***>"
