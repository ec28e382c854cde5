"""What is said of a command to everybody who may read the API."""

import pytest

import trilith
from trilith.service import describe, spec_of


@pytest.mark.parametrize("arguments", [["/opt/vllm", "serve", "--api-key", "sk-secret"], ["vllm", "sk-secret"]])
def test_a_command_is_published_by_the_name_of_its_program(arguments):
    @trilith.service(cmd=trilith.Command(arguments))
    class Model:
        pass

    (mount,) = spec_of(Model).mounts.values()
    assert mount.documentation == "Answered by vllm."
    assert "secret" not in repr(describe(Model))
