"""What `@trilith.service`, `@trilith.api`, `depends` and `model` accept and refuse."""

import asyncio
import functools
from typing import Annotated

import pytest
from pydantic import Field

import trilith
from trilith.errors import InvalidConfig
from trilith.service import Batch, spec_of


@trilith.service
class Plain:
    """A service."""

    def __init__(self) -> None:
        self.calls = 0

    @trilith.api
    def double(self, x: int) -> int:
        """Doubles."""
        self.calls += 1
        return 2 * x

    def private(self) -> str:
        return "not public"


@trilith.service(name="adder", replicas=3, cpu=0.5, timeout_s=5, threads=2, concurrency=7)
async def add(a: int, b: int = 1) -> int:
    return a + b


def test_a_decorated_class_stays_an_ordinary_class():
    service = Plain()
    assert service.double(4) == 8
    assert service.calls == 1
    assert Plain.__name__ == "Plain"
    assert isinstance(service, Plain)
    assert list(spec_of(Plain).methods) == ["double"]


def test_options_of_a_service():
    spec = spec_of(add)
    assert spec.name == "adder"
    assert (spec.options.replicas, spec.options.cpu, spec.options.threads, spec.concurrency) == (3, 0.5, 2, 7)
    assert spec.methods["add"].routes == ("/add", "/")
    assert spec.methods["add"].timeout_s == 5


def test_a_decorated_function_stays_callable():
    @trilith.service
    def triple(x: int) -> int:
        return 3 * x

    assert triple(2) == 6


def test_options_of_a_method():
    @trilith.service
    class Some:
        @trilith.api(route="/elsewhere", batch=Batch(max_size=3, max_wait_ms=2), idempotent=True, timeout_s=9)
        async def read(self, xs: list[int]) -> list[str]:
            return [str(x) for x in xs]

        @trilith.api
        def __call__(self, x: int) -> int:
            return x

    methods = spec_of(Some).methods
    assert methods["read"].routes == ("/elsewhere",)
    assert methods["read"].options.batch == Batch(max_size=3, max_wait_ms=2)
    assert methods["read"].options.idempotent
    assert methods["read"].timeout_s == 9
    assert methods["__call__"].routes == ("/",)


def test_concurrency_follows_threads_when_all_methods_are_synchronous():
    assert spec_of(Plain).concurrency == spec_of(Plain).options.threads

    @trilith.service
    async def waits(x: int) -> int:
        return x

    assert spec_of(waits).concurrency == 64


def test_a_subclass_overrides_and_adds():
    @trilith.service
    class More(Plain):
        @trilith.api
        def half(self, x: int) -> float:
            return x / 2

    assert list(spec_of(More).methods) == ["double", "half"]
    assert list(spec_of(Plain).methods) == ["double"]


def test_annotations_may_name_classes_declared_later():
    @trilith.service
    class Early:
        @trilith.api
        def read(self) -> "DeclaredLater":
            return DeclaredLater()

    assert spec_of(Early).methods["read"].signature.result.annotation is DeclaredLater


class DeclaredLater:
    pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"replica": 2}, r"@trilith.service has no option 'replica'; it has name, replicas, cpu"),
        ({"replicas": 0}, "replicas must be a whole number from 1"),
        ({"replicas": True}, "replicas must be a whole number"),
        ({"cpu": -1}, "cpu must be a number above 0"),
        ({"timeout_s": "60"}, "timeout_s must be a number above 0"),
        ({"threads": 0}, "threads must be"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"concurrency": 4097}, "concurrency must be a whole number from 1 to 4096, got 4097"),
        ({"timeout_s": float("inf")}, "timeout_s must be a number above 0 and at most 31536000, got inf"),
        ({"timeout_s": float("nan")}, "timeout_s must be a number above 0 and at most 31536000, got nan"),
        ({"cpu": 1e9}, "cpu must be a number above 0 and at most 65536"),
        ({"name": "a b"}, "name must be letters"),
    ],
)
def test_wrong_options_of_a_service_are_refused(options, message):
    with pytest.raises(InvalidConfig, match=message):

        @trilith.service(**options)
        class Some:
            @trilith.api
            def read(self) -> int:
                return 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batchable": True}, "@trilith.api has no option 'batchable'; it has route, batch, idempotent, timeout_s"),
        ({"route": "read"}, "route must be a path that begins with '/'"),
        ({"batch": 4}, "batch must be trilith.Batch"),
        ({"idempotent": 1}, "idempotent must be True or False"),
        ({"timeout_s": 0}, "timeout_s must be a number above 0"),
        ({"timeout_s": 1e12}, "timeout_s must be a number above 0 and at most 31536000"),
    ],
)
def test_wrong_options_of_a_method_are_refused(options, message):
    with pytest.raises(InvalidConfig, match=message):
        trilith.api(**options)


