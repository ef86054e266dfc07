"""The wire format, version 1. The comments name requirements of docs/FORMAT.md. Keys are integers here, and texts are ASCII."""

from __future__ import annotations

import hmac
import re
import secrets
import threading
from base64 import b32decode, b32encode
from collections.abc import Callable
from typing import Final, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCMSIV

DIGITS: Final = "[0-9a-hjkmnp-tv-z]"
MASK_31: Final = (1 << 31) - 1
MASK_60: Final = (1 << 60) - 1
MASK_64: Final = (1 << 64) - 1
UUID_VERSION: Final = 0xF << 76 | 3 << 62
UUID_8: Final = 8 << 76 | 2 << 62
UUID_7: Final = 7 << 76 | 2 << 62

_OURS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_ENCODE: Final = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", _OURS.encode())
_DECODE: Final = str.maketrans(_OURS, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")
_TO_INT: Final = str.maketrans(_OURS, "0123456789abcdefghijklmnopqrstuv")
# The lengths of the longest token (R13.5), and of a grant after its kind, in characters.
MAX_TOKEN: Final = 16_384
_GRANT: Final = 85
_UUID: Final = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class InvalidId(ValueError):
    """The text is no id, or the id does not open. Answer "not found", the same answer as for an id without a row."""


class InvalidKey(ValueError):
    """The value is no key of its kind, or it does not fit into the form."""


class Kind(NamedTuple):
    """A kind of key (section 2): a range of integers, or bits that are the same in all keys."""

    name: str
    is_integer: bool
    rounds: int
    low: int = 0
    high: int = (1 << 128) - 1
    mask: int = 0
    bits: int = 0

    def has(self, key: int, form: str) -> bool:
        """Whether a value is a key that fits into the form."""
        if not self.low <= key <= self.high or key & self.mask != self.bits:
            return False
        return form != "uuid" or key >> (60 if self.is_integer else 126) == 0  # R5.2

    def plaintext(self, key: int, tail: int) -> int:
        return (key & MASK_64) << 64 | tail if self.is_integer else key  # R3.1, R11.1

    def key(self, plaintext: int, tail: int) -> int | None:
        if not self.is_integer:
            return plaintext
        if not _is_same(plaintext & MASK_64, tail, 8):
            return None
        key = plaintext >> 64
        return key - (key >> 63 << 64)


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("uuid7", False, 4, mask=UUID_VERSION, bits=UUID_7),
        Kind("ulid", False, 0),
        Kind("structured", False, 2, mask=0xF << 124 | 0xF << 60),
        Kind("uuid", False, 0),
        Kind("i64", True, 6, -(1 << 63), (1 << 63) - 1),
        Kind("i32", True, 6, -(1 << 31), (1 << 31) - 1),
        Kind("u32", True, 6, 0, (1 << 32) - 1),
    )
}

FORMS: Final = ("text", "short", "tagged", "uuid", "mapped", "mapped_uuid")


def has_form(kind: Kind, form: str) -> bool:
    return {
        "text": True,
        "short": kind.is_integer,
        "tagged": not kind.is_integer,
        "uuid": kind.rounds > 0,
        "mapped": kind.name == "i64",
        "mapped_uuid": kind.name == "i64",
    }.get(form, False)


class Body(NamedTuple):
    """An id without its prefix: a key id, and a value with its number of bits."""

    key_id: int
    value: int
    bits: int


# The bits of a value by the number of its characters.
_BITS: Final = {13: 62, 26: 128, 34: 168}
_CHARS: Final = {bits: chars for chars, bits in _BITS.items()}
_LENGTHS: Final = {"text": (26,), "short": (13, 26), "tagged": (34,), "mapped": (26,), "cursor": (34,)}


def pattern(prefix: str, form: str) -> str:
    """The regular expression of JSON Schema for exactly the well-formed texts. In Python, use `re.fullmatch`."""
    if form == "mapped_uuid":
        return f"^{_UUID.pattern}$"
    if form == "uuid":
        return "^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
    if form == "mapped":
        return f"^{prefix}_[0-7]{DIGITS}{{25}}$"
    if form == "short":
        return f"^{prefix}_([0-9a-f]{DIGITS}{{12}}|{DIGITS}{{26}})$"
    return f"^{prefix}{'_cursor' if form == 'cursor' else ''}_{DIGITS}{{{_LENGTHS[form][0]}}}$"


