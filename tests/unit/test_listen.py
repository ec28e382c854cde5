"""Where servers listen, and what a person is told when they cannot."""

import socket
from pathlib import Path

import pytest

from trilith.errors import InvalidConfig, PortInUse, SetupError
from trilith.net.listen import listen_tcp, listen_unix, shown


def test_reuse_port_must_be_asked_for_by_both() -> None:
    first = listen_tcp("127.0.0.1", 0, reuse_port=True)
    port = first[0].getsockname()[1]
    with pytest.raises(PortInUse):
        listen_tcp("127.0.0.1", port)
    second = listen_tcp("127.0.0.1", port, reuse_port=True)
    for listening in (*first, *second):
        listening.close()


@pytest.mark.parametrize(("host", "error"), [("no-such-host.invalid", InvalidConfig), ("192.0.2.1", InvalidConfig)])
def test_a_host_of_elsewhere(host: str, error: type[SetupError]) -> None:
    with pytest.raises(error, match="cannot listen on"):
        listen_tcp(host, 0)


def test_all_addresses_of_a_name_get_one_port() -> None:
    bound = listen_tcp("localhost", 0)
    assert len({listening.getsockname()[1] for listening in bound}) == 1
    for listening in bound:
        listening.close()


def test_an_address_that_is_not_here_is_left_out_beside_one_that_is(monkeypatch: pytest.MonkeyPatch) -> None:
    here = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))
    elsewhere = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 0))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: [elsewhere, here])
    bound = listen_tcp("a-name", 0)
    assert [listening.getsockname()[0] for listening in bound] == ["127.0.0.1"]
    assert shown(bound) == f"127.0.0.1:{bound[0].getsockname()[1]}"
    for listening in bound:
        listening.close()


def test_the_message_names_the_option() -> None:
    (taken,) = listen_tcp("127.0.0.1", 0)
    with taken, pytest.raises(PortInUse, match=r"or choose another port with --http-port$"):
        listen_tcp("127.0.0.1", taken.getsockname()[1], choice="another port with --http-port")


def test_a_path_is_for_one_listener_and_this_user(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with listen_unix(path):
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(PortInUse, match="choose another path"):
            listen_unix(path)
    with listen_unix(path):  # its file was left by one that is gone
        pass
    with pytest.raises(InvalidConfig, match="1 to 107 bytes"):
        listen_unix(tmp_path / ("x" * 200))
