"""Options of loading are said once: a server's are the runtime's, whatever they are."""

import inspect
import math
from pathlib import Path

import pytest

from trilith.cli.serve import serve
from trilith.core.load_options import RANGES, ControlMode, LoadOptions
from trilith.errors import InvalidConfig
from trilith.orchestration import RepositoryOptions
from trilith.orchestration.engine.model_rows import runtime_config
from trilith.runtime import RuntimeConfig

OTHER = {
    "backend_directory": "backends",
    "repoagent_directory": "agents",
    "backend_config": ("onnxruntime,default-max-batch-size=8",),
    "disable_auto_complete_config": True,
    "metrics_config": ("summary_latencies=true",),
    "gpu_instances_on_cpu": True,
    "model_settings": {"m": {"instances": 2}},
    "model_namespacing": True,
    "mode": ControlMode.EXPLICIT,
    "load_at_start": ("a",),
    "on_demand": True,
    "max_loaded_models": 7,
    "load_on_demand_wait_s": 8.0,
    "poll_s": 9.0,
    "load_threads": 10,
    "load_timeout_s": None,
    "model_load_retry_count": 11,
    "config_name": "b",
    "strict_readiness": False,
}


@pytest.mark.parametrize("name", LoadOptions.__struct_fields__)
def test_what_a_server_is_told_its_runtime_is_told(name):
    given = runtime_config(
        RepositoryOptions(**{name: OTHER[name]}), compat=False, loads=Path("loads"), loading=lambda *_: None
    )
    assert getattr(given, name) == OTHER[name] != getattr(LoadOptions(), name)


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("kind", [RepositoryOptions, RuntimeConfig])
def test_ranges_hold_wherever_a_number_is_said(kind, name):
    least, most = RANGES[name]
    kind(**{name: least})
    for wrong in (least - 1, math.nan, most if most == math.inf else most + 1):
        with pytest.raises(InvalidConfig, match=f"^{name}: must be "):
            kind(**{name: wrong})


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("max_loaded_models", "max_loaded_models"),
        ("load_on_demand_wait_s", "load_on_demand_wait_s"),
        ("repository_poll_secs", "poll_s"),
        ("model_load_thread_count", "load_threads"),
        ("model_load_timeout_s", "load_timeout_s"),
        ("model_load_retry_count", "model_load_retry_count"),
    ],
)
def test_the_command_line_has_the_same_ranges_and_defaults(option, name):
    shown = f"--{option.replace('_', '-')} must be {RANGES[name]}"
    with pytest.raises(InvalidConfig) as caught:
        serve("app:A", **{option: -1})
    assert caught.value.message in (f"{shown}, got -1", f"{shown}, or 0 for none, got -1")
    assert inspect.signature(serve).parameters[option].default == (getattr(LoadOptions(), name) or 0)
