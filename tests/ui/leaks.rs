//! Each type and call that `docs/clippy.toml` disallows, as `clippy.rs` compiles it.

use diesel::prelude::*;
use opaque_id_core::__private::Label;
use opaque_id_core::resource::InternalId;
use opaque_id_core::{Keyring, MasterSecret, Position};
use sea_orm::entity::prelude::*;
use sea_orm::*;

mod user {
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, opaque_id_seaorm::OpaqueId)]
    #[sea_orm(table_name = "users")]
    #[opaque_id(prefix = "user")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: opaque_id_seaorm::Internal<Model>,
    }
    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}
    impl ActiveModelBehavior for ActiveModel {}
}
use user::Model;

diesel::table! {
    use opaque_id_diesel::Id;
    use super::Model;
    users (id) { id -> Id<Model>, }
}

#[derive(serde::Serialize, serde::Deserialize)]
pub struct Stored(#[serde(with = "opaque_id_core::trusted")] opaque_id_core::Internal<Model>);

macro_rules! explicit {
    ($($adapter:ident),*) => {$(
        pub fn $adapter(id: $adapter::Internal<Model>) {
            _ = ($adapter::Internal::<Model>::from_key(id.expose_key()), id.expose_time());
        }
    )*};
}
explicit!(opaque_id_core, opaque_id_diesel, opaque_id_seaorm, opaque_id_sqlx);

pub fn others<I: InternalId>(id: I, keyring: &Keyring, location: &opaque_id_packs::Location) {
    _ = (Position::from_row(I::from_repr(*id.as_repr()).unwrap()), location.expose_id());
    _ = keyring.with_subkey::<32, _>(keyring.sealing_key_id(), Label::Packs, "user", |_| 7);
    _ = MasterSecret::generate().with_subkey::<32, _>(Label::Packs, "user", |_| 7);
    _ = keyring.with_id_subkeys(keyring.sealing_key_id(), "user", |_| 7);
}

type E = user::Entity;
type Top = TopologyStar;

pub fn of_seaorm(id: opaque_id_seaorm::Internal<Model>, select: Select<E>) {
    use user::Column::Id;
    _ = (select.clone().into_json(), select.clone().cursor_by(Id).into_json());
    _ = (SelectTwo::<E, E>::into_json, SelectTwoRequired::<E, E>::into_json);
    _ = (SelectThree::<E, E, E, Top>::into_json, SelectFour::<E, E, E, E, Top>::into_json);
    _ = (SelectFive::<E, E, E, E, E, Top>::into_json, SelectSix::<E, E, E, E, E, E, Top>::into_json);
    _ = SelectorRaw::<SelectModel<Model>>::into_json;
    _ = select.cursor_by(Id).after(id).before(id);
    _ = (ColumnTrait::gt(&Id, id), ColumnTrait::gte(&Id, id), ColumnTrait::lt(&Id, id));
    _ = (ColumnTrait::lte(&Id, id), ColumnTrait::between(&Id, id, id));
    _ = ColumnTrait::not_between(&Id, id, id);
    let column = || Expr::col(Id);
    _ = (column().gt(id), column().gte(id), column().lt(id), column().lte(id));
    _ = (column().between(id, id), column().not_between(id, id));
}

pub fn of_diesel(id: opaque_id_diesel::Internal<Model>) {
    _ = (users::id.gt(id), users::id.ge(id), users::id.lt(id), users::id.le(id));
    _ = (users::id.between(id, id), users::id.not_between(id, id));
}

pub fn of_axum(_: axum::Json<()>, _: axum::Form<()>) {}
pub fn of_its_urls(_: axum::extract::Path<()>, _: axum::extract::Query<()>) {}
pub fn of_actix(_: actix_web::web::Json<()>, _: actix_web::web::Form<()>) {}
pub fn of_its_urls_too(_: actix_web::web::Path<()>, _: actix_web::web::Query<()>) {}
