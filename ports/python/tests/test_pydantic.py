"""Fields of pydantic, their schema, and path parameters of FastAPI."""

from typing import Annotated

import pydantic
import pytest
from fastapi import Depends, FastAPI, HTTPException
from fastapi.testclient import TestClient

from opaque_id import Cursor, External, IntId, InvalidId, Keyring, UuidId


class UserId(IntId, prefix="user", form="short"):
    pass


class OrderId(UuidId, prefix="order", form="uuid"):
    pass


KEYRING = Keyring.from_entries("0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23")


class User(pydantic.BaseModel):
    id: External[UserId]
    order: External[OrderId] | None = None
    next: Cursor[UserId] | None = None


def test_fields():
    external = KEYRING.seal(UserId(42))
    user = User(id=external)
    assert User.model_validate_json(user.model_dump_json()) == user
    assert user.model_dump(mode="json") == {"id": str(external), "order": None, "next": None}
    assert User.model_validate({"id": str(external), "next": str(KEYRING.seal_cursor(UserId(42)))}).id == external
    for wrong in ["user_x", str(external).upper(), 42, None, KEYRING.seal_cursor(UserId(42)), str(external).replace("user", "team")]:
        with pytest.raises(pydantic.ValidationError):
            User(id=wrong)


def test_an_external_id_of_another_resource_is_refused():
    class TeamId(IntId, prefix="user", form="short"):
        pass

    with pytest.raises(pydantic.ValidationError):
        User(id=42)
    # The text is well formed: it is parsed again, as an id of the field's resource.
    assert User(id=str(KEYRING.seal(TeamId(42)))).id.of is UserId


def test_an_internal_id_is_no_field():
    with pytest.raises(pydantic.PydanticSchemaGenerationError):
        pydantic.create_model("Leak", id=(UserId, ...))


def test_schema():
    properties = User.model_json_schema()["properties"]
    assert properties["id"] == {
        "title": "user_id",
        "description": "The id of a `user`. Opaque.",
        "type": "string",
        "pattern": "^user_([0-9a-f][0-9a-hjkmnp-tv-z]{12}|[0-9a-hjkmnp-tv-z]{26})$",
        "x-opaque-id": "user",
    }
    order = properties["order"]["anyOf"][0]
    assert order["format"] == "uuid" and order["x-opaque-id"] == "order"


app = FastAPI()


def opened(id: External[UserId]) -> UserId:
    try:
        return KEYRING.open(id)
    except InvalidId:
        raise HTTPException(404) from None


@app.get("/users/{id}")
def show(id: Annotated[UserId, Depends(opened)]) -> User:
    assert id == UserId(42)
    return User(id=KEYRING.seal(id))


def test_path_parameters():
    client, external = TestClient(app), str(KEYRING.seal(UserId(42)))
    assert client.get(f"/users/{external}").json()["id"] == external
    assert client.get(f"/users/{external[:-1]}{'1' if external[-1] == '0' else '0'}").status_code == 404
    assert client.get("/users/42").status_code == 422
    schema = client.get("/openapi.json").json()
    parameter = schema["paths"]["/users/{id}"]["get"]["parameters"][0]
    assert parameter["schema"]["x-opaque-id"] == "user"
