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

from opaque_id import Expired, External, IntId, InvalidId, InvalidKey, Keyring, KeyringError, Listing, NotGenuine, UuidId

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
    by_name = Listing(UserId, "users by name", '{"team":1}')
    position = by_name.seal(KEYRING, UserId(42), ["Ada", None])
    assert by_name.open(KEYRING, position) == (UserId(42), ["Ada", None])
    with pytest.raises(NotGenuine):
        Listing(UserId, "users by name").open(KEYRING, position)
    with pytest.raises(ValueError):
        by_name.seal(KEYRING, UserId(42), float("nan"))


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


def test_errors_and_reprs_hide_secrets():
    secret = OLD[2:]
    for text in [f"0:{secret[:-1]}", f"0{secret}", f"7:{secret}", f"{OLD},0:{secret}", f"0:{secret}00"]:
        with pytest.raises(KeyringError) as error:
            Keyring.from_entries(text)
        assert secret[:16] not in str(error.value) and error.value.__cause__ is None
    assert secret[:16] not in repr(KEYRING)


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
