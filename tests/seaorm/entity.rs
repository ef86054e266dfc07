//! Entities: users and teams in SeaORM's 2.0 format if there is one, the others in the earlier one.

#![expect(unreachable_pub, reason = "what SeaORM's derives write is public")]

use opaque_id_seaorm::OpaqueId;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "event", key = Ulid)]
pub struct Event;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
pub struct Order;

#[cfg(feature = "older")]
pub(crate) use self::{earlier_team as team, earlier_user as user};

#[cfg(not(feature = "older"))]
pub(crate) mod user {
    use opaque_id_seaorm::{Internal, OpaqueId, View};
    use sea_orm::entity::prelude::*;

    use super::team;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId, View)]
    #[sea_orm(table_name = "users")]
    #[opaque_id(prefix = "user")]
    #[view(into = UserView)]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Internal<Model>,
        pub team_id: Option<Internal<team::Model>>,
        #[sea_orm(belongs_to, from = "team_id", to = "id")]
        pub team: HasOne<team::Entity>,
        pub name: String,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

#[cfg(not(feature = "older"))]
pub(crate) mod team {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::user;

    #[sea_orm::model]
    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "teams")]
    #[opaque_id(prefix = "team", key = i64)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub name: String,
        #[sea_orm(has_many)]
        pub users: HasMany<user::Entity>,
    }

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod stored_keys {
    use opaque_id_seaorm::Internal;
    use sea_orm::entity::prelude::*;

    use super::{Event, Order, legacy, team};

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "stored_keys")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub event_id: Internal<Event>,
        pub order_id: Internal<Order>,
        pub legacy_id: Internal<legacy::Model>,
        pub team_id: Internal<team::Model>,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod person {
    use opaque_id_seaorm::Internal;
    use sea_orm::entity::prelude::*;

    use super::team;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "people")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<team::Model>,
        pub nickname: Option<String>,
        pub score: Option<i32>,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod legacy {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "legacy")]
    #[opaque_id(prefix = "legacy", key = Uuid, form = "tagged")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Internal<Model>,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod profile {
    use opaque_id_packs::{Encrypted, Fingerprint};
    use opaque_id_seaorm::Internal;
    use sea_orm::entity::prelude::*;

    use super::user;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[sea_orm(table_name = "profiles")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Internal<user::Model>,
        pub notes: Encrypted<user::Model, String>,
        pub address: Option<Encrypted<user::Model, String>>,
        #[sea_orm(column_type = "Binary(16)", nullable)]
        pub address_index: Option<Fingerprint<user::Model>>,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod number {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::team;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "numbers")]
    #[opaque_id(prefix = "number", key = i32)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub next_id: Option<Internal<Model>>,
        pub team_id: Internal<team::Model>,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod unsigned_number {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::team;

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "unsigned_numbers")]
    #[opaque_id(prefix = "unsigned", key = u32)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub team_id: Internal<team::Model>,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

/// The users' table in the earlier format, with a relation by hand. It is a second one, or the only one with
/// an older SeaORM.
pub(crate) mod earlier_user {
    use opaque_id_seaorm::Internal;
    use sea_orm::entity::prelude::*;

    use super::{earlier_team, team, user};

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[cfg_attr(feature = "older", derive(opaque_id_seaorm::OpaqueId), opaque_id(prefix = "user"))]
    #[sea_orm(table_name = "users")]
    pub struct Model {
        #[sea_orm(primary_key, auto_increment = false)]
        pub id: Internal<user::Model>,
        pub team_id: Option<Internal<team::Model>>,
        pub name: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {
        #[sea_orm(
            belongs_to = "earlier_team::Entity",
            from = "Column::TeamId",
            to = "earlier_team::Column::Id"
        )]
        Team,
    }

    impl Related<earlier_team::Entity> for Entity {
        fn to() -> RelationDef {
            Relation::Team.def()
        }
    }

    impl ActiveModelBehavior for ActiveModel {}
}

pub(crate) mod earlier_team {
    use opaque_id_seaorm::Internal;
    use sea_orm::entity::prelude::*;

    use super::{earlier_user, team};

    #[derive(Clone, Debug, PartialEq, DeriveEntityModel)]
    #[cfg_attr(
        feature = "older",
        derive(opaque_id_seaorm::OpaqueId),
        opaque_id(prefix = "team", key = i64)
    )]
    #[sea_orm(table_name = "teams")]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<team::Model>,
        pub name: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {
        #[sea_orm(has_many = "earlier_user::Entity")]
        Users,
    }

    impl Related<earlier_user::Entity> for Entity {
        fn to() -> RelationDef {
            Relation::Users.def()
        }
    }

    impl ActiveModelBehavior for ActiveModel {}
}
