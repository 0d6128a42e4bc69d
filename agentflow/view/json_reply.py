"""Replies of the server in JSON."""

import json
from typing import Any

from starlette.responses import JSONResponse


class Json(JSONResponse):
    """JSON in ASCII, so that any text of a model can be sent."""

    def render(self, content: Any) -> bytes:
        """Encode the content."""
        return json.dumps(content, separators=(",", ":")).encode("ascii")