def test_wrong_batches_are_refused():
    with pytest.raises(InvalidConfig, match="max_size must be a whole number from 1"):
        trilith.Batch(max_size=0)
    with pytest.raises(InvalidConfig, match="max_wait_ms must be a number of at least 0"):
        trilith.Batch(max_wait_ms=-1)
    with pytest.raises(InvalidConfig, match="max_wait_ms must be a number of at least 0 and at most 31536000000, got"):
        trilith.Batch(max_wait_ms=1e14)


@pytest.mark.parametrize("wrapped", [staticmethod, classmethod, property])
def test_api_stands_on_plain_methods_alone(wrapped):
    with pytest.raises(InvalidConfig, match="stands on a plain method"):
        trilith.api(wrapped(lambda self: 1))


def test_api_is_refused_on_a_class():
    with pytest.raises(InvalidConfig, match=r"a class or function takes @trilith.service"):
        trilith.api(Plain)


def test_a_method_declared_twice_is_refused():
    with pytest.raises(InvalidConfig, match="twice"):

        class Some:
            @trilith.api
            @trilith.api
            def read(self) -> int:
                return 1


def test_a_service_declared_twice_is_refused():
    with pytest.raises(InvalidConfig, match="twice"):
        trilith.service(Plain)
    with pytest.raises(InvalidConfig, match="twice"):
        trilith.service(add)


def test_service_is_refused_on_a_value():
    with pytest.raises(InvalidConfig, match="stands on a class or a function"):
        trilith.service(5)  # type: ignore[type-var]


def test_a_class_without_methods_is_refused():
    with pytest.raises(InvalidConfig, match=r"no public method: put @trilith.api"):

        @trilith.service
        class Nothing:
            def read(self) -> int:
                return 1


def test_a_constructor_that_wants_arguments_is_refused():
    with pytest.raises(
        InvalidConfig, match=r"Photo: its constructor wants path, size. Constructors of services take no"
    ):

        @trilith.service
        class Photo:
            def __init__(self, path: str, count: int = 1, *rest: int, size: int, **named: int) -> None: ...

            @trilith.api
            def read(self) -> int:
                return 1


def test_a_constructor_may_have_defaults():
    @trilith.service
    class Photo:
        def __init__(self, path: str = "x", *rest: int, **named: int) -> None: ...

        @trilith.api
        def read(self) -> int:
            return 1

    assert spec_of(Photo).name == "Photo"


def test_a_class_with_slots_is_refused():
    with pytest.raises(InvalidConfig, match="__slots__"):

        @trilith.service
        class Slotted:
            __slots__ = ()

            @trilith.api
            def read(self) -> int:
                return 1


RESERVED = ["docs", "metrics", "livez", "readyz", "v2", "timelines"]
HIDING = ["close", "with_timeout", "__enter__", "__init__", "_offer", "__getattr__"]


@pytest.mark.parametrize("name", RESERVED)
def test_a_method_whose_path_is_the_servers_is_refused(name):
    async def nothing(self) -> None: ...

    async def something(self) -> None: ...

    with pytest.raises(InvalidConfig, match=f"Own.{name}: the path /{name} belongs to the server itself"):
        trilith.service(type("Own", (), {name: trilith.api(nothing)}))
    elsewhere = trilith.api(route="/elsewhere")(something)
    assert spec_of(trilith.service(type("Own", (), {name: elsewhere}))).methods[name].routes == ("/elsewhere",)


@pytest.mark.parametrize(
    "route", ["/docs", "/openapi.json", "/metrics", "/v2", "/v2/models/m/infer", "/timelines/1", "/livez", "/readyz"]
)
def test_a_route_that_is_the_servers_is_refused(route):
    with pytest.raises(InvalidConfig, match=f"the path {route} belongs to the server itself"):

        @trilith.service
        class Own:
            @trilith.api(route=route)
            async def read(self) -> int:
                return 1

    with pytest.raises(InvalidConfig, match=f"read: the path {route} belongs"):

        @trilith.service(route=route)
        async def read() -> int:
            return 1


@pytest.mark.parametrize("route", ["/v3", "/v2x", "/documents", "/docs/mine", "/metrics.json", "/a/v2", "/"])
def test_routes_beside_those_of_the_server(route):
    @trilith.service
    class Own:
        @trilith.api(route=route)
        async def read(self) -> int:
            return 1

    assert spec_of(Own).methods["read"].routes == (route,)


