"""What may be mounted, where, and how a mistake is told of."""

from __future__ import annotations

import asyncio

import pytest

import trilith
from trilith.errors import InvalidConfig, ServiceError, SetupError
from trilith.orchestration.engine.mount_table import MountTable
from trilith.service import InProcessResolver, ServiceHost, describe, openapi_document, spec_of
from trilith.service.mounts.finding import interface_of
from trilith.service.names import is_own_path


async def some_page(scope, receive, send):
    raise AssertionError("nobody calls it")


def wsgi_page(environ, start_response):
    raise AssertionError("nobody calls it")


class Callable:
    async def __call__(self, scope, receive, send):
        raise AssertionError("nobody calls it")


class WsgiCallable:
    def __call__(self, environ, start_response):
        raise AssertionError("nobody calls it")


@trilith.service(timeout_s=7)
class Shop:
    page = trilith.mount("/page", some_page)
    named = trilith.mount("/named", "test_mount_declare:some_page", timeout_s=3)

    @trilith.mount("/made")
    def made(self):
        """Made of the instance."""
        return some_page

    @trilith.api
    async def add(self, a: int) -> int:
        return a


def test_what_is_declared_stays_what_it_is():
    shop = Shop()
    assert shop.page is some_page
    assert shop.made() is some_page
    assert asyncio.run(shop.add(1)) == 1


def test_a_description_has_the_mounts():
    description = describe(Shop)
    found = [(one.path, one.name, one.timeout_s, one.documentation) for one in description.root.mounts]
    assert found == [
        ("/page", "page", 7.0, ""),
        ("/named", "named", 3.0, ""),
        ("/made", "made", 7.0, "Made of the instance."),
    ]
    document = openapi_document(description)
    assert [one["path"] for one in document["x-trilith-mounts"]] == ["/page", "/named", "/made"]


def test_a_service_may_have_mounts_alone():
    @trilith.service
    class Pages:
        page = trilith.mount("/", some_page)

    assert spec_of(Pages).concurrency == 512
    assert openapi_document(describe(Pages))["paths"] == {}


def test_mounts_are_inherited_and_overridden():
    class Base:
        page = trilith.mount("/page", some_page)
        other = trilith.mount("/other", some_page)

    @trilith.service
    class Child(Base):
        page = trilith.mount("/elsewhere", some_page)

    assert sorted(spec_of(Child).mounts) == ["/elsewhere", "/other"]


@pytest.mark.parametrize(
    "path", ["", "ui", "/ui/", "//", "/a//b", "/a b", "/a?b", "/../x", "/a/./b", "/%75i", "/\u00e9", 3]
)
def test_a_path_that_is_none_is_refused(path):
    with pytest.raises(InvalidConfig, match="path"):
        trilith.mount(path, some_page)


@pytest.mark.parametrize("path", ["/docs", "/v2", "/v2/x", "/metrics", "/timelines"])
def test_a_path_of_the_server_is_refused(path):
    with pytest.raises(InvalidConfig, match="belongs to the server"):
        trilith.mount(path, some_page)


@pytest.mark.parametrize("app", [3, "app", "app:", ":app", Callable, object()])
def test_what_cannot_be_an_application_is_refused(app):
    with pytest.raises(InvalidConfig, match=r"module:name"):
        trilith.mount("/ui", app)


def test_one_path_has_one_owner():
    with pytest.raises(InvalidConfig, match="first and second are mounted at the same path /ui"):

        @trilith.service
        class Two:
            first = trilith.mount("/ui", some_page)
            second = trilith.mount("/ui", some_page)

    with pytest.raises(InvalidConfig, match="read has the path /read, and page is mounted there"):

        @trilith.service
        class Over:
            page = trilith.mount("/read", some_page)

            @trilith.api
            def read(self) -> str:
                return ""

    with pytest.raises(InvalidConfig, match="twice"):
        trilith.mount("/a")(trilith.mount("/b")(lambda self: some_page))
    with pytest.raises(InvalidConfig, match="stands on a method"):
        trilith.mount("/a")(Callable)
    with pytest.raises(InvalidConfig, match="timeout_s"):
        trilith.mount("/a", some_page, timeout_s=0)


def test_an_interface_is_known_by_what_it_is_called_with():
    assert [interface_of(app) for app in (some_page, Callable(), Callable().__call__)] == ["asgi"] * 3
    assert [interface_of(app) for app in (wsgi_page, WsgiCallable())] == ["wsgi"] * 2
    assert [interface_of(app) for app in (lambda: 1, 3, Callable, asyncio.sleep)] == [""] * 4


def start(service):
    async def main():
        host = ServiceHost(service, InProcessResolver())
        await host.start()
        await host.stop()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("app", "words"),
    [
        ("no_such_module:app", "'no_such_module:app' could not be loaded: ModuleNotFoundError"),
        ("test_mount_declare:nothing", "could not be loaded: AttributeError"),
        (lambda self: 3, "its factory returned int: 3"),
        (lambda self: 1 / 0, "could not be made: ZeroDivisionError"),
    ],
)
def test_a_start_says_what_is_wrong_with_an_application(app, words):
    @trilith.service
    class Broken:
        page = trilith.mount("/ui", app)

    with pytest.raises(SetupError) as raised:
        start(Broken)
    assert raised.value.message.startswith("Broken: the mount at /ui")
    assert words in raised.value.message


def test_an_application_that_cannot_begin_ends_the_start_and_those_before_it():
    ended = []

    async def begins(scope, receive, send):
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                ended.append("good")
                return

    async def cannot(scope, receive, send):
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "a long text"})
        raise ValueError("no database")

    @trilith.service
    class Two:
        good = trilith.mount("/good", begins)
        bad = trilith.mount("/bad", cannot)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            ended.append("left")

    with pytest.raises(SetupError, match=r"Two: the mount at /bad could not be started: ValueError: no database"):
        start(Two)
    assert ended == ["good", "left"]


def test_nobody_else_has_a_current_service():
    with pytest.raises(ServiceError, match="mounted on a service"):
        trilith.current_service()


def test_paths_lead_to_the_longest_mount():
    table = MountTable([("", 0), ("/a", 1), ("/a/b", 2)], is_own_path)
    found = {path: table.find(path) for path in ("/", "/x", "/a", "/a/", "/ab", "/a/b", "/a/b/c", "/a/bc")}
    assert [mount.route for mount in found.values()] == [0, 0, 1, 1, 0, 2, 2, 1]
    assert [table.find(path) for path in ("*", "", "/docs", "/v2/models", "/timelines/1")] == [None] * 5
    assert table.paths == ["/a/b", "/a", "/"]
    assert MountTable().find("/") is None
