"""The wire format by docs/FORMAT.md alone, for generate.py: it seals, also what an implementation must refuse to open.

It shares nothing with the implementations, nor with the libraries that they use: AES is FIPS 197's here. It is neither fast nor safe
from timing, so it is for vectors only.
"""

import hashlib
import hmac

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
MASK60 = 2**60 - 1
ROUNDS = {"uuid7": 4, "structured": 2, "i64": 6, "i32": 6, "u32": 6}


# FIPS 197


def times(a, b):
    product = 0
    while b:
        if b & 1:
            product ^= a
        a = (a << 1) ^ (0x11B if a & 0x80 else 0)
        b >>= 1
    return product


def s_box():
    box = []
    for x in range(256):
        inverse = next((y for y in range(256) if times(x, y) == 1), 0)
        rotated = (inverse << shift | inverse >> 8 - shift for shift in range(5))
        value = 0x63
        for part in rotated:
            value ^= part & 0xFF
        box.append(value)
    return box


S = s_box()
TWICE = [times(x, 2) for x in range(256)]


def round_keys(key):
    words = [key[i : i + 4] for i in range(0, len(key), 4)]
    each, constant = len(words), 1
    for i in range(each, 4 * (each + 7)):
        word = words[-1]
        if i % each == 0:
            word = bytes(S[byte] for byte in word[1:] + word[:1])
            word = bytes([word[0] ^ constant]) + word[1:]
            constant = TWICE[constant]
        elif each == 8 and i % each == 4:
            word = bytes(S[byte] for byte in word)
        words.append(bytes(a ^ b for a, b in zip(words[-each], word)))
    return [b"".join(words[i : i + 4]) for i in range(0, len(words), 4)]


