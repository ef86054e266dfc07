//! The shop: the queries on the rows.

use opaque_id_seaorm::{IdRange, retry};
use opaque_id_sql::dialect::Retry;
use sea_orm::entity::prelude::*;
use sea_orm::{
    ConnectOptions, Database as SeaOrm, DatabaseTransaction, DbBackend, QueryOrder, QueryResult,
    QuerySelect, Schema, Set, Statement, TransactionTrait,
};
use sea_orm_migration::MigratorTrait;

use opaque_id_tests::Result;
use opaque_id_tests::conformance::shop::{self, IdOf, KeysOf, Shop, User, UserOf};
use opaque_id_tests::database::Database;

use crate::entity::{self, legacy, stored_keys, team, user};

pub(crate) struct SeaOrmShop {
    pub(crate) connection: DatabaseConnection,
    pub(crate) url: String,
}

impl From<user::Model> for User<IdOf<user::Model>, IdOf<team::Model>> {
    fn from(user: user::Model) -> Self {
        Self { id: user.id, team_id: user.team_id, name: user.name }
    }
}

fn active(user: &UserOf<SeaOrmShop>) -> user::ActiveModel {
    user::ActiveModel { id: Set(user.id), team_id: Set(user.team_id), name: Set(user.name.clone()) }
}

macro_rules! read_ids {
    ($($name:ident: $id:ty),*) => {
        $(async fn $name(&self, expression: &str) -> Result<$id> {
            Ok(self.select(expression).await?.try_get("", "id")?)
        })*
    };
}

impl Shop for SeaOrmShop {
    const ADAPTER: &'static str = if cfg!(feature = "older") { "seaorm11" } else { "seaorm" };
    type User = user::Model;
    type Team = team::Model;
    type Event = entity::Event;
    type Order = entity::Order;
    type Legacy = legacy::Model;

    async fn connect(database: &Database) -> Result<Self> {
        Self::open(&database.url, 10).await
    }

    /// A migration creates the tables.
    async fn create_tables(&self, _: &Database) -> Result {
        Ok(crate::migration::Migrator::up(&self.connection, None).await?)
    }

    async fn add_team(&self, name: &str) -> Result<IdOf<team::Model>> {
        let team = team::ActiveModel { name: Set(name.to_owned()), ..Default::default() };
        Ok(team.insert(&self.connection).await?.id)
    }

    async fn add_user(&self, user: &UserOf<Self>) -> Result {
        let inserted = active(user).insert(&self.connection).await?;
        assert_eq!(UserOf::<Self>::from(inserted), *user);
        Ok(())
    }

    async fn add_users(&self, users: &[UserOf<Self>]) -> Result {
        for users in users.chunks(5_000) {
            user::Entity::insert_many(users.iter().map(active)).exec(&self.connection).await?;
        }
        Ok(())
    }

    async fn find_user(&self, id: IdOf<user::Model>) -> Result<Option<UserOf<Self>>> {
        let user = user::Entity::find_by_id(id).one(&self.connection).await?;
        Ok(user.map(Into::into))
    }

    async fn find_users(&self, ids: &[IdOf<user::Model>]) -> Result<Vec<UserOf<Self>>> {
        let are_asked_for = user::Column::Id.is_in(ids.iter().copied());
        self.users(user::Entity::find().filter(are_asked_for).order_by_asc(user::Column::Id)).await
    }

    async fn users_after(&self, id: IdOf<user::Model>, limit: u8) -> Result<Vec<UserOf<Self>>> {
        let users = user::Entity::find()
            .cursor_by(user::Column::Id)
            .after(id)
            .first(limit.into())
            .all(&self.connection)
            .await?;
        Ok(users.into_iter().map(Into::into).collect())
    }

    async fn all_users(&self) -> Result<Vec<UserOf<Self>>> {
        self.users(user::Entity::find().order_by_asc(user::Column::Id)).await
    }

    async fn users_without_team(&self) -> Result<Vec<UserOf<Self>>> {
        self.users(user::Entity::find().filter(user::Column::TeamId.is_null())).await
    }

    async fn members(&self, team: IdOf<team::Model>) -> Result<Vec<(UserOf<Self>, String)>> {
        let members = user::Entity::find()
            .find_also_related(team::Entity)
            .filter(team::Column::Id.eq(team))
            .order_by_asc(user::Column::Id)
            .all(&self.connection)
            .await?;
        members
            .into_iter()
            .map(|(user, team)| Ok((user.into(), team.ok_or("no team")?.name)))
            .collect()
    }

    async fn update_user(&self, user: &UserOf<Self>) -> Result {
        active(user).update(&self.connection).await?;
        Ok(())
    }

    async fn delete_user(&self, id: IdOf<user::Model>) -> Result {
        user::Entity::delete_by_id(id).exec(&self.connection).await?;
        Ok(())
    }

