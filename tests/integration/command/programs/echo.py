"""An HTTP server of the standard library, which does what its paths say: `python echo.py PORT`."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def body(self):
        """The pieces of the request's body as they come."""
        if self.headers.get("transfer-encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                yield self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("content-length") or 0)
        while left:
            piece = self.rfile.read1(min(left, 65536))
            left -= len(piece)
            yield piece

    def answer(self, value, status=200, headers=()):
        octets = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(octets)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(octets)

    def chunk(self, octets):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(octets), octets))
        self.wfile.flush()

    def do(self):
        target = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(target.query).items()}
        act = getattr(self, "at_" + target.path.strip("/").replace("/", "_"), None)
        if act is None:
            digest, size = hashlib.sha256(), 0
            for piece in self.body():
                digest.update(piece)
                size += len(piece)
            self.answer(
                {
                    "method": self.command,
                    "target": self.path,
                    "headers": [[name.lower(), value] for name, value in self.headers.items()],
                    "size": size,
                    "sha256": digest.hexdigest(),
                    "pid": os.getpid(),
                },
                headers=[
                    ("set-cookie", "a=1"),
                    ("set-cookie", "b=2"),
                    ("x-own", "yes"),
                    ("keep-alive", "timeout=9"),
                    ("trilith-not-begun", "1"),
                ],
            )
            return
        act(asked)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_OPTIONS = do

    def at_health(self, asked):
        folder = Path(os.environ.get("ECHO_FOLDER", "."))
        if (folder / "deaf").exists():
            time.sleep(3600)
        if (folder / "sick").exists():
            self.answer("sick", 503)
        else:
            self.answer("well")

    def at_stream(self, asked):
        """Events, one for each that the test lets go by writing a file."""
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for number in range(int(asked["n"])):
            while "gate" in asked and not Path(f"{asked['gate']}{number}").exists():
                time.sleep(0.005)
            self.chunk(b"data: %d\n\n" % number)
        self.chunk(b"")

    def at_endless(self, asked):
        """Until the client goes; then a file says so."""
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            while True:
                self.chunk(b"x" * int(asked.get("size", 1)))
                time.sleep(float(asked.get("pause", 0.005)))
        except OSError:
            Path(asked["left"]).write_text("left")

    def at_slowly(self, asked):
        """Reads a body, and says after each piece how much there was: both at once."""
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for piece in self.body():
            self.chunk(b"%d\n" % len(piece))
        self.chunk(b"")

    def at_until_end(self, asked):
        """A body without a length."""
        self.close_connection = True
        self.send_response(200)
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"to the end")

    def at_early(self, asked):
        """Answers without reading the body."""
        self.close_connection = True
        self.answer("too much", 413, [("connection", "close")])

    def at_hang(self, asked):
        Path(asked["began"]).write_text("began")
        time.sleep(3600)

    def at_die(self, asked):
        os.kill(os.getpid(), signal.SIGKILL)

    def at_half(self, asked):
        self.send_response(200)
        self.send_header("content-length", "100")
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        os._exit(3)

    def at_nonsense(self, asked):
        self.close_connection = True
        self.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n\r\n")

    def at_print(self, asked):
        sys.stderr.write(f"{asked['text']}\n")
        self.answer("printed")

    def log_message(self, *words):
        pass


def main():
    if os.environ.get("ECHO_CHILDREN"):
        script = "import time; time.sleep(3600)"
        ours = subprocess.Popen([sys.executable, "-c", script])
        away = subprocess.Popen([sys.executable, "-c", script], start_new_session=True)
        Path(os.environ["ECHO_CHILDREN"]).write_text(f"{ours.pid} {away.pid}")
    if os.environ.get("ECHO_STUBBORN"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.daemon_threads = True
    if os.environ.get("ECHO_SAYS_BYE"):
        path = Path(os.environ["ECHO_SAYS_BYE"])

        def leave(number, frame):
            path.write_text(signal.Signals(number).name)
            threading.Thread(target=server.shutdown).start()

        signal.signal(signal.SIGTERM, leave)
        signal.signal(signal.SIGINT, leave)
    sys.stderr.write(f"listening on {sys.argv[1]}\n")
    server.serve_forever()


if __name__ == "__main__":
    main()
