"""What the types and the keyring promise beside the format."""

import copy
import json
import os
import pickle
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from opaque_id import Cursor, Expired, External, IntId, InvalidId, InvalidKey, Keyring, KeyringError, Listing, NotGenuine, UuidId

OLD = "0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23"
NEW = "1:e0eb4da52f6b2f55de21fe63c1058a2456d8ed7a8137ec1735991985ddef728b"


class UserId(IntId, prefix="user", form="short"):
    pass


class TeamId(IntId, prefix="team", form="short"):
    pass


class OrderId(UuidId, prefix="order"):
    pass


class DocId(IntId, prefix="doc", form="mapped"):
    pass


KEYRING = Keyring.from_entries(OLD)
UUID7 = UUID("03540772-5059-7ed9-b7d2-5bdc8902272b")


def test_an_id_is_sealed_and_opened():
    external = KEYRING.seal(UserId(42))
    assert len(str(external)) == len("user_") + 13
    assert KEYRING.open(UserId.parse(str(external))) == UserId(42)
    assert KEYRING.open_all(KEYRING.seal_all([UserId(1), UserId(2)])) == [UserId(1), UserId(2)]
    assert KEYRING.seal_all([]) == KEYRING.open_all([]) == []
    with pytest.raises(TypeError):
        KEYRING.seal_all([UserId(1), TeamId(2)])
    assert External[UserId].from_bytes(bytes(external)) == external


def test_an_internal_id_is_not_printed_nor_serialized():
    assert "42" not in f"{UserId(42)} {UserId(42)!r}"
    with pytest.raises(TypeError):
        json.dumps({"id": UserId(42)})


def test_ids_of_other_resources_are_others():
    assert UserId(42) != TeamId(42) and hash(UserId(42)) != hash(TeamId(42))
    assert UserId(1) < UserId(2)
    with pytest.raises(TypeError):
        UserId(1) < TeamId(2)
    with pytest.raises(InvalidId):
        TeamId.parse(str(KEYRING.seal(UserId(42))))


def test_what_is_no_key():
    for of, key in [(UserId, "42"), (UserId, 2**63), (UserId, True), (OrderId, 42), (OrderId, UUID(int=0)), (IntId, 42)]:
        with pytest.raises((InvalidKey, TypeError)):
            of(key)


def test_a_class_that_is_no_resource():
    for base, options in [
        (IntId, {"prefix": "User"}),
        (IntId, {"prefix": "user", "key": "uuid7"}),
        (IntId, {"prefix": "user", "form": "tagged"}),
        (UuidId, {"prefix": "user", "key": "ulid", "form": "uuid"}),
        (UuidId, {"prefix": "user", "domain": ""}),
    ]:
        with pytest.raises(TypeError):
            type(base)("Made", (base,), {}, **options)


def test_rotation():
    external = KEYRING.seal(UserId(42))
    both = Keyring.from_entries(f"{NEW},{OLD}")
    assert both.open(external) == UserId(42)
    renewed = both.renew(external)
    assert renewed == both.seal(UserId(42)) and both.key_id(renewed) == 1
    with pytest.raises(NotGenuine):
        Keyring.from_entries(NEW).open(external)


def test_audiences():
    partner = KEYRING.for_audience("partner-a")
    external = partner.seal(UserId(42))
    assert partner.open(external) == UserId(42) and external != KEYRING.seal(UserId(42))
    with pytest.raises(NotGenuine):
        KEYRING.open(external)


def test_grants_and_positions():
    now = datetime.now(UTC)
    grant = KEYRING.grant(OrderId(UUID7), "download", now + timedelta(minutes=1))
    assert KEYRING.open_grant(OrderId, grant, "download") == OrderId(UUID7)
    with pytest.raises(Expired):
        KEYRING.open_grant(OrderId, grant, "download", now + timedelta(minutes=2))
    with pytest.raises(NotGenuine):
        KEYRING.open_grant(OrderId, grant, "delete")
    with pytest.raises(ValueError):
        KEYRING.grant(OrderId(UUID7), "download", datetime.now())
    with pytest.raises(ValueError, match="time zone"):
        KEYRING.open_grant(OrderId, grant, "download", datetime.now())
    by_name = Listing(UserId, "users by name", {"team": "r\u00f6d & blue"})
    position = by_name.seal(KEYRING, UserId(42), ["Ada", None])
    assert by_name.open(KEYRING, position) == (UserId(42), ["Ada", None])
    for filter in [None, {"team": "röd & blue", "a": 1}]:
        with pytest.raises(NotGenuine):
            Listing(UserId, "users by name", filter).open(KEYRING, position)
    ordered = Listing(UserId, "n", {"b": 1, "a": 2}).seal(KEYRING, UserId(42), 0)
    assert Listing(UserId, "n", {"b": 1, "a": 2}).open(KEYRING, ordered) == (UserId(42), 0)
    with pytest.raises(NotGenuine):
        Listing(UserId, "n", {"a": 2, "b": 1}).open(KEYRING, ordered)
    for values in [float("nan"), [float("inf")], "\ud800", "x" * 10_300]:
        with pytest.raises(ValueError):
            by_name.seal(KEYRING, UserId(42), values)


