use opaque_id_seaorm::{External, Internal, OpaqueId};
use sea_orm::entity::prelude::*;

#[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId, serde::Serialize)]
#[sea_orm(table_name = "users")]
#[opaque_id(prefix = "user")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Internal<Model>,
}

#[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
