"""A hub on this machine: the few endpoints that huggingface_hub asks for, over real HTTP."""

import hashlib
import json
import re
import threading
import urllib.parse
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

REPOSITORY = "owner/model"
Headers = dict[str, str]
Fault = Literal["error", "hang", "truncated", "garbage"]


class LocalHub:
    """Serves `files[revision][name]`; counts what was asked for, as "tree step1" or "GET step1/model.safetensors".

    `faults` says what goes wrong with an answer: a status 500, none at all, half of the bytes, or other bytes.
    `sent` counts the bytes of files. `titles` are the messages of the commits of main, whose names are revisions that
    no branch has.
    """

    def __init__(self, files: dict[str, dict[str, bytes]]) -> None:
        self.files, self.asked = files, Counter[str]()
        self.repository = REPOSITORY
        self.titles: dict[str, str] = {}
        self.faults: dict[str, Fault] = {}
        self.sent = 0
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.hub = self  # type: ignore[attr-defined]
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()

    def commit(self, revision: str) -> str:
        return hashlib.sha1(revision.encode()).hexdigest()


def described(name: str, content: bytes) -> dict[str, object]:
    """What a tree says of a file."""
    told: dict[str, object] = {"type": "file", "path": name, "size": len(content)}
    told["oid"] = hashlib.sha1(content).hexdigest()
    if not name.endswith(".json"):
        told["lfs"] = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 134}
    return told


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    protocol_version = "HTTP/1.1"

    @property
    def hub(self) -> LocalHub:
        return self.server.hub  # type: ignore[attr-defined, no-any-return]

    def log_message(self, *arguments: object) -> None:
        """Print nothing: the tests ask `asked`."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        parts = urllib.parse.unquote(urllib.parse.urlparse(self.path).path).strip("/").split("/")
        if parts[:2] == ["api", "models"] and "/".join(parts[2:4]) == self.hub.repository:
            self._api(parts[4:])
        elif "/".join(parts[:2]) == self.hub.repository and parts[2] == "resolve":
            self._file(parts[3], "/".join(parts[4:]))
        else:
            self._send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def _api(self, parts: list[str]) -> None:
        hub = self.hub
        if parts == ["refs"]:
            branches = [
                {"name": name, "ref": f"refs/heads/{name}", "targetCommit": hub.commit(name)}
                for name in hub.files
                if name not in hub.titles
            ]
            self._told("refs", {"branches": branches, "tags": [], "converts": []})
        elif parts[0] == "commits":
            dated = {"date": "2026-01-01T00:00:00.000Z", "authors": [], "message": ""}
            self._told("commits", [{"id": name, "title": title, **dated} for name, title in hub.titles.items()])
        elif parts[0] == "tree" and parts[1] in hub.files:
            files, recursive = hub.files[parts[1]], "recursive=true" in self.path.lower()
            place = "".join(f"{part}/" for part in parts[2:])
            here = [name for name in files if name.startswith(place) and (recursive or "/" not in name[len(place) :])]
            self._told(f"tree {parts[1]}", [described(name, files[name]) for name in here])
        else:
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})

    def _told(self, asked: str, answer: object) -> None:
        self._answer(asked, json.dumps(answer).encode(), {})

    def _file(self, revision: str, name: str) -> None:
        here = self.hub.files.get(revision)
        if here is None:
            self._send(404, b"", {"X-Error-Code": "RevisionNotFound"})
        elif name not in here:
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": self.hub.commit(revision)})
        else:
            etag = f'"{hashlib.sha256(here[name]).hexdigest()}"'
            headers = {"ETag": etag, "X-Repo-Commit": self.hub.commit(revision)}
            self._answer(f"{self.command} {revision}/{name}", here[name], headers)

    def _answer(self, asked: str, content: bytes, headers: Headers) -> None:
        """Count what was asked for, and answer with the fault that was planted there."""
        self.hub.asked[asked] += 1
        fault = self.hub.faults.get(asked)
        if fault == "hang":
            self.hub.closing.wait()
            self.close_connection = True
        elif fault == "error":
            self._send(500, b"{}", {})
        else:
            sent, status = b"?" * len(content) if fault == "garbage" else content, 200
            if "ETag" in headers and (span := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))):
                first, last = int(span[1]), min(int(span[2]), len(content) - 1)
                sent, status = sent[first : last + 1], 206
                headers = {**headers, "Content-Range": f"bytes {first}-{last}/{len(content)}"}
            self.hub.sent += len(sent) * ("ETag" in headers and self.command == "GET")
            self._send(status, sent, headers, cut=fault == "truncated")

    def _send(self, code: int, content: bytes, headers: Headers, cut: bool = False) -> None:
        self.send_response(code)
        for key, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut
