pub mod users {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    #[derive(Clone, Debug, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "users")]
    #[opaque_id(prefix = "user", key = i64)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub name: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod notes {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::users;

    #[derive(Clone, Debug, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "notes")]
    #[opaque_id(prefix = "note", key = i64)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub user_id: Internal<users::Model>,
        pub text: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}

pub mod comments {
    use opaque_id_seaorm::{Internal, OpaqueId};
    use sea_orm::entity::prelude::*;

    use super::{notes, users};

    #[derive(Clone, Debug, DeriveEntityModel, OpaqueId)]
    #[sea_orm(table_name = "comments")]
    #[opaque_id(prefix = "comment", key = i64)]
    pub struct Model {
        #[sea_orm(primary_key)]
        pub id: Internal<Model>,
        pub note_id: Internal<notes::Model>,
        pub user_id: Internal<users::Model>,
        pub text: String,
    }

    #[derive(Clone, Copy, Debug, EnumIter, DeriveRelation)]
    pub enum Relation {}

    impl ActiveModelBehavior for ActiveModel {}
}
