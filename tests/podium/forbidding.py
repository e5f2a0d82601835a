"""An HTTP server that answers every request with 403, as an API server does without rights."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_STATUS = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,'
    b'"message":"User \\"nobody\\" cannot get path \\"/api/v1\\""}'
)


class _Forbidding(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(_STATUS)))
        self.end_headers()
        self.wfile.write(_STATUS)

    def log_message(self, format: str, *args: object) -> None:
        """Silence."""


@contextmanager
def forbidding_server() -> Iterator[str]:
    """Its URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Forbidding)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
