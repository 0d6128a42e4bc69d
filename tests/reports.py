"""The data inside a report, as its page unpacks it."""

import base64
import gzip
import json
import re
from typing import Any


class Report:
    """A report that is read."""

    def __init__(self, html: str) -> None:
        packed = re.findall(r'class="data">(.*?)</script>', html)
        facts, kept, *parts = (gzip.decompress(base64.b64decode(data)).decode() for data in packed)
        self.file: dict[str, Any] = json.loads(facts)
        columns = {
            name: [column["values"][at] for at in column["at"]] if "at" in column else column["values"]
            for name, column in self.file["columns"].items()
        }
        self.rows: list[dict[str, Any]] = [
            {name: column[number] for name, column in columns.items()} for number in range(self.file["rows"])
        ]
        lines = [json.loads(line) for part in parts for line in part.split("\n")]
        self.texts: dict[int, dict[str, Any]] = dict(zip(json.loads(kept), lines, strict=True))
        """The texts of a trace, by the number of its row."""
        self.everything = html + facts + "".join(parts)
