//! What is done with the rows.

use diesel::sql_types::Nullable;
use opaque_id_diesel::Id;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::shop::{IdOf, KeysOf, Shop, UserOf};
use opaque_id_tests::database::Database;

use super::*;

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
        let connection = &mut *self.connection().await?;
        done(diesel::insert_into(users::table).values(User::from(user)).execute(connection))
            .await?;
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
        let connection = &mut *self.connection().await?;
        let user = done(users::table.find(id).select(User::as_select()).first(connection))
            .await
            .optional()?;
        Ok(user.map(Into::into))
    }

    async fn find_users(&self, ids: &[IdOf<User>]) -> Result<Vec<UserOf<Self>>> {
        let connection = &mut *self.connection().await?;
        let users: Vec<User> =
            done(users::table.filter(users::id.eq_any(ids)).order(users::id).load(connection))
                .await?;
        Ok(users.into_iter().map(Into::into).collect())
    }

    async fn users_after(&self, id: IdOf<User>, limit: u8) -> Result<Vec<UserOf<Self>>> {
        let connection = &mut *self.connection().await?;
        let users: Vec<User> = done(
            users::table
                .filter(users::id.gt(id))
                .order(users::id.asc())
                .limit(i64::from(limit))
                .load(connection),
        )
        .await?;
        Ok(users.into_iter().map(Into::into).collect())
    }

    async fn all_users(&self) -> Result<Vec<UserOf<Self>>> {
        let connection = &mut *self.connection().await?;
        let users: Vec<User> = done(users::table.order(users::id).load(connection)).await?;
        Ok(users.into_iter().map(Into::into).collect())
    }

    async fn users_without_team(&self) -> Result<Vec<UserOf<Self>>> {
        let connection = &mut *self.connection().await?;
        let users: Vec<User> =
            done(users::table.filter(users::team_id.is_null()).load(connection)).await?;
        Ok(users.into_iter().map(Into::into).collect())
    }

    async fn members(&self, team: IdOf<Team>) -> Result<Vec<(UserOf<Self>, String)>> {
        let connection = &mut *self.connection().await?;
        let members: Vec<(User, Team)> = done(
            users::table
                .inner_join(teams::table)
                .filter(users::team_id.eq(team))
                .order(users::id)
                .select((User::as_select(), Team::as_select()))
                .load(connection),
        )
        .await?;
        Ok(members.into_iter().map(|(user, team)| (user.into(), team.name)).collect())
    }

    async fn update_user(&self, user: &UserOf<Self>) -> Result {
        let connection = &mut *self.connection().await?;
        let user = User::from(user);
        done(diesel::update(&user).set(&user).execute(connection)).await?;
        Ok(())
    }

    async fn delete_user(&self, id: IdOf<User>) -> Result {
        let connection = &mut *self.connection().await?;
        done(diesel::delete(users::table.find(id)).execute(connection)).await?;
        Ok(())
    }

    async fn add_keys(&self, keys: &KeysOf<Self>) -> Result {
        let connection = &mut *self.connection().await?;
        let insert = diesel::insert_into(stored_keys::table).values((
            stored_keys::event_id.eq(keys.0),
            stored_keys::order_id.eq(keys.1),
            stored_keys::legacy_id.eq(keys.2),
            stored_keys::team_id.eq(keys.3),
        ));
        done(insert.execute(connection)).await?;
        Ok(())
    }

    async fn all_keys(&self) -> Result<Vec<KeysOf<Self>>> {
        let connection = &mut *self.connection().await?;
        Ok(done(stored_keys::table.load(connection)).await?)
    }

    async fn add_legacy(&self, id: IdOf<Legacy>) -> Result {
        let connection = &mut *self.connection().await?;
        done(diesel::insert_into(legacy::table).values(legacy::id.eq(id)).execute(connection))
            .await?;
        Ok(())
    }

    async fn all_legacy(&self) -> Result<Vec<IdOf<Legacy>>> {
        let connection = &mut *self.connection().await?;
        Ok(done(legacy::table.select(legacy::id).order(legacy::id).load(connection)).await?)
    }

    read_ids! {
        read_user_id: Id<User> => IdOf<User>,
        read_user_id_or_null: Nullable<Id<User>> => Option<IdOf<User>>,
        read_team_id: Id<Team> => IdOf<Team>,
        read_order_id: Id<Order> => IdOf<Order>
    }

    async fn explain(&self, explain: &str, id: IdOf<User>) -> Result<String> {
        let connection = &mut *self.connection().await?;
        let plan: Explained =
            done(diesel::sql_query(explain).bind::<Id<User>, _>(id).get_result(connection)).await?;
        Ok(plan.plan)
    }
}
