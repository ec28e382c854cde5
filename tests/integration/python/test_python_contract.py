"""The Python backend does what the runtime relies on in every backend."""

from pathlib import Path

import pytest
from python_models import ADD_SUB, ADD_SUB_PBTXT, write_model

from trilith.runtime.backends.port import ModelFile
from trilith.runtime.backends.python.backend import PythonBackend
from trilith.runtime.backends.python.counted import CountedByModels
from trilith.runtime.model_pbtxt import load_model_pbtxt
from trilith.testing.backend_contract import BACKEND_CHECKS
from trilith.testing.request_backends import Joined


@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__)
def test_python_backend(check, repository):
    folder = write_model(repository, "add_sub", ADD_SUB, pbtxt=ADD_SUB_PBTXT)
    spec = load_model_pbtxt(folder / "config.pbtxt", "add_sub")
    file = ModelFile(model="add_sub", version=1, path=Path(folder / "1" / "model.py"), spec=spec)
    check(lambda: Joined(PythonBackend(file, CountedByModels())))
