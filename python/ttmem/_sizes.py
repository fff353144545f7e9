"""Sizes as text."""


def size_text(size: int) -> str:
    """Returns a size in its largest unit: `512 B`, `4.0 KiB`, `512.0 MiB` or `1.82 GiB`."""
    if abs(size) >= 1 << 30:
        return f"{size / (1 << 30):.2f} GiB"
    if abs(size) >= 1 << 20:
        return f"{size / (1 << 20):.1f} MiB"
    if abs(size) >= 1 << 10:
        return f"{size / (1 << 10):.1f} KiB"
    return f"{size} B"
