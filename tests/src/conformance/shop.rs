//! The operations of every adapter for the shared cases, in the ORM's own way.

use opaque_id_core::generator::Generate;
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::resource::{InternalId, SealedResource};
use opaque_id_core::{IdRange, KeyError, OpaqueId};
use opaque_id_sql::dialect::Retry;

use crate::Result;
use crate::database::Database;
use crate::engine::Engine;

/// Declares the calls on a table of a connection: their arguments and their results.
#[macro_export]
macro_rules! declare_calls {
    (@ [$($generics:tt)*] $table:ty, $name:ident($($arg:ident: $type:ty),*) -> $returned:ty) => {
        async fn $name<$($generics)*>(&self, table: &$table $(, $arg: $type)*) -> Result<$returned>;
    };
    ($generics:tt $table:ty; $($name:ident $args:tt -> $returned:ty;)*) => {
        $($crate::declare_calls! { @ $generics $table, $name $args -> $returned })*
    };
}

/// Writes these calls. The expression is the calls' argument, and the path converts their result into a
/// future.
#[macro_export]
macro_rules! delegate_calls {
    (
        @ [$self:ident, $on:expr, $done:path] [$($generics:tt)*] $table:ty,
        $name:ident($($arg:ident: $type:ty),*) -> $returned:ty
    ) => {
        async fn $name<$($generics)*>(
            &$self,
            table: &$table
            $(, $arg: $type)*
        ) -> Result<$returned> {
            Ok($done(table.$name($on $(, $arg)*)).await?)
        }
    };
    ($on:tt; $generics:tt $table:ty; $($name:ident $args:tt -> $returned:ty;)*) => {
        $($crate::delegate_calls! { @ $on $generics $table, $name $args -> $returned })*
    };
}

pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// An adapter on a database. Each resource has the adapter's own `Internal<T>`.
pub trait Shop: Sized {
    const ADAPTER: &'static str;

    type User: SealedResource<Key = Uuid7>;
    type Team: OpaqueId<Key = i64>;
    type Event: OpaqueId<Key = Ulid>;
    type Order: OpaqueId<Key = StructuredKey>;
    type Legacy: OpaqueId<Key = Uuid>;

    /// Runs a case. Blocking adapters cannot run inside of tokio.
    fn block_on<T>(case: impl Future<Output = Result<T>>) -> Result<T> {
        on_tokio(case)
    }

    async fn connect(database: &Database) -> Result<Self>;

    /// Creates the tables of `schema/`.
    async fn create_tables(&self, database: &Database) -> Result {
        database.execute(schema(database.kind))
    }

    /// Inserts a team with a key from the database.
    async fn add_team(&self, name: &str) -> Result<IdOf<Self::Team>>;
    async fn add_user(&self, user: &UserOf<Self>) -> Result;
    /// Inserts many users in few statements.
    async fn add_users(&self, users: &[UserOf<Self>]) -> Result;
    async fn find_user(&self, id: IdOf<Self::User>) -> Result<Option<UserOf<Self>>>;
    /// Finds users by a list of ids, in the order of ids.
    async fn find_users(&self, ids: &[IdOf<Self::User>]) -> Result<Vec<UserOf<Self>>>;
    /// Returns a page by key.
    async fn users_after(&self, id: IdOf<Self::User>, limit: u8) -> Result<Vec<UserOf<Self>>>;
    async fn all_users(&self) -> Result<Vec<UserOf<Self>>>;
    async fn users_without_team(&self) -> Result<Vec<UserOf<Self>>>;
    /// Returns the users of a team by a join, in the order of ids, and the team's name.
    async fn members(&self, team: IdOf<Self::Team>) -> Result<Vec<(UserOf<Self>, String)>>;
    /// Updates name and team.
    async fn update_user(&self, user: &UserOf<Self>) -> Result;
    async fn delete_user(&self, id: IdOf<Self::User>) -> Result;

    async fn add_keys(&self, keys: &KeysOf<Self>) -> Result;
    async fn all_keys(&self) -> Result<Vec<KeysOf<Self>>>;
    async fn add_legacy(&self, id: IdOf<Self::Legacy>) -> Result;
    /// Finds ids by `BETWEEN`, in the database's order.
    async fn legacy_between(
        &self,
        range: IdRange<IdOf<Self::Legacy>>,
    ) -> Result<Vec<IdOf<Self::Legacy>>>;

    /// Reads an SQL expression as an id, like a field of a row.
    async fn read_user_id(&self, expression: &str) -> Result<IdOf<Self::User>>;
    async fn read_user_id_or_null(&self, expression: &str) -> Result<Option<IdOf<Self::User>>>;
    async fn read_team_id(&self, expression: &str) -> Result<IdOf<Self::Team>>;
    async fn read_order_id(&self, expression: &str) -> Result<IdOf<Self::Order>>;

    /// Returns the database's plan for a statement with one bound id.
    async fn explain(&self, explain: &str, id: IdOf<Self::User>) -> Result<String>;

    /// A transaction of the caller's.
    type Transaction<'s>
    where
        Self: 's;

    /// Runs `prepare` on a connection unless it is empty, and begins a transaction there.
    async fn begin(&self, prepare: &str) -> Result<Self::Transaction<'_>>;
    async fn execute(transaction: &mut Self::Transaction<'_>, statement: &str) -> Result;
    /// Reads the first column of the first row.
    async fn text(transaction: &mut Self::Transaction<'_>, select: &str) -> Result<String>;
    /// Commits, or returns the error with the answer of the adapter's `retry` to it.
    async fn commit(
        transaction: Self::Transaction<'_>,
    ) -> std::result::Result<(), (Error, Option<Retry>)>;
    async fn rollback(transaction: Self::Transaction<'_>) -> Result;
    /// Returns whether a rollback failed because a dropped call has broken the connection. The pool closes
    /// such a connection.
    fn is_broken(_: &Error) -> bool {
        false
    }

    async fn end(transaction: Self::Transaction<'_>, commits: bool) -> Result {
        match commits {
            true => Self::commit(transaction).await.map_err(|(error, _)| error),
            false => Self::rollback(transaction).await,
        }
    }
}

pub fn schema(kind: Engine) -> &'static str {
    match kind {
        Engine::Postgres => include_str!("schema/postgres.sql"),
        Engine::Sqlite => include_str!("schema/sqlite.sql"),
        Engine::Mysql | Engine::Mariadb => include_str!("schema/mysql.sql"),
    }
}

pub fn on_tokio<T>(case: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?
        .block_on(case)
}

pub type IdOf<T> = <T as OpaqueId>::Internal;
pub type UserOf<S> = User<IdOf<<S as Shop>::User>, IdOf<<S as Shop>::Team>>;
/// The keys of an event, an order, an old row and a team.
pub type KeysOf<S> = (
    IdOf<<S as Shop>::Event>,
    IdOf<<S as Shop>::Order>,
    IdOf<<S as Shop>::Legacy>,
    IdOf<<S as Shop>::Team>,
);

#[derive(Clone, Debug, PartialEq)]
pub struct User<U, T> {
    pub id: U,
    pub team_id: Option<T>,
    pub name: String,
}

pub fn generate<I: InternalId>() -> I
where
    <I::Resource as OpaqueId>::Key: Generate,
{
    from_key(Generate::generate()).expect("a generated key is a key")
}

pub fn from_key<I: InternalId>(
    key: <I::Resource as OpaqueId>::Key,
) -> std::result::Result<I, KeyError> {
    I::from_repr(key.into_repr())
}
