"""A Hugging Face hub on loopback, for the hub's own client: data sets' API and file addresses."""

import hashlib

from huggingface_hub import HfApi
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

REVISION = "0123456789abcdef0123456789abcdef01234567"
"""Commit of every repository."""


class Hub:
    """A data-set server: what its API and its file addresses answer."""

    def __init__(self, server: HTTPServer, files: dict[str, dict[str, bytes]], revision: str | None = REVISION) -> None:
        """`files` are contents by repository and name; each repository has the one `revision`."""
        self.files, self.revision = files, revision
        self.served: list[str] = []
        """Paths of the files that were sent, in order."""
        self.sent = 0
        """Bytes of files."""
        self.refuse = False
        self.cut = 0
        """Number of next replies that end half-way."""
        self.token = ""
        """Token that clients must send; without it, the repository is gated."""
        self.api = HfApi(endpoint=server.url_for("").rstrip("/"))
        for repository, contents in files.items():
            information = self._info(repository, contents)
            for address in ("", f"/revision/{revision}"):
                server.expect_request(f"/api/datasets/{repository}{address}").respond_with_json(information)
            for name in contents:
                server.expect_request(f"/datasets/{repository}/resolve/{revision}/{name}").respond_with_handler(
                    self._file
                )

    def _info(self, repository: str, contents: dict[str, bytes]) -> dict[str, object]:
        siblings = []
        for name, content in {**contents, "README.md": b"#"}.items():
            lfs = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130}
            siblings.append({"rfilename": name, "size": len(content), "lfs": lfs})
        about = {"private": False, "tags": [], "downloads": 0}
        return {"id": repository, "sha": self.revision, "siblings": siblings, **about}

    def _file(self, request: Request) -> Response:
        repository, _, rest = request.path.removeprefix("/datasets/").partition("/resolve/")
        content = self.files[repository][rest.partition("/")[2]]
        if self.refuse:
            return Response(status=403)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return Response(status=401, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "restricted"})
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": str(self.revision)}
        if request.method == "HEAD":
            return Response(headers={**headers, "Content-Length": str(len(content))})
        self.served.append(request.path)
        start = request.range.ranges[0][0] if request.range else 0
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return self._sent(content[start:], 206 if start else 200, headers)

    def _sent(self, content: bytes, status: int, headers: dict[str, str]) -> Response:
        body, self.cut = (content[: len(content) // 2], self.cut - 1) if self.cut else (content, 0)
        self.sent += len(body)
        return Response([body], status=status, headers={**headers, "Content-Length": str(len(content))})