def decode(prefix: str, form: str, text: str) -> Body:
    """Reads a text (R3.4, R3.5). An id has exactly one text."""
    if form in ("uuid", "mapped_uuid"):
        if not _UUID.fullmatch(text):
            raise InvalidId("expected a UUID in lower case with hyphens")
        return _of_uuid(form, int(text.replace("-", ""), 16))
    start = f"{prefix}_cursor_" if form == "cursor" else f"{prefix}_"
    if not text.startswith(start):
        raise InvalidId(f"expected a text that starts with `{start}`")
    body = text[len(start) :]
    if len(body) not in _LENGTHS[form]:
        raise InvalidId(f"expected {' or '.join(map(str, _LENGTHS[form]))} characters after `{start}`, found {len(body)}")
    if not re.fullmatch(f"{DIGITS}+", body):
        raise InvalidId("expected lower-case letters without i, l, o and u, and digits")
    number = int(body.translate(_TO_INT), 32)
    bits = _BITS[len(body)]
    if number >> bits > (0 if form == "mapped" else 3):  # R10.1, R12.5
        raise InvalidId("its first character is too large")
    return Body(number >> bits, number & (1 << bits) - 1, bits)


def encode(prefix: str, form: str, body: Body) -> str:
    if form in ("uuid", "mapped_uuid"):
        digits = f"{_to_uuid(form, body):032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
    chars = _CHARS[body.bits]
    size = (5 * chars + 7) // 8
    number = body.key_id << body.bits | body.value
    text = b32encode((number << 8 * size - 5 * chars).to_bytes(size, "big")).translate(_ENCODE).decode()
    return f"{prefix}_cursor_{text[:chars]}" if form == "cursor" else f"{prefix}_{text[:chars]}"


def _of_uuid(form: str, uuid: int) -> Body:
    if form == "mapped_uuid":
        return Body(0, uuid, 128)
    if uuid & UUID_VERSION != UUID_8:  # R5.5
        raise InvalidId("expected a UUID of version 8")
    bits = (uuid >> 80) << 74 | (uuid >> 64 & 0xFFF) << 62 | uuid & (1 << 62) - 1
    return Body(bits >> 120, bits & (1 << 120) - 1, 120)


def _to_uuid(form: str, body: Body) -> int:
    return body.value if form == "mapped_uuid" else _spread(body.key_id << 120 | body.value, UUID_8)


def _spread(bits: int, version: int) -> int:
    return (bits >> 74) << 80 | (bits >> 62 & 0xFFF) << 64 | bits & (1 << 62) - 1 | version


