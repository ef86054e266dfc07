"""Fields of pydantic, their schema, and path parameters of FastAPI."""

from pathlib import Path
from typing import Annotated

import pydantic
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from opaque_id import Cursor, External, IntId, Keyring, UuidId
from opaque_id.fastapi import Opened, refuse_ids


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


def test_refused_texts_have_one_error():
    errors = []
    for wrong in ["junk", 42, None, "user_X", str(KEYRING.seal_cursor(UserId(42))), ["a"]]:
        with pytest.raises(pydantic.ValidationError) as caught:
            User(id=wrong)
        errors.append([{key: error[key] for key in ("type", "loc", "msg")} for error in caught.value.errors()])
    assert all(error == [{"type": "opaque_id", "loc": ("id",), "msg": "no such `user`"}] for error in errors)


class Body(pydantic.BaseModel):
    owner: Annotated[UserId, Opened(KEYRING)]
    others: list[External[UserId]] = []


class Shown(pydantic.BaseModel):
    owner: Annotated[UserId, Opened(KEYRING)]


app = FastAPI()
refuse_ids(app)


@app.get("/users/{id}")
def show(id: Annotated[UserId, Opened(KEYRING)]) -> User:
    assert id == UserId(42)
    return User(id=KEYRING.seal(id))


@app.get("/parsed/{id}")
def parsed(id: External[UserId]) -> User:
    return User(id=KEYRING.seal(KEYRING.open(id)))


@app.get("/query")
def query(id: Annotated[UserId, Opened(KEYRING)], limit: int = 1) -> None:
    pass


@app.post("/users")
def create(body: Body) -> Shown:
    return Shown(owner=body.owner)


@app.get("/dict")
def untyped():
    return {"id": KEYRING.seal(UserId(42)), "all": [KEYRING.seal(UserId(42))]}


@app.get("/typed")
def typed() -> dict:
    return untyped()


@app.get("/cursor")
def cursor() -> object:
    return KEYRING.seal_cursor(UserId(42))


def test_parameters():
    client, external = TestClient(app), str(KEYRING.seal(UserId(42)))
    assert client.get(f"/users/{external}").json()["id"] == external == client.get(f"/parsed/{external}").json()["id"]
    made_up = f"{external[:-1]}{'1' if external[-1] == '0' else '0'}"
    team = external.replace("user", "team")
    answers = [client.get(f"/{path}{wrong}") for path in ["users/", "parsed/", "query?id="] for wrong in ["42", made_up, external.upper(), team, "%00"]]
    assert {(answer.status_code, answer.text) for answer in answers} == {(404, '{"detail":"Not Found"}')}
    assert client.get("/query", params={"id": external, "limit": "x"}).status_code == 422
    answers = [client.post("/users", json={"owner": wrong}).json() for wrong in ["42", made_up, external.upper(), team, 42, None, ["a"], {}]]
    assert all(answer == {"detail": [{"type": "opaque_id", "loc": ["body", "owner"], "msg": "no such `user`"}]} for answer in answers)
    assert client.post("/users", json={"owner": external, "others": [external]}).json() == {"owner": external}
    body = Body(owner=external, others=[external])
    assert body.model_dump() == {"owner": UserId(42), "others": [KEYRING.seal(UserId(42))]}
    assert body.model_dump(mode="json") == {"owner": external, "others": [external]}
    refused = client.post("/users", json={"owner": external, "others": [external, "junk"]}).json()
    assert refused["detail"][0]["loc"] == ["body", "others", 1] and "junk" not in str(refused)


@app.get("/internal")
def internal():
    return {"id": UserId(42)}


@app.get("/internal-dict")
def internal_dict() -> dict:
    return internal()


def test_ids_in_untyped_answers():
    client, external = TestClient(app, raise_server_exceptions=False), str(KEYRING.seal(UserId(42)))
    assert client.get("/internal").status_code == client.get("/internal-dict").status_code == 500
    for path in ["/dict", "/typed"]:
        assert client.get(path).json() == {"id": external, "all": [external]}
    assert client.get("/cursor").json() == str(KEYRING.seal_cursor(UserId(42)))
    assert pydantic.TypeAdapter(dict).dump_json({"id": KEYRING.seal(UserId(42))}).decode() == f'{{"id":"{external}"}}'
    with pytest.raises(Exception):
        pydantic.TypeAdapter(dict).dump_json({"id": UserId(42)})


def test_the_schema_of_an_api():
    schema = TestClient(app).get("/openapi.json").json()
    for path in ["/users/{id}", "/parsed/{id}", "/query"]:
        parameter = schema["paths"][path]["get"]["parameters"][0]["schema"]
        assert parameter["x-opaque-id"] == "user" and parameter["pattern"].startswith("^user_")
    for model, name in [("User", "id"), ("Body", "owner"), ("Shown", "owner")]:
        assert schema["components"]["schemas"][model]["properties"][name]["x-opaque-id"] == "user"


def test_the_example_of_the_readme(monkeypatch):
    monkeypatch.setenv("OPAQUE_ID_KEYS", "0:e95e53c2e6ebdeb85693ecf08d47b41d23123b379d00d28b2860f40efc59ea23")
    readme = (Path(__file__).parent.parent / "README.md").read_text()
    blocks = [part.partition("```")[0] for part in readme.split("```python\n")[1:]]
    scope = {}
    for block in [blocks[0].rpartition("\n\n")[0], next(block for block in blocks if "refuse_ids" in block)]:
        exec(block, scope)
    client, external = TestClient(scope["app"]), scope["keyring"].seal(scope["UserId"](42))
    assert client.get(f"/users/{external}").json() == {"id": str(external)}
    assert client.get("/users/junk").status_code == client.get(f"/users/{str(external)[:-4]}0000").status_code == 404
