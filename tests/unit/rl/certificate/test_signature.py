"""The signature of a certificate, and the key that signs."""

import json
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("hydra")
pytest.importorskip("verl")
pytest.importorskip("cryptography")

from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from agentflow.rl.certificate.canonical import canonical
from agentflow.rl.certificate.contents import Contents, contents_of
from agentflow.rl.certificate.errors import CertificateError
from agentflow.rl.certificate.signature import Certificate, default_key, load_key, read_certificate, sign
from tests.failing import fails
from tests.unit.rl.certificate.runs import write_run

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    return contents_of(write_run(tmp_path_factory.mktemp("signed")))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "config" / "key.pem"


@pytest.fixture
def certificate(contents: Contents, key: Path) -> Certificate:
    return sign(contents, load_key(key))


def test_a_certificate_survives_its_file(certificate: Certificate, tmp_path: Path) -> None:
    path = tmp_path / "certificate.json"
    path.write_bytes(certificate.to_bytes())
    found = read_certificate(path)
    assert found == certificate
    assert found.genuine


def test_the_same_run_and_key_give_the_same_file(contents: Contents, key: Path, certificate: Certificate) -> None:
    assert sign(contents, load_key(key)).to_bytes() == certificate.to_bytes()
    assert certificate.to_bytes().count(b"\n") == 1


def _leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(data, dict) and data:
        return [leaf for name, value in data.items() for leaf in _leaves(value, (*path, name))]
    if isinstance(data, list) and data:
        return [leaf for number, value in enumerate(data) for leaf in _leaves(value, (*path, number))]
    return [path]


def test_a_certificate_of_which_any_part_was_altered_is_not_genuine(certificate: Certificate, tmp_path: Path) -> None:
    """Every single value of the contents is changed in its turn."""
    path, tried = tmp_path / "certificate.json", 0
    for *way, last in _leaves(json.loads(certificate.to_bytes())["contents"]):
        data = json.loads(certificate.to_bytes())
        place = data["contents"]
        for step in way:
            place = place[step]
        place[last] = place[last] + 1 if type(place[last]) is int else f"{place[last]}0"
        path.write_text(json.dumps(data))
        with suppress(CertificateError):  # where the value is none that a certificate may have
            assert not read_certificate(path).genuine, (*way, last)
            tried += 1
    assert tried > 50


@pytest.mark.parametrize("signature", ["", "AAAA", "A" * 88, "not base64"])
def test_an_altered_signature_is_not_genuine(certificate: Certificate, signature: str) -> None:
    assert not certificate.model_copy(update={"signature": signature}).genuine


def test_the_key_of_another_is_not_genuine(certificate: Certificate, contents: Contents, tmp_path: Path) -> None:
    other = sign(contents, load_key(tmp_path / "other.pem"))
    assert other.genuine
    assert other.fingerprint != certificate.fingerprint
    assert not certificate.model_copy(update={"key": other.key}).genuine
    assert not certificate.model_copy(update={"key": "AAAA"}).genuine


def test_a_key_is_made_once_and_for_its_user_alone(key: Path) -> None:
    made = load_key(key).public_key().public_bytes_raw()
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert load_key(key).public_key().public_bytes_raw() == made


def test_the_users_own_key_is_in_the_folder_of_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name: str(tmp_path / name))
    assert default_key() == tmp_path / "agentflow" / "certificate.pem"


def test_a_key_that_others_can_read_is_refused(key: Path) -> None:
    load_key(key)
    key.chmod(0o640)
    with fails(CertificateError, "open_key", key):
        load_key(key)


def test_another_kind_of_key_is_refused(key: Path) -> None:
    key.parent.mkdir()
    other = generate_private_key(SECP256R1())
    key.touch(0o600)
    key.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with fails(CertificateError, "bad_key", key):
        load_key(key)
    key.write_bytes(b"no key")
    with fails(CertificateError, "bad_key", key):
        load_key(key)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 100_000, b'{"contents": {}, "key": "", "signature": ""}', b"\xff"]
)
def test_what_is_no_certificate_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "c.json").write_bytes(content)
    with fails(CertificateError, "bad_certificate", tmp_path / "c.json"):
        read_certificate(tmp_path / "c.json")


def test_a_certificate_that_is_not_there_is_said(tmp_path: Path) -> None:
    with fails(CertificateError, "unreadable", tmp_path / "c.json"):
        read_certificate(tmp_path / "c.json")


@given(JSON)
def test_canonical_json_is_json_and_does_not_depend_on_the_order(data: object) -> None:
    text = canonical(data)
    assert json.loads(text) == data
    assert canonical(_reversed(data)) == text


def _reversed(data: Any) -> Any:
    if isinstance(data, dict):
        return {name: _reversed(data[name]) for name in reversed(data)}
    return [_reversed(one) for one in data] if isinstance(data, list) else data
