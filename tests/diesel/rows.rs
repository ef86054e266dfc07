//! Rows and their tables: one `table!` of typed columns for every backend, and plain tables as `diesel
//! print-schema` writes them.

use diesel::prelude::*;
use diesel::sql_types::Text;
use opaque_id_diesel::{IdNewtype, Internal, OpaqueId};
use opaque_id_packs::{Encrypted, Fingerprint};
use opaque_id_tests::conformance::{columns, shop};

#[derive(
    Clone,
    Debug,
    OpaqueId,
    PartialEq,
    Queryable,
    Selectable,
    Insertable,
    Identifiable,
    AsChangeset,
    Associations,
)]
#[opaque_id(prefix = "user")]
#[diesel(table_name = users, belongs_to(Team), treat_none_as_null = true)]
#[diesel(treat_none_as_default_value = false)]
pub struct User {
    pub id: Internal<User>,
    pub team_id: Option<Internal<Team>>,
    pub name: String,
}

#[derive(Clone, Debug, OpaqueId, PartialEq, Queryable, Selectable, Identifiable)]
#[opaque_id(prefix = "team", key = i64)]
#[diesel(table_name = teams)]
pub struct Team {
    pub id: Internal<Team>,
    pub name: String,
}

#[derive(Clone, Debug, Queryable, Selectable, Insertable, Identifiable, AsChangeset)]
#[diesel(table_name = profiles, treat_none_as_null = true)]
#[diesel(treat_none_as_default_value = false)]
pub struct Profile {
    pub id: Internal<User>,
    pub notes: Encrypted<User, String>,
    pub address: Option<Encrypted<User, String>>,
    pub address_index: Option<Fingerprint<User>>,
}

type ProfileOf = columns::Profile<Internal<User>, Encrypted<User, String>, Fingerprint<User>>;

impl From<&ProfileOf> for Profile {
    fn from(profile: &ProfileOf) -> Self {
        let columns::Profile { id, notes, address, index: address_index } = profile.clone();
        Self { id, notes, address, address_index }
    }
}

impl From<Profile> for ProfileOf {
    fn from(profile: Profile) -> Self {
        let Profile { id, notes, address, address_index: index } = profile;
        Self { id, notes, address, index }
    }
}

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "event", key = Ulid)]
pub struct Event;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
pub struct Order;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "number", key = i32)]
pub struct Number;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "unsigned", key = u32)]
pub struct UnsignedNumber;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "legacy", key = Uuid, form = "tagged")]
pub struct Legacy;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
pub(crate) struct Invoice;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
pub(crate) struct Receipt;

impl From<User> for shop::User<Internal<User>, Internal<Team>> {
    fn from(user: User) -> Self {
        Self { id: user.id, team_id: user.team_id, name: user.name }
    }
}

impl From<&shop::User<Internal<User>, Internal<Team>>> for User {
    fn from(user: &shop::User<Internal<User>, Internal<Team>>) -> Self {
        Self { id: user.id, team_id: user.team_id, name: user.name.clone() }
    }
}

/// The column of a plan that names the index. Its name depends on the database.
macro_rules! explained {
    ($($name:ident: $column:literal),*) => {
        $(
            #[derive(QueryableByName)]
            pub(crate) struct $name {
                #[diesel(column_name = $column, sql_type = Text)]
                pub(crate) plan: String,
            }
        )*
    };
}

explained!(ExplainedByPostgres: "QUERY PLAN", ExplainedByMysql: "key", ExplainedBySqlite: "detail");

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use crate::rows::{Team, User};

    users (id) {
        id -> Id<User>,
        team_id -> Nullable<Id<Team>>,
        name -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use crate::rows::Team;

    teams (id) {
        id -> Id<Team>,
        name -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use crate::rows::User;

    profiles (id) {
        id -> Id<User>,
        notes -> Binary,
        address -> Nullable<Binary>,
        address_index -> Nullable<Binary>,
    }
}

diesel::table! {
    use opaque_id_diesel::Id;
    use crate::rows::{Event, Legacy, Order, Team};

    stored_keys (event_id) {
        event_id -> Id<Event>,
        order_id -> Id<Order>,
        legacy_id -> Id<Legacy>,
        team_id -> Id<Team>,
    }
}

diesel::table! {
    use opaque_id_diesel::Id;
    use crate::rows::Legacy;

    legacy (id) {
        id -> Id<Legacy>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use crate::rows::{Number, Team};

    numbers (id) {
        id -> Id<Number>,
        next_id -> Nullable<Id<Number>>,
        team_id -> Id<Team>,
    }
}

// The tables of MySQL and MariaDB.
diesel::table! {
    use opaque_id_diesel::Id;
    use crate::rows::{Team, UnsignedNumber};

    unsigned_numbers (id) {
        id -> Id<UnsignedNumber>,
        team_id -> Id<Team>,
    }
}

diesel::joinable!(users -> teams (team_id));
diesel::allow_tables_to_appear_in_same_query!(users, teams);

/// A newtype for PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
pub struct UserId(pub Internal<User>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
pub struct TeamId(Internal<Team>);

/// An id of a crate without a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, opaque_id_core::IdNewtype)]
pub struct DomainId(opaque_id_core::Internal<User>);

#[derive(Clone, Debug, PartialEq, Queryable, Selectable, Insertable, Identifiable, AsChangeset)]
#[diesel(table_name = users, treat_none_as_null = true)]
pub struct Member {
    pub id: UserId,
    pub team_id: Option<TeamId>,
    pub name: String,
}

#[derive(Queryable)]
pub(crate) struct DomainRow {
    #[diesel(deserialize_as = Internal<User>)]
    pub id: DomainId,
    #[expect(dead_code, reason = "a row of two columns")]
    pub name: String,
}

pub(crate) mod plain_uuid {
    diesel::table! {
        users (id) {
            id -> Uuid,
            team_id -> Nullable<BigInt>,
            name -> Text,
        }
    }
}

/// The tables of MySQL and SQLite.
pub(crate) mod plain_binary {
    diesel::table! {
        users (id) {
            id -> Binary,
            team_id -> Nullable<BigInt>,
            name -> Text,
        }
    }
}

/// The tables of every database.
pub(crate) mod plain_integer {
    diesel::table! {
        numbers (id) {
            id -> Integer,
            next_id -> Nullable<Integer>,
        }
    }
}

/// The tables of MySQL and MariaDB.
pub(crate) mod plain_unsigned {
    diesel::table! {
        unsigned_numbers (id) {
            id -> Unsigned<Integer>,
            team_id -> Unsigned<BigInt>,
        }
    }
}
