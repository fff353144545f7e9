"""Serves ClickHouse's HTTP interface with chdb: PyPI has the engine, but not the server.

    python python/tests/clickhouse_server.py

Prints its port. Ends when standard input is closed.
"""

import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import chdb.session

NOT_SETTINGS = ("database", "session_id", "query_id", "client_protocol_version", "compress")


class Handler(BaseHTTPRequestHandler):
    """Runs the queries in the bodies of requests."""

    session: Any

    def do_POST(self) -> None:
        parameters = dict(parse_qsl(urlsplit(self.path).query))
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        for name, value in parameters.items():
            if name not in NOT_SETTINGS:
                # Those of HTTP have no meaning here.
                with suppress(RuntimeError):
                    self.session.query(f"SET {name} = '{value}'")
        try:
            status, found = 200, self.session.query(body, "TabSeparated").bytes()
        except RuntimeError as error:
            status, found = 500, str(error).encode()
        self.send_response(status)
        if status != 200:
            self.send_header("X-ClickHouse-Exception-Code", "1")
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


def main() -> None:
    """Serves until standard input is closed."""
    sessions: Any = chdb.session
    Handler.session = sessions.Session()
    server = HTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()

    def end() -> None:
        sys.stdin.read()
        server.shutdown()

    threading.Thread(target=end).start()
    server.serve_forever()
    Handler.session.close()


if __name__ == "__main__":
    main()
