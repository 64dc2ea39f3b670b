"""Another service that the program talks to."""
import collections
import contextlib
import http.server
import json
import threading

Request = collections.namedtuple("Request", "method path headers body")


@contextlib.contextmanager
def http_service(answer):
    """Its address. answer(request) gives a status, a body (bytes, or what is sent as JSON) and, if it
    likes, a map of headers."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def serve(self):
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body, *headers = answer(Request(self.command, self.path, self.headers, sent))
            is_text = isinstance(body, bytes)
            data = body if is_text else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if is_text else "application/json")
            self.send_header("Content-Length", str(len(data)))
            for name, value in (headers[0] if headers else {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = serve

        def log_message(self, *arguments):  # pylint: disable=arguments-differ
            pass

    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_port}"
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
