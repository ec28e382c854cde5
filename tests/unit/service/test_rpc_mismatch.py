"""A `.proto` and a class that do not fit: refused when the service starts, by a sentence with both names and types."""

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import trilith
from trilith.errors import InvalidConfig
from trilith.service import describe
from trilith.service.spec import ServiceSpec, spec_of

HEAD = 'syntax = "proto3"; package shop; '


@dataclasses.dataclass
class Item:
    name: str
    price: float


class Colour(enum.Enum):
    RED = 1


def declare(
    tmp_path, monkeypatch, proto: str, asked: Any, answered: Any, *, root: bool = False, **options: Any
) -> ServiceSpec:
    """A service with one method `buy(item)`, whose `.proto` lies in `tmp_path`."""
    (tmp_path / "shop.proto").write_text(HEAD + proto)
    monkeypatch.setattr("trilith.service.proto.binding.source_folder", lambda target: tmp_path)

    class Shop:
        if root:

            def buy(self, item, /):
                return item
        else:

            def buy(self, item):
                return item

    Shop.buy.__annotations__.update({"item": asked, "return": answered})
    Shop.buy = trilith.api(Shop.buy)
    return spec_of(trilith.service(proto="shop.proto", **options)(Shop))


def problem(*arguments: Any, **options: Any) -> str:
    with pytest.raises(InvalidConfig) as refused:
        describe(declare(*arguments, **options).target)
    return refused.value.message


SHOP = "service Shop { rpc Buy(Order) returns (Bill); } "


@pytest.mark.parametrize(
    ("fields", "annotation", "shown"),
    [
        ("string item = 1;", int, ("string", "int")),
        ("int32 item = 1;", bool, ("int32", "bool")),
        ("int64 item = 1;", float, ("int64", "float")),
        ("repeated string item = 1;", str, ("repeated string", "str")),
        ("string item = 1;", list[str], ("string", "list[str]")),
        ("repeated string item = 1;", list[int], ("repeated string", "list[int]")),
        ("repeated string item = 1;", list[str | None], ("repeated string", "holds no None")),
        ("repeated double item = 1;", tuple[float, str], ("repeated double", "all of one type")),
        ("map<string, int64> item = 1;", dict[int, int], ("map<string, int64>", "dict[int, int]")),
        ("string item = 1;", bytes, ("string", "bytes")),
        ("string item = 1;", NDArray[np.float32], ("string", "float32")),
        ("bytes item = 1;", np.ndarray, ("bytes", "dtype")),
        ("repeated string item = 1;", NDArray[np.float32], ("repeated string", "float32")),
        ("string item = 1;", Item, ("string", "Item")),
        ("Bill item = 1;", str, ("shop.Bill", "str")),
        ("Kind item = 1;", Colour, ("shop.Kind", "Colour", "BLUE")),
        ("oneof item { string a = 1; int64 b = 2; }", str | float, ("oneof `item`", "str | float", "`b`")),
        ("oneof item { string a = 1; }", str | int, ("oneof `item`", "nothing for int")),
        ("string item = 1;", Colour, ("string", "Colour")),
    ],
)
def test_types_that_have_nothing_in_common(tmp_path, monkeypatch, fields, annotation, shown):
    proto = SHOP + f"message Order {{ {fields} }} message Bill {{ double sum = 1; }} enum Kind {{ RED = 0; BLUE = 1; }}"
    text = problem(tmp_path, monkeypatch, proto, annotation, float)
    assert text.startswith("shop.Shop/Buy does not fit Shop.buy: ")
    for word in ("`item`", *shown):
        assert word in text


def test_names_that_one_side_has_not(tmp_path, monkeypatch):
    proto = SHOP + "message Order { string item = 1; string note = 2; } message Bill { double sum = 1; }"
    text = problem(tmp_path, monkeypatch, proto, str, float)
    assert "shop.Order has the field `note` (string), and there is no parameter `note` of Shop.buy" in text
    proto = SHOP + "message Order { string thing = 1 [deprecated = true]; } message Bill { double sum = 1; }"
    text = problem(tmp_path, monkeypatch, proto, str, float)
    assert "there is parameter `item` of Shop.buy (str), and shop.Order has no such field" in text


def test_fields_of_a_class_that_differ(tmp_path, monkeypatch):
    order = "message Order { Thing item = 1; } message Bill { double sum = 1; } "
    text = problem(
        tmp_path, monkeypatch, SHOP + order + "message Thing { string name = 1; string price = 2; }", Item, float
    )
    assert "the field `price` of shop.Thing is string, and `price` of Item is float" in text
    text = problem(tmp_path, monkeypatch, SHOP + order + "message Thing { string name = 1; }", Item, float)
    assert "there is `price` of Item (float), and shop.Thing has no such field" in text


@pytest.mark.parametrize(
    ("bill", "annotation", "shown"),
    [
        ("double sum = 1;", str, ("`sum` of shop.Bill is double", "the result of Shop.buy is str")),
        ("double sum = 1; string note = 2;", float, ("shop.Bill has `sum`, `note`", "float", "a class")),
        ("double sum = 1;", None, ("shop.Bill", "None")),
        ("", float, ("shop.Bill has no field", "float")),
        ("string name = 1; double cost = 2;", Item, ("`cost` (double)", "`cost` of Item")),
    ],
)
def test_results_that_have_no_form_in_the_answer(tmp_path, monkeypatch, bill, annotation, shown):
    proto = SHOP + f"message Order {{ string item = 1; }} message Bill {{ {bill} }}"
    text = problem(tmp_path, monkeypatch, proto, str, annotation)
    for word in shown:
        assert word in text


