"""`agentflow certify` and `agentflow verify`: certify a training, and check it on another machine."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.console.progress import CountProgress, PartProgress
from agentflow.console.replays import print_replayed
from agentflow.console.terminal import console, counted, print_json, shown_bytes

if TYPE_CHECKING:
    from agentflow.rl.certificate.replay import Replayed
    from agentflow.rl.certificate.signature import Certificate

app = typer.Typer()

NAME = "certificate.json"
"""Name of a certificate in the run folder, unless --out names another."""

Seed = Annotated[
    Path | None,
    typer.Option(metavar="FOLDER", help="The start weights, where they are not where the run's settings say."),
]


@app.command(epilog="Example: agentflow certify runs/atlas-cpu --out atlas.json")
def certify(
    run: Annotated[Path, typer.Argument(help="A training run's folder.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help=f"The certificate; {NAME} in the run's folder by default.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ed25519 key that signs, made if it does not exist; by default, your own."),
    ] = None,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write a signed certificate of a training: hashes of its code, data, settings, batches, weights and kernels."""
    _check_training("certify")
    from agentflow.rl.certificate.contents import contents_of
    from agentflow.rl.certificate.errors import CertificateError
    from agentflow.rl.certificate.signature import default_key, load_key, sign
    from agentflow.rl.run_lock import LOCK, run_lock
    from agentflow.rl.settings import SettingsError

    path, target = key or default_key(), out or run / NAME
    if not (run / LOCK).is_file():
        fail(f"{run} holds no training", MISUSED)
    try:
        new, signer = not path.exists(), load_key(path)
        with run_lock(run), PartProgress(console(stderr=True), "reading the run") as view:
            certificate = sign(contents_of(run, seed=seed, on_part=view.show), signer)
        content = certificate.to_bytes()
        target.write_bytes(content)
    except (CertificateError, SettingsError) as error:
        fail(str(error), MISUSED)
    except OSError as error:
        fail(f"cannot write {target} ({error.strerror}); choose another --out", MISUSED)
    if as_json:
        print_json({"certificate": str(target), "bytes": len(content), **_said(certificate), "key_file": str(path)})
        return
    typer.echo(f"certificate: {target} ({shown_bytes(len(content))}), {counted(certificate.contents.steps, 'step')}")
    typer.echo(f"key: {certificate.fingerprint} ({'new, in' if new else 'in'} {path})")
    typer.echo(f"next: agentflow verify {target} --key {certificate.fingerprint}")


