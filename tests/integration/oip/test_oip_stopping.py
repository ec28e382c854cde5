"""Calls over gRPC that come while the server stops, by Triton's own client."""

import numpy as np
import pytest
from oip_server import OipServer, _write_identity

from trilith.wire.oip_options import ProtocolOptions

triton = pytest.importorskip("tritonclient.grpc")
TEXT = "GRPC server is shutting down and has stopped accepting new requests."


@pytest.mark.parametrize("compat", [False, True])
def test_a_client_that_has_not_heard(tmp_path, compat):
    _write_identity(tmp_path, "m", "FP32", dims="-1", max_batch_size=0)
    x = triton.InferInput("INPUT0", [2], "FP32")
    x.set_data_from_numpy(np.ones(2, np.float32))
    with OipServer().running(tmp_path, ProtocolOptions(compat=compat)) as server:
        client = triton.InferenceServerClient(server.grpc)
        assert client.is_server_ready()
        server.oip_grpc.exiting = True
        if compat:
            for call in (client.is_server_ready, client.get_model_repository_index, lambda: client.infer("m", [x])):
                with pytest.raises(triton.InferenceServerException) as caught:
                    call()
                assert (caught.value.status(), caught.value.message()) == ("StatusCode.UNAVAILABLE", TEXT)
        else:
            assert not client.is_server_ready()
            assert client.infer("m", [x]).as_numpy("OUTPUT0").tolist() == [1, 1]
        client.close()