@pytest.mark.parametrize("name", HIDING)
def test_a_method_that_would_hide_the_clients_own_is_refused(name):
    why = "begins with an underscore" if name.startswith("_") else "is one that trilith.client has of its own"

    async def named(self) -> None: ...

    with pytest.raises(InvalidConfig, match=f"Own.{name}: the name '{name}' {why}, so no client could call it"):
        trilith.service(type("Own", (), {name: trilith.api(named)}))


def test_two_methods_of_one_route_are_refused():
    with pytest.raises(InvalidConfig, match="have the same route /a"):

        @trilith.service
        class Twice:
            @trilith.api
            def a(self) -> int:
                return 1

            @trilith.api(route="/a")
            def b(self) -> int:
                return 1


def no_annotation(self, x) -> int:
    return 1


def no_result(self, x: int):
    return 1


def no_self() -> int:
    return 1


def star(self, *xs: int) -> int:
    return 1


def stars(self, **xs: int) -> int:
    return 1


def two_bodies(self, a: int, /, b: int) -> int:
    return 1


def field_default(self, a: int = Field(ge=0)) -> int:
    return 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_annotation, "no_annotation: parameter 'x' has no annotation"),
        (no_result, "no_result has no return annotation"),
        (no_self, "a method without `self`"),
        (star, "write each parameter out"),
        (stars, "write each parameter out"),
        (two_bodies, r"has two bodies: .* got \(a, b\)"),
        (field_default, "write `a: Annotated"),
    ],
)
def test_misuse_is_refused_where_the_class_is_declared(function, message):
    with pytest.raises(InvalidConfig, match=message):
        trilith.service(type("Some", (), {function.__name__: trilith.api(function)}))


@pytest.mark.parametrize(
    ("parameter", "result", "message"),
    [
        (int, list[int], r"parameter 'x' of a batched method must be list\[...\], one item a call; got int"),
        (list[int], int, r"the result of a batched method must be list"),
    ],
)
def test_a_batched_method_takes_and_gives_lists(parameter, result, message):
    async def read(self, x): ...

    read.__annotations__ = {"x": parameter, "return": result}
    with pytest.raises(InvalidConfig, match=message):
        trilith.service(type("Some", (), {"read": trilith.api(batch=Batch())(read)}))


def test_batch_stands_above_other_decorators():
    def other(function):
        @functools.wraps(function)
        async def wrapped(self, xs):
            return await function(self, xs)

        return wrapped

    class Some:
        @other
        @trilith.api(batch=Batch())
        async def read(self, xs: list[int]) -> list[int]:
            return xs

    with pytest.raises(InvalidConfig, match=r"Some.read: put @trilith.api\(batch=...\) above its other decorators"):
        trilith.service(Some)


def test_batched_twice():
    @trilith.api(batch=Batch())
    async def read(self, xs: list[int]) -> list[int]:
        return xs

    with pytest.raises(InvalidConfig, match=r"read is declared with @trilith.api twice"):
        trilith.api(read)


def test_a_subclass_keeps_and_overrides_batched_methods():
    class Base:
        @trilith.api(batch=Batch())
        async def read(self, xs: list[int]) -> list[int]:
            return [x + 1 for x in xs]

        @trilith.api(batch=Batch())
        async def other(self, xs: list[int]) -> list[int]:
            return xs

    @trilith.service
    class Derived(Base):
        @trilith.api(batch=Batch())
        async def read(self, xs: list[int]) -> list[int]:
            return [await super(Derived, self).read(x) * 10 for x in xs]

    assert asyncio.run(Derived().read(1)) == 20
    assert asyncio.run(Derived().other(1)) == 1
    assert list(spec_of(Derived).methods) == ["read", "other"]


def test_depends_takes_services_alone():
    with pytest.raises(InvalidConfig, match="'int' is not a service"):
        trilith.depends(int)

    class Inherits(Plain):
        pass

    with pytest.raises(InvalidConfig, match="inherits from a service"):
        trilith.depends(Inherits)


def test_model_takes_a_name_and_a_known_placement():
    with pytest.raises(InvalidConfig, match="takes the name of a model"):
        trilith.model("")
    with pytest.raises(InvalidConfig, match="placement must be 'node' or 'replica'"):
        trilith.model("m", placement="moon")  # type: ignore[arg-type]


def test_annotated_constraints_are_kept():
    @trilith.service
    def bounded(x: Annotated[int, Field(ge=0)] = 3) -> int:
        return x

    parameter = spec_of(bounded).methods["bounded"].signature.parameters[0]
    assert parameter.default == 3
    assert not parameter.value.plain
