"""`cmd=`: what may be said, and what is refused where it is written."""

import pytest

import trilith
from trilith.errors import InvalidConfig


def test_a_list_is_a_command_and_the_rest_as_it_is_unless_said():
    @trilith.service(cmd=["node", "server.js", "{port}"])
    class Page:
        pass

    command = trilith.service.spec_of(Page).options.cmd
    assert command.arguments == ("node", "server.js", "{port}")
    assert (command.port, command.path, command.strip_path, command.ready) == (0, "/", True, None)


def test_a_class_may_say_the_arguments_itself():
    @trilith.service(cmd=trilith.Command(ready="/health"))
    class Page:
        def __command__(self):
            return ["node"]

    assert trilith.service.spec_of(Page).options.cmd.arguments == ()

    @trilith.service
    class Other:
        def __command__(self):
            return ["node"]

    assert trilith.service.spec_of(Other).options.cmd == trilith.Command()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"cmd": "node server.js"}, "a list of texts"),
        ({"cmd": ["node", 1]}, "a list of texts"),
        ({"cmd": ["", "x"]}, "no name"),
        ({"cmd": []}, "__command__"),
        ({"cmd": {"environment": {"A": 1}}}, "environment"),
        ({"cmd": {"environment": {"A=B": "1"}}}, "environment"),
        ({"cmd": {"port": 70000}}, "port must be"),
        ({"cmd": {"port": True}}, "port must be"),
        ({"cmd": {"ready": "health"}}, "ready must be"),
        ({"cmd": {"ready": "/a b"}}, "ready must be"),
        ({"cmd": {"ready_status": 100}}, "ready_status"),
        ({"cmd": {"start_timeout_s": 0}}, "start_timeout_s"),
        ({"cmd": {"stop_timeout_s": float("nan")}}, "stop_timeout_s"),
        ({"cmd": {"stop_signal": "TERM"}}, "stop_signal"),
        ({"cmd": {"path": "app"}}, "path must be"),
        ({"cmd": {"path": "/app/"}}, "path must be"),
        ({"cmd": {"path": "//app"}}, "path must be"),
        ({"cmd": {"folder": ""}}, "folder"),
        ({"cmd": {"port": 8000}, "replicas": 2}, "replicas"),
        ({"cmd": {"path": "/docs"}}, "belongs to the server"),
    ],
)
def test_what_is_wrong_is_said_where_it_is_written(options, words):
    def declare():
        given = options["cmd"]
        command = trilith.Command(**{"arguments": ["node"], **given}) if isinstance(given, dict) else given
        trilith.service(**{**options, "cmd": command})(type("Page", (), {}))

    with pytest.raises(InvalidConfig, match=words):
        declare()


def test_arguments_in_two_places_are_refused():
    with pytest.raises(InvalidConfig, match="twice"):

        @trilith.service(cmd=["node"])
        class Page:
            def __command__(self):
                return ["node"]


def test_a_function_has_no_command():
    with pytest.raises(InvalidConfig, match="class"):

        @trilith.service(cmd=["node"])
        def page() -> int:
            return 1


def test_by_hand_nothing_runs_and_the_address_is_yours_to_say():
    @trilith.service(cmd=["node"])
    class Page:
        @trilith.api
        def address(self) -> str:
            return self.cmd_url

    page = Page()
    with pytest.raises(InvalidConfig, match="where it is served"):
        page.address()
    page.cmd_url = "http://127.0.0.1:1"
    assert page.address() == "http://127.0.0.1:1"
