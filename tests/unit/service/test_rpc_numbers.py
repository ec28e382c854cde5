"""Numbers in a written `.proto` hold when the class changes: what clients hold is never read as something else."""

import dataclasses
import enum

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given, settings
from hypothesis import strategies as st

import trilith
from trilith.cli.proto import proto
from trilith.errors import InvalidConfig
from trilith.service import proto_of
from trilith.service.proto.compiler import read_file
from trilith.service.spec import spec_of

TYPES = {"int": int, "str": str, "list": list[int], "map": dict[str, float]}
NAMES = ["a", "b", "c", "d", "e"]


def service(fields, members=("RED",), **options):
    """A service whose one message has these fields, and an enum with these members."""
    colour = enum.Enum("Colour", list(members))
    kinds = [*((name, kind) for name, kind in fields.items()), ("colour", colour)]
    note = dataclasses.make_dataclass("Note", kinds)

    async def keep(self, note):
        return 1

    keep.__annotations__.update({"note": note, "return": int})
    return spec_of(trilith.service(**options)(type("Notes", (), {"keep": trilith.api(keep)})))


def write(path, spec):
    path.write_text(proto_of(spec, path))
    return FileDescriptorSet.FromString(read_file(path, path.parent, "test")).file[-1]


def note_of(file):
    [message] = [one for one in file.message_type if one.name == "Note"]
    return message


def test_what_is_new_gets_the_next_number_and_what_is_gone_is_reserved(tmp_path):
    path = tmp_path / "notes.proto"
    write(path, service({"a": int, "b": str}))
    note = note_of(write(path, service({"new": str, "b": str})))
    assert {field.name: field.number for field in note.field} == {"new": 4, "b": 2, "colour": 3}
    assert (list(note.reserved_name), [each.start for each in note.reserved_range]) == (["a"], [1])
    note = note_of(write(path, service({"a": str, "new": str})))
    assert {field.name: field.number for field in note.field} == {"a": 5, "new": 4, "colour": 3}
    assert ([each.start for each in note.reserved_range], list(note.reserved_name)) == ([1, 2], ["b"])


@settings(max_examples=25)
@given(st.lists(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(sorted(TYPES)), min_size=1), max_size=4))
def test_no_number_is_ever_two_things(tmp_path_factory, history):
    path = tmp_path_factory.mktemp("numbers") / "notes.proto"
    seen = {}
    for kinds in history:
        try:
            note = note_of(write(path, service({name: TYPES[kind] for name, kind in kinds.items()})))
        except InvalidConfig:  # a field of another type than before
            continue
        for field in note.field:
            assert seen.setdefault(field.number, (field.name, kinds.get(field.name))) == (
                field.name,
                kinds.get(field.name),
            )
        assert not {field.number for field in note.field} & {each.start for each in note.reserved_range}


def test_enums_keep_theirs_too(tmp_path):
    path = tmp_path / "notes.proto"
    write(path, service({"a": int}, ("RED", "BLUE")))
    [declared] = write(path, service({"a": int}, ("GREEN", "BLUE"))).enum_type
    assert {value.name: value.number for value in declared.value} == {
        "COLOUR_UNSPECIFIED": 0,
        "COLOUR_GREEN": 3,
        "COLOUR_BLUE": 2,
    }
    assert [(each.start, each.end) for each in declared.reserved_range] == [(1, 1)]


def test_another_type_under_one_number_is_refused(tmp_path):
    path = tmp_path / "notes.proto"
    write(path, service({"a": int}))
    before = path.read_text()
    with pytest.raises(InvalidConfig, match="`a` of Note is of another type than in the file, where it is number 1"):
        write(path, service({"a": str}))
    assert path.read_text() == before


def test_a_kept_file_is_served_and_brought_up_to_date(tmp_path, monkeypatch):
    monkeypatch.setattr("trilith.service.proto.binding.source_folder", lambda target: tmp_path)
    path = tmp_path / "notes.proto"
    write(path, service({"a": int, "b": str}))
    assert service({"a": int, "b": str}, proto="notes.proto").grpc.name == "notes.Notes"
    changed = service({"b": str, "c": int}, proto="notes.proto")
    with pytest.raises(InvalidConfig, match=r"`a` \(int64\)"):
        _ = changed.grpc
    write(path, changed)
    again = service({"b": str, "c": int}, proto="notes.proto")
    assert list(again.grpc.methods) == ["keep"]
    assert proto_of(again) == path.read_text()


def test_a_file_of_ones_own_is_left_as_it_is(tmp_path):
    path = tmp_path / "own.proto"
    path.write_text('syntax = "proto3"; package own;')
    with pytest.raises(InvalidConfig, match=r"was not made by `trilith proto`, and is left as it is"):
        proto_of(service({"a": int}), path)


def test_the_command(tmp_path, capsys):
    (tmp_path / "rpc_echo.py").write_text(
        "import trilith\n\n\n@trilith.service\ndef echo(x: int) -> int:\n    return x\n"
    )
    (tmp_path / "rpc_odd.py").write_text(
        "import trilith\n\n\n@trilith.service\ndef odd(x: complex) -> int:\n    return 1\n"
    )
    assert proto(f"{tmp_path}/rpc_echo.py:echo") == 0
    shown = capsys.readouterr().out
    assert "rpc Echo(EchoRequest) returns (EchoResponse);" in shown
    assert proto(f"{tmp_path}/rpc_echo.py:echo", output=tmp_path / "echo.proto") == 0
    assert (tmp_path / "echo.proto").read_text() == shown
    with pytest.raises(InvalidConfig, match="odd: `x`: complex has no form"):
        proto(f"{tmp_path}/rpc_odd.py:odd")
    with pytest.raises(InvalidConfig, match="cannot be written"):
        proto(f"{tmp_path}/rpc_echo.py:echo", output=tmp_path / "absent" / "echo.proto")
