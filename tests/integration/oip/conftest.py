import pytest
from oip_server import OipServer, write_models


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    write_models(root)
    with OipServer().running(root) as running:
        yield running