def aes(key, block):
    first, *others = round_keys(key)
    state = bytes(a ^ b for a, b in zip(block, first))
    for number, round_key in enumerate(others, 1):
        state = [S[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if number < len(others):
            columns = (state[i : i + 4] for i in range(0, 16, 4))
            state = [
                TWICE[a] ^ TWICE[b] ^ b ^ c ^ d
                for column in columns
                for a, b, c, d in ((column[i:] + column[:i]) for i in range(4))
            ]
        state = bytes(a ^ b for a, b in zip(state, round_key))
    return state


assert aes(bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
assert aes(bytes(range(32)), bytes.fromhex("00112233445566778899aabbccddeeff")).hex() == "8ea2b7ca516745bfeafc49904b496089"


# RFC 8452


def dot(a, b):
    """a times b times x^-128, modulo x^128 + x^127 + x^126 + x^121 + 1."""
    product = 0
    for bit in range(128):
        if b >> bit & 1:
            product ^= a << bit
    for _ in range(128):
        if product & 1:
            product ^= 1 << 128 | 1 << 127 | 1 << 126 | 1 << 121 | 1
        product >>= 1
    return product


def gcm_siv(key, nonce, plaintext, associated):
    def padded(message):
        return message + bytes(-len(message) % 16)

    parts = [aes(key, i.to_bytes(4, "little") + nonce)[:8] for i in range(6)]
    auth, enc = int.from_bytes(b"".join(parts[:2]), "little"), b"".join(parts[2:])
    lengths = (8 * len(associated)).to_bytes(8, "little") + (8 * len(plaintext)).to_bytes(8, "little")
    hashed, total = padded(associated) + padded(plaintext) + lengths, 0
    for i in range(0, len(hashed), 16):
        total = dot(total ^ int.from_bytes(hashed[i : i + 16], "little"), auth)
    tag = bytearray(a ^ b for a, b in zip(total.to_bytes(16, "little"), nonce + bytes(4)))
    tag[15] &= 0x7F
    tag = aes(enc, bytes(tag))
    start, rest = int.from_bytes(tag[:4], "little"), tag[4:15] + bytes([tag[15] | 0x80])
    counters = (((start + i) % 2**32).to_bytes(4, "little") + rest for i in range(-(-len(plaintext) // 16)))
    stream = b"".join(aes(enc, counter) for counter in counters)
    return bytes(a ^ b for a, b in zip(plaintext, stream)) + tag


# Appendix C.2 of RFC 8452.
assert gcm_siv(b"\1" + bytes(31), b"\3" + bytes(11), b"\2" + bytes(7), b"\1").hex() == "1de22967237a813291213f267e3b452f02d01ae33e4ec854"


# docs/FORMAT.md


def subkey(master, label, domain, length):
    prk = hmac.new(b"opaque-id.v1", master, hashlib.sha256).digest()
    info = label.encode() + b"\0" + domain.encode()
    output, block = b"", b""
    while len(output) < length:
        block = hmac.new(prk, block + info + bytes([len(output) // 32 + 1]), hashlib.sha256).digest()
        output += block
    return output[:length]


def base32(number, chars):
    return "".join(ALPHABET[number >> shift & 31] for shift in range(5 * chars - 5, -1, -5))


def base32_bytes(data):
    bits = "".join(f"{byte:08b}" for byte in data)
    bits += "0" * (-len(bits) % 5)
    return "".join(ALPHABET[int(bits[i : i + 5], 2)] for i in range(0, len(bits), 5))


def number_of(id):
    """Returns the value of the characters after the last underscore."""
    number = 0
    for char in id[id.rindex("_") + 1 :]:
        number = number << 5 | ALPHABET.index(char)
    return number


def hyphenated(number):
    digits = f"{number:032x}"
    return "-".join(digits[a:b] for a, b in [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)])


def is_integer(kind):
    return kind in ROUNDS and ROUNDS[kind] == 6


class Sealer:
    """Seals keys of one resource under one secret."""

    def __init__(self, master, key_id, prefix, domain, kind, audience=None):
        master = bytes.fromhex(master)
        if audience is not None:
            master = subkey(master, "audience", audience, 32)
        self.master, self.key_id, self.prefix, self.domain, self.kind = master, key_id, prefix, domain, kind

    def subkey(self, label, length):
        return subkey(self.master, label, self.domain, length)

    def check_value(self):
        return subkey(self.master, "check", "", 4).hex()

    def tag(self):
        return self.subkey("tag", 8)

    def key_bytes(self, key):
        return int(key).to_bytes(8, "big", signed=True) if is_integer(self.kind) else bytes.fromhex(key.replace("-", ""))

    def block(self, key):
        """The ciphertext block of the text form."""
        plaintext = self.key_bytes(key)
        if is_integer(self.kind):
            plaintext += self.tag()
        return self.encrypt(plaintext)

    def encrypt(self, plaintext):
        return aes(self.subkey("block", 16), plaintext)

    def text_of(self, block):
        return f"{self.prefix}_{base32(self.key_id << 128 | int.from_bytes(block, 'big'), 26)}"

    def text(self, key):
        return self.text_of(self.block(key))

    def tagged(self, key):
        block = self.block(key)
        return f"{self.prefix}_{self.with_tag(block, self.short_tag(block))}"

    def short_tag(self, block):
        return aes(self.subkey("mac", 16), block)[:5]

    def with_tag(self, block, tag):
        return base32(self.key_id << 168 | int.from_bytes(block + tag, "big"), 34)

    def halves(self, key):
        if is_integer(self.kind):
            return int(key), int.from_bytes(self.tag(), "big") & MASK60
        number = int(key.replace("-", ""), 16)
        if self.kind == "structured":
            return number >> 64, number & 2**64 - 1
        bits = f"{number:0128b}"
        payload = int(bits[2:48] + bits[52:64] + bits[66:], 2)
        return payload >> 60, payload & MASK60

    def uuid(self, key):
        return self.uuid_of(*self.halves(key))

    def uuid_of(self, hi, lo):
        keys = self.subkey("feistel", 96)
        for i in range(ROUNDS[self.kind]):
            changed = int.from_bytes(aes(keys[16 * i : 16 * i + 16], (hi if i % 2 else lo).to_bytes(16, "big")), "big") & MASK60
            hi, lo = (hi, lo ^ changed) if i % 2 else (hi ^ changed, lo)
        bits = f"{self.key_id:02b}{hi:060b}{lo:060b}"
        return hyphenated(int(bits[:48] + "1000" + bits[48:60] + "10" + bits[60:], 2))

    def short(self, key):
        return self.short_of(int(key) << 26) if 0 <= int(key) < 2**36 else self.text(key)

    def short_of(self, plaintext):
        """NIST SP 800-38G, algorithm 7, with n = 62, u = v = 31, b = 4, d = 8."""
        key = self.subkey("short", 16)
        p = bytes([1, 2, 1, 0, 0, 2, 10, 31]) + (62).to_bytes(4, "big") + bytes(4)
        a, b = plaintext >> 31, plaintext & 2**31 - 1
        for i in range(10):
            q = bytes(11) + bytes([i]) + b.to_bytes(4, "big")
            r = aes(key, bytes(x ^ y for x, y in zip(aes(key, p), q)))
            a, b = b, (a + int.from_bytes(r[:8], "big")) % 2**31
        return f"{self.prefix}_{base32(self.key_id << 62 | a << 31 | b, 13)}"

    def plaintext(self, key):
        """The plaintext block of a cursor or a token."""
        return self.key_bytes(key).ljust(16, b"\0")

    def cursor(self, key):
        return self.cursor_of(self.plaintext(key))

    def cursor_of(self, plaintext):
        keys = self.subkey("cursor", 32)
        block = aes(keys[:16], plaintext)
        return f"{self.prefix}_cursor_{self.with_tag(block, aes(keys[16:], block)[:5])}"

    def token(self, kind, nonce, parts, plaintext):
        associated = b"\0".join([kind.encode(), *(part.encode() for part in parts)])
        sealed = gcm_siv(self.subkey("token", 32), nonce, plaintext, associated)
        return f"{self.prefix}_{kind}_{base32_bytes(bytes([self.key_id]) + nonce + sealed)}"

    def grant(self, key, purpose, expires, nonce):
        return self.token("grant", nonce, [purpose], self.plaintext(key) + expires.to_bytes(8, "big"))

    def position(self, key, name, filter, values, nonce):
        return self.token("position", nonce, [name, filter], self.plaintext(key) + (values if isinstance(values, bytes) else values.encode()))
