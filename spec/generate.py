"""Makes vectors.jsonl with format.py. README.md describes it.

Its valid ids are those of the four files `…-v1.json`, which must come out as they are there.
"""

import hashlib
import json
import pathlib
import re

from format import ALPHABET, Sealer, base32, base32_bytes, hyphenated, is_integer, number_of

HERE = pathlib.Path(__file__).parent
FORMS = {
    "uuid7": ["text", "tagged", "uuid"],
    "ulid": ["text", "tagged"],
    "structured": ["text", "tagged", "uuid"],
    "uuid": ["text", "tagged"],
    "i64": ["text", "short", "uuid"],
}
# The inputs of an id. Vectors cannot show FF1's key, AES's key or a block alone.
CHAINS = {
    "text": ["R1.5", "R3.2", "R3.3"],
    "tagged": ["R1.5", "R3.2", "R3.3", "R4.1"],
    "uuid": ["R1.5", "R5.1", "R5.3", "R5.4"],
    "short": ["R1.5", "R3.3", "R12.1", "R12.2", "R12.3"],
    "cursor": ["R1.5", "R3.3", "R11.2", "R11.3", "R11.4"],
    "token": ["R1.5", "R3.3", "R13.1", "R13.2", "R13.3", "R13.4"],
}
# R1.8 only names an audience of R1.7. A nonce's randomness is not seen. After the uuid form's other checks, each value is a key.
UNTESTED = {"R1.8", "R2.3", "R5.7"}

MASTER = "e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23"
OTHER = "e0eb4da52f6b2f55de21fe63c1058a2456d8ed7a8137ec1735991985ddef728b"
EXAMPLE = b"opaque-id: example, not a secret".hex()
UUID7, UUID4 = "03540772-5059-7ed9-b7d2-5bdc8902272b", "6d179ed1-fd65-480b-a475-77983c28dd10"
STRUCTURED = "0ca29ad8-c7ee-54b9-0433-c14088c8496a"
LAST_60, LAST_36 = 2**60 - 1, 2**36 - 1
KEYS = {"uuid7": UUID7, "ulid": UUID4, "structured": STRUCTURED, "uuid": UUID4, "i64": "42", "i32": "42", "u32": "42"}
# Every key id opens, so an implementation refuses a text of the kind `uuid` for its characters only.
ALL = ",".join(f"{i}:{hashlib.sha256(bytes([i])).hexdigest()}" for i in (0, 2, 3)) + f",1:{MASTER}"
GRANT = {"purpose": "unsubscribe", "expires": 2_000_000_000}
OPEN_GRANT = {"purpose": GRANT["purpose"], "now": 0}
LIST = {"name": "users by name", "filter": {"team": 1}}
MAX_TOKEN = 16_384
NONCE = bytes(range(12))
# With it the counter of the longest position below passes 2^32, as one in 7,000,000 nonces.
WRAPPING = (2_489_041).to_bytes(12, "big")

vectors = []


def add(requirements, about, op, answer, **request):
    """`answer` is None if the implementation must refuse."""
    requirements = requirements.split() if isinstance(requirements, str) else requirements
    vectors.append({"requirements": requirements, "about": about, "op": op, **request, "answer": answer})


def resource(kind, form, *, secrets=f"1:{MASTER}", prefix="user", domain="user", audience=None):
    found = {"secrets": secrets, "prefix": prefix, "domain": domain, "kind": kind, "form": form}
    return found if audience is None else {**found, "audience": audience}


def sealer(kind, *, master=MASTER, key_id=1, prefix="user", domain="user", audience=None):
    return Sealer(master, key_id, prefix, domain, kind, audience)


def seal_id(of, form, key):
    """Seals by the method with the form's name."""
    return getattr(of, form)(key)


