"""`agentflow certify` and `agentflow verify`: certify a training, and check it on another machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentflow.cli.group import FAILED, MISUSED, fail, say
from agentflow.console.progress import PartProgress
from agentflow.console.terminal import console, counted, print_json, shown_bytes

if TYPE_CHECKING:
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


@app.command(epilog="Example: agentflow verify atlas.json --run runs/atlas-cpu")
def verify(
    certificate: Annotated[Path, typer.Argument(metavar="CERT", help="The certificate.")],
    run: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The run's folder; by default, that of the certificate.")
    ] = None,
    key: Annotated[
        str, typer.Option(metavar="FINGERPRINT", help="The signer's key; one of another signer is refused.")
    ] = "",
    seed: Seed = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check a training against its certificate, and name whatever was altered.

    Exits with 1 if something differs.
    """
    _check_training("verify")
    from agentflow.evals.run_folder import SETTINGS
    from agentflow.rl.certificate.check import altered, other_code
    from agentflow.rl.certificate.errors import CertificateError
    from agentflow.rl.certificate.signature import read_certificate

    folder = run or certificate.parent
    has_run = run is not None or (folder / SETTINGS).is_file()
    differs: list[str] = []
    try:
        found = read_certificate(certificate)
        if not found.genuine:
            differs.append("signature: the contents are not those that the key signed")
        elif key and found.fingerprint != key.lower():
            differs.append(f"key: {found.fingerprint} signed")
        else:
            differs += other_code(found.contents)
            if has_run:
                with PartProgress(console(stderr=True), "reading the run") as view:
                    differs += altered(found.contents, folder, seed, view.show)
    except CertificateError as error:
        fail(str(error), MISUSED)
    if as_json:
        print_json({"verified": not differs, "differs": differs, "run": str(folder) if has_run else "", **_said(found)})
    else:
        for name in differs:
            typer.echo(name)
        if not has_run:
            say("note: only the signature and the installed code were checked; --run names the run's folder")
        typer.echo(f"key: {found.fingerprint}{'' if key else ' (not checked; --key names the one that you trust)'}")
    if differs:
        if as_json:
            raise typer.Exit(FAILED)
        fail(f"not verified: {counted(len(differs), 'difference')}", FAILED)
    if not as_json:
        typer.echo(f"verified: {counted(found.contents.steps, 'step')} of {found.contents.app}")


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
