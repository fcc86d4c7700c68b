"""Checksums of files."""

import hashlib

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import PathLike


def sha256_of(path: PathLike) -> str:
    """``digest_of(path, "sha256")``"""
    return digest_of(path, "sha256")


def digest_of(path: PathLike, algorithm: str) -> str:
    """The checksum of a file's bytes, in hexadecimal."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()
    except FileNotFoundError as error:
        raise UserError(f"{path}: no such file") from error
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror or error}") from error
