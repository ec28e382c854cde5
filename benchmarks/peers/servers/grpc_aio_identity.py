"""grpc.aio on uvloop: `ModelInfer` of the Open Inference Protocol that gives its inputs back.

python grpc_aio_identity.py PORT
"""

from __future__ import annotations

import asyncio
import signal
import sys

import grpc
import numpy as np
import uvloop
from tritonclient.grpc import service_pb2, service_pb2_grpc


class Inference(service_pb2_grpc.GRPCInferenceServiceServicer):
    async def ModelInfer(
        self, request: service_pb2.ModelInferRequest, context: grpc.aio.ServicerContext
    ) -> service_pb2.ModelInferResponse:
        answer = service_pb2.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
        for tensor, raw in zip(request.inputs, request.raw_input_contents, strict=True):
            array = np.frombuffer(raw, np.float32).reshape(tensor.shape)
            answer.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=array.shape)
            answer.raw_output_contents.append(array.tobytes())
        return answer


async def main() -> None:
    server = grpc.aio.server()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Inference(), server)
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    await server.start()
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    await stopping.wait()
    await server.stop(1.0)


if __name__ == "__main__":
    uvloop.run(main())
