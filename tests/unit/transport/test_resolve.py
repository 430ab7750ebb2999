"""Inventory entry and ssh configuration become one settled address."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path

import pytest

from runner.errors import HostError
from runner.models.host import Host
from runner.transport.resolve import ResolvedHost, resolve

SYSTEM_FILES = (Path("/etc/ssh/ssh_known_hosts"), Path("/etc/ssh/ssh_known_hosts2"))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
def included(tmp_path: Path) -> str:
    """A file that includes the Host block of `gpu-a`, and what `Host *` says after it."""
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "gpu").write_text(
        "Host gpu-a\n"
        "    HostName 127.0.0.1\n"
        "    Port 18522\n"
        "    User root\n"
        "    ProxyJump hop\n"
        "    IdentityFile ~/.ssh/%r_key\n"
    )
    return write(tmp_path, "Include conf.d/*\nHost *\n    User fallback\n")


def write(folder: Path, text: str, name: str = "ssh_config") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def test_an_entry_without_any_configuration(home: Path) -> None:
    assert resolve(Host(name="lab", address="10.0.0.7")) == ResolvedHost(
        name="lab",
        address="10.0.0.7",
        port=22,
        user=getpass.getuser(),
        known_hosts=(home / ".ssh" / "known_hosts", *SYSTEM_FILES),
        connect_timeout_s=10.0,
        keepalive_s=15.0,
    )


def test_an_alias_behind_include_with_a_jump_host(home: Path, included: str) -> None:
    found = resolve(Host(name="gpu-a", ssh_config=included))
    assert (found.address, found.port, found.user) == ("127.0.0.1", 18522, "root")
    assert found.identity_files == (home / ".ssh" / "root_key",)
    assert [(hop.address, hop.port, hop.user) for hop in found.jumps] == [("hop", 22, "fallback")]
    assert found.lookup_name == "[127.0.0.1]:18522"
    assert found.label == "gpu-a (root@127.0.0.1:18522)"


def test_fields_of_the_entry_win(home: Path, included: str) -> None:
    found = resolve(
        Host(
            name="lab",
            address="gpu-a",
            ssh_config=included,
            port=2200,
            user="ann",
            identity_file="~/keys/mine",
            known_hosts="~/known",
            jump="none",
            connect_timeout_s=3,
        )
    )
    assert (found.address, found.port, found.user) == ("127.0.0.1", 2200, "ann")
    assert found.identity_files == (home / "keys" / "mine",)
    assert found.known_hosts == (home / "known", *SYSTEM_FILES)
    assert found.jumps == ()
    assert found.connect_timeout_s == 3.0


def test_a_user_of_the_entry_is_the_r_of_an_identity_file(home: Path, included: str) -> None:
    found = resolve(Host(name="gpu-a", ssh_config=included, user="ann"))
    assert found.identity_files == (home / ".ssh" / "ann_key",)


def test_the_usual_configuration_file_is_read(home: Path) -> None:
    write(home / ".ssh", "Host gpu-a\n  HostName 10.1.1.1\n", "config")
    assert resolve(Host(name="gpu-a")).address == "10.1.1.1"
    assert resolve(Host(name="x", address="gpu-a")).address == "10.1.1.1"
    assert resolve(Host(name="gpu-a", address="10.2.2.2")).address == "10.2.2.2"


def test_a_literal_alias_is_never_the_address(tmp_path: Path) -> None:
    config = write(tmp_path, "Host *\n  User x\nHost other\n  HostName 1.1.1.1\n")
    with pytest.raises(HostError, match=f"no Host block for 'gpu-a' is in {config}"):
        resolve(Host(name="gpu-a", ssh_config=config))
    with pytest.raises(HostError, match=r"~/.ssh/config \(absent\)"):
        resolve(Host(name="gpu-a"))


def test_values_that_are_carried_out(home: Path, tmp_path: Path) -> None:
    config = write(
        tmp_path,
        'Host gpu-*\n HostName %h.example.org\n IdentityFile "~/.ssh/my key"\n'
        " IdentityFile=%d/second\n IdentitiesOnly yes\n ConnectTimeout 7\n"
        " ServerAliveInterval 1m\n HostKeyAlias Rack\n AddressFamily inet\n"
        ' UserKnownHostsFile ~/one "/two three"\n GlobalKnownHostsFile none\n',
    )
    assert resolve(Host(name="gpu-b", ssh_config=config, user="u")) == ResolvedHost(
        name="gpu-b",
        address="gpu-b.example.org",
        port=22,
        user="u",
        identity_files=(home / ".ssh" / "my key", home / "second"),
        known_hosts=(home / "one", Path("/two three")),
        host_key_alias="Rack",
        family=socket.AF_INET,
        connect_timeout_s=7.0,
        keepalive_s=60.0,
    )


def test_the_agent_is_left_alone_where_the_configuration_says_so(tmp_path: Path) -> None:
    config = write(
        tmp_path, "Host a\n IdentitiesOnly yes\nHost b\n IdentityAgent none\nHost c\n Port 22\n"
    )
    use = {name: resolve(Host(name=name, ssh_config=config)).use_agent for name in "abc"}
    assert use == {"a": False, "b": False, "c": True}


# --- jump hosts ------------------------------------------------------------------------------


def test_a_chain_of_jump_hosts_and_the_hops_of_its_first(tmp_path: Path) -> None:
    config = write(
        tmp_path,
        "Host one\n HostName 10.0.0.1\n ProxyJump zero:2201\n IdentityFile /keys/one\n"
        "Host two\n Port 2202\n ProxyJump ignored\n",
    )
    found = resolve(
        Host(
            name="far",
            address="10.9.9.9",
            ssh_config=config,
            jump="ann@one,bob@two,[fe80::1]:2203",
            identity_file="/keys/far",
            known_hosts="/known",
            user="me",
        )
    )
    hops = [(hop.name, hop.user, hop.address, hop.port) for hop in found.jumps]
    me = getpass.getuser()
    assert hops == [
        ("zero", me, "zero", 2201),
        ("one", "ann", "10.0.0.1", 22),
        ("two", "bob", "two", 2202),
        ("fe80::1", me, "fe80::1", 2203),
    ]
    keys = [hop.identity_files for hop in found.jumps]
    far = (Path("/keys/far"),)
    assert keys == [far, (Path("/keys/one"),), far, far]
    assert {hop.known_hosts[0] for hop in found.jumps} == {Path("/known")}
    assert found.jumps[3].label == f"fe80::1 ({me}@[fe80::1]:2203)"


def test_jump_hosts_in_a_circle(tmp_path: Path) -> None:
    config = write(tmp_path, "Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    with pytest.raises(HostError, match="in a circle: a -> b -> a"):
        resolve(Host(name="a", ssh_config=config))


@pytest.mark.parametrize("jump", ["", "a b:c", "user@", "host:port"])
def test_a_malformed_jump_host(jump: str) -> None:
    with pytest.raises(HostError, match="expected user@address:port"):
        resolve(Host(name="x", address="10.0.0.1", jump=jump or ","))


# --- Include ---------------------------------------------------------------------------------


def test_lines_after_an_include_belong_to_the_block_before_it(tmp_path: Path) -> None:
    write(tmp_path, "Host other\n  Port 1\n", "part")
    config = write(tmp_path, "Include part\nPort 2\nHost gpu\n  Include part\n  User ann\n")
    found = resolve(Host(name="gpu", ssh_config=config))
    assert (found.port, found.user) == (2, "ann")


def test_an_include_inside_a_block_counts_for_its_hosts_only(tmp_path: Path) -> None:
    write(tmp_path, "User included\nHost *\n  Port 7\n", "part")
    config = write(tmp_path, "Host a\n  Include part\nHost a b\n  User plain\n")
    a, b = (resolve(Host(name=name, ssh_config=config)) for name in "ab")
    assert (a.user, a.port) == ("included", 7)
    assert (b.user, b.port) == ("plain", 22)


def test_includes_are_found_in_the_home_folder_too(home: Path, tmp_path: Path) -> None:
    (home / ".ssh" / "conf.d").mkdir()
    write(home / ".ssh" / "conf.d", "Host a\n  Port 5\n", "x.conf")
    write(tmp_path, "Host b\n  Port 6\n", "b.conf")
    config = write(tmp_path, f"Include conf.d/*.conf absent\ninclude ~/nothing {tmp_path}/b.*\n")
    assert resolve(Host(name="a", ssh_config=config)).port == 5
    assert resolve(Host(name="b", ssh_config=config)).port == 6


def test_a_file_that_includes_itself(tmp_path: Path) -> None:
    config = write(tmp_path, "Include ssh_config\n")
    with pytest.raises(HostError, match="deeper than 16 files"):
        resolve(Host(name="a", address="a", ssh_config=config))


# --- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("directive", "named"),
    [
        ("ProxyCommand nc %h %p", "proxycommand nc"),
        ("CertificateFile ~/.ssh/id-cert.pub", "certificatefile ~/.ssh/id-cert.pub"),
        ("BindAddress 10.0.0.2", "bindaddress 10.0.0.2"),
        ("IdentityAgent /run/agent", "identityagent /run/agent"),
        ("CanonicalizeHostname yes\n CanonicalDomains x", "canonicalizehostname yes"),
        ("PubkeyAuthentication no", "pubkeyauthentication no"),
    ],
)
def test_a_directive_that_would_lead_elsewhere_is_named_with_its_place(
    tmp_path: Path, directive: str, named: str
) -> None:
    write(tmp_path, f"# one\nHost other\n  {directive}\nHost gpu\n  {directive}\n", "part")
    config = write(tmp_path, "Include part\n")
    second = 5 + directive.count("\n")
    with pytest.raises(HostError) as caught:
        resolve(Host(name="gpu", ssh_config=config))
    assert str(caught.value).startswith(f"{tmp_path}/part:{second}: '{named}")
    assert "not supported" in str(caught.value)


def test_a_directive_for_other_hosts_does_no_harm(tmp_path: Path) -> None:
    config = write(tmp_path, "Host other\n  ProxyCommand nc %h %p\nHost gpu\n  Port 3\n")
    assert resolve(Host(name="gpu", ssh_config=config)).port == 3


def test_a_directive_that_says_as_usual_does_no_harm(tmp_path: Path) -> None:
    config = write(tmp_path, "Host gpu\n  ProxyCommand none\n  CertificateFile none\n  Port 3\n")
    assert resolve(Host(name="gpu", ssh_config=config)).port == 3


def test_a_jump_host_of_the_entry_stands_in_for_a_proxy_command(tmp_path: Path) -> None:
    config = write(tmp_path, "Host gpu\n  ProxyCommand nc %h %p\n")
    assert resolve(Host(name="gpu", ssh_config=config, jump="hop")).jumps[0].address == "hop"


@pytest.mark.parametrize("criterion", ["exec", "localnetwork", "!exec", "tagged"])
def test_a_match_that_can_not_be_decided(tmp_path: Path, criterion: str) -> None:
    config = write(tmp_path, f'Host a\n  Port 1\nMatch host x {criterion} "true"\n  Port 2\n')
    with pytest.raises(HostError, match=f":3: 'Match {criterion.lstrip('!')}'"):
        resolve(Host(name="a", ssh_config=config))


def test_a_match_that_can(tmp_path: Path) -> None:
    config = write(tmp_path, "Match originalhost a user ann\n  Port 5\nHost a b\n  Port 6\n")
    ports = [
        resolve(Host(name=name, user=user, ssh_config=config)).port
        for name, user in (("a", "ann"), ("a", "bob"), ("b", "ann"))
    ]
    assert ports == [5, 6, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Host a\n  Port many\n", "port 'many': expected a number from 1 to 65535"),
        ("Host a\n  Port 70000\n", "port '70000'"),
        ("Host a\n  ConnectTimeout soon\n", "connecttimeout 'soon': expected a number of seconds"),
        ("Host a\n  AddressFamily ip\n", "AddressFamily 'ip': expected any, inet or inet6"),
        ("Host a\nPort\n", ":2: expected a keyword and a value, found 'Port'"),
        ('Host "a\n', ":1: unbalanced quotes"),
    ],
)
def test_malformed_values(tmp_path: Path, text: str, said: str) -> None:
    config = write(tmp_path, text)
    with pytest.raises(HostError) as caught:
        resolve(Host(name="a", ssh_config=config))
    assert said in str(caught.value)


def test_a_named_configuration_must_exist(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="can't be read") as caught:
        resolve(Host(name="a", address="a", ssh_config=f"{tmp_path}/absent"))
    assert caught.value.where == f"{tmp_path}/absent"