ORDER = "message Order { string item = 1; } message Bill { double sum = 1; } "


def test_every_rpc_has_a_method(tmp_path, monkeypatch):
    proto = "service Shop { rpc Buy(Order) returns (Bill); rpc GiveBack(Order) returns (Bill); } " + ORDER
    text = problem(tmp_path, monkeypatch, proto, str, float)
    assert text.startswith("shop.Shop/GiveBack has no method")
    assert "`give_back`" in text
    assert "it has buy" in text


@pytest.mark.parametrize(
    ("rpc", "asked", "answered", "shown"),
    [
        (
            "Buy(stream Order) returns (Bill)",
            str,
            float,
            "takes a stream of shop.Order, and Shop.buy takes one message",
        ),
        ("Buy(Order) returns (Bill)", Iterator[str], float, "takes one shop.Order, and Shop.buy takes a stream"),
        ("Buy(Order) returns (stream Bill)", str, float, "answers with a stream of shop.Bill, and Shop.buy with one"),
        ("Buy(Order) returns (Bill)", str, Iterator[float], "answers with one shop.Bill, and Shop.buy with a stream"),
        ("Buy(stream Order) returns (Bill)", Iterator[int], float, "`item` of shop.Order is string"),
        ("Buy(Order) returns (stream Bill)", str, Iterator[str], "`sum` of shop.Bill is double"),
    ],
)
def test_streams_that_the_other_side_has_not(tmp_path, monkeypatch, rpc, asked, answered, shown):
    text = problem(tmp_path, monkeypatch, f"service Shop {{ rpc {rpc}; }} {ORDER}", asked, answered)
    assert text.startswith("shop.Shop/Buy ")
    assert shown in text


def test_which_service_it_is(tmp_path, monkeypatch):
    two = SHOP + "service Store { rpc Buy(Order) returns (Bill); } " + ORDER
    assert "shop.Shop, shop.Store; say which one" in problem(tmp_path, monkeypatch, two, str, float)
    assert "it has shop.Shop, shop.Store" in problem(tmp_path, monkeypatch, two, str, float, rpc="shop.Stall")
    assert "shop.proto declares no service" in problem(tmp_path, monkeypatch, ORDER, str, float)
    spec = declare(tmp_path, monkeypatch, two, str, float, rpc="shop.Store")
    assert spec.grpc.name == "shop.Store"


def test_a_file_that_is_none(tmp_path, monkeypatch):
    text = problem(tmp_path, monkeypatch, "message Order { strin item = 1; }", str, float)
    assert "is no valid .proto file" in text
    assert "strin" in text
    spec = declare(tmp_path, monkeypatch, SHOP + ORDER, str, float)
    (tmp_path / "shop.proto").unlink()
    with pytest.raises(InvalidConfig, match="there is no file"):
        describe(spec.target)


def test_a_descriptor_set_is_as_good_as_its_file_and_needs_no_compiler(tmp_path, monkeypatch):
    octets = declare(tmp_path, monkeypatch, SHOP + ORDER, str, float).grpc.descriptor_set
    monkeypatch.setattr("trilith.service.proto.compiler._compiler", lambda where: pytest.fail("compiled"))
    (tmp_path / "shop.binpb").write_bytes(octets)

    @trilith.service(proto="shop.binpb")
    class Shop:
        @trilith.api
        def buy(self, item: str) -> float:
            return 1.0

    assert spec_of(Shop).grpc.name == "shop.Shop"
    (tmp_path / "shop.binpb").write_bytes(b"\xff")
    with pytest.raises(InvalidConfig, match="descriptors cannot be read"):
        describe(trilith.service(proto="shop.binpb")(type("Other", (Shop,), {"buy": Shop.buy})))


def test_without_a_compiler_it_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "pip install 'trilith[proto]'" in problem(tmp_path, monkeypatch, SHOP + ORDER, str, float)


@pytest.mark.parametrize(
    "options",
    [{"proto": "shop.txt"}, {"proto": 3}, {"rpc": "Shop"}, {"rpc": "shop."}, {"proto": "a.proto", "rpc": "a b"}],
)
def test_options_that_are_none(options):
    with pytest.raises(InvalidConfig, match=r"service: (proto|rpc)"):
        trilith.service(**options)(type("Shop", (), {"buy": trilith.api(lambda self: None)}))


def test_two_services_of_one_name(tmp_path, monkeypatch):
    inner = declare(tmp_path, monkeypatch, SHOP + ORDER, str, float).target

    @trilith.service(name="Front", proto="shop.proto")
    class Front:
        inner_shop = trilith.depends(inner)

        @trilith.api
        def buy(self, item: str) -> float:
            return 1.0

    with pytest.raises(InvalidConfig, match=r"Front and Shop are both the gRPC service shop\.Shop"):
        describe(Front)


@pytest.mark.parametrize("name", ["inference.GRPCInferenceService", "grpc.health.v1.Health", "grpc.reflection.v1.X"])
def test_the_servers_own_services_are_taken(name):
    @trilith.service(rpc=name)
    def echo(x: int) -> int:
        return x

    with pytest.raises(InvalidConfig, match="the server's own"):
        describe(echo)
