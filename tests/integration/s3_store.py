"""A store that speaks S3 (moto's), and a relay before it that can be slow, stop, and cut connections."""

from __future__ import annotations

import socket
import threading

from moto.server import ThreadedMotoServer
from s3fs import S3FileSystem

_PIECE_BYTES = 1 << 16


class Relay:
    """Passes TCP connections on to a port, until it is told otherwise.

    Attributes:
        flowing: cleared, nothing that the store says comes through until it is set again.
        cut_after: after so many octets of the store's on one connection it is reset; None for never.
        cuts: how many were.
        held: set when something of the store's waits for `flowing`.
    """

    def __init__(self, host, port):
        self._target = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.flowing = threading.Event()
        self.flowing.set()
        self.held = threading.Event()
        self.cut_after = None
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return  # closed
            store = socket.create_connection(self._target)
            threading.Thread(target=self._upwards, args=(client, store), daemon=True).start()
            threading.Thread(target=self._downwards, args=(store, client), daemon=True).start()

    def _upwards(self, client, store):
        try:
            while piece := client.recv(_PIECE_BYTES):
                store.sendall(piece)
            store.shutdown(socket.SHUT_WR)
        except OSError:
            store.close()

    def _downwards(self, store, client):
        passed = 0
        with store, client:
            try:
                while piece := store.recv(_PIECE_BYTES):
                    if not self.flowing.is_set():
                        self.held.set()
                        self.flowing.wait()
                    passed += len(piece)
                    if self.cut_after is not None and passed > self.cut_after:
                        self.cuts += 1
                        break
                    client.sendall(piece)
                # Another thread reads from it: closed alone, it would stay open until there is something to read.
                client.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # the client has gone

    def close(self):
        self.flowing.set()
        self._listening.close()


class Store:
    """A server of S3 with one bucket of models. `files` looks at it past the relay."""

    def __init__(self):
        self._server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._server.start()
        host, port = self._server.get_host_and_port()
        self.relay = Relay(host, port)
        options = {"endpoint_url": f"http://{host}:{port}", "key": "k", "secret": "s"}
        self.files = S3FileSystem(**options, skip_instance_cache=True, use_listings_cache=False)
        self.environment = {
            "FSSPEC_S3_ENDPOINT_URL": f"http://127.0.0.1:{self.relay.port}",
            "FSSPEC_S3_KEY": "k",
            "FSSPEC_S3_SECRET": "s",
            "AWS_DEFAULT_REGION": "us-east-1",
        }

    def close(self):
        self.relay.close()
        self._server.stop()
