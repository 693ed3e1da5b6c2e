"""The systemd unit is hardened as promised, and systemd itself finds nothing wrong with it."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from aiosd.adapters.system.vault import vault_key_path

PACKAGING = Path(__file__).parents[3] / "packaging"


@pytest.mark.req("S-39")
def test_the_unit_has_its_own_user_and_every_promised_bound() -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment]
    unit.read(PACKAGING / "aiosd.service")
    service = dict(unit["Service"])

    promised = {
        "User": "aiosd",
        "NoNewPrivileges": "yes",
        "ProtectSystem": "strict",
        "ProtectHome": "yes",
        "PrivateTmp": "yes",
        "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
        "LimitNOFILE": "8192",
        "UMask": "0077",
        "StateDirectoryMode": "0700",
        "RuntimeDirectoryMode": "0700",
        "RestartPreventExitStatus": "75",
    }
    assert {key: service.get(key) for key in promised} == promised
    assert {"MemoryMax", "TasksMax", "SystemCallFilter"} <= set(service)
    assert "u aiosd " in (PACKAGING / "aiosd.sysusers").read_text()


@pytest.mark.req("S-28")
def test_the_unit_shows_how_the_key_of_secrets_is_handed_over() -> None:
    text = (PACKAGING / "aiosd.service").read_text()
    assert f"\n#LoadCredentialEncrypted={vault_key_path(Path()).name}:/" in text


@pytest.mark.req("S-39")
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_understands_every_line_of_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / "aiosd.service"
    text = (PACKAGING / "aiosd.service").read_text()
    assert "ExecStart=/usr/bin/aiosd up " in text
    # The command is not installed where tests run, and that alone is no mistake.
    unit.write_text(text.replace("ExecStart=/usr/bin/aiosd up", "ExecStart=/bin/true up"))

    verified = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False
    )

    assert (verified.returncode, verified.stderr) == (0, "")
