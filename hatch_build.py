"""Compiles proto/ into the package aiosd.api whenever a wheel or an editable install is built.

Generated code is not in git (docs/adr/0001-generated-code-is-not-committed.md). A wheel is
compiled in a scratch folder and leaves the checkout alone; an editable install gets the code in
the tree, where its .pth points. The tree is replaced only after protoc has succeeded, so a typo
in a .proto leaves the old code standing.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "aiosd/api"
BANNER = '"""Generated from proto/ by hatch_build.py. Do not edit."""\n'


class ProtoBuildHook(BuildHookInterface[Any]):
    """The `custom` build hook of hatchling."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return  # an sdist carries proto/; whoever builds from it compiles
        root = Path(self.root)
        self.scratch = Path(tempfile.mkdtemp(prefix="aiosd-proto-"))
        compile_protos(root / "proto", self.scratch)
        if version == "editable":
            replace_tree(self.scratch / PACKAGE, root / PACKAGE)
        else:
            build_data["force_include"][str(self.scratch / PACKAGE)] = PACKAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if self.target_name == "wheel":
            shutil.rmtree(self.scratch, ignore_errors=True)


def compile_protos(source: Path, destination: Path) -> None:
    """Compile every .proto under `source` into `destination`; exits with protoc's own words."""
    messages = sorted(source.rglob("*.proto"))
    if not messages:
        raise SystemExit(f"no .proto file under {source}: nothing to build aiosd.api from")
    # protoc writes a _pb2_grpc for every file it is given, services in it or not.
    services = [path for path in messages if path.name.endswith("_service.proto")]
    run_protoc(source, messages, "--python_out", "--mypy_out", into=destination)
    if services:
        run_protoc(
            source, services, "--grpc_python_out", "--mypy_grpc_out=only_async", into=destination
        )
    package = destination / PACKAGE
    for folder in [package, *filter(Path.is_dir, package.rglob("*"))]:
        (folder / "__init__.py").write_text(BANNER)


def run_protoc(source: Path, files: list[Path], *outputs: str, into: Path) -> None:
    from grpc_tools import protoc  # lives in the build environment only

    bundled = Path(protoc.__file__).parent / "_proto"
    # protoc finds its mypy plugin on PATH, which a plain `python hatch_build.py` does not set.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    flags = [f"{out}{':' if '=' in out else '='}{into}" for out in outputs]
    arguments = ["protoc", f"-I{source}", f"-I{bundled}", *flags, *map(str, files)]
    if protoc.main(arguments) != 0:
        raise SystemExit("protoc failed; its own words are above")


def replace_tree(fresh: Path, target: Path) -> None:
    """Put `fresh` where `target` is; a reader never sees a half-written package for long."""
    incoming = target.with_name(f".{target.name}.incoming")
    outgoing = target.with_name(f".{target.name}.outgoing")
    for leftover in (incoming, outgoing):
        shutil.rmtree(leftover, ignore_errors=True)
    shutil.copytree(fresh, incoming)
    if target.exists():
        target.rename(outgoing)
    incoming.rename(target)
    shutil.rmtree(outgoing, ignore_errors=True)