def test_a_grant_is_bound_to_its_domain():
    """A prefix can be renamed: the domain, which both resources below have, is what a grant is for (FORMAT.md, R13.1)."""

    class AdminId(UuidId, prefix="admin", domain="order"):
        pass

    grant = KEYRING.grant(OrderId(UUID7), "download", datetime.now(UTC) + timedelta(minutes=1))
    assert KEYRING.open_grant(AdminId, grant.replace("order_", "admin_"), "download").key == UUID7


def test_names_with_a_lone_surrogate():
    with pytest.raises(ValueError):
        type(IntId)("Made", (IntId,), {}, prefix="user", domain="\ud800")
    for name in ["\ud800", "\ufffd\udc00"]:
        for refused in [
            lambda: KEYRING.for_audience(name),
            lambda: KEYRING.grant(UserId(1), name, datetime.now(UTC)),
            lambda: Listing(UserId, name).seal(KEYRING, UserId(1), 1),
            lambda: Listing(UserId, "n", name).seal(KEYRING, UserId(1), 1),
        ]:
            with pytest.raises(ValueError):
                refused()


def test_mapped_ids():
    external = External[DocId].of_uuid(UUID7)
    assert DocId.parse(str(external)).uuid == UUID7
    for refused in [lambda: KEYRING.open(external), lambda: KEYRING.seal(DocId(1)), lambda: KEYRING.seal(UserId(1)).uuid]:
        with pytest.raises(TypeError):
            refused()
    assert KEYRING.open_cursor(DocId.parse_cursor(str(KEYRING.seal_cursor(DocId(1))))) == DocId(1)


def test_ids_are_copied_and_pickled():
    for value in [UserId(42), OrderId(UUID7), KEYRING.seal(UserId(42))]:
        assert copy.deepcopy(value) == value and pickle.loads(pickle.dumps(value)) == value