def to_bytes(form: str, body: Body) -> bytes:
    """The binary form (R6.1)."""
    if form in ("uuid", "mapped_uuid"):
        return _to_uuid(form, body).to_bytes(16, "big")
    if form == "mapped":
        return body.value.to_bytes(16, "big")
    return bytes([body.key_id]) + body.value.to_bytes((body.bits + 7) // 8, "big")


def from_bytes(form: str, data: bytes) -> Body:
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidId("expected bytes")
    data = bytes(data)
    of_lengths = {1 + (_BITS[chars] + 7) // 8: _BITS[chars] for chars in _LENGTHS.get(form, ())}
    if form in ("uuid", "mapped", "mapped_uuid"):
        of_lengths = {16: 128}
    if len(data) not in of_lengths:
        raise InvalidId(f"expected {' or '.join(map(str, of_lengths))} bytes, found {len(data)}")
    if form in ("uuid", "mapped_uuid"):
        return _of_uuid(form, int.from_bytes(data, "big"))
    if form == "mapped":
        return Body(0, int.from_bytes(data, "big"), 128)
    body = Body(data[0], int.from_bytes(data[1:], "big"), of_lengths[len(data)])
    if body.key_id > 3 or body.value >> body.bits:
        raise InvalidId("its key id is above 3, or its block has more than 62 bits")
    return body


def utf8(text: str, what: str) -> bytes:
    """Encodes a name. It fails before a local variable has a secret, because error reports show local variables."""
    if not isinstance(text, str):
        raise TypeError(f"{what}: expected a text")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what}: expected a text in Unicode, found a lone surrogate") from None


def subkey(master: bytes, label: str, domain: str, length: int) -> bytes:
    """HKDF-SHA-256 (R1.5)."""
    prk = hmac.digest(b"opaque-id.v1", master, "sha256")
    info, block, output = label.encode() + b"\0" + domain.encode(), b"", b""
    for counter in range(1, -(-length // 32) + 1):
        block = hmac.digest(prk, block + info + bytes([counter]), "sha256")
        output += block
    return output[:length]


def _is_same(a: int, b: int, size: int) -> bool:
    return hmac.compare_digest(a.to_bytes(size, "big"), b.to_bytes(size, "big"))


def _cipher(key: bytes, decrypts: bool = False) -> Callable[[int], int]:
    cipher = Cipher(algorithms.AES(key), modes.ECB())
    update = (cipher.decryptor() if decrypts else cipher.encryptor()).update
    return lambda block: int.from_bytes(update(block.to_bytes(16, "big")), "big")


class Subkeys(threading.local):
    """The subkeys of a domain under a secret. Each thread has its own, because threads cannot share a cipher of `cryptography`."""

    def __init__(self, master: bytes, key_id: int, domain: str) -> None:
        def derive(label: str, length: int) -> bytes:
            return subkey(master, label, domain, length)

        self.key_id = key_id
        self.tag = int.from_bytes(derive("tag", 8), "big")
        self.encrypt, self.decrypt = _cipher(derive("block", 16)), _cipher(derive("block", 16), True)
        self.mac = _cipher(derive("mac", 16))
        feistel, cursor = derive("feistel", 96), derive("cursor", 32)
        self.rounds = [_cipher(feistel[i : i + 16]) for i in range(0, 96, 16)]
        self.cursor = _cipher(cursor[:16]), _cipher(cursor[:16], True), _cipher(cursor[16:])
        self.ff1 = _cipher(derive("short", 16))
        self.ff1_start = self.ff1(0x0102010000020A1F0000003E00000000)
        self.token_key = derive("token", 32)

    def seal(self, kind: Kind, form: str, key: int) -> Body:
        if not kind.has(key, form):
            raise InvalidKey(f"expected a key of the kind {kind.name} that the form {form} has room for")
        if form == "uuid":
            return Body(self.key_id, self._feistel(kind, self._halves(kind, key), range(kind.rounds)), 120)
        if form == "short" and 0 <= key < 1 << 36:
            return Body(self.key_id, self._ff1(key << 26), 62)
        block = self.encrypt(kind.plaintext(key, self.tag))  # R3.2
        if form == "tagged":
            return Body(self.key_id, block << 40 | self.mac(block) >> 88, 168)
        return Body(self.key_id, block, 128)

    def open(self, kind: Kind, form: str, body: Body) -> int | None:
        """Returns None for an id that is not genuine."""
        if form == "uuid":
            value = self._feistel(kind, body.value, range(kind.rounds - 1, -1, -1))
            key = self._key_of_halves(kind, value)
        elif body.bits == 62:
            value = self._ff1_back(body.value)
            key = value >> 26 if _is_same(value & (1 << 26) - 1, 0, 4) else None  # R12.7
        elif form == "tagged":
            block = body.value >> 40
            is_genuine = _is_same(self.mac(block) >> 88, body.value & (1 << 40) - 1, 5)
            key = self.decrypt(block) if is_genuine else None
        else:
            key = kind.key(self.decrypt(body.value), self.tag)
            if form == "short" and key is not None and 0 <= key < 1 << 36:  # R12.8
                return None
        return key if key is not None and kind.has(key, form) else None

    def _halves(self, kind: Kind, key: int) -> int:
        """R5.1"""
        if kind.is_integer:
            return key << 60 | self.tag & MASK_60
        if kind.name == "structured":
            return key >> 64 << 60 | key & MASK_64
        return (key >> 80) << 74 | (key >> 64 & 0xFFF) << 62 | key & (1 << 62) - 1

    def _key_of_halves(self, kind: Kind, value: int) -> int | None:
        if kind.is_integer:
            return value >> 60 if _is_same(value & MASK_60, self.tag & MASK_60, 8) else None  # R5.6
        if kind.name == "structured":
            return value >> 60 << 64 | value & MASK_60
        return _spread(value, UUID_7)

    def _feistel(self, kind: Kind, value: int, rounds: range) -> int:
        """R5.3"""
        hi, lo = value >> 60, value & MASK_60
        for i in rounds:
            if i % 2 == 0:
                hi ^= self.rounds[i](lo) & MASK_60
            else:
                lo ^= self.rounds[i](hi) & MASK_60
        return hi << 60 | lo

    def _ff1_round(self, number: int, half: int) -> int:
        return self.ff1(self.ff1_start ^ number << 32 ^ half) >> 64

    def _ff1(self, value: int) -> int:
        """R12.2"""
        a, b = value >> 31, value & MASK_31
        for i in range(10):
            a, b = b, a + self._ff1_round(i, b) & MASK_31
        return a << 31 | b

    def _ff1_back(self, value: int) -> int:
        a, b = value >> 31, value & MASK_31
        for i in range(9, -1, -1):
            a, b = b - self._ff1_round(i, a) & MASK_31, a
        return a << 31 | b

    def seal_cursor(self, kind: Kind, form: str, key: int) -> Body:
        if not kind.has(key, form):
            raise InvalidKey(f"expected a key of the kind {kind.name} that the form {form} has room for")
        encrypt, _, mac = self.cursor
        block = encrypt(kind.plaintext(key, 0))
        return Body(self.key_id, block << 40 | mac(block) >> 88, 168)

    def open_cursor(self, kind: Kind, form: str, body: Body) -> int | None:
        _, decrypt, mac = self.cursor
        block = body.value >> 40
        if not _is_same(mac(block) >> 88, body.value & (1 << 40) - 1, 5):  # R11.7
            return None
        key = kind.key(decrypt(block), 0)
        return key if key is not None and kind.has(key, form) else None

    def seal_token(self, kind: Kind, form: str, key: int, associated: bytes, payload: bytes) -> bytes:
        if not kind.has(key, form):
            raise InvalidKey(f"expected a key of the kind {kind.name} that the form {form} has room for")
        nonce = secrets.token_bytes(12)  # R13.3
        plaintext = kind.plaintext(key, 0).to_bytes(16, "big") + payload
        return bytes([self.key_id]) + nonce + AESGCMSIV(self.token_key).encrypt(nonce, plaintext, associated)

    def open_token(self, kind: Kind, form: str, token: bytes, associated: bytes) -> tuple[int, bytes] | None:
        try:
            plaintext = AESGCMSIV(self.token_key).decrypt(token[1:13], token[13:], associated)
        except InvalidTag:
            return None
        key = kind.key(int.from_bytes(plaintext[:16], "big"), 0)
        if len(plaintext) < 16 or key is None or not kind.has(key, form):
            return None
        return key, plaintext[16:]


def encode_token(prefix: str, kind: str, token: bytes) -> str:
    """R13.4"""
    return f"{prefix}_{kind}_{b32encode(token).rstrip(b'=').translate(_ENCODE).decode()}"


def decode_token(prefix: str, kind: str, text: str) -> bytes:
    if not isinstance(text, str) or len(text) > MAX_TOKEN:
        raise InvalidId(f"expected a text of at most {MAX_TOKEN} characters")
    start = f"{prefix}_{kind}_"
    body = text[len(start) :]
    if not text.startswith(start) or not re.fullmatch(f"{DIGITS}+", body):
        raise InvalidId(f"expected a text that starts with `{start}`, and lower-case letters and digits")
    if kind == "grant" and len(body) != _GRANT:
        raise InvalidId(f"expected {_GRANT} characters after `{start}`, found {len(body)}")
    token = b32decode(body.translate(_DECODE) + "=" * (-len(body) % 8)) if len(body) % 8 not in (1, 3, 6) else b""
    # The key id, the nonce, and the cipher's tag. Bits after the last byte are zero (R13.5).
    if len(token) < 29 or token[0] > 3 or encode_token(prefix, kind, token) != text:
        raise InvalidId("it is cut off, or has more characters than its bytes need, or its key id is above 3")
    return token
