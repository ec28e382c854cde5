"""Options of `tritonserver` that `trilith serve` has by the same names, and what becomes of them."""

import pytest

from trilith.cli.serve import serve
from trilith.errors import InvalidConfig
from trilith.net.grpc import GrpcLimits
from trilith.orchestration.engine import gateway
from trilith.runtime import Runtime
from trilith.runtime.protocol import OipGrpc, OipHttp
from trilith.wire.oip_options import GrpcConnections, ProtocolOptions


def test_tritons_options_of_connections_are_in_milliseconds(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(gateway, "raise_descriptor_limit", lambda: 1 << 20)
    monkeypatch.setattr("trilith.orchestration.serve_forever", lambda options: asked.append(options) or 0)
    (tmp_path / "m" / "1").mkdir(parents=True)
    serve(tmp_path)
    serve(
        tmp_path,
        id="ours",
        grpc_keepalive_time=7200000,
        grpc_keepalive_timeout=1500,
        grpc_http2_min_recv_ping_interval_without_data=0,
        grpc_http2_max_ping_strikes=0,
        grpc_max_connection_age=60000,
        grpc_max_connection_age_grace=0,
    )
    usual, said = (options.protocol for options in asked)
    assert (usual.server_name, usual.grpc_connections) == ("", GrpcConnections())
    assert said.server_name == "ours"
    assert said.grpc_connections == GrpcConnections(
        keepalive_interval_s=7200.0,
        keepalive_timeout_s=1.5,
        min_ping_interval_s=0.0,
        max_ping_strikes=0,
        max_age_s=60.0,
        max_age_grace_s=0.0,
    )
    limits = gateway._limits(1 << 20, 15.0, said.grpc_connections)[1]
    assert (limits.keepalive_interval_s, limits.keepalive_timeout_s, limits.max_connection_age_s) == (7200.0, 1.5, 60.0)
    assert (limits.min_ping_interval_s, limits.max_connection_age_grace_s) == (0.0, 0.0)
    assert limits.max_ping_strikes > 1 << 40
    usual_limits, given = gateway._limits(1 << 20, 15.0, usual.grpc_connections)[1], GrpcLimits()
    assert (usual_limits.max_ping_strikes, usual_limits.max_connection_age_s) == (given.max_ping_strikes, None)
    assert usual_limits.min_ping_interval_s == given.min_ping_interval_s
    with pytest.raises(InvalidConfig, match="--grpc-keepalive-time must be from 1 to"):
        serve(tmp_path, grpc_keepalive_time=0)


@pytest.mark.parametrize(("said", "name"), [("ours", "ours"), ("", "triton")])
def test_the_servers_name_is_what_clients_are_told(said, name):
    options = ProtocolOptions(server_name=said, compat=True)
    for front in (OipHttp, OipGrpc):
        assert front(Runtime(), options=options)._server_name == name