def test_threads_share_a_keyring():
    failed = []

    def work(first):
        for key in range(first, first + 2000):
            if KEYRING.open(KEYRING.seal(UserId(key))) != UserId(key):
                failed.append(key)

    threads = [threading.Thread(target=work, args=(i * 10_000,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_secrets_of_variables_and_files(tmp_path, monkeypatch):
    monkeypatch.delenv("OPAQUE_ID_KEYS", raising=False)
    with pytest.raises(KeyringError, match="OPAQUE_ID_KEYS is not set"):
        Keyring.from_env()
    monkeypatch.setenv("OPAQUE_ID_KEYS", OLD)
    assert Keyring.from_env().key_ids == [0]
    file = tmp_path / "keys"
    file.write_text(f"# sealing\n{NEW}\n{OLD}\n")
    file.chmod(0o640)
    assert Keyring.from_file(file).key_ids == [1, 0]
    for mode in [0o644, 0o660, 0o604]:
        file.chmod(mode)
        with pytest.raises(KeyringError, match="mode"):
            Keyring.from_file(file)
        assert Keyring.from_file(file, shared=True).key_ids == [1, 0]
    file.chmod(0o600)
    file.write_bytes(b"\xff")
    with pytest.raises(KeyringError, match="UTF-8"):
        Keyring.from_file(file)
    file.write_text("#" * 65_537)
    with pytest.raises(KeyringError, match="65536"):
        Keyring.from_file(file)


def test_what_is_no_secret():
    good = bytes(range(32))
    for secrets in [[], [(4, good)], [(0, good[1:])], [(0, bytes(32))], [(0, good), (0, good[::-1])], [(0, good), (1, good)]]:
        with pytest.raises(KeyringError):
            Keyring(secrets)
    for wrong in [None, 42, b"user_0wtve4rj8czh0"]:
        with pytest.raises(InvalidId):
            UserId.parse(wrong)


SECRET = OLD[2:]
WRONG_ENTRIES = [f"0:{SECRET[:-1]}", f"0{SECRET}", f"7:{SECRET}", f"{OLD},0:{SECRET}", f"0:{SECRET}00", f"{OLD},1:xyz", f"{OLD}\n{NEW} # new"]


def shown(error):
    """What a report of an error shows: messages, and the local variables of the library's functions, also those of earlier errors."""
    while error is not None:
        yield f"{error} {vars(error)!r} {getattr(error, 'object', None)!r}"
        frame = error.__traceback__
        while frame is not None:
            if Path(frame.tb_frame.f_code.co_filename).parent.name == "opaque_id":
                yield repr(frame.tb_frame.f_locals)
            frame = frame.tb_next
        error = error.__cause__ or error.__context__


def test_no_error_shows_a_secret(tmp_path, monkeypatch):
    good, name = bytes.fromhex(SECRET), "\ud800"
    file = tmp_path / "keys"
    attempts = [lambda text=text: Keyring.from_entries(text) for text in WRONG_ENTRIES]
    attempts += [lambda: Keyring.from_entries([OLD]), lambda: Keyring.from_entries(OLD.encode() + b"\xff")]
    for text in [*(text.encode() for text in WRONG_ENTRIES), OLD.encode() + b"\xff", OLD.encode() + b"#" * 65_536]:
        attempts.append(lambda text=text: (file.write_bytes(text), file.chmod(0o600), Keyring.from_file(file)))
    for text in WRONG_ENTRIES:
        attempts.append(lambda text=text: (monkeypatch.setenv("OPAQUE_ID_KEYS", text), Keyring.from_env()))
    for wrong in [(good, 1), (1, good[1:]), (0, good), (1, good), (SECRET, 1), (1, SECRET), (4, good), (True, good), (1, None), good, None]:
        attempts.append(lambda wrong=wrong: Keyring([(0, good), wrong]))
    attempts += [lambda: Keyring(good), lambda: Keyring(None), lambda: Keyring([])]
    keyring = Keyring([(0, good)])
    attempts += [lambda: keyring.for_audience(name), lambda: keyring.for_audience(42), lambda: pickle.dumps(keyring)]
    attempts += [lambda: keyring.open(UserId.parse("user_0000000000000")), lambda: copy.deepcopy(keyring)]
    attempts += [lambda: keyring.open_grant(UserId, "user_grant_" + "0" * 85, "x"), lambda: keyring.grant(UserId(1), name, datetime.now(UTC))]
    spellings = [SECRET[8:40], SECRET[8:40].upper(), repr(good[8:24])[2:-1], repr(good[:16])[2:-1]]
    spellings += [str(int.from_bytes(good, order)) for order in ("big", "little")]
    for attempt in attempts:
        with pytest.raises((ValueError, TypeError)) as raised:
            attempt()
        for text in shown(raised.value):
            assert not [spelling for spelling in spellings if spelling in text], text
    assert SECRET[8:40] not in repr(keyring) and repr(Keyring.__new__(Keyring)) == "Keyring(sealing=None, key_ids=[])"


HOSTILE = [None, True, 0, -1, 2**200, 1.5, float("nan"), "", "\0", "user_", "\ud800", "\u0661" * 26, "0" * 1_000_000, "user_grant_" + "0" * 1_000_000]
HOSTILE += [b"", b"user_0wtve4rj8czh0", bytes(22), bytearray(17), memoryview(bytes(9)), [], ["user_"], [300] * 17, (1, 2), {}, {"a": 1}, set(), object(), UUID7]
HOSTILE += [datetime.max, Exception(), len, str, iter([])]


def test_hostile_input_is_no_id():
    """Whatever a client sends, and a framework has parsed, is an `InvalidId`."""
    cursor, external = KEYRING.seal_cursor(UserId(1)), KEYRING.seal(UserId(1))
    valid = [str(cursor), str(external), KEYRING.grant(UserId(1), "x", datetime.max.replace(tzinfo=UTC))]
    position = Listing(UserId, "n").seal(KEYRING, UserId(1), None)
    for of in [UserId, OrderId, DocId]:
        for wrong in [*HOSTILE, *(text + "0" for text in valid), *(text[:-1] for text in valid), position, *valid[2:]]:
            for read in [of.parse, of.parse_cursor, External[of].from_bytes, Cursor[of].from_bytes, External[of]]:
                try:
                    read(wrong)
                except InvalidId:
                    continue
                # Zeros are well-formed bytes.
                assert isinstance(wrong, (bytes, bytearray, memoryview)), (read, wrong)
            with pytest.raises(InvalidId):
                KEYRING.open_grant(of, wrong, "other purpose")
            with pytest.raises(InvalidId):
                Listing(of, "other").open(KEYRING, wrong)
    for refused in [lambda: KEYRING.open(cursor), lambda: KEYRING.open_cursor(external), lambda: KEYRING.open("user_"), lambda: KEYRING.seal(42)]:
        with pytest.raises(TypeError, match="expected"):
            refused()


def test_the_type_checker_tells_resources_apart(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        """\
from opaque_id import External, IntId, Keyring, UuidId
from uuid import UUID
class UserId(IntId, prefix="user"): ...
class TeamId(IntId, prefix="team"): ...
class OrderId(UuidId, prefix="order"): ...
def show(id: External[UserId]) -> UserId: return Keyring.from_env().open(id)
show(UserId.parse(""))
number: int = show(UserId.parse("")).key
uuid: UUID = OrderId(UUID(int=0)).key
show(TeamId.parse(""))
show(UserId(42))
team: TeamId = show(UserId.parse(""))
UserId("42")
"""
    )
    source = Path(__file__).parents[1] / "src"
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), "program.py"]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(source)})
    lines = [line.split(":")[1] for line in checked.stdout.splitlines() if ": error:" in line]
    assert lines == ["10", "11", "12", "13"], checked.stdout + checked.stderr
