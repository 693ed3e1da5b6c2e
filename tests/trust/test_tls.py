"""gRPC over TCP with certificates on both sides (S-09)."""

from __future__ import annotations

import datetime
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aiosd.sdk import AiosdError, connect
from aiosd.settings import SettingsError, load_settings
from tests.support.programs import Programs

if TYPE_CHECKING:
    from collections.abc import Sequence


class Authority:
    """Signs certificates, and writes them as files that only we read."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = self._signed(self._name, self._key.public_key(), (), authority=True)
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(self.certificate)

    def issue(self, name: str, *names: x509.GeneralName) -> tuple[Path, Path]:
        """Files with a certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._folder / f"{name}.crt"
        certificate.write_bytes(self._signed(subject, key.public_key(), names, authority=False))
        secret = self._folder / f"{name}.key"
        secret.touch(0o600)
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, secret

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        names: Sequence[x509.GeneralName],
        *,
        authority: bool,
    ) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)


@pytest.mark.req("S-09", "H21")
async def test_a_client_certificate_names_the_principal_and_nobody_else_gets_in() -> None:
    with TemporaryDirectory(prefix="aiosd-") as directory:
        folder = Path(directory)
        ours, theirs = Authority(folder, "ours"), Authority(folder, "theirs")
        served, key = ours.issue("daemon", x509.IPAddress(ip_address("127.0.0.1")))
        agent = x509.UniformResourceIdentifier("spiffe://example.org/agent")
        programs = Programs(
            folder,
            grpc_tcp="127.0.0.1:0",
            grpc_tls_certificate=str(served),
            grpc_tls_key=str(key),
            grpc_tls_client_ca=str(ours.file),
        )
        try:
            address = (await programs.daemon()).ready["grpc_tcp"]
            await programs.lab()

            def as_client(authority: Authority, name: str) -> grpc.ChannelCredentials:
                certificate, secret = authority.issue(name, agent)
                return grpc.ssl_channel_credentials(
                    ours.certificate, secret.read_bytes(), certificate.read_bytes()
                )

            async with connect(address, "", credentials=as_client(ours, "agent")) as client:
                task = await client.create("lab.script", {})
                assert task.principal == "spiffe://example.org/agent"
                assert [one.task_id for one in (await client.list()).tasks] == [task.task_id]
            strangers = (as_client(theirs, "thief"), grpc.ssl_channel_credentials(ours.certificate))
            for stranger in strangers:
                async with connect(address, "", credentials=stranger, patience_ms=0) as client:
                    with pytest.raises(AiosdError):
                        await client.list()
        finally:
            await programs.aclose()


@pytest.mark.req("S-09")
@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"grpc_tcp": "127.0.0.1:1"}, "grpc_tls_certificate"),
        ({"grpc_tcp": "0.0.0.0:1", "grpc_insecure_loopback": "true"}, "grpc_insecure_loopback"),
    ],
)
def test_plain_tcp_is_refused_but_on_loopback_by_name(
    settings: dict[str, str], named: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=named):
        load_settings({"state_dir": str(tmp_path), **settings}, {"HOME": str(tmp_path)})
