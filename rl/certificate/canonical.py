"""Canonical JSON: one text for equal data, so that hashes and signatures of it can be compared."""

import hashlib
import json


def canonical(data: object) -> bytes:
    """Return JSON data as ASCII with sorted keys and without spaces."""
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode()


def hash_of(data: object) -> str:
    """Return the SHA-256 of the canonical JSON of `data`: 64 hexadecimal digits."""
    return hashlib.sha256(canonical(data)).hexdigest()
