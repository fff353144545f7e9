"""Adds a license file to an existing wheel."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def add_license(wheel: Path, name: str, text: str) -> None:
    """Adds `text` to the licenses of a wheel (PEP 639)."""
    new = wheel.with_suffix(".new")
    with (
        zipfile.ZipFile(wheel) as old,
        zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as to,
    ):
        (record,) = (entry for entry in old.namelist() if entry.endswith(".dist-info/RECORD"))
        info = record.removesuffix("RECORD")
        added = {f"{info}licenses/{name}": text.encode()}
        metadata = old.read(f"{info}METADATA").decode()
        head, blank, body = metadata.partition("\n\n")
        added[f"{info}METADATA"] = f"{head}\nLicense-File: {name}{blank}{body}".encode()
        lines = [
            line
            for line in old.read(record).decode().splitlines()
            if line.rpartition(",")[0].rpartition(",")[0] not in added
        ]
        for entry in old.infolist():
            if entry.filename not in added and entry.filename != record:
                to.writestr(entry, old.read(entry), zipfile.ZIP_DEFLATED)
        for path, data in added.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            lines.insert(-1, f"{path},sha256={digest},{len(data)}")
            to.writestr(path, data)
        to.writestr(record, "\n".join(lines) + "\n")
    new.replace(wheel)
