use sqlx::Postgres;
use sqlx::postgres::PgDatabaseError;

use super::run::supported_database;

supported_database!(Postgres, Postgres, PgDatabaseError, |error| Some(error.code().to_owned()));
