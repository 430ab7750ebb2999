"""known_hosts files and the verdict on an offered key."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path

import pytest

from runner.errors import HostError, HostKeyChanged, HostKeyUnknown
from runner.transport.hostkeys import Question, check, fingerprint, preferred, read_known

ED25519 = b"\0\0\0\x0bssh-ed25519\0\0\0 " + b"k" * 32
OTHER = b"\0\0\0\x0bssh-ed25519\0\0\0 " + b"o" * 32
RSA = b"\0\0\0\x07ssh-rsa" + b"r" * 64
NAME = "[127.0.0.1]:18522"


def line(names: str, blob: bytes, kind: str = "ssh-ed25519") -> str:
    return f"{names} {kind} {base64.b64encode(blob).decode()} comment\n"


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def verdict(tmp_path: Path, text: str, *, name: str = NAME, blob: bytes = ED25519) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(text)
    files = (file, tmp_path / "absent")
    question = Question("lab (root@127.0.0.1:18522)", name, "127.0.0.1", 18522, files)
    check(question, "ssh-ed25519", blob, read_known(name, files))


def test_the_fingerprint_has_the_form_of_openssh() -> None:
    assert fingerprint(b"") == "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"


@pytest.mark.parametrize(
    "names",
    [
        NAME,
        f"gpu,{NAME}",
        "[127.0.0.*]:18522",
        "[127.0.0.?]:*",
        hashed(NAME),
    ],
)
def test_names_that_cover_the_host(tmp_path: Path, names: str) -> None:
    verdict(tmp_path, "# comment\n\n" + line(names, ED25519))


@pytest.mark.parametrize(
    "names",
    [
        "127.0.0.1",
        "127.0.0.*",
        "[127.0.0.1]:22",
        f"*,!{NAME}",
        hashed("127.0.0.1"),
        "|1|broken",
        "|1|!!|!!",
    ],
)
def test_names_that_do_not_cover_the_host(tmp_path: Path, names: str) -> None:
    with pytest.raises(HostKeyUnknown):
        verdict(tmp_path, line(names, ED25519))


def test_the_name_is_compared_without_regard_to_case(tmp_path: Path) -> None:
    verdict(tmp_path, line("GPU.Example", ED25519), name="gpu.example")


def test_unknown_says_what_to_look_for_and_where(tmp_path: Path) -> None:
    with pytest.raises(HostKeyUnknown) as caught:
        verdict(tmp_path, "")
    assert str(caught.value) == (
        f"lab (root@127.0.0.1:18522): unknown host key: {NAME} offers ssh-ed25519 "
        f"{fingerprint(ED25519)}; not in {tmp_path}/known_hosts, {tmp_path}/absent (absent)\n"
        "  next: compare the fingerprint with the owner of the host, then `ssh-keyscan -p 18522 "
        f"-t ed25519 127.0.0.1 >> {tmp_path}/known_hosts`; `ssh-keygen -l -F '{NAME}' "
        f"-f {tmp_path}/known_hosts` shows what was added"
    )


def test_changed_says_what_is_on_record(tmp_path: Path) -> None:
    with pytest.raises(HostKeyChanged) as caught:
        verdict(tmp_path, "\n" + line(NAME, OTHER))
    assert f"on record is {fingerprint(OTHER)} in {tmp_path}/known_hosts:2" in str(caught.value)
    assert f"offers ssh-ed25519 {fingerprint(ED25519)}" in str(caught.value)


def test_one_right_line_among_others_is_enough(tmp_path: Path) -> None:
    verdict(tmp_path, line(NAME, OTHER) + line(NAME, RSA, "ssh-rsa") + line(NAME, ED25519))


def test_a_key_of_another_type_is_unknown_and_said(tmp_path: Path) -> None:
    with pytest.raises(HostKeyUnknown, match=r"on record is only ssh-rsa in .*known_hosts:1"):
        verdict(tmp_path, line(NAME, RSA, "ssh-rsa"))


def test_a_revoked_key_is_refused_though_it_is_on_record(tmp_path: Path) -> None:
    with pytest.raises(HostKeyChanged, match=r"revoked in .*known_hosts:2"):
        verdict(tmp_path, line(NAME, ED25519) + "@revoked " + line("*", ED25519))


def test_a_certificate_authority_does_not_vouch(tmp_path: Path) -> None:
    with pytest.raises(HostKeyUnknown, match="host certificates"):
        verdict(tmp_path, "@cert-authority " + line(NAME, ED25519))


def test_a_line_that_is_damaged_is_passed_over(tmp_path: Path) -> None:
    verdict(tmp_path, f"{NAME} ssh-ed25519\n{NAME} ssh-ed25519 %%%\n" + line(NAME, ED25519))


def test_a_file_that_can_not_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="known_hosts can't be read: Is a directory"):
        read_known(NAME, [tmp_path])


def test_types_on_record_are_asked_for_first(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(line(NAME, RSA, "ssh-rsa"))
    offered = ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256")
    assert preferred(offered, read_known(NAME, [file])) == (
        "rsa-sha2-512",
        "rsa-sha2-256",
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
    )
    assert preferred(offered, ()) == offered
