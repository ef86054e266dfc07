"""Answers the protocol of spec/README.md: `opaque-id conformance -- python -m opaque_id.conformance`."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from functools import lru_cache
from types import new_class
from typing import Any
from uuid import UUID

from ._format import KINDS
from .ids import Cursor, External, Id, IntId, UuidId, cursor_of, external_of
from .keyring import Keyring, Listing


@lru_cache(maxsize=1000)
def _resource(prefix: str, kind: str, form: str, domain: str | None) -> type[Id[Any]]:
    base: type[Id[Any]] = IntId if KINDS[kind].is_integer else UuidId
    return new_class("Resource", (base,), {"prefix": prefix, "key": kind, "form": form, "domain": domain})


@lru_cache(maxsize=1000)
def _keyring(secrets: str, audience: str | None) -> Keyring:
    keyring = Keyring.from_entries(secrets)
    return keyring if audience is None else keyring.for_audience(audience)


def answer(request: dict[str, Any]) -> Any:
    """Answers a request. Raises ValueError or TypeError for a refusal."""
    op = request["op"]
    if op == "check":
        keyring = Keyring.from_entries(request["secrets"])
        return ",".join(f"{key_id}:{keyring.check_value(key_id)}" for key_id in sorted(keyring.key_ids, key=lambda id: (id != keyring.sealing_key_id, id)))
    is_cursor = request["form"] == "cursor"
    of = _resource(request["prefix"], request["kind"], "text" if is_cursor else request["form"], request.get("domain"))
    text: type[External[Any]] | type[Cursor[Any]] = cursor_of(of) if is_cursor else external_of(of)
    if op == "to_bytes":
        return bytes(text(request["id"])).hex()
    if op == "from_bytes":
        return str(text.from_bytes(bytes.fromhex(request["bytes"])))
    if op == "to_uuid":
        return str(of.parse(request["id"]).uuid)
    if op == "from_uuid":
        return str(external_of(of).of_uuid(UUID(request["uuid"])))

    keyring = _keyring(request["secrets"], request.get("audience"))
    if "key" in request:
        id = of(int(request["key"]) if of.kind.is_integer else UUID(request["key"]))
    if op == "seal":
        return str(keyring.seal(id))
    if op == "seal_cursor":
        return str(keyring.seal_cursor(id))
    if op == "grant":
        return keyring.grant(id, request["purpose"], datetime.fromtimestamp(request["expires"], UTC))
    if op == "open":
        external = of.parse(request["id"])
        return {"key": str(keyring.open(external).key), "key_id": keyring.key_id(external)}
    if op == "open_cursor":
        cursor = of.parse_cursor(request["id"])
        return {"key": str(keyring.open_cursor(cursor).key), "key_id": cursor._body().key_id}
    if op == "open_grant":
        now = datetime.fromtimestamp(request["now"], UTC)
        return {"key": str(keyring.open_grant(of, request["id"], request["purpose"], now).key)}
    listing = Listing(of, request["name"], request["filter"])
    if op == "position":
        return listing.seal(keyring, id, request["values"])
    if op == "open_position":
        id, values = listing.open(keyring, request["id"])
        return {"key": str(id.key), "values": values}
    raise NotImplementedError(op)


def main() -> None:
    for line in sys.stdin:
        try:
            found: dict[str, Any] = {"ok": answer(json.loads(line))}
        except NotImplementedError:
            found = {"unsupported": True}
        except (ValueError, TypeError) as error:
            found = {"refused": str(error)}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
