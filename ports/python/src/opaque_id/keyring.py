"""The keyring: up to four secrets. The first one seals, and all of them open."""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Generic, NoReturn, Self, TypeVar

from . import _format
from ._format import InvalidId, Subkeys, subkey
from .ids import Cursor, External, I, Id, cursor_of, external_of

try:
    _Rust: Any = import_module("opaque_id_rust").Resource
except ImportError:
    _Rust = None

VARIABLE: Final = "OPAQUE_ID_KEYS"
_EXAMPLE: Final = b"opaque-id: example, not a secret"
_MAX_FILE: Final = 64 * 1024
_SPACE: Final = " \t\r"  # R14.1; a line ends with "\n".


class KeyringError(ValueError):
    """The secrets are not usable. The message names the entry, never the secret."""


class NotGenuine(InvalidId):
    """The id was made up or altered, or its secret is retired."""


class Expired(InvalidId):
    """The grant has expired."""


class Keyring:
    """Seals and opens ids. Create it once, at start, such as by `from_env`. Threads may share it.

    Reports of errors show the local variables of each function, so no function with a secret in one raises.
    """

    _secrets: Mapping[int, bytes] = {}

    def __init__(self, secrets: Iterable[tuple[int, bytes]]) -> None:
        """Makes a keyring of key ids and secrets. The first one seals. Usually `from_env` is the better choice."""
        found = _checked(secrets)
        del secrets
        if isinstance(found, str):
            raise KeyringError(found)
        self._secrets = found
        self.sealing_key_id = next(iter(self._secrets))
        self._subkeys: dict[tuple[int, str], Subkeys] = {}
        self._rust: dict[type[Id[Any]], Any] = {}

    @classmethod
    def from_env(cls) -> Self:
        """Reads the entries of `OPAQUE_ID_KEYS`. `opaque-id keygen` generates them. The first one seals, and all of them open."""
        if VARIABLE not in os.environ:
            raise KeyringError(f"{VARIABLE} is not set; `opaque-id keygen` generates an entry")
        return cls._of(_read(os.environ[VARIABLE], VARIABLE))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], *, shared: bool = False) -> Self:
        """Reads a file of entries. On POSIX its mode must be private (600 or 640) unless `shared` is true."""
        with Path(path).open("rb") as file:
            status = os.fstat(file.fileno())
            if os.name == "posix" and not shared and stat.S_ISREG(status.st_mode) and status.st_mode & 0o037:
                raise KeyringError(f"{path}: expected mode 600 or 640, found {status.st_mode & 0o777:o}: others can read or write it, so `chmod 600`")
            return cls._of(_read(file.read(_MAX_FILE + 1), str(path)))

    @classmethod
    def from_entries(cls, text: str, source: str = "the text") -> Self:
        """Reads entries `key_id:64 hex digits` (section 14). Messages call the text `source`."""
        found = _read(text, source)
        del text
        return cls._of(found)

    @classmethod
    def _of(cls, found: dict[int, bytes] | str) -> Self:
        if isinstance(found, str):
            raise KeyringError(found)
        return cls(found.items())

    @classmethod
    def generate(cls) -> Self:
        """A keyring with a new secret, for tests."""
        return cls([(0, secrets.token_bytes(32))])

    def for_audience(self, name: str) -> Self:
        """The keyring of an audience, such as a partner. Its ids differ from all others (R1.7). Keep it: it derives subkeys."""
        _format.utf8(name, "name")
        return type(self)((key_id, subkey(secret, "audience", name, 32)) for key_id, secret in self._secrets.items())

    @property
    def key_ids(self) -> list[int]:
        return list(self._secrets)

    def check_value(self, key_id: int) -> str:
        """Shows whether two environments have the same secret, and reveals nothing else about it (R1.6)."""
        return subkey(self._secrets[key_id], "check", "", 4).hex()

    def __repr__(self) -> str:
        return f"Keyring(sealing={next(iter(self._secrets), None)}, key_ids={self.key_ids})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a keyring has secrets, so it is not pickled or copied: share it, or create it in each process")

    def _keys(self, domain: str, key_id: int | None = None) -> Subkeys:
        key_id = self.sealing_key_id if key_id is None else key_id
        try:
            return self._subkeys[key_id, domain]
        except KeyError:
            pass
        if key_id not in self._secrets:
            raise NotGenuine(f"no secret has its key id, {key_id}")
        # Another thread may do this at the same time, with the same result.
        return self._subkeys.setdefault((key_id, domain), Subkeys(self._secrets[key_id], key_id, domain))

    def seal(self, id: I) -> External[I]:
        """Returns the external id. It stays the same until the sealing secret changes."""
        return self.seal_all([id])[0]

    def open(self, external: External[I]) -> I:
        """Returns the internal id, or raises `NotGenuine`. It does not say that the row exists."""
        return self.open_all([external])[0]

    def seal_all(self, ids: Sequence[I]) -> list[External[I]]:
        """Seals ids of one resource."""
        if not ids:
            return []
        of = type(ids[0])
        _check_one(Id, of, set(map(type, ids)))
        rust = self._by_rust(of)
        if rust is not None:
            is_integer = of.kind.is_integer
            texts = rust.seal_all([id._number if is_integer else id._number.to_bytes(16, "big") for id in ids])
            return list(map(external_of(of)._of_text, texts))
        keys = self._keys(of.domain)
        return [external_of(of)._of_body(keys.seal(of.kind, of.form, id._number)) for id in ids]

    def open_all(self, externals: Sequence[External[I]]) -> list[I]:
        """Opens ids of one resource, or raises `NotGenuine`."""
        if not externals:
            return []
        _check_one(External, type(externals[0]), set(map(type, externals)))
        of = externals[0].of
        rust = self._by_rust(of)
        if rust is not None:
            try:
                keys = rust.open_all([external.text for external in externals])
            except ValueError:
                pass  # The code below names the reason.
            else:
                return list(map(of._of, keys if of.kind.is_integer else map(int.from_bytes, keys)))
        bodies = (external._body() for external in externals)
        return [_id(of, self._keys(of.domain, body.key_id).open(of.kind, of.form, body)) for body in bodies]

    def _by_rust(self, of: type[Id[Any]]) -> Any:
        """The resource in `opaque-id-rust`, if that is installed."""
        if _Rust is None:
            return None
        if of not in self._rust:
            self._rust[of] = _Rust(list(self._secrets.items()), of.prefix, of.domain, of.kind.name, of.form)
        return self._rust[of]

    def renew(self, external: External[I]) -> External[I]:
        """Converts an external id to the sealing secret."""
        return self.seal(self.open(external))

    def key_id(self, external: External[I]) -> int:
        """The key id of the secret that the id claims to be sealed with."""
        return external._body().key_id

    def seal_cursor(self, id: I) -> Cursor[I]:
        """Seals the position of a row in a list by its primary key."""
        of = type(id)
        return cursor_of(of)._of_body(self._keys(of.domain).seal_cursor(of.kind, of.form, id._number))

    def open_cursor(self, cursor: Cursor[I]) -> I:
        if not isinstance(cursor, Cursor):
            raise TypeError(f"expected a Cursor, found {type(cursor).__name__}")
        of, body = cursor.of, cursor._body()
        return _id(of, self._keys(of.domain, body.key_id).open_cursor(of.kind, of.form, body))

    def grant(self, id: I, purpose: str, expires: datetime) -> str:
        """Returns a text that stands for an id, for one purpose and until a time. The time needs a time zone."""
        _check_zone(expires, "expires")
        payload = max(0, int(expires.timestamp() // 1)).to_bytes(8, "big")
        return self._seal_token(id, "grant", [purpose], payload)

    def open_grant(self, of: type[I], text: str, purpose: str, now: datetime | None = None) -> I:
        """Opens a grant for its purpose, or raises `Expired` from its time on."""
        now = datetime.now(UTC) if now is None else now
        _check_zone(now, "now")
        id, payload = self._open_token(of, text, "grant", [purpose])
        if now.timestamp() >= int.from_bytes(payload, "big"):  # R13.9
            raise Expired("its time is over")
        return id

    def _seal_token(self, id: I, kind: str, parts: list[str], payload: bytes) -> str:
        of = type(id)
        token = self._keys(of.domain).seal_token(of.kind, of.form, id._number, _associated(kind, parts), payload)
        return _format.encode_token(of.prefix, kind, token)

    def _open_token(self, of: type[I], text: str, kind: str, parts: list[str]) -> tuple[I, bytes]:
        token = _format.decode_token(of.prefix, kind, text)
        opened = self._keys(of.domain, token[0]).open_token(of.kind, of.form, token, _associated(kind, parts))
        if opened is None:
            raise NotGenuine("it is not genuine, or of another purpose")
        return of._of(opened[0]), opened[1]


class Listing(Generic[I]):
    """A list that is ordered by other columns before the key. It seals the positions of its pages, and opens them.

    `filter` is the filter of a request, and is anything that JSON has. A position opens for the same filter only: the same members in
    the same order.
    """

    def __init__(self, of: type[I], name: str, filter: Any = None) -> None:
        self._of, self._parts = of, [name, _json(filter)]

    def seal(self, keyring: Keyring, id: I, values: Any) -> str:
        """Seals the position of a row. Its sort values are any values of JSON."""
        text = keyring._seal_token(id, "position", self._parts, _format.utf8(_json(values), "values"))
        if len(text) > _format.MAX_TOKEN:
            raise ValueError(f"values: expected fewer, found a position of {len(text)} characters; the limit is {_format.MAX_TOKEN}")
        return text

    def open(self, keyring: Keyring, text: str) -> tuple[I, Any]:
        """Returns the row's id and sort values. Check the types of the values: any program with the secrets can seal them."""
        id, payload = keyring._open_token(self._of, text, "position", self._parts)
        try:
            values = json.loads(payload.decode())
            _format.utf8(_json(values), "values")
        except ValueError:
            raise NotGenuine("expected sort values in JSON, in Unicode") from None
        return id, values


def _read(data: Any, source: str) -> dict[int, bytes] | str:
    """Returns the secrets of a text or a file (section 14), or the description of a problem."""
    if isinstance(data, bytes):
        if len(data) > _MAX_FILE:
            return f"{source}: expected at most {_MAX_FILE} bytes"
        try:
            data = data.decode()
        except UnicodeDecodeError:
            return f"{source}: expected UTF-8"
    if not isinstance(data, str):
        return f"{source}: expected a text"
    lines = (line for line in data.removeprefix("\ufeff").split("\n") if not line.lstrip(_SPACE).startswith("#"))
    entries = [entry for line in lines for entry in map(_stripped, line.split(",")) if entry]
    found: dict[int, bytes] = {}
    for number, entry in enumerate(entries, 1):
        key_id, _, digits = map(_stripped, entry.partition(":"))
        if not re.fullmatch("[0-3]", key_id):
            problem: str | None = "expected `key_id:64 hex digits`, with a key id from 0 to 3"
        elif not re.fullmatch("[0-9a-fA-F]{64}", digits):
            problem = "expected 64 hex digits (`opaque-id keygen` generates an entry)"
        else:
            problem = _problem(int(key_id), bytes.fromhex(digits), found)
        if problem is not None:
            return f"{source}, entry {number}: {problem}"
        found[int(key_id)] = bytes.fromhex(digits)
    return found or f"{source}: expected an entry `key_id:64 hex digits` (`opaque-id keygen` generates one)"


def _stripped(text: str) -> str:
    return text.strip(_SPACE)


def _checked(secrets: Iterable[tuple[int, bytes]]) -> dict[int, bytes] | str:
    """Returns the checked secrets by their key ids, or the description of a problem."""
    try:
        pairs = list(secrets)
    except TypeError:
        return "expected pairs of a key id and a secret"
    found: dict[int, bytes] = {}
    for number, pair in enumerate(pairs, 1):
        key_id, secret = pair if isinstance(pair, (tuple, list)) and len(pair) == 2 else (None, None)
        problem = _problem(key_id, secret, found)
        if problem is not None:
            return f"secret {number}: {problem}"
        found[key_id] = bytes(secret)
    return found or "expected a secret"


def _problem(key_id: Any, secret: Any, earlier: dict[int, bytes]) -> str | None:
    """Describes the problem of a secret that follows earlier ones (R1.1, R1.2, R14.3)."""
    if type(key_id) is not int or key_id not in range(4) or not isinstance(secret, bytes) or len(secret) != 32:
        return "expected a key id from 0 to 3, and 32 bytes"
    if secret == _EXAMPLE:  # R13.10
        return "it is the secret of the documentation's examples, which everyone knows"
    if len(set(secret)) == 1:
        return "all bytes are the same, so it is no secret"
    if key_id in earlier or secret in earlier.values():
        return "an earlier one has the same key id or secret"
    return None


def _json(value: Any) -> str:
    """Writes JSON in the form of R13.1."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _check_zone(time: datetime, name: str) -> None:
    if time.utcoffset() is None:
        raise ValueError(f"{name}: expected a time with a time zone, such as datetime.now(UTC)")


def _associated(kind: str, parts: list[str]) -> bytes:
    """R13.1"""
    return b"\0".join(_format.utf8(part, kind) for part in [kind, *parts])


def _check_one(base: Any, of: Any, all: set[Any]) -> None:
    if not issubclass(of, base) or len(all) > 1:
        raise TypeError(f"expected {base.__name__} of one resource, found {', '.join(sorted(found.__name__ for found in all))}")
    resource = of if base is Id else of.of
    if resource.form.startswith("mapped"):
        raise TypeError(f"{resource.__name__} is mapped: its ids are not sealed, but in a table")


def _id(of: type[I], number: int | None) -> I:
    if number is None:
        raise NotGenuine("it was made up or altered, or is of another resource")
    return of._of(number)
