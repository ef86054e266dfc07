//! Schemas for each version of utoipa that has a feature.

use opaque_id_core::{Cursor, External};
use serde_json::{Value, json};

use super::utoipa;
use crate::example_secret::{TextI64, UuidU32};

type TeamId = External<TextI64>;
type OtherId = External<UuidU32>;
type TeamCursor = Cursor<TextI64>;

#[derive(serde::Serialize, utoipa::ToSchema)]
struct View {
    id: TeamId,
    others: Vec<TeamId>,
    parent: Option<TeamId>,
    uuid: OtherId,
    next: TeamCursor,
}

#[test]
fn they_refer_to_ids() {
    #[derive(utoipa::OpenApi)]
    #[openapi(components(schemas(View)))]
    struct Api;

    let api = serde_json::to_value(<Api as utoipa::OpenApi>::openapi()).expect("JSON");
    let schemas = &api["components"]["schemas"];
    assert_eq!(schemas["a_1_id"]["x-opaque-id"], "a_1");
    assert_eq!(schemas["a_1_cursor"]["x-opaque-id"], Value::Null);
    let properties = &schemas["View"]["properties"];
    assert_eq!(properties["id"], json!({"$ref": "#/components/schemas/a_1_id"}));
    assert_eq!(properties["others"]["items"], json!({"$ref": "#/components/schemas/a_1_id"}));
    assert_eq!(schemas["a_1_cursor"]["pattern"], json!(Cursor::<TextI64>::pattern()));
}
