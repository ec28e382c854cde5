"""Numbers that nothing could hold are refused where they are read: by their field, with its range, in both formats."""

import msgspec
import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from trilith.config import convert, parse_yaml
from trilith.errors import InvalidConfig
from trilith.runtime.model_fields import HONOURED
from trilith.runtime.model_pbtxt import parse_model_pbtxt
from trilith.runtime.model_yaml import Model
from trilith.runtime.ranges import Range
from trilith.wire.oip_messages import model_config_messages

NUMBERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(1 << 31), (1 << 31) - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(1 << 63), (1 << 63) - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, (1 << 32) - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, (1 << 64) - 1),
}


def numbers_of(descriptor, honoured, path=()):
    """The honoured fields of Triton's configuration that hold a number: path, range, and what protobuf could hold."""
    for field in descriptor.fields:
        if field.name not in honoured:
            continue
        allowed, here = honoured[field.name], (*path, field.name)
        message = field.message_type
        if message is not None and message.GetOptions().map_entry:
            message, here = message.fields_by_name["value"].message_type, (*here, None)
        if message is not None and allowed is not None:
            yield from numbers_of(message, allowed, here)
        elif field.cpp_type in NUMBERS:
            yield pytest.param(here, allowed, NUMBERS[field.cpp_type], id=".".join(filter(None, here)))


FIELDS = list(numbers_of(model_config_messages().ModelConfig.DESCRIPTOR, HONOURED))


def written(path, number):
    """The text format of one number at a path; None stands for the value of a mapping's entry."""
    text = f"{path[-1]}: {number}"
    for at in range(len(path) - 2, -1, -1):
        name = path[at]
        if name is None:
            text = f"value {{ {text} }}"
        elif path[at + 1] is None:
            key = "1" if name == "priority_queue_policy" else '"k"'
            text = f"{name} {{ key: {key} {text} }}"
        else:
            text = f"{name} {{ {text} }}"
    return text


def test_the_fields_were_found():
    assert len(FIELDS) >= 15


@pytest.mark.parametrize(("path", "allowed", "holds"), FIELDS)
def test_a_pbtxt_number_has_a_range_and_keeps_it(path, allowed, holds):
    assert isinstance(allowed, Range), "a number without a range"
    assert holds[0] <= allowed.least <= allowed.most <= holds[1] or allowed.least == -1
    outside = [holds[0] - 1, holds[1] + 1, 1 << 80, "1.5", "1e400"]
    outside += [number for number in (allowed.least - 1, allowed.most + 1, *holds) if number]
    for number in outside:
        if isinstance(number, int) and allowed.least <= number <= allowed.most:
            continue
        with pytest.raises(InvalidConfig) as caught:
            parse_model_pbtxt(f"# max: {{\n{written(path, number)}", "m", source="c")
        said = caught.value.message
        assert path[-1] in said
        assert f"must be an integer from {allowed.least} to {allowed.most}, got {number}" in said


@given(st.integers(-(1 << 70), 1 << 70))
def test_a_window_is_read_exactly_or_refused(delay_us):
    text = f"max_batch_size: 4 dynamic_batching {{ max_queue_delay_microseconds: {delay_us} }}"
    if 0 <= delay_us <= 31_536_000 * 1_000_000:
        assert parse_model_pbtxt(text, "m", source="c").queue.max_wait_s == delay_us / 1e6
    else:
        with pytest.raises(InvalidConfig, match="max_queue_delay_microseconds: must be an integer from 0 to 3153"):
            parse_model_pbtxt(text, "m", source="c")


def test_a_number_is_named_by_its_field_wherever_it_stands():
    text = """
    name: "m{" # { max_queue_delay_microseconds: 1
    dynamic_batching {
      default_queue_policy < max_queue_size: 1 >
      preferred_batch_size: [ 4,
        99999999999 ]
    }"""
    with pytest.raises(InvalidConfig) as caught:
        parse_model_pbtxt(text, "m", source="c")
    assert caught.value.message == (
        "c: line 6: dynamic_batching.preferred_batch_size: must be an integer from 0 to 2147483647, got 99999999999"
    )


def test_what_is_no_number_is_said_in_the_parsers_words():
    with pytest.raises(InvalidConfig, match=r"c: line 1: version_policy\.surprise: |c: 1:\d+ : .*surprise"):
        parse_model_pbtxt("version_policy { surprise: 99999999999999999999 }", "m", source="c")
    with pytest.raises(InvalidConfig, match=r"c: line 1: max_batch_size: must be an integer from 0 to .*, got \{"):
        parse_model_pbtxt("max_batch_size: {", "m", source="c")
    with pytest.raises(InvalidConfig, match=r"c: 1:\d+"):
        parse_model_pbtxt("max_batch_size 7 7", "m", source="c")


