"""Writes the RISC-V program that replaces every kernel: `kernel_elf.py FILE`.

tt-metal's loader accepts an ELF executable only if it has a segment with code, a symbol table and a
relocation section, so the file has one of each. The code returns at once.
"""

import struct
import sys
from pathlib import Path

ENTRY = 0x4000
NOP, RETURN = 0x00000013, 0x00008067
CODE = struct.pack("<5I", NOP, NOP, NOP, NOP, RETURN)

ELF_HEADER_SIZE, PROGRAM_HEADER_SIZE, SECTION_HEADER_SIZE = 52, 32, 40
EXECUTABLE, RISCV = 2, 243
PROGBITS, SYMTAB, STRTAB, RELA = 1, 2, 3, 4
ALLOCATED_CODE, INFO_IS_SECTION = 0x6, 0x40
R_RISCV_RELAX = 51
GLOBAL_FUNCTION = 0x12

SYMBOL_NAMES = b"\0_start\0"
START = struct.pack("<3I2BH", SYMBOL_NAMES.index(b"_start"), ENTRY, len(CODE), GLOBAL_FUNCTION, 0, 1)
CONTENTS = {
    # name: (type, flags, address, content, link, info, entry size); the first section is the empty one
    ".text": (PROGBITS, ALLOCATED_CODE, ENTRY, CODE, 0, 0, 0),
    ".strtab": (STRTAB, 0, 0, SYMBOL_NAMES, 0, 0, 0),
    ".symtab": (SYMTAB, 0, 0, bytes(len(START)) + START, 2, 1, len(START)),
    ".rela.text": (RELA, INFO_IS_SECTION, 0, struct.pack("<2Ii", ENTRY, R_RISCV_RELAX, 0), 3, 1, 12),
}


def executable() -> bytes:
    """Returns the bytes of the file."""
    section_names = b"\0" + b"".join(name.encode() + b"\0" for name in (*CONTENTS, ".shstrtab"))
    sections = CONTENTS | {".shstrtab": (STRTAB, 0, 0, section_names, 0, 0, 0)}
    image = bytearray(ELF_HEADER_SIZE + PROGRAM_HEADER_SIZE)
    headers = bytes(SECTION_HEADER_SIZE)
    for name, (kind, flags, address, content, link, info, entry_size) in sections.items():
        image += bytes(-len(image) % 4)
        start = section_names.index(b"\0" + name.encode() + b"\0") + 1
        headers += struct.pack(
            "<10I", start, kind, flags, address, len(image), len(content), link, info, 4, entry_size
        )
        image += content
    image += bytes(-len(image) % 4)
    count = len(sections) + 1
    image[:ELF_HEADER_SIZE] = struct.pack(
        "<16s2H5I6H",
        b"\x7fELF\x01\x01\x01",
        EXECUTABLE, RISCV, 1, ENTRY, ELF_HEADER_SIZE, len(image), 0,
        ELF_HEADER_SIZE, PROGRAM_HEADER_SIZE, 1, SECTION_HEADER_SIZE, count, count - 1,
    )  # fmt: skip
    code_at = ELF_HEADER_SIZE + PROGRAM_HEADER_SIZE
    segment = struct.pack("<8I", 1, code_at, ENTRY, ENTRY, len(CODE), len(CODE), 5, 4)
    image[ELF_HEADER_SIZE:code_at] = segment
    return bytes(image) + headers


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(executable())
