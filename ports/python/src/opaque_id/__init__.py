"""Opaque ids: small, ordered keys in the database, and sealed ids outside. README.md has the guide."""

from ._format import InvalidId, InvalidKey
from .ids import Cursor, External, Id, IntId, UuidId
from .keyring import Expired, Keyring, KeyringError, Listing, NotGenuine

__all__ = [
    "Cursor", "Expired", "External", "Id", "IntId", "InvalidId", "InvalidKey", "Keyring", "KeyringError", "Listing", "NotGenuine", "UuidId",
]
