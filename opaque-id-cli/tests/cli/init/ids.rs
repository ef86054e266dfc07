//! The resources of this application. `opaque-id init` wrote this file, and it is yours to change.

use opaque_id_sqlx::{Keyring, KeyringError, OpaqueId};

// Decide a prefix of a-z, 0-9 and _, and a name, that no other type has, and how `id` stores keys: `opaque-id check-schema` says why CHAR(26) does not fit.
// /// A row of `invoices\npub struct Hostile;`.
// #[derive(OpaqueId)]
// #[opaque_id(prefix = "…", key = …)]
// pub struct …;

/// A row of `order_boxes`.
#[derive(OpaqueId)]
#[opaque_id(prefix = "order_box", key = i64)]
pub struct OrderBox;

// Decide a prefix of a-z, 0-9 and _, and a name, that no other type has.
// /// A row of `results`.
// #[derive(OpaqueId)]
// #[opaque_id(prefix = "…", key = i64)]
// pub struct …;

// Decide the key of `id`, because its rows do not show it: Uuid7, Uuid, Ulid, StructuredKey.
// /// A row of `sessions`.
// #[derive(OpaqueId)]
// #[opaque_id(prefix = "session", key = Uuid7)]
// pub struct Session;

/// A row of `users`.
#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
pub struct User;

/// Reads the secrets from the variable `OPAQUE_ID_KEYS`, or else from the file `opaque-id.keys` of the current folder.
///
/// # Errors
/// There is no valid secret, or two types have the same prefix.
pub fn keyring() -> Result<Keyring, KeyringError> {
    let keyring = match std::env::var_os("OPAQUE_ID_KEYS") {
        Some(_) => Keyring::from_env()?,
        None => Keyring::from_file("opaque-id.keys")?,
    };
    keyring.prepare::<OrderBox>()?;
    keyring.prepare::<User>()?;
    Ok(keyring)
}

/// The state of the router. If it has one, give that a field `keyring`, name it below, and delete this struct.
#[derive(Clone)]
pub struct App {
    pub pool: sqlx::SqlitePool,
    pub keyring: Keyring,
}

impl axum::extract::FromRef<App> for Keyring {
    fn from_ref(app: &App) -> Self {
        app.keyring.clone()
    }
}

impl axum::extract::FromRef<App> for sqlx::SqlitePool {
    fn from_ref(app: &App) -> Self {
        app.pool.clone()
    }
}
