"""Errors of the simulated disk, with the texts of Linux on every machine."""

from errno import EIO, EISDIR, ENOENT, ENOSPC, ENOTDIR, ENOTEMPTY

_ERROR_TEXTS = {
    EIO: "Input/output error",
    EISDIR: "Is a directory",
    ENOENT: "No such file or directory",
    ENOSPC: "No space left on device",
    ENOTDIR: "Not a directory",
    ENOTEMPTY: "Directory not empty",
}


def disk_error(code: int, path: str = "") -> OSError:
    """Create the error that a system call would fail with."""
    return OSError(code, _ERROR_TEXTS[code], path) if path else OSError(code, _ERROR_TEXTS[code])
