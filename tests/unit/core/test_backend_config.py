"""`--backend-config`, as tritonserver reads it."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trilith.core.backend_config import read_backend_config
from trilith.core.load_options import LoadOptions
from trilith.errors import InvalidConfig

ROWS = "default-max-batch-size"


def test_a_size_is_that_of_its_backend_before_that_of_all():
    found = read_backend_config([f"{ROWS}=8", f"onnxruntime,{ROWS}=0", f"{ROWS}=8"])
    backends = ("onnxruntime", "pytorch", "openvino", "python")
    assert [found.rows_of(backend) for backend in backends] == [0, 8, 8, None]
    assert found.idle == ()
    assert read_backend_config([]).rows_of("onnxruntime") is None
    assert LoadOptions(backend_config=(f"pytorch,{ROWS}=3",)).backend_settings.rows_of("pytorch") == 3


@pytest.mark.parametrize("name", ["shm-default-byte-size", "shm-growth-byte-size", "stub-timeout-seconds"])
def test_what_has_no_effect_is_told(name):
    (told,) = read_backend_config([f"python,{name}=67108864"]).idle
    assert told.startswith(f"--backend-config python,{name}=67108864 has no effect: ")


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("backend-directory=/opt/backends", "here it is --backend-directory"),
        ("onnxruntime,intra_op_thread_count=4", "INTRA_OP_THREAD_COUNT"),
        (
            "python,shm-default-bytes=4",
            "'python' has no setting 'shm-default-bytes' here; there is shm-default-byte-size",
        ),
        ("tensorflow,version=2", "the backend 'tensorflow' has no setting 'version' here. What concerns"),
        (f"python,{ROWS}=4", "a model.py says its batch size"),
        (f"{ROWS}=-1", "must be an integer from 0 to 2147483647, got '-1'"),
        (f"{ROWS}=2147483648", "must be an integer from 0 to 2147483647"),
        (f"{ROWS}=four", "must be an integer"),
        (f"{ROWS}=\u0664", "must be an integer"),
    ],
)
def test_other_settings_are_refused_by_name(setting, says):
    with pytest.raises(InvalidConfig) as caught:
        LoadOptions(backend_config=(setting,))
    assert caught.value.message.startswith(f"--backend-config {setting}: ")
    assert says in caught.value.message


@pytest.mark.parametrize("setting", ["", "python", "python,", "python,a", "python,a=", "a=", "=1", ",a=1", "python,=1"])
def test_malformed_ones_are_told_the_form(setting):
    with pytest.raises(InvalidConfig, match=r"option format is '<backend name>,<setting>=<value>'.*Got "):
        read_backend_config([setting])


def test_one_that_contradicts_another_is_refused():
    with pytest.raises(InvalidConfig, match="was said before, to be 8; say it once"):
        read_backend_config([f"{ROWS}=8", f"{ROWS}=4"])


@given(st.text(alphabet="ab,=1-\u0661 python", max_size=20))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InvalidConfig):
        read_backend_config([text])
