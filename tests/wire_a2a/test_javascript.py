"""A whole conversation of the official JavaScript client, on each binding."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.stack import Stack

HERE = Path(__file__).parent / "js"
NETWORK_ERRORS = ("ENOTFOUND", "ECONNREFUSED", "ETIMEDOUT", "EAI_AGAIN", "ENETUNREACH")


@pytest.fixture(scope="session")
def javascript(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, installed once into the cache of the test runner if it has one."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("node and npm are not installed")
    cache = getattr(request.config, "cache", None)
    home = tmp_path_factory.mktemp("a2a-js") if cache is None else Path(cache.mkdir("a2a-js"))
    manifest = (HERE / "package.json").read_text()
    installed = home / "package.json"
    if not installed.exists() or installed.read_text() != manifest:
        installed.unlink(missing_ok=True)
        staging = home / "staging"
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        (staging / "package.json").write_text(manifest)
        command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(
            command, cwd=staging, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode and any(word in done.stderr for word in NETWORK_ERRORS):
            pytest.skip("the npm registry cannot be reached")
        assert done.returncode == 0, done.stderr
        shutil.rmtree(home / "node_modules", ignore_errors=True)
        (staging / "node_modules").rename(home / "node_modules")
        installed.write_text(manifest)
    shutil.copy(HERE / "conversation.mjs", home)
    return home


@pytest.mark.req("R152", "R174", "R176", "R180")
def test_the_javascript_client_talks_to_a_task(
    javascript: Path, shared_stack: Stack, binding: str
) -> None:
    done = subprocess.run(
        ["node", "conversation.mjs", shared_stack.http, shared_stack.token, binding],
        cwd=javascript,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["binding"] == binding
    assert seen["asked"] == [
        "task",
        "TASK_STATE_WORKING",
        "TASK_STATE_WORKING",
        "artifactUpdate",
        "artifactUpdate",
        "TASK_STATE_INPUT_REQUIRED",
    ]
    assert seen["answered"] == "TASK_STATE_COMPLETED"
    assert seen["followed"] == [
        "task",
        "TASK_STATE_WORKING",
        "artifactUpdate",
        "TASK_STATE_COMPLETED",
    ]
    assert seen["texts"] == ["one", "two"]
    assert seen["result"] == {"inputs": [{"text": "yes"}], "attempt": 1}
    assert seen["history"] == ["data", "text", "text", "text"]
    assert seen["canceled"] == "TASK_STATE_CANCELED"
    assert seen["listed"] == [seen["id"]]
    assert seen["error"].endswith("TaskNotFoundError")