@pytest.mark.parametrize("escape", ["\\>", "\\8", "\\777", "\\x", "\\u12", "\\ "])
def test_an_escape_that_is_none_is_refused(escape):
    """The parser of protobuf guesses what it means, and warns."""
    with pytest.raises(InvalidConfig, match=r"c: line 2: no such escape in a string: "):
        parse_model_pbtxt(
            f'# "\\>"\nname: "m" parameters {{ key: "k{escape}" value {{ string_value: "v" }} }}', "m", source="c"
        )


def test_escapes_of_the_text_format_are_read():
    text = r"""parameters { key: 'k' value { string_value: "a\n\101\x41\'\"\\\u0041\0" } }"""
    assert parse_model_pbtxt(text, "m", source="c").parameters["k"] == "a\nAA'\"\\A\0"


def test_a_number_that_stands_for_no_name_is_refused():
    with pytest.raises(InvalidConfig, match=r"data_type: must be one of TYPE_INVALID, .*, got 32"):
        parse_model_pbtxt('input { name: "x" data_type: 32 dims: 1 }', "m", source="c")
    text = "instance_group { secondary_devices { device_id: 1 } secondary_devices { kind: 99 } }"
    with pytest.raises(InvalidConfig, match=r"instance_group\.secondary_devices\[1\]\.kind: must be .*, got 99"):
        parse_model_pbtxt(text, "m", source="c")
    with pytest.raises(InvalidConfig, match=r"optimization\.priority: must be one of PRIORITY_DEFAULT, .*, got 7"):
        parse_model_pbtxt("optimization { priority: 7 }", "m", source="c")


def yaml_numbers(info, path="$", seen=()):
    """The numbers of a type of msgspec's, with their paths."""
    if isinstance(info, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        yield path, info
    elif isinstance(info, msgspec.inspect.UnionType):
        for member in info.types:
            yield from yaml_numbers(member, path, seen)
    elif isinstance(info, msgspec.inspect.StructType) and info.cls not in seen:
        for field in info.fields:
            yield from yaml_numbers(field.type, f"{path}.{field.encode_name}", (*seen, info.cls))
    elif isinstance(info, msgspec.inspect.DictType):
        yield from yaml_numbers(info.key_type, f"{path}.*", seen)
        yield from yaml_numbers(info.value_type, f"{path}.*", seen)
    elif isinstance(info, msgspec.inspect.CollectionType):
        yield from yaml_numbers(info.item_type, f"{path}[]", seen)


def test_every_yaml_number_has_a_range():
    free = {"$.inputs[].pad.value", "$.parameters.*"}  # values of tensors, and text for a backend
    found = {path: info for path, info in yaml_numbers(msgspec.inspect.type_info(Model)) if path not in free}
    assert len(found) >= 25
    without = [path for path, info in found.items() if info.le is None or (info.ge is None and info.gt is None)]
    assert without == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("max_batch_size: 18446744073709551615", "max_batch_size: must be an integer from 0 to 2147483647, got 1844"),
        ("max_batch_size: 1.5", "max_batch_size: must be an integer from 0 to 2147483647, got 1.5"),
        ("batching: {max_wait_ms: .inf}", "batching.max_wait_ms: must be a number from 0 to 31536000000, got inf"),
        ("batching: {max_wait_ms: .nan}", "batching.max_wait_ms: must be a number from 0 to 31536000000, got nan"),
        ("batching: {max_wait_ms: 1e400}", "batching.max_wait_ms: must be a number from 0 to 31536000000, got inf"),
        (f"timeout_ms: {'9' * 400}", "timeout_ms: must be a number above 0 and up to 31536000000, got 999"),
        ("batching: {max_latency_ms: 0}", "batching.max_latency_ms: must be a number above 0 and up to 31536000000"),
        ("batching: {preferred: [4, -4]}", "batching.preferred[1]: must be an integer from 1 to 2147483647, got -4"),
        ("priority: {policies: {1: {timeout_ms: -1}}}", "priority.policies[*].timeout_ms: must be a number above 0"),
        ("priority: {policies: {2000: {}}}", "priority.policies: Expected `int` <= 1024"),
        ("priority: {levels: 18446744073709551615}", "priority.levels: must be an integer from 1 to 1024"),
        ("instances: {count: 1000}", "instances.count: must be an integer from 1 to 256, got 1000"),
        ("session: {intra_op_threads: 2000000}", "session.intra_op_threads: must be an integer from 0 to 1024"),
        ("versions: [9223372036854775808]", "versions[0]: must be an integer from 1 to 9223372036854775807"),
        ("inputs: [{name: x, pad: {axis: 1000}}]", "inputs[0].pad.axis: must be an integer from -64 to 63, got 1000"),
    ],
)
def test_a_yaml_number_outside_its_range(text, says):
    with pytest.raises(InvalidConfig) as caught:
        convert(parse_yaml(text, source="m"), Model, source="m")
    assert caught.value.message.startswith(f"m: {says}")
