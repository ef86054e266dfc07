//! The document of this crate's types by utoipa, of each version that has a feature.

#![expect(dead_code, reason = "the handlers are described, not called")]

use std::path::Path as FilePath;
use std::process::Command;

use axum::extract::State;
use opaque_id_axum::{InvalidPage, Json, ListingQuery, NotFound, Opened, PageQuery, Path, Refusal};
use opaque_id_core::{Cursor, External, Keyring};
use serde_json::{Value, json};

use super::utoipa::{self, OpenApi};
use opaque_id_tests::tools::{from_pypi, run};
use opaque_id_tests_frameworks::User;

type UserId = External<User>;
type OpenedUser = Opened<User>;

#[derive(serde::Deserialize, utoipa::ToSchema)]
struct Rename {
    friend: OpenedUser,
    other: Option<OpenedUser>,
}

#[utoipa::path(get, path = "/users", params(PageQuery<User, 10, 50>), responses((status = 200, description = "A page"), NotFound, InvalidPage))]
async fn list(_: State<Keyring>, _: PageQuery<User, 10, 50>) {}

#[utoipa::path(get, path = "/names", params(ListingQuery<10, 50>), responses((status = 200, description = "A page")))]
async fn list_by_name(_: ListingQuery<10, 50>) {}

#[utoipa::path(put, path = "/users/{id}", params(("id" = UserId, Path)), responses((status = 200, description = "The user"), NotFound, Refusal))]
async fn rename(_: Path<OpenedUser>, _: Json<Rename>) {}

#[derive(OpenApi)]
#[openapi(paths(list, list_by_name, rename), components(schemas(Rename, UserId)))]
struct Api;

#[test]
fn ids_pages_and_problems_are_in_the_schema() {
    let api = serde_json::to_value(Api::openapi()).expect("JSON");
    let of = |pointer: &str| api.pointer(pointer).unwrap_or(&Value::Null);
    assert_eq!(of("/components/schemas/user_id/examples/0"), &json!(UserId::example()),);
    assert_eq!(
        of("/components/schemas/Rename/properties/friend/$ref"),
        "#/components/schemas/user_id",
    );
    let other = of("/components/schemas/Rename/properties/other/oneOf").as_array();
    let user_id = json!({"$ref": "#/components/schemas/user_id"});
    assert!(other.is_some_and(|schemas| schemas.contains(&user_id)), "{other:?}");
    let limit = of("/paths/~1users/get/parameters/0");
    assert_eq!((&limit["name"], &limit["required"]), (&json!("limit"), &json!(false)));
    let limit = &limit["schema"];
    assert_eq!((&limit["maximum"], &limit["default"]), (&json!(50), &json!(10)));
    assert_eq!(of("/paths/~1names/get/parameters/0")["schema"], *limit);
    assert_eq!(of("/paths/~1names/get/parameters/2")["name"], "ending_before");
    let after = of("/paths/~1users/get/parameters/1");
    assert_eq!(after["name"], "starting_after");
    assert_eq!(after["schema"]["pattern"], Cursor::<User>::pattern());
    for (pointer, status) in [
        ("/paths/~1users/get/responses/400", 400),
        ("/paths/~1users/get/responses/404", 404),
        ("/paths/~1users~1{id}/put/responses/404", 404),
        ("/paths/~1users~1{id}/put/responses/422", 422),
    ] {
        let schema = &of(pointer)["content"]["application/problem+json"]["schema"];
        assert_eq!(schema["properties"]["status"]["enum"], json!([status]), "{pointer}");
    }
}

#[test]
fn it_is_valid() -> opaque_id_tests::Result {
    let folder = FilePath::new(env!("CARGO_TARGET_TMPDIR"));
    let tools = from_pypi(&folder.join("validator"), &["openapi-spec-validator==0.9.0"])?;
    let file = folder.join(format!("{}.json", module_path!().replace("::", "-")));
    std::fs::write(&file, Api::openapi().to_json()?)?;
    run(Command::new(tools.join("openapi-spec-validator")).arg(file)).map(drop)
}
