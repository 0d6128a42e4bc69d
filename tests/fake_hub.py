"""A Hugging Face hub on loopback, for the hub's own client: data sets' API and file addresses."""

import hashlib

from huggingface_hub import HfApi
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

REVISION = "0123456789abcdef0123456789abcdef01234567"
"""Of every repository."""


class Hub:
    """A data-set server: what its API and its file addresses answer."""

    def __init__(self, server: HTTPServer, files: dict[str, dict[str, bytes]], revision: str | None = REVISION) -> None:
        """`files` are contents by repository and name; each repository has the one `revision`."""
        self.files, self.revision = files, revision
        self.served: list[str] = []
        """Paths of the files that were sent, in order."""
        self.refuse = False
        self.token = ""
        """Who does not send it is told that the repository is gated."""
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
        siblings = [
            {
                "rfilename": name,
                "size": len(content),
                "lfs": {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content), "pointerSize": 130},
            }
            for name, content in {**contents, "README.md": b"#"}.items()
        ]
        return {
            "id": repository,
            "sha": self.revision,
            "siblings": siblings,
            "private": False,
            "tags": [],
            "downloads": 0,
        }

    def _file(self, request: Request) -> Response:
        repository, _, rest = request.path.removeprefix("/datasets/").partition("/resolve/")
        content = self.files[repository][rest.partition("/")[2]]
        if self.refuse:
            return Response(status=403)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return Response(status=401, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "restricted"})
        if request.method == "GET":
            self.served.append(request.path)
        headers = {"ETag": f'"{hashlib.sha256(content).hexdigest()}"', "X-Repo-Commit": str(self.revision)}
        return Response(content, headers=headers)