    async fn add_keys(&self, keys: &KeysOf<Self>) -> Result {
        stored_keys::ActiveModel {
            event_id: Set(keys.0),
            order_id: Set(keys.1),
            legacy_id: Set(keys.2),
            team_id: Set(keys.3),
        }
        .insert(&self.connection)
        .await?;
        Ok(())
    }

    async fn all_keys(&self) -> Result<Vec<KeysOf<Self>>> {
        let keys = stored_keys::Entity::find().all(&self.connection).await?;
        let key =
            |key: stored_keys::Model| (key.event_id, key.order_id, key.legacy_id, key.team_id);
        Ok(keys.into_iter().map(key).collect())
    }

    async fn add_legacy(&self, id: IdOf<legacy::Model>) -> Result {
        legacy::ActiveModel { id: Set(id) }.insert(&self.connection).await?;
        Ok(())
    }

    async fn legacy_between(
        &self,
        range: IdRange<IdOf<legacy::Model>>,
    ) -> Result<Vec<IdOf<legacy::Model>>> {
        Ok(legacy::Entity::find()
            .select_only()
            .column(legacy::Column::Id)
            .filter(legacy::Column::Id.between(range.first(), range.last()))
            .order_by_asc(legacy::Column::Id)
            .into_tuple()
            .all(&self.connection)
            .await?)
    }

    read_ids! {
        read_user_id: IdOf<user::Model>,
        read_user_id_or_null: Option<IdOf<user::Model>>,
        read_team_id: IdOf<team::Model>,
        read_order_id: IdOf<entity::Order>
    }

    async fn explain(&self, explain: &str, id: IdOf<user::Model>) -> Result<String> {
        let backend = self.connection.get_database_backend();
        let column = match backend {
            DbBackend::Postgres => "QUERY PLAN",
            DbBackend::Sqlite => "detail",
            _ => "key",
        };
        let explain = Statement::from_sql_and_values(backend, explain, [id.into()]);
        Ok(one(&self.connection, explain).await?.try_get("", column)?)
    }

    type Transaction<'s> = DatabaseTransaction;

    /// A connection with a prepared session does not return to the pool.
    async fn begin(&self, prepare: &str) -> Result<Self::Transaction<'_>> {
        if prepare.is_empty() {
            return Ok(self.connection.begin().await?);
        }
        let own = Self::open(&self.url, 1).await?.connection;
        own.execute_unprepared(prepare).await?;
        Ok(own.begin().await?)
    }

    async fn execute(transaction: &mut Self::Transaction<'_>, statement: &str) -> Result {
        transaction.execute_unprepared(statement).await?;
        Ok(())
    }

    async fn text(transaction: &mut Self::Transaction<'_>, select: &str) -> Result<String> {
        let select = Statement::from_string(transaction.get_database_backend(), select);
        Ok(one(transaction, select).await?.try_get_by(0)?)
    }

    async fn commit(
        transaction: Self::Transaction<'_>,
    ) -> std::result::Result<(), (shop::Error, Option<Retry>)> {
        transaction.commit().await.map_err(|error| {
            let retry = retry(&error);
            (error.into(), retry)
        })
    }

    async fn rollback(transaction: Self::Transaction<'_>) -> Result {
        Ok(transaction.rollback().await?)
    }
}

impl SeaOrmShop {
    pub(crate) async fn open(url: &str, connections: u32) -> Result<Self> {
        let mut options = ConnectOptions::new(url);
        options.max_connections(connections).sqlx_logging(false);
        Ok(Self { connection: SeaOrm::connect(options).await?, url: url.to_owned() })
    }

    pub(crate) async fn users(&self, select: Select<user::Entity>) -> Result<Vec<UserOf<Self>>> {
        Ok(select.all(&self.connection).await?.into_iter().map(Into::into).collect())
    }

    pub(crate) async fn select(&self, expression: &str) -> Result<QueryResult> {
        let backend = self.connection.get_database_backend();
        let select = format!("SELECT {expression} AS id");
        one(&self.connection, Statement::from_string(backend, select)).await
    }
}

pub(crate) async fn one(on: &impl ConnectionTrait, statement: Statement) -> Result<QueryResult> {
    #[cfg(feature = "older")]
    let row = on.query_one(statement).await?;
    #[cfg(not(feature = "older"))]
    let row = on.query_one_raw(statement).await?;
    Ok(row.ok_or("no row")?)
}

pub(crate) async fn create_table(on: &DatabaseConnection, entity: impl EntityTrait) -> Result {
    let backend = on.get_database_backend();
    let create = backend.build(&Schema::new(backend).create_table_from_entity(entity)).to_string();
    on.execute_unprepared(&create).await?;
    Ok(())
}
