//! The queries on the rows.

use diesel::dsl::sql;
use diesel::sql_types::{Nullable, Text};
use opaque_id_core::IdRange;
use opaque_id_diesel::Id;
use opaque_id_sql::dialect::Retry;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::shop::{self, IdOf, KeysOf, Shop, UserOf};
use opaque_id_tests::database::Database;

use super::*;

/// Converts rows of the database into rows of the cases.
pub(super) fn all<R, T: From<R>>(rows: Vec<R>) -> Vec<T> {
    rows.into_iter().map(Into::into).collect()
}

impl Shop for DieselShop {
    const ADAPTER: &'static str = ADAPTER;
    type User = User;
    type Team = Team;
    type Event = Event;
    type Order = Order;
    type Legacy = Legacy;

    fn block_on<T>(case: impl Future<Output = Result<T>>) -> Result<T> {
        block_on(case)
    }

    async fn connect(database: &Database) -> Result<Self> {
        Self::open(database, 1).await
    }

    async fn add_team(&self, name: &str) -> Result<IdOf<Team>> {
        let connection = &mut *self.connection().await?;
        server::insert_team(connection, name).await
    }

    async fn add_user(&self, user: &UserOf<Self>) -> Result {
        run!(self.execute(diesel::insert_into(users::table).values(User::from(user))))?;
        Ok(())
    }

    async fn add_users(&self, users: &[UserOf<Self>]) -> Result {
        let connection = &mut *self.connection().await?;
        for users in users.chunks(5_000) {
            let users: Vec<User> = users.iter().map(User::from).collect();
            batch::insert_users(connection, users).await?;
        }
        Ok(())
    }

    async fn find_user(&self, id: IdOf<User>) -> Result<Option<UserOf<Self>>> {
        let user = users::table.find(id).select(User::as_select());
        Ok(run!(self.first(user)).optional()?.map(Into::into))
    }

    async fn find_users(&self, ids: &[IdOf<User>]) -> Result<Vec<UserOf<Self>>> {
        let users = users::table.filter(users::id.eq_any(ids)).order(users::id);
        Ok(all(run!(self.load::<User>(users))?))
    }

    async fn users_after(&self, id: IdOf<User>, limit: u8) -> Result<Vec<UserOf<Self>>> {
        let users = users::table.filter(users::id.gt(id)).order(users::id.asc());
        Ok(all(run!(self.load::<User>(users.limit(limit.into())))?))
    }

    async fn all_users(&self) -> Result<Vec<UserOf<Self>>> {
        Ok(all(run!(self.load::<User>(users::table.order(users::id)))?))
    }

    async fn users_without_team(&self) -> Result<Vec<UserOf<Self>>> {
        let users = users::table.filter(users::team_id.is_null());
        Ok(all(run!(self.load::<User>(users))?))
    }

    async fn members(&self, team: IdOf<Team>) -> Result<Vec<(UserOf<Self>, String)>> {
        let members = users::table
            .inner_join(teams::table)
            .filter(users::team_id.eq(team))
            .order(users::id)
            .select((User::as_select(), Team::as_select()));
        let members = run!(self.load::<(User, Team)>(members))?.into_iter();
        Ok(members.map(|(user, team)| (user.into(), team.name)).collect())
    }

    async fn update_user(&self, user: &UserOf<Self>) -> Result {
        let user = User::from(user);
        run!(self.execute(diesel::update(&user).set(&user)))?;
        Ok(())
    }

    async fn delete_user(&self, id: IdOf<User>) -> Result {
        run!(self.execute(diesel::delete(users::table.find(id))))?;
        Ok(())
    }

    async fn add_keys(&self, keys: &KeysOf<Self>) -> Result {
        run!(self.execute(diesel::insert_into(stored_keys::table).values((
            stored_keys::event_id.eq(keys.0),
            stored_keys::order_id.eq(keys.1),
            stored_keys::legacy_id.eq(keys.2),
            stored_keys::team_id.eq(keys.3),
        ))))?;
        Ok(())
    }

    async fn all_keys(&self) -> Result<Vec<KeysOf<Self>>> {
        Ok(run!(self.load(stored_keys::table))?)
    }

    async fn add_legacy(&self, id: IdOf<Legacy>) -> Result {
        run!(self.execute(diesel::insert_into(legacy::table).values(legacy::id.eq(id))))?;
        Ok(())
    }

    async fn legacy_between(
        &self,
        range: IdRange<Internal<Legacy>>,
    ) -> Result<Vec<Internal<Legacy>>> {
        let is_between = legacy::id.between(range.first(), range.last());
        let ids = legacy::table.select(legacy::id).filter(is_between).order(legacy::id);
        Ok(run!(self.load(ids))?)
    }

    read_ids! {
        read_user_id: Id<User> => IdOf<User>,
        read_user_id_or_null: Nullable<Id<User>> => Option<IdOf<User>>,
        read_team_id: Id<Team> => IdOf<Team>,
        read_order_id: Id<Order> => IdOf<Order>
    }

    async fn explain(&self, explain: &str, id: IdOf<User>) -> Result<String> {
        let explain = diesel::sql_query(explain).bind::<Id<User>, _>(id);
        Ok(run!(self.get_result::<Explained>(explain))?.plan)
    }

    type Transaction<'s> = connections::Connection<'s>;

    async fn begin(&self, prepare: &str) -> Result<Self::Transaction<'_>> {
        let mut connection = self.connections.get().await?;
        if !prepare.is_empty() {
            done(diesel::sql_query(prepare).execute(&mut *connection)).await?;
        }
        done(begin(&mut *connection)).await?;
        Ok(connection)
    }

    async fn execute(transaction: &mut Self::Transaction<'_>, statement: &str) -> Result {
        done(diesel::sql_query(statement).execute(&mut **transaction)).await?;
        Ok(())
    }

    async fn text(transaction: &mut Self::Transaction<'_>, select: &str) -> Result<String> {
        let select = diesel::select(sql::<Text>(&format!("({select})")));
        Ok(done(select.get_result(&mut **transaction)).await?)
    }

    async fn commit(
        mut transaction: Self::Transaction<'_>,
    ) -> std::result::Result<(), (shop::Error, Option<Retry>)> {
        let connection = &mut *transaction;
        match done(commit(connection)).await {
            Ok(()) => Ok(()),
            Err(error) => {
                let retry = done(retry(connection, &error)).await;
                Err((error.into(), retry))
            }
        }
    }

    async fn rollback(mut transaction: Self::Transaction<'_>) -> Result {
        Ok(done(rollback(&mut *transaction)).await?)
    }

    /// A dropped call may break a connection to MySQL.
    fn is_broken(error: &shop::Error) -> bool {
        matches!(error.downcast_ref(), Some(diesel::result::Error::BrokenTransactionManager))
    }
}
