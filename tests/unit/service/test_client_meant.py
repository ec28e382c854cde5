"""What a client takes from elsewhere than its arguments, and what is said of arguments that it has not."""

import asyncio

import pytest

import trilith
from trilith.cli.call_items import write_items
from trilith.errors import ReplicaLost, Unsupported
from trilith.service.client.connect import AsyncClient, operations_of
from trilith.service.client.late import Items
from trilith.service.client.meant import with_key
from trilith.service.client.retries import Refused


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"timeout": 3},
            r"has no option 'timeout' \(did you mean timeout_s\?\); it has asynchronous, timeout_s, headers",
        ),
        ({"token": "k"}, r"'token' \(did you mean headers=.*TRILITH_API_KEY"),
        ({"header": {}, "zzz": 1}, r"'header' \(did you mean headers\?\), 'zzz'; it has"),
    ],
)
def test_an_option_that_there_is_not(given, said):
    with pytest.raises(TypeError, match=said):
        trilith.client("http://127.0.0.1:9", **given)


def test_the_key_of_the_environment(monkeypatch):
    monkeypatch.delenv("TRILITH_API_KEY", raising=False)
    assert with_key({"a": "b"}) == {"a": "b"}
    monkeypatch.setenv("TRILITH_API_KEY", "secret")
    assert with_key({"a": "b"}) == {"a": "b", "authorization": "Bearer secret"}
    assert with_key({"X-Api-Key": "mine"}) == {"X-Api-Key": "mine"}
    assert with_key({"Authorization": "Bearer mine"}) == {"Authorization": "Bearer mine"}


def test_with_and_await_in_the_wrong_place():
    client = trilith.client("http://127.0.0.1:9", asynchronous=True)
    assert isinstance(client, AsyncClient)
    with pytest.raises(TypeError, match="`async with`"), client:
        raise AssertionError("it was entered")

    async def main():
        async def numbers():
            yield 1
            yield 2

        items = Items("count", numbers())
        with pytest.raises(TypeError, match=r"count streams: take its items by `async for item in client.count"):
            await items
        assert await anext(items) == 1
        assert [item async for item in items] == [2]
        await client.close()

    asyncio.run(main())


def test_the_grpc_port_is_asked_about():
    with pytest.raises(Unsupported, match="answered 400: not a service of Trilith; if this is the gRPC port"):
        operations_of("http://h:8001", (400, "", b"", Refused()))


def test_an_error_in_the_middle_of_a_text_begins_its_own_line(capfdbinary):
    def words():
        yield "t0 "
        yield "t1"
        raise ReplicaLost("it failed")

    with pytest.raises(ReplicaLost):
        write_items(words(), "", as_json=False)
    assert capfdbinary.readouterr().out == b"t0 t1\n"