def compact(value):
    """The JSON of a filter (R13.1)."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def position_of(by, key, name, filter, values, nonce=NONCE):
    """`values` are bytes or a text."""
    return by.position(key, name, compact(filter), values, nonce)


def chain(form, kind, key):
    found = list(CHAINS[form])
    if form == "short" and not 0 <= int(key) <= LAST_36:
        found = [*CHAINS["text"], "R12.4"]
    if is_integer(kind) and form in ("text", "short") and "R3.2" in found:
        found.append("R3.1")
    if is_integer(kind) and form == "cursor":
        found.append("R11.1")
    return found


def both_ways(about, of, form, key, extra=(), **options):
    """An id that seals and opens."""
    given = resource(of.kind, form, secrets=f"{of.key_id}:{options.pop('master')}", prefix=of.prefix, domain=of.domain, **options)
    requirements = [*chain(form, of.kind, key), *extra]
    id = seal_id(of, form, key)
    add(requirements, about, "seal", id, **given, key=key)
    add(requirements, about, "open", {"key": key, "key_id": of.key_id}, **given, id=id)
    return id


def refuse(requirements, about, kind, form, id, **options):
    add(requirements, about, "open", None, **resource(kind, form, **options), id=id)


def read(name):
    return json.loads((HERE / name).read_text())


def of_files():
    """Yields ids under many secrets, domains and prefixes."""

    def of(vector):
        kind = vector.get("kind", "int").replace("int", "i64")
        audience = vector.get("audience")
        return sealer(kind, **{field: vector[field] for field in ("master", "key_id", "prefix", "domain")}, audience=audience)

    for vector in [*read("format-v1.json"), *read("audiences-v1.json")]:
        options = {"master": vector["master"]}
        if vector.get("audience") is not None:
            options["audience"] = vector["audience"]
        for form in ("text", "short", "tagged", "uuid"):
            if form in vector:
                extra = ["R1.7"] if "audience" in options else []
                assert both_ways("an id", of(vector), form, vector["key"], extra, **options) == vector[form]
    for vector in read("cursors-v1.json"):
        cursor, key, by = of(vector).cursor(vector["key"]), vector["key"], of(vector)
        assert cursor == vector["cursor"]
        given = resource(by.kind, "text", secrets=f"{by.key_id}:{vector['master']}", prefix=by.prefix, domain=by.domain)
        requirements = chain("cursor", by.kind, key)
        add(requirements, "a cursor", "seal_cursor", cursor, **given, key=key)
        add(requirements, "a cursor", "open_cursor", {"key": key, "key_id": by.key_id}, **given, id=cursor)
    for vector in read("tokens-v1.json"):
        by, key, nonce = of(vector), vector["key"], bytes.fromhex(vector["nonce"])
        given = resource(by.kind, "text", secrets=f"{by.key_id}:{vector['master']}", prefix=by.prefix, domain=by.domain)
        purpose, expires = vector["purpose"], vector["expires"]
        of_list = {"name": vector["name"], "filter": json.loads(vector["filter"])}
        grant, position = by.grant(key, purpose, expires, nonce), position_of(by, key, *of_list.values(), vector["values"], nonce)
        assert (grant, position) == (vector["grant"], vector["position"])
        found = {"key": key}
        tokens = CHAINS["token"]
        if expires > 0:
            add(tokens, "a grant", "open_grant", found, **given, purpose=purpose, now=expires - 1, id=grant)
        add("R13.9", "a grant whose time is over", "open_grant", None, **given, purpose=purpose, now=expires, id=grant)
        # The nonce is random, so the kit opens the sealed text.
        add(tokens, "a grant", "grant", "opens", **given, purpose=purpose, expires=expires + 1, key=key)
        found = {**found, "values": json.loads(vector["values"])}
        add(tokens, "a position", "open_position", found, **given, **of_list, id=position)
        add(tokens, "a position", "position", "opens", **given, **of_list, values=json.loads(vector["values"]), key=key)


def secrets():
    def entries(requirements, about, text, answer):
        add(requirements, about, "check", answer, secrets=text)

    def check(master):
        return sealer("i64", master=master).check_value()

    one, two = f"1:{MASTER}", f"2:{OTHER}"
    found = f"1:{check(MASTER)},2:{check(OTHER)}"
    entries("R1.6", "the check value of a secret", one, f"1:{check(MASTER)}")
    entries("R14.1", "two secrets, of which the first seals", f"{one},{two}", found)
    entries("R14.1", "the second secret first", f"{two},{one}", f"2:{check(OTHER)},1:{check(MASTER)}")
    entries("R14.1", "a secret in each line, and white space", f"\n {one} \r\n\n\t{two}\n", found)
    entries("R14.1", "white space around the colon, and empty entries", f",1 : {MASTER},,{two},", found)
    entries("R14.1", "upper-case digits", f"1:{MASTER.upper()}", f"1:{check(MASTER)}")
    entries("R14.2", "a comment", f"# old: 3:{EXAMPLE}, see the runbook\n{one}\n  # {two}\n{two}", found)
    entries("R14.2", "a comment after an entry", f"{one} # old", None)
    entries("R14.2", "a comment after a comma", f"{one}, # old", None)
    entries("R14.2", "a byte-order mark", f"\ufeff{one}", f"1:{check(MASTER)}")
    entries("R14.2", "a byte-order mark before a comment", f"\ufeff# old\n{one}", f"1:{check(MASTER)}")
    entries("R14.2", "two byte-order marks", f"\ufeff\ufeff{one}", None)
    entries("R14.2", "a byte-order mark after a space", f" \ufeff{one}", None)
    for space in " \t\r":
        name = f"U+{ord(space):04X}"
        entries("R14.1", f"{name} around everything", f"{space}1{space}:{space}{MASTER}{space}\n{space}", f"1:{check(MASTER)}")
        entries("R14.1", f"{name} does not end a line", f"{one}{space}{two}", None)
        entries("R14.2", f"{name} before a comment", f"{space}# {two}\n{one}", f"1:{check(MASTER)}")
    for other in "\0\v\f\x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u200b\u2028\u2029\u3000\ufeff":
        name = f"U+{ord(other):04X}"
        for text in [f"\n{other}{one}", f"{one}{other}", f"1{other}:{MASTER}", f"1:{other}{MASTER}", f"{one}{other}{two}"]:
            entries("R14.1", f"{name} is no white space", text, None)
        entries("R14.2", f"{name} is no white space", f"\n{other}# {two}\n{one}", None)
    four = [hashlib.sha256(bytes([i])).hexdigest() for i in range(4)]
    text = ",".join(f"{i}:{secret}" for i, secret in enumerate(four))
    entries("R1.2", "four secrets", text, ",".join(f"{i}:{check(secret)}" for i, secret in enumerate(four)))
    entries("R1.2", "a key id of 4", f"4:{MASTER}", None)
    entries("R1.1", "a secret of 31 bytes", one[:-2], None)
    entries("R1.1", "a secret of 33 bytes", one + "00", None)
    entries("R14.3", "no secret", "", None)
    entries("R14.3", "only a comment", f"# {one}", None)
    entries("R14.3", "no key id", MASTER, None)
    entries("R14.3", "an empty key id", f":{MASTER}", None)
    entries("R14.3", "a key id with a sign", f"+1:{MASTER}", None)
    entries("R14.3", "a key id of two digits", f"01:{MASTER}", None)
    entries("R14.3", "a key id that is repeated", f"{one},1:{OTHER}", None)
    entries("R14.3", "a secret that is repeated", f"{one},2:{MASTER}", None)
    entries("R14.3", "a secret of one byte", f"1:{'c7' * 32}", None)
    entries("R14.3", "a digit that is not hexadecimal", f"1:{MASTER[:-1]}g", None)
    entries("R14.3", "digits that are not ASCII", f"1:{MASTER[:-1]}\uff11", None)
    entries("R14.3", "a space within a secret", f"1:{MASTER[:32]} {MASTER[32:]}", None)
    entries("R14.3 R13.10", "the example's secret", f"3:{EXAMPLE}", None)
    entries("R14.3 R13.10", "the example's secret after another", f"{one},3:{EXAMPLE}", None)

    # Rotation: all open, the first seals.
    of_one, of_two = sealer("i64"), sealer("i64", master=OTHER, key_id=2)
    for order, sealing in [(f"{one},{two}", of_one), (f"{two},{one}", of_two)]:
        given = resource("i64", "text", secrets=order)
        add("R1.2", "the first of two secrets seals", "seal", sealing.text("42"), **given, key="42")
        for by in (of_one, of_two):
            add("R1.2", "both secrets open", "open", {"key": "42", "key_id": by.key_id}, **given, id=by.text("42"))
        given = resource("i64", "text", secrets=order, audience="partner-a")
        for by in (sealer("i64", audience="partner-a"), sealer("i64", master=OTHER, key_id=2, audience="partner-a")):
            if by.key_id == sealing.key_id:
                add("R1.7", "the first secret of an audience seals", "seal", by.text("42"), **given, key="42")
            add("R1.7", "both secrets of an audience open", "open", {"key": "42", "key_id": by.key_id}, **given, id=by.text("42"))
            add("R1.7", "both secrets of an audience open", "open_cursor", {"key": "42", "key_id": by.key_id}, **given, id=by.cursor("42"))


def prefixes():
    for prefix in ["a", "v2_doc", "a__b", "a" * 63]:
        by = sealer("i64", prefix=prefix)
        both_ways("a prefix", by, "text", "42", ["R1.3"], master=MASTER)
    for prefix in ["", "_a", "a_", "2a", "User", "a-b", "\u00fc", "a" * 64, "a b", "a\n"]:
        by = sealer("i64", prefix=prefix)
        add("R1.3", "no prefix", "seal", None, **resource("i64", "text", prefix=prefix), key="42")
        refuse("R1.3", "no prefix", "i64", "text", by.text("42"), prefix=prefix)
    for domain in ["Kanzlei M\u00fcller \U0001f512", " ", "a" * 300]:
        both_ways("a domain", sealer("i64", domain=domain), "text", "42", ["R1.4"], master=MASTER)
    add("R1.4", "an empty domain", "seal", None, **resource("i64", "text", domain=""), key="42")
    for audience in ["", "partner-a", "Kanzlei M\u00fcller"]:
        by = sealer("uuid7", audience=audience)
        for form in FORMS["uuid7"]:
            both_ways("an audience", by, form, UUID7, ["R1.7"], master=MASTER, audience=audience)
    by = sealer("i64", audience="partner-a")
    refuse("R1.7", "an id of an audience", "i64", "text", by.text("42"))
    refuse("R1.7", "an id of another audience", "i64", "text", by.text("42"), audience="partner-b")


def ends_of_ranges():
    for kind, form, keys in [
        ("uuid7", "uuid", ["00000000-0000-7000-8000-000000000000", "3fffffff-ffff-7fff-bfff-ffffffffffff"]),
        ("uuid7", "text", ["00000000-0000-7000-8000-000000000000", "ffffffff-ffff-7fff-bfff-ffffffffffff"]),
        ("structured", "uuid", [hyphenated(0), hyphenated(LAST_60 << 64), hyphenated(LAST_60)]),
        ("ulid", "text", [hyphenated(0), hyphenated(2**128 - 1)]),
        ("i64", "text", [0, -1, 2**63 - 1, -(2**63), 255, 256]),
        ("i64", "uuid", [0, 1, LAST_60, 2**32]),
        ("i64", "short", [0, 1, LAST_36 - 1, LAST_36, LAST_36 + 1, 2**31, 2**10, -1, 2**60, 2**63 - 1, -(2**63)]),
    ]:
        for key in map(str, keys):
            both_ways("the end of a range", sealer(kind), form, key, master=MASTER)


def no_room():
    def sealing(requirements, about, kind, form, key):
        add(requirements, about, "seal", None, **resource(kind, form), key=str(key))
        add(requirements, about, "seal_cursor", None, **resource(kind, form), key=str(key))

    for key in [-1, LAST_60 + 1, -(2**63), 2**63 - 1]:
        sealing("R5.2", "an integer that the uuid form has no room for", "i64", "uuid", key)
    for first in ["4", "8", "f"]:
        sealing("R5.2", "a UUIDv7 after the year 4199", "uuid7", "uuid", first + UUID7[1:])

    # The column of an integer.
    by = sealer("i64")
    for kind, low, high in [("i32", -(2**31), 2**31 - 1), ("u32", 0, 2**32 - 1)]:
        for key in map(str, {low, 42, high}):
            both_ways("a narrow integer", sealer(kind), "text", key, ["R2.1"], master=MASTER)
            if int(key) >= 0:
                both_ways("a narrow integer", sealer(kind), "short", key, ["R2.1"], master=MASTER)
                both_ways("a narrow integer", sealer(kind), "uuid", key, ["R2.1"], master=MASTER)
        for key in map(str, [low - 1, high + 1]):
            refuse("R2.2", f"an integer that is no {kind}", kind, "text", by.text(key))
            refuse("R2.2 R12.9", f"an integer that is no {kind}", kind, "short", by.short(key))
            add("R2.2", f"a cursor of an integer that is no {kind}", "open_cursor", None, **resource(kind, "text"), id=by.cursor(key))
            if int(key) >= 0:
                refuse("R2.2", f"an integer that is no {kind}", kind, "uuid", by.uuid(key))


def texts():
    """Yields other texts for an id, because exactly one text is the id."""

    def variants(id, requirements):
        """Texts that are not the id."""
        cut = id.rindex("_") + 1 if "_" in id else 0
        body = id[cut:]
        letters = [i for i, char in enumerate(body) if char.isalpha()]
        letter = letters[0]
        yield "R3.4" if cut else "R5.5", "upper case", id[:cut] + body.upper()
        yield "R3.4" if cut else "R5.5", "one capital letter", id[: cut + letter] + body[letter].upper() + body[letter + 1 :]
        for around in [" ", "\n", "\t", "\0"]:
            yield requirements, "white space around it", around + id
            yield requirements, "white space around it", id + around
        yield requirements, "a character less", id[:-1]
        yield requirements, "a character more", id + "0"
        yield requirements, "an empty text", ""
        yield requirements, "another alphabet's digit", id[:-1] + "\uff11"
        # Where nothing else refuses a text, these are the characters of an id that opens.
        places = {"first": 0, "middle": letters[len(letters) // 2], "last": len(body) - 1}
        for where, at in places.items():
            for char in ["\n", " ", "\0", "_", "-", "u", body[at].upper() if body[at].isalpha() else "O", "\u0661", "\uff11"]:
                yield requirements, f"another character: the {where}", id[: cut + at] + char + id[cut + at + 1 :]
        if cut:
            yield requirements, "a hyphen", id[: cut + 6] + "-" + id[cut + 7 :]
            yield requirements, "a hyphen more", id[: cut + 6] + "-" + id[cut + 6 :]
            for char in "oilu":
                yield requirements, f"the character {char}", id[: cut + 3] + char + id[cut + 4 :]
            wrong = requirements.replace("R3.4", "R3.5")
            prefix = id[: id.index("_")]
            yield wrong, "another prefix", "order" + id[len(prefix) :]
            yield wrong, "no prefix", body
            yield wrong, "an empty prefix", "_" + body
            yield wrong, "an upper-case prefix", prefix.upper() + id[len(prefix) :]
            yield wrong, "a longer prefix", "user_" + id
            yield wrong, "two underscores", id[:cut] + "_" + body
            yield wrong, "a hyphen for the underscore", id[: cut - 1] + "-" + body
        else:
            yield requirements, "without hyphens", id.replace("-", "")
            yield requirements, "in braces", "{" + id + "}"
            yield requirements, "a URN", "urn:uuid:" + id
            yield requirements, "hyphens elsewhere", id[:8] + id[9:14] + "--" + id[15:]
            for at in (8, 13, 18, 23):
                yield requirements, "another character for a hyphen", id[:at] + "0" + id[at + 1 :]

    for kind, form, requirements in [
        ("uuid7", "text", "R3.4"),
        ("i64", "text", "R3.4"),
        ("i64", "short", "R12.5"),
        ("ulid", "tagged", "R3.4"),
        ("uuid", "text", "R3.4"),
        ("uuid7", "uuid", "R5.4"),
    ]:
        id = seal_id(sealer(kind), form, KEYS[kind])
        for requirement, about, text in variants(id, requirements):
            refuse(requirement, about, kind, form, text, secrets=ALL)
            add(requirement, about, "to_bytes", None, prefix="user", kind=kind, form=form, id=text)
    cursor = sealer("uuid7").cursor(UUID7)
    for _, about, text in variants(cursor, "R11.5"):
        add("R11.5", about, "open_cursor", None, **resource("uuid7", "text"), id=text)
        add("R11.5", about, "to_bytes", None, prefix="user", kind="uuid7", form="cursor", id=text)
    for form, id in [("mapped", f"user_{base32(int(UUID4.replace('-', ''), 16), 26)}"), ("mapped_uuid", UUID4)]:
        for _, about, text in variants(id, "R10.1"):
            for op in ["to_uuid", "to_bytes"]:
                add("R10.1", about, op, None, prefix="user", kind="i64", form=form, id=text)
    by = sealer("uuid7")
    refuse("R11.5", "a cursor in the place of an id", "uuid7", "tagged", cursor)
    add("R3.5", "a cursor in the place of an id", "to_bytes", None, prefix="user", kind="uuid7", form="tagged", id=cursor)
    add("R11.5", "a tagged id in the place of a cursor", "open_cursor", None, **resource("uuid7", "tagged"), id=by.tagged(UUID7))
    grant = by.grant(UUID7, **GRANT, nonce=NONCE)
    for _, about, text in variants(grant, "R13.5"):
        add("R13.5", about, "open_grant", None, **resource("uuid7", "text"), purpose=GRANT["purpose"], now=0, id=text)
    position = position_of(by, UUID7, **LIST, values="[1]")
    add("R13.5", "a position in the place of a grant", "open_grant", None, **resource("uuid7", "text"), **OPEN_GRANT, id=position)
    # 53 bytes are 424 bits, so the last character has one bit of zero.
    odd = grant[:-1] + ALPHABET[ALPHABET.index(grant[-1]) + 1]
    add("R13.5", "a bit after the last byte", "open_grant", None, **resource("uuid7", "text"), **OPEN_GRANT, id=odd)
    add("R13.5", "a character that is left over", "open_grant", None, **resource("uuid7", "text"), **OPEN_GRANT, id=grant + "00")
    for size in [0, 1, 13, 28]:
        short = f"user_grant_{base32_bytes(bytes([1] * size))}"
        add("R13.5", "a token that is too short", "open_grant", None, **resource("uuid7", "text"), **OPEN_GRANT, id=short)
    add("R13.5", "a key id of 4", "open_grant", None, **resource("uuid7", "text"), **OPEN_GRANT, id="user_grant_0g" + grant[13:])


def forged():
    """Well-formed texts that are not genuine."""

    def flipped(data, bit):
        return (int.from_bytes(data, "big") ^ 1 << bit).to_bytes(len(data), "big")

    i64, uuid7 = sealer("i64"), sealer("uuid7")
    others = [("another domain", {"domain": "order"}), ("another secret", {"master": OTHER})]
    for about, options in others:
        other = sealer("i64", **options)
        refuse("R3.7", f"an integer of {about}", "i64", "text", other.text("42"))
        refuse("R12.7", f"an integer of {about}", "i64", "short", other.short("42"))
        refuse("R5.6", f"an integer of {about}", "i64", "uuid", other.uuid("42"))
        refuse("R4.2", f"a tagged id of {about}", "uuid7", "tagged", sealer("uuid7", **options).tagged(UUID7))
        cursor = sealer("uuid", **options).cursor(UUID4)
        add("R11.7", f"a cursor of {about}", "open_cursor", None, **resource("uuid", "text"), id=cursor)
        grant = sealer("uuid", **options).grant(UUID4, **GRANT, nonce=NONCE)
        add("R13.7", f"a grant of {about}", "open_grant", None, **resource("uuid", "text"), **OPEN_GRANT, id=grant)

    unknown = {"master": MASTER, "key_id": 2}
    for kind, form in [("uuid", "text"), ("i64", "text"), ("uuid", "tagged"), ("uuid7", "uuid"), ("i64", "short")]:
        id = seal_id(sealer(kind, **unknown), form, KEYS[kind])
        refuse("R12.6" if form == "short" else "R3.6", "a key id without a secret", kind, form, id)
    cursor, grant = sealer("uuid", **unknown).cursor(UUID4), sealer("uuid", **unknown).grant(UUID4, **GRANT, nonce=NONCE)
    add("R11.6", "a key id without a secret", "open_cursor", None, **resource("uuid", "text"), id=cursor)
    add("R13.6", "a key id without a secret", "open_grant", None, **resource("uuid", "text"), **OPEN_GRANT, id=grant)

    tag = i64.tag()
    for bit in [0, 7, 31, 32, 63]:
        block = i64.encrypt(i64.key_bytes("42") + flipped(tag, bit))
        refuse("R3.7", f"bit {bit} of an integer's tag", "i64", "text", i64.text_of(block))
    for bit in [0, 31, 32, 59]:
        lo = int.from_bytes(tag, "big") & LAST_60 ^ 1 << bit
        refuse("R5.6", f"bit {bit} of an integer's tag", "i64", "uuid", i64.uuid_of(42, lo))
    for bit in range(26):
        refuse("R12.7", f"bit {bit} of the zeros", "i64", "short", i64.short_of(42 << 26 | 1 << bit))
    refuse("R12.5", "the first bit of the short form", "i64", "short", "user_g" + i64.short("42")[6:])
    for first in "gz":
        add("R12.5", "the first bit of the short form", "to_bytes", None, prefix="user", kind="i64", form="short", id=f"user_{first}{i64.short('42')[6:]}")
    for key in ["0", "42", str(LAST_36)]:
        refuse("R12.8", "a short integer in 26 characters", "i64", "short", i64.text(key))
    refuse("R12.4", "an integer in 13 characters, in the text form", "i64", "text", i64.short("42"))

    block = uuid7.block(UUID7)
    for bit in [0, 7, 8, 31, 32, 39]:
        body = uuid7.with_tag(block, flipped(uuid7.short_tag(block), bit))
        refuse("R4.2", f"bit {bit} of the tag", "uuid7", "tagged", f"user_{body}")
    by = sealer("uuid")
    cursor = by.cursor(UUID4)
    for bit in [0, 7, 8, 31, 32, 39]:
        number = number_of(cursor) ^ 1 << bit
        add("R11.7", f"bit {bit} of a cursor's tag", "open_cursor", None, **resource("uuid", "text"), id=f"user_cursor_{base32(number, 34)}")

    # Blocks of values that are no keys.
    for kind, key in [
        ("uuid7", UUID4),
        ("uuid7", UUID7[:19] + "7" + UUID7[20:]),
        ("uuid7", UUID7[:19] + "c" + UUID7[20:]),
        ("structured", hyphenated(2**124)),
        ("structured", hyphenated(2**60)),
        ("structured", hyphenated(2**127 + 2**63)),
    ]:
        by = sealer(kind)
        refuse("R3.8", "a block that is no key", kind, "text", by.text(key))
        other = sealer(kind, prefix="t", domain="other")
        refuse("R3.8", "a block that is no key", kind, "text", other.text(key), prefix="t", domain="other")
        refuse("R4.3", "a block that is no key", kind, "tagged", by.tagged(key))
        for form in ["text", "uuid"]:
            add("R11.9", "a cursor that is no key", "open_cursor", None, **resource(kind, form), id=by.cursor(key))
        grant = by.grant(key, **GRANT, nonce=NONCE)
        add("R13.8", "a grant that is no key", "open_grant", None, **resource(kind, "text"), **OPEN_GRANT, id=grant)
    for version in "0123456789abcdef":
        for variant in "08c":
            id = uuid7.uuid(UUID7)
            id = id[:14] + version + id[15:19] + ("%x" % (int(variant, 16) | int(id[19], 16) & 3)) + id[20:]
            if (version, variant) != ("8", "8"):
                refuse("R5.5", "a UUID of another version or variant", "uuid7", "uuid", id)

    for plaintext in [i64.key_bytes("42") + flipped(bytes(8), bit) for bit in (0, 31, 63)]:
        add("R11.8", "an integer's cursor without its zeros", "open_cursor", None, **resource("i64", "text"), id=i64.cursor_of(plaintext))
        grant = i64.token("grant", NONCE, [GRANT["purpose"]], plaintext + GRANT["expires"].to_bytes(8, "big"))
        add("R13.8", "an integer's grant without its zeros", "open_grant", None, **resource("i64", "text"), **OPEN_GRANT, id=grant)
    for kind, key in [("i64", str(2**60)), ("i64", "-1"), ("uuid7", "4" + UUID7[1:])]:
        by = sealer(kind)
        add("R11.9", "a cursor that the form has no room for", "open_cursor", None, **resource(kind, "uuid"), id=by.cursor(key))
        grant = by.grant(key, **GRANT, nonce=NONCE)
        add("R13.8", "a grant that the form has no room for", "open_grant", None, **resource(kind, "uuid"), **OPEN_GRANT, id=grant)
        add("R11.9", "a cursor in a form with room", "open_cursor", {"key": key, "key_id": 1}, **resource(kind, "text"), id=by.cursor(key))


def tokens():
    by = sealer("uuid7")
    given = resource("uuid7", "text")
    expires = GRANT["expires"]
    grant = by.grant(UUID7, **GRANT, nonce=NONCE)
    found = {"key": UUID7}
    for now, answer in [(0, found), (expires - 1, found), (expires, None), (expires + 1, None), (2**33, None)]:
        add("R13.9", "the time of a grant", "open_grant", answer, **given, purpose=GRANT["purpose"], now=now, id=grant)
    for purpose in ["", "unsubscrib", "Unsubscribe", "unsubscribe\0", "unsubscribe "]:
        add("R13.7", "another purpose", "open_grant", None, **given, purpose=purpose, now=0, id=grant)
    for size in [0, 7, 9, 16]:
        token = by.token("grant", NONCE, [GRANT["purpose"]], by.plaintext(UUID7) + bytes([255] * size))
        add("R13.9", "a payload that is no time", "open_grant", None, **given, **OPEN_GRANT, id=token)
    token = by.token("grant", NONCE, [GRANT["purpose"]], by.plaintext(UUID7)[:15])
    add("R13.2", "a plaintext without a key", "open_grant", None, **given, **OPEN_GRANT, id=token)
    for purpose in ["", "Stra\u00dfe \U0001f512", "p" * 1000]:
        token = by.grant(UUID7, purpose, expires, NONCE)
        add(CHAINS["token"], "a purpose", "open_grant", found, **given, purpose=purpose, now=0, id=token)
    size = 16 + 10_186 + 29
    assert len(f"user_position_{base32_bytes(bytes(size))}") == MAX_TOKEN
    longest = json.dumps("v" * 10_184)
    for name, filter, values in [
        ("users by name", None, '"Ada"'),
        ("", {"team": "\u00e9"}, '[null,1,-2.5,"\u00e9\\u0000"]'),
        ("n", [1, 2], '{"a":' + "[" * 20 + "]" * 20 + "}"),
        ("n", {}, json.dumps("v" * 500)),
        ("n", {"a b": [" r\u00f6t & \u7ea2 \U0001f512 ", "\0\b\t\n\f\r\x1f\x7f\u2028/\\\""], "c": {"d": [True, False, None, -1]}}, '"\\ud83d\\ude00"'),
        ("n", " a ", longest),
    ]:
        position = position_of(by, UUID7, name, filter, values, WRAPPING if values == longest else NONCE)
        add(CHAINS["token"], "a position", "open_position", {**found, "values": json.loads(values)}, **given, name=name, filter=filter, id=position)
        add(CHAINS["token"], "a position", "position", "opens", **given, name=name, filter=filter, values=json.loads(values), key=UUID7)
        for other in [{"name": name + "x", "filter": filter}, {"name": name, "filter": [filter]}]:
            add("R13.7", "another list or filter", "open_position", None, **given, **other, id=position)
    grant = sealer("uuid7", prefix="admin", domain="user").grant(UUID7, **GRANT, nonce=NONCE)
    add("R13.1", "a grant of another resource with the same domain", "open_grant", found, **given, **OPEN_GRANT, id=grant.replace("admin_", "user_"))
    longer = json.dumps("v" * 10_185)
    add("R13.5", "a token that is too long", "open_position", None, **given, **LIST, id=position_of(by, UUID7, **LIST, values=longer))
    add("R13.4", "a token that would be too long", "position", None, **given, **LIST, values=json.loads(longer), key=UUID7)
    for values in ["", "[1", "nul", "1 2", "'a'", "{a:1}", "NaN", "-Infinity", "1e400", "[1,]", '"\\ud800"', '{"\\udc00a":1}', b'["\xff"]', b'"\xc0\x80"', "\ufeff1"]:
        position = position_of(by, UUID7, **LIST, values=values)
        add("R13.9", "values that are not JSON", "open_position", None, **given, **LIST, id=position)
    # A filter in another form has other bytes.
    position = by.position(UUID7, LIST["name"], json.dumps(LIST["filter"]), "1", NONCE)
    add("R13.1", "a filter with white space", "open_position", None, **given, **LIST, id=position)


def binary():
    def bytes_of(form, id):
        cut = id.rindex("_") + 1 if "_" in id else 0
        if cut == 0:
            return id.replace("-", "")
        number, chars = number_of(id), len(id) - cut
        bits = {26: 128, 34: 168, 13: 62}[chars]
        return f"{number >> bits:02x}{number & (1 << bits) - 1:0{ {26: 32, 34: 42, 13: 16}[chars] }x}"

    def given(kind, form):
        return {"prefix": "user", "kind": kind, "form": form}

    for kind, form, key in [
        *[(kind, form, KEYS[kind]) for kind, forms in FORMS.items() for form in forms],
        ("i64", "short", str(LAST_36 + 1)),
    ]:
        id = seal_id(sealer(kind), form, key)
        add("R6.1", "bytes", "to_bytes", bytes_of(form, id), **given(kind, form), id=id)
        add("R6.1", "bytes", "from_bytes", id, **given(kind, form), bytes=bytes_of(form, id))
        data = bytes_of(form, id)
        for about, wrong in [("a byte less", data[:-2]), ("a byte more", data + "00"), ("no bytes", "")]:
            add("R6.1", about, "from_bytes", None, **given(kind, form), bytes=wrong)
        if form != "uuid":
            add("R6.1", "a key id of 4", "from_bytes", None, **given(kind, form), bytes="04" + data[2:])
        else:
            add("R6.1", "a UUID of another version", "from_bytes", None, **given(kind, form), bytes=data[:12] + "4" + data[13:])
        if form == "short" and len(data) == 18:
            add("R6.1", "a block of 63 bits", "from_bytes", None, **given(kind, form), bytes=data[:2] + "4" + data[3:])
            add("R6.1", "a block of 64 bits", "from_bytes", None, **given(kind, form), bytes=data[:2] + "8" + data[3:])
    cursor = sealer("uuid7").cursor(UUID7)
    add("R11.4", "a cursor's bytes", "to_bytes", bytes_of("tagged", cursor), **given("uuid7", "cursor"), id=cursor)
    add("R11.4", "a cursor's bytes", "from_bytes", cursor, **given("uuid7", "cursor"), bytes=bytes_of("tagged", cursor))
    add("R11.4", "a byte less", "from_bytes", None, **given("uuid7", "cursor"), bytes=bytes_of("tagged", cursor)[:-2])


def mapped():
    uuids = ["0188bac7-4afa-78aa-bc3b-bd1eef28d881", UUID4, hyphenated(0), hyphenated(2**128 - 1), "6ba7b810-9dad-11d1-80b4-00c04fd430c8"]
    for uuid in uuids:
        number = int(uuid.replace("-", ""), 16)
        for form, id in [("mapped", f"user_{base32(number, 26)}"), ("mapped_uuid", uuid)]:
            given = {"prefix": "user", "kind": "i64", "form": form}
            add("R10.1", "a mapped id", "from_uuid", id, **given, uuid=uuid)
            add("R10.1", "a mapped id", "to_uuid", uuid, **given, id=id)
            add("R10.1", "a mapped id's bytes", "to_bytes", uuid.replace("-", ""), **given, id=id)
            add("R10.1", "a mapped id's bytes", "from_bytes", id, **given, bytes=uuid.replace("-", ""))
    text = {"prefix": "user", "kind": "i64", "form": "mapped"}
    for about, id in [
        ("more than 128 bits", "user_80000000000000000000000000"),
        ("more than 128 bits", "user_zzzzzzzzzzzzzzzzzzzzzzzzzz"),
        ("another prefix", "order_01h2xcejqtf2nbrexx3vqjhp41"),
        ("upper case", "user_01H2XCEJQTF2NBREXX3VQJHP41"),
        ("a character less", "user_01h2xcejqtf2nbrexx3vqjhp4"),
        ("the UUID", uuids[0]),
    ]:
        add("R10.1", about, "to_uuid", None, **text, id=id)
    for about, id in [("upper case", UUID4.upper()), ("no hyphens", UUID4.replace("-", "")), ("the text", "user_01h2xcejqtf2nbrexx3vqjhp41")]:
        add("R10.1", about, "to_uuid", None, **{**text, "form": "mapped_uuid"}, id=id)
    given = resource("i64", "mapped")
    add("R11.1", "a cursor of a mapped resource", "seal_cursor", sealer("i64").cursor("42"), **given, key="42")
    add("R11.1", "a cursor of a mapped resource", "open_cursor", {"key": "42", "key_id": 1}, **given, id=sealer("i64").cursor("42"))


def check_that_each_requirement_is_tested():
    defined = set(re.findall(r"\*\*(R\d+\.\d+)\*\*", (HERE.parent / "docs/FORMAT.md").read_text()))
    tested = {requirement for vector in vectors for requirement in vector["requirements"]}
    assert tested | UNTESTED == defined, (sorted(defined - tested - UNTESTED), sorted(tested - defined), sorted(tested & UNTESTED))


for part in [of_files, secrets, prefixes, ends_of_ranges, no_room, texts, forged, tokens, binary, mapped]:
    part()
if __name__ == "__main__":
    check_that_each_requirement_is_tested()
    lines = [json.dumps(vector, ensure_ascii=False, separators=(",", ":")) for vector in vectors]
    (HERE / "vectors.jsonl").write_text("\n".join(lines) + "\n")
    print(len(lines), "vectors")
