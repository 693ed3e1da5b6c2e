"""A SQLite VFS over the real files whose syncs and writes fail when they are told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "faulty"


class Faults:
    """What is to fail; shared by all files of the VFS. Counts every call that it lets through."""

    def __init__(self) -> None:
        self.syncs = 0
        self.writes = 0
        #: Exceptions for the next syncs or writes, one each; None lets one through.
        self.next_syncs: list[type[apsw.Error] | None] = []
        self.next_writes: list[type[apsw.Error] | None] = []


class FaultyFile(apsw.VFSFile):
    """One open file."""

    def __init__(
        self, faults: Faults, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("", name, flags)
        self._faults = faults

    def xSync(self, flags: int) -> None:
        """Fail or sync."""
        self._faults.syncs += 1
        fault = self._faults.next_syncs.pop(0) if self._faults.next_syncs else None
        if fault is not None:
            raise fault("injected")
        super().xSync(flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        """Fail or write."""
        self._faults.writes += 1
        fault = self._faults.next_writes.pop(0) if self._faults.next_writes else None
        if fault is not None:
            raise fault("injected")
        super().xWrite(data, offset)


class FaultyFiles(apsw.VFS):
    """Registered under NAME while it is alive."""

    def __init__(self, faults: Faults) -> None:
        super().__init__(NAME, base="")
        self._faults = faults

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> FaultyFile:
        """Open the real file."""
        return FaultyFile(self._faults, name, flags)


def faulty_files() -> Iterator[Faults]:
    """To be used as a fixture."""
    faults = Faults()
    vfs = FaultyFiles(faults)
    yield faults
    vfs.unregister()
