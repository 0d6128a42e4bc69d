"""The viewer's page as one HTML file that loads nothing: its style, its script and the data of a report inside.

The content security policy allows only the file's own script and style, by their hashes, no requests, and no conversion
of strings to markup (Trusted Types). Data is gzip in base64, and enters the page as text.
"""

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

STATIC, PALETTE = files("agentflow.view") / "static", files("agentflow.evals.report") / "palette.css"
STYLES = ("palette.css", "view.css", "tokens.css")

POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_IMPORT = re.compile(r'^import \{ (.*) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_LOADED = re.compile(r'^<(?:link rel="stylesheet"|script src=).*\n', re.MULTILINE)


def static_files() -> dict[str, bytes]:
    """Return the page's files by name."""
    return {path.name: path.read_bytes() for path in (*STATIC.iterdir(), PALETTE) if path.is_file()}


def single_file(data: Sequence[str]) -> str:
    """Return the page with `data`, each as `packed` returns it; static/data.js reads it."""
    own = {name: content.decode() for name, content in static_files().items()}
    style, script = "".join(own[name] for name in STYLES), bundle(own)
    policy = POLICY.format(script=_hash(script), style=_hash(style))
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<meta name="referrer" content="no-referrer">'
    )
    icon = f"data:image/svg+xml;base64,{base64.b64encode(own['icon.svg'].encode()).decode()}"
    page = _LOADED.sub("", own["index.html"]).replace("/static/icon.svg", icon)
    page = page.replace("<title>", f"{head}\n<title>").replace("</head>", f"<style>{style}</style>\n</head>")
    blocks = "\n".join(f'<script type="text/plain" class="data">{part}</script>' for part in data)
    return page.replace("</body>", f"{blocks}\n<script>{script}</script>\n</body>")


def bundle(own: dict[str, str]) -> str:
    """Return main.js and the modules that it imports as one script: each is a function of its own, in order of use."""
    modules = "\n".join(_modules(own, "main", set()))
    return f'"use strict";\n(async () => {{\n{modules}\n}})();\n'


def _modules(own: dict[str, str], name: str, seen: set[str]) -> Iterator[str]:
    if name in seen:
        return
    seen.add(name)
    source = own[f"{name}.js"]
    for _, used in _IMPORT.findall(source):
        yield from _modules(own, used, seen)
    exported = ", ".join(found for _, found in _EXPORT.findall(source))
    source = _EXPORT.sub(r"\1", _IMPORT.sub(r"const { \1 } = \2_js;", source))
    yield f"const {name}_js = await (async () => {{\n{source}return {{ {exported} }};\n}})();"


def packed(content: bytes) -> str:
    """Return `content` in gzip in base64."""
    return base64.b64encode(gzip.compress(content, compresslevel=6, mtime=0)).decode()


def as_json(value: Any) -> bytes:
    """Return JSON in UTF-8, with a question mark for a lone surrogate, which UTF-8 cannot encode."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _hash(text: str) -> str:
    """Return the hash source of an inline element for a Content-Security-Policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