@app.command(epilog="Example: agentflow verify atlas.json --run runs/atlas-cpu --steps 1,40 --key FINGERPRINT")
def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="The certificate.")],
    run: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder; by default, that of the certificate.")
    ] = None,
    steps: Annotated[
        str, typer.Option(metavar="N,...", help="Steps to replay, from the checkpoint before each; by default, none.")
    ] = "",
    key: Annotated[
        str, typer.Option(metavar="FINGERPRINT", help="The signer's key; a certificate of another is not verified.")
    ] = "",
    sample: Annotated[
        bool, typer.Option("--sample", help="Sample replayed rollouts anew, instead of playing the recorded ones.")
    ] = False,
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check a training against its certificate, name whatever was altered, and replay steps of it.

    A replay runs the code of the run and loads pickled files, so --key must name the signer, unless that is you. Exits
    with 1 if something differs.
    """
    _check_training("verify")
    from agentflow.rl.certificate.errors import CertificateError
    from agentflow.rl.certificate.replay import FAILED as REPLAY_FAILED
    from agentflow.rl.certificate.replay import Replayed
    from agentflow.rl.certificate.signature import read_certificate

    if key and not re.fullmatch("[0-9a-fA-F]{64}", key):
        fail(f"--key {key}: no fingerprint, which has 64 hexadecimal digits; agentflow certify prints it", MISUSED)
    chosen, folder, replayed = _steps(steps), _run_folder(run, certificate), list[Replayed]()
    try:
        found = read_certificate(certificate)
        differs = _altered(found, folder, key, seed)
        if chosen and not differs:
            replayed = _replayed(found, folder, chosen, key, seed, sample=sample, quiet=as_json)
    except CertificateError as error:
        fail(str(error), FAILED if error.code == REPLAY_FAILED else MISUSED)
    differs += [name for one in replayed for name in one.differences]
    if as_json:
        result = {"verified": not differs, "differs": differs, "run": str(folder) if folder else "", **_said(found)}
        print_json(result | {"replayed": replayed})
        raise typer.Exit(FAILED if differs else 0)
    for name in differs:
        typer.echo(name)
    if folder is None:
        say("note: only the signature and the installed code were checked; --run names the run's folder")
    typer.echo(f"key: {found.fingerprint}{'' if key else ' (not checked; --key names the one that you trust)'}")
    if differs:
        skipped = " (no step was replayed)" if chosen and not replayed else ""
        fail(f"not verified: {counted(len(differs), 'difference')}{skipped}", FAILED)
    again = sum(len(one.steps) for one in replayed) or "none"
    typer.echo(f"verified: {counted(found.contents.steps, 'step')} of {found.contents.app}, {again} replayed")


def _steps(given: str) -> list[int]:
    words = [word.strip() for word in given.split(",")] if given else []
    if wrong := [word for word in words if not (word.isascii() and word.isdecimal())]:
        fail(f"--steps {given}: '{wrong[0]}' is no step; write numbers with commas, as in --steps 1,5", MISUSED)
    return [int(word) for word in words]


def _run_folder(run: Path | None, certificate: Path) -> Path | None:
    """Return the run's folder: the one that is named, or that of the certificate if it is a run's."""
    from agentflow.evals.run_folder import SETTINGS

    return certificate.parent if run is None and (certificate.parent / SETTINGS).is_file() else run


def _altered(certificate: "Certificate", run: Path | None, key: str, seed: Path | None) -> list[str]:
    """Return what differs, by name, without a replay. Raises CertificateError."""
    from agentflow.rl.certificate.check import altered, other_code

    if not certificate.genuine:
        return ["signature: the contents are not those that the key signed"]
    if key and certificate.fingerprint != key.lower():
        return [f"key: signed by {certificate.fingerprint}, not by {key.lower()}"]
    differs = other_code(certificate.contents)
    if run is not None:
        with PartProgress(console(stderr=True), "reading the run") as view:
            differs += altered(certificate.contents, run, seed, view.show)
    return differs


def _replayed(
    certificate: "Certificate",
    run: Path | None,
    steps: list[int],
    key: str,
    seed: Path | None,
    *,
    sample: bool,
    quiet: bool,
) -> "list[Replayed]":
    """Replay the steps of a checked run, and print each result. Raises CertificateError."""
    from agentflow.rl.certificate.replay import replay
    from agentflow.rl.certificate.segments import segments_of
    from agentflow.rl.certificate.signature import own_fingerprint

    if run is None:
        fail("--steps needs the run's folder; name it by --run", MISUSED)
    if not key and certificate.fingerprint != own_fingerprint():
        fail(
            "--steps runs the code of the run and loads its pickled files; name the signer that you trust by --key",
            MISUSED,
        )
    contents = certificate.contents
    segments, found = segments_of(steps, contents.checkpoints, contents.steps), []
    with CountProgress(console(stderr=True), sum(len(one.steps) for one in segments), "replaying steps") as view:
        for segment in segments:
            one = replay(run, contents, segment, seed=seed, sample=sample, on_line=lambda line: view.add())
            found.append(one)
            if not quiet:
                print_replayed(console(), one)
    return found


def _said(certificate: "Certificate") -> dict[str, object]:
    contents = certificate.contents
    return {
        "steps": contents.steps,
        "checkpoints": list(contents.checkpoints),
        "app": contents.app,
        "key": certificate.fingerprint,
    }


def _check_training(command: str) -> None:
    from agentflow.checks import doctor

    _, works, says = doctor.training()
    if works != "ok":
        fail(f"{command} {says}", MISUSED)
