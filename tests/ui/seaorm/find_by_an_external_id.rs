use opaque_id_seaorm::{External, Internal, OpaqueId};
use sea_orm::entity::prelude::*;

#[sea_orm::model]
#[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
#[sea_orm(table_name = "users")]
#[opaque_id(prefix = "user")]
pub struct Model {
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Internal<Model>,
}

impl ActiveModelBehavior for ActiveModel {}

fn find(id: External<Model>) -> Select<Entity> {
    Entity::find_by_id(id)
}
