//! One `table!` of typed columns for every backend, and the plain ones of `diesel print-schema`.

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use super::super::{Team, User};

    users (id) {
        id -> Id<User>,
        team_id -> Nullable<Id<Team>>,
        name -> Text,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use super::super::Team;

    teams (id) {
        id -> Id<Team>,
        name -> Text,
    }
}

diesel::table! {
    use opaque_id_diesel::Id;
    use super::super::{Event, Legacy, Order, Team};

    stored_keys (event_id) {
        event_id -> Id<Event>,
        order_id -> Id<Order>,
        legacy_id -> Id<Legacy>,
        team_id -> Id<Team>,
    }
}

diesel::table! {
    use opaque_id_diesel::Id;
    use super::super::Legacy;

    legacy (id) {
        id -> Id<Legacy>,
    }
}

diesel::table! {
    use diesel::sql_types::*;
    use opaque_id_diesel::Id;
    use super::super::{Number, Team};

    numbers (id) {
        id -> Id<Number>,
        next_id -> Nullable<Id<Number>>,
        team_id -> Id<Team>,
    }
}

// MySQL's and MariaDB's.
diesel::table! {
    use opaque_id_diesel::Id;
    use super::super::{Team, UnsignedNumber};

    unsigned_numbers (id) {
        id -> Id<UnsignedNumber>,
        team_id -> Id<Team>,
    }
}

diesel::joinable!(users -> teams (team_id));
diesel::allow_tables_to_appear_in_same_query!(users, teams);

/// PostgreSQL's.
pub(crate) mod plain_uuid {
    diesel::table! {
        users (id) {
            id -> Uuid,
            team_id -> Nullable<BigInt>,
            name -> Text,
        }
    }
}

/// MySQL's and SQLite's.
pub(crate) mod plain_binary {
    diesel::table! {
        users (id) {
            id -> Binary,
            team_id -> Nullable<BigInt>,
            name -> Text,
        }
    }
}

/// Every database's.
pub(crate) mod plain_integer {
    diesel::table! {
        numbers (id) {
            id -> Integer,
            next_id -> Nullable<Integer>,
        }
    }
}

/// MySQL's and MariaDB's.
pub(crate) mod plain_unsigned {
    diesel::table! {
        unsigned_numbers (id) {
            id -> Unsigned<Integer>,
            team_id -> Unsigned<BigInt>,
        }
    }
}
