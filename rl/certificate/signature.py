"""The signature of a certificate, Ed25519 (RFC 8032), and the key that signs.

The key is made on first use, in the user's folder of configuration, readable by the user alone. Its fingerprint, the
SHA-256 of the public key, is what a signer tells others, and what they check a certificate by.
"""

import hashlib
import os
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from pathlib import Path
from typing import TYPE_CHECKING

import platformdirs
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agentflow.rl.certificate.canonical import canonical
from agentflow.rl.certificate.contents import Contents
from agentflow.rl.certificate.errors import CertificateError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

PURPOSE = b"agentflow certificate of a training\n"
"""Signed before the contents, so that a signature of the key for another purpose is none of a certificate."""

LARGEST = 64 << 20
"""Maximum size of a certificate, in bytes: a step takes about 700."""


class Certificate(BaseModel):
    """A signed certificate, as its file holds it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    contents: Contents
    key: str = Field(max_length=100)
    """The signer's public key, 32 bytes in base64."""
    signature: str = Field(max_length=200)
    """64 bytes in base64."""

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the signer's key."""
        return fingerprint(b64decode(self.key))

    @property
    def genuine(self) -> bool:
        """Return whether the holder of the key signed these contents. Raises CertificateError without cryptography."""
        _check_installed()
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            key = Ed25519PublicKey.from_public_bytes(b64decode(self.key, validate=True))
            key.verify(b64decode(self.signature, validate=True), _signed(self.contents))
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_bytes(self) -> bytes:
        """Return the certificate's file: one line of canonical JSON."""
        return canonical(self.model_dump(mode="json")) + b"\n"


def sign(contents: Contents, key: "Ed25519PrivateKey") -> Certificate:
    """Return the signed certificate; the same for the same contents and key."""
    public = key.public_key().public_bytes_raw()
    signature = key.sign(_signed(contents))
    return Certificate(contents=contents, key=b64encode(public).decode(), signature=b64encode(signature).decode())


def read_certificate(path: Path) -> Certificate:
    """Read a certificate; its signature is not checked yet. Raises CertificateError."""
    try:
        if path.stat().st_size > LARGEST:
            raise CertificateError(f"{path} is larger than any certificate", code="bad_certificate")
        certificate = Certificate.model_validate_json(path.read_bytes())
        b64decode(certificate.key, validate=True)
    except OSError as error:
        raise CertificateError(f"cannot read {path} ({error.strerror})", code="unreadable") from error
    except (ValidationError, Base64Error) as error:
        raise CertificateError(
            f"{path} is no certificate of a training that this version reads", code="bad_certificate"
        ) from error
    return certificate


def fingerprint(public: bytes) -> str:
    """Return the fingerprint of a public key: 64 hexadecimal digits."""
    return hashlib.sha256(public).hexdigest()


def default_key() -> Path:
    """Return the path of the user's own key."""
    return Path(platformdirs.user_config_dir("agentflow")) / "certificate.pem"


def own_fingerprint() -> str:
    """Return the fingerprint of the user's own key; "" if there is none yet. Raises CertificateError."""
    path = default_key()
    return fingerprint(load_key(path).public_key().public_bytes_raw()) if path.exists() else ""


def load_key(path: Path) -> "Ed25519PrivateKey":
    """Read a private key in PEM, or make one if the file does not exist. Raises CertificateError."""
    _check_installed()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        if not path.exists():
            return _new_key(path)
        open_to_others = os.name == "posix" and path.stat().st_mode & 0o077
        content = path.read_bytes()
    except OSError as error:
        raise CertificateError(f"cannot use the key {path} ({error.strerror})", code="unreadable_key") from error
    if open_to_others:
        raise CertificateError(f"the key {path} can be read by others; chmod 600 {path}", code="open_key")
    try:
        key = load_pem_private_key(content, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise CertificateError(f"{path} is no private key in PEM without a password", code="bad_key") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise CertificateError(f"the key {path} is not of the kind Ed25519", code="bad_key")
    return key


def _new_key(path: Path) -> "Ed25519PrivateKey":
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True)
    # Created with its mode, so that it is at no time readable by others.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key


def _signed(contents: Contents) -> bytes:
    return PURPOSE + canonical(contents.model_dump(mode="json"))


def _check_installed() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise CertificateError(
            "signatures need the package cryptography; install it with: pip install 'agentflow-langgraph[certify]'",
            code="no_cryptography",
        ) from error
