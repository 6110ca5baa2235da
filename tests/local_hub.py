"""A hub on this machine: the few endpoints that huggingface_hub asks for, over real HTTP."""

import hashlib
import json
import threading
import urllib.parse
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

REPOSITORY = "owner/model"


class LocalHub:
    """Serves `files[revision][name]`; counts what was asked for, as "tree step1" or "GET step1/model.safetensors"."""

    def __init__(self, files: dict[str, dict[str, bytes]]) -> None:
        self.files, self.asked = files, Counter[str]()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def commit(self, revision: str) -> str:
        return hashlib.sha1(revision.encode()).hexdigest()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *arguments: object) -> None:
                pass

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def _answer(self, body: bool) -> None:
                path = urllib.parse.unquote(urllib.parse.urlparse(self.path).path)
                parts = path.strip("/").split("/")
                if parts[:2] == ["api", "models"] and "/".join(parts[2:4]) == REPOSITORY:
                    self._api(parts[4:])
                elif "/".join(parts[:2]) == REPOSITORY and parts[2] == "resolve":
                    self._file(parts[3], "/".join(parts[4:]), body)
                else:
                    self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

            def _api(self, parts: list[str]) -> None:
                if parts == ["refs"]:
                    named = [
                        {"name": name, "ref": f"refs/heads/{name}", "targetCommit": hub.commit(name)}
                        for name in hub.files
                    ]
                    hub.asked["refs"] += 1
                    self._send(200, json.dumps({"branches": named, "tags": [], "converts": []}).encode())
                elif parts[0] == "tree" and parts[1] in hub.files:
                    hub.asked[f"tree {parts[1]}"] += 1
                    self._send(
                        200, json.dumps([self._described(*item) for item in hub.files[parts[1]].items()]).encode()
                    )
                else:
                    self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})

            def _described(self, name: str, content: bytes) -> dict[str, object]:
                oid = hashlib.sha1(content).hexdigest()
                told: dict[str, object] = {"type": "file", "path": name, "size": len(content), "oid": oid}
                if not name.endswith(".json"):
                    sha256 = hashlib.sha256(content).hexdigest()
                    told["lfs"] = {"oid": sha256, "size": len(content), "pointerSize": 134}
                return told

            def _file(self, revision: str, name: str, body: bool) -> None:
                if revision not in hub.files:
                    self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
                    return
                if name not in hub.files[revision]:
                    self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": hub.commit(revision)})
                    return
                content = hub.files[revision][name]
                hub.asked[f"{self.command} {revision}/{name}"] += 1
                etag = f'"{hashlib.sha256(content).hexdigest()}"'
                self._send(200, content, {"ETag": etag, "X-Repo-Commit": hub.commit(revision)}, body)

            def _send(
                self, code: int, content: bytes, headers: dict[str, str] | None = None, body: bool = True
            ) -> None:
                self.send_response(code)
                for key, value in {"Content-Type": "application/json", **(headers or {})}.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if body and self.command != "HEAD":
                    self.wfile.write(content)

        return Handler
