"""CPU per unary gRPC call: our server in one process, a raw HTTP/2 client in another, one connection.

    python benchmarks/grpc_echo.py [--calls 40000] [--in-flight 32] [--rounds 3] [--grpcio]

Handlers: `noop` answers a constant, `protobuf` parses a ModelInfer request, sums it with numpy and builds the answer,
`task` is `noop` in a coroutine. Metadata: `same` sends one head with each call, `unique` one of its own, which enters
the header table. Prints the best round. With `--grpcio` the client is grpcio's, with a deadline on each call.
"""

import argparse
import asyncio
import multiprocessing
import multiprocessing.connection
import socket
import struct
import time

import uvloop
from hpack import Encoder

from trilith.net.grpc import GrpcCall, GrpcServer

PATH = b"/inference.GRPCInferenceService/ModelInfer"


def noop(call: GrpcCall) -> None:
    call.reply(b"x" * 60)


async def task(call: GrpcCall) -> None:
    call.reply(b"x" * 60)


def protobuf_app():  # noqa: ANN201
    import numpy as np
    from tritonclient.grpc import service_pb2 as pb

    def infer(call: GrpcCall) -> None:
        request = pb.ModelInferRequest.FromString(call.message)
        tensor = np.frombuffer(request.raw_input_contents[0], np.float32).reshape(tuple(request.inputs[0].shape))
        total = tensor.sum(axis=1, keepdims=True)
        output = pb.ModelInferResponse.InferOutputTensor(name="OUTPUT0", datatype="FP32", shape=total.shape)
        answer = pb.ModelInferResponse(
            model_name=request.model_name, id=request.id, outputs=[output], raw_output_contents=[total.tobytes()]
        )
        call.reply(answer.SerializeToString())

    return infer


def request_message() -> bytes:
    import numpy as np
    from tritonclient.grpc import service_pb2 as pb

    tensor = pb.ModelInferRequest.InferInputTensor(name="INPUT0", datatype="FP32", shape=[1, 4])
    data = np.ones(4, np.float32).tobytes()
    return pb.ModelInferRequest(model_name="m", inputs=[tensor], raw_input_contents=[data]).SerializeToString()


def serve(handler: str, pipe: multiprocessing.connection.Connection) -> None:
    app = {"noop": lambda: noop, "task": lambda: task, "protobuf": protobuf_app}[handler]()

    async def main() -> None:
        server = GrpcServer(app)
        await server.start()
        pipe.send(server.addresses[0])
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def on_pipe() -> None:
            if pipe.recv() == "stop":
                ended.set()
            else:
                pipe.send(time.process_time())

        loop.add_reader(pipe.fileno(), on_pipe)
        await ended.wait()
        await server.drain(0.1)

    uvloop.run(main())


def frame(kind: int, flags: int, stream_id: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream_id) + payload


def raw_load(address: tuple[str, int], calls: int, in_flight: int, message: bytes, *, unique: bool) -> None:
    """Closed loop: sends as many requests as answers ended in the octets just read."""
    encoder = Encoder()
    head = [(":method", "POST"), (":scheme", "http"), (":path", PATH.decode()), (":authority", "localhost"),
            ("te", "trailers"), ("content-type", "application/grpc"), ("user-agent", "grpc-python/1.80.0"),
            ("grpc-accept-encoding", "identity, deflate, gzip"), ("accept-encoding", "identity")]  # fmt: skip
    body = b"\0" + struct.pack(">I", len(message)) + message
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        + frame(4, 0, 0, struct.pack(">HI", 4, 1 << 30))
        + frame(8, 0, 0, struct.pack(">I", 1 << 30))
    )
    sent = done = 0
    encoder.encode(head)

    def requests(count: int) -> bytes:
        nonlocal sent
        parts = []
        for _ in range(count):
            fields = [*head, ("traceparent", f"00-{sent:032x}-{sent:016x}-01")] if unique else head
            stream_id = 2 * sent + 1
            block = encoder.encode(fields) if unique or sent == 0 else constant
            parts.append(frame(1, 4, stream_id, block) + frame(0, 1, stream_id, body))
            sent += 1
        return b"".join(parts)

    first = Encoder()
    opening = first.encode(head)
    constant = first.encode(head)
    encoder = Encoder()
    assert encoder.encode(head) == opening
    connection.sendall(frame(1, 4, 1, opening) + frame(0, 1, 1, body))
    sent = 1
    connection.sendall(requests(min(in_flight - 1, calls - 1)) if in_flight > 1 else b"")
    rest = b""
    while done < calls:
        octets = rest + connection.recv(1 << 18)
        position = ended = 0
        while len(octets) - position >= 9:
            size = int.from_bytes(octets[position : position + 3], "big")
            if len(octets) - position < 9 + size:
                break
            kind, flags = octets[position + 3], octets[position + 4]
            assert kind not in (3, 7), octets[position : position + 9 + size]
            ended += kind in (0, 1) and flags & 1
            position += 9 + size
        rest = octets[position:]
        done += ended
        if ended and sent < calls:
            connection.sendall(requests(min(ended, calls - sent)))
    connection.close()


def grpcio_load(address: tuple[str, int], calls: int, in_flight: int, message: bytes) -> None:
    import grpc

    async def main() -> None:
        async with grpc.aio.insecure_channel(f"{address[0]}:{address[1]}") as channel:
            infer = channel.unary_unary(PATH.decode())
            left = iter(range(calls))

            async def client() -> None:
                for _ in left:
                    await infer(message, timeout=10)

            await asyncio.gather(*(client() for _ in range(in_flight)))

    asyncio.run(main())


def measure(handler: str, metadata: str, options: argparse.Namespace) -> tuple[float, float]:
    """Microseconds of server CPU per call, and calls per second."""
    context = multiprocessing.get_context("spawn")
    pipe, child = context.Pipe()
    server = context.Process(target=serve, args=(handler, child))
    server.start()
    address = pipe.recv()
    message = request_message()

    def cpu_s() -> float:
        pipe.send("cpu")
        return pipe.recv()

    best = (float("inf"), 0.0)
    for number in range(options.rounds + 1):
        calls = options.calls if number else 500  # the first round warms up
        cpu_before_s, began_s = cpu_s(), time.perf_counter()
        if options.grpcio:
            grpcio_load(address, calls, options.in_flight, message)
        else:
            raw_load(address, calls, options.in_flight, message, unique=metadata == "unique")
        wall_s = time.perf_counter() - began_s
        if number:
            best = min(best, ((cpu_s() - cpu_before_s) / calls * 1e6, calls / wall_s))
    pipe.send("stop")
    server.join()
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=40_000)
    parser.add_argument("--in-flight", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--grpcio", action="store_true")
    options = parser.parse_args()
    for handler, metadata in (("noop", "same"), ("noop", "unique"), ("task", "same"), ("protobuf", "same")):
        if metadata == "unique" and options.grpcio:
            continue
        cpu_us, rate = measure(handler, metadata, options)
        print(f"{handler:9} {metadata:7} {cpu_us:7.1f} us of server CPU per call {rate:9.0f} calls/s")


if __name__ == "__main__":
    main()
