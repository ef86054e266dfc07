//! The cases of encrypted columns, each written once.

mod conversion;
mod damage;
mod rotation;
mod search;
mod values;

use std::time::SystemTime;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{External, Keyring, OpaqueId};
use opaque_id_packs::{
    ColumnName, Encoding, Encrypted, Fingerprint, Json, Normalizer, Settings, TableError,
    TableName, Text,
};
use opaque_id_sql::Dialect;

use crate::conformance::integers::IntegerShop;
use crate::conformance::mapping::dialect;
use crate::conformance::packs::keyring;
use crate::conformance::report::Cases;
use crate::conformance::shop::{IdOf, Shop, generate};
use crate::database::Database;
use crate::engine::Engine;
use crate::{Result, cases};

use conversion::{
    columns_are_encrypted_while_clients_write, columns_that_cannot_be_converted,
    columns_that_had_any_type,
};
use damage::{columns_that_lost_a_dictionary, columns_that_were_altered};
use rotation::{columns_are_trained_and_rekeyed, columns_follow_a_rotation};
use search::columns_are_found_by_value;
use values::{
    columns_come_back, columns_in_groups, columns_of_requests_and_views,
    columns_of_rows_by_integers,
};

/// A row of a user's profile in an ORM.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile<I, E, F> {
    pub id: I,
    pub notes: E,
    pub address: Option<E>,
    pub index: Option<F>,
}

pub type ProfileOf<S> = Profile<
    IdOf<<S as Shop>::User>,
    Encrypted<<S as Shop>::User, String>,
    Fingerprint<<S as Shop>::User>,
>;

/// The calls on a column of a connection as calls of a macro: their arguments and their results.
#[macro_export]
macro_rules! column_methods {
    ($write:ident $($with:tt)*) => {
        $crate::$write! {
            $($with)* [T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>] Self::Column<T, E>;
            refresh() -> ();
            configure(settings: ::opaque_id_packs::Settings) -> ();
            train(samples: &[String], bytes: usize) -> ();
            train_from_public(samples: &[String], bytes: usize) -> ();
            erase(group: ::opaque_id_packs::Group) -> ();
            encrypt_on(
                id: $crate::conformance::shop::IdOf<T>,
                value: &String
            ) -> ::opaque_id_packs::Encrypted<T, String>;
            decrypt_on(
                id: $crate::conformance::shop::IdOf<T>,
                encrypted: &::opaque_id_packs::Encrypted<T, String>
            ) -> String;
            rekey(
                column: &::opaque_id_packs::ColumnName,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Rekeyed;
            sweep(
                column: &::opaque_id_packs::ColumnName,
                unused_for: std::time::Duration,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Rekeyed;
            verify(
                column: &::opaque_id_packs::ColumnName,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Verified;
            convert(
                column: &::opaque_id_packs::ColumnName,
                to: ::opaque_id_packs::Conversion,
                progress: impl FnMut(u64) + Send + 'static
            ) -> ::opaque_id_packs::Converted;
            decrypt_or_plaintext(
                id: $crate::conformance::shop::IdOf<T>,
                encrypted: Option<&::opaque_id_packs::Encrypted<T, String>>,
                plaintext: Option<String>
            ) -> Option<String>;
        }
    };
}

/// The operations of every adapter on encrypted columns of strings, in the ORM's own way.
#[expect(clippy::ptr_arg, reason = "a column's values are of any type")]
pub trait ColumnShop: IntegerShop {
    type Column<T: OpaqueId, E: Encoding<String>>: Clone + Send + Sync;

    fn create_column<T: OpaqueId, E: Encoding<String>>(dialect: Dialect, name: &str) -> String;

    /// Without settings, the table must already have them.
    async fn open_column<T: OpaqueId, E: Encoding<String>>(
        &self,
        keyring: &SharedKeyring,
        name: TableName,
        settings: Option<Settings>,
    ) -> Result<Self::Column<T, E>>;

    fn encrypt<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        id: IdOf<T>,
        value: &str,
    ) -> Result<Encrypted<T, String>>;
    fn decrypt<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        id: IdOf<T>,
        encrypted: &Encrypted<T, String>,
    ) -> std::result::Result<String, TableError>;
    fn is_current<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        encrypted: &Encrypted<T, String>,
    ) -> bool;
    async fn with_index<T: OpaqueId, E: Encoding<String>>(
        &self,
        column: Self::Column<T, E>,
        normalizer: Normalizer,
    ) -> Result<Self::Column<T, E>>;
    fn fingerprint<T: OpaqueId, E: Encoding<String>>(
        column: &Self::Column<T, E>,
        value: &str,
    ) -> Result<Fingerprint<T>>;
    fn accept_plaintext<T: OpaqueId, E: Encoding<String>>(
        column: Self::Column<T, E>,
        until: SystemTime,
    ) -> Self::Column<T, E>;

    column_methods!(declare_calls);

    /// Adds the profile of a request with these notes and this address, and returns the view of its row.
    async fn add_by_request(
        &self,
        columns: [Self::Column<Self::User, Json>; 2],
        keyring: &Keyring,
        notes: &str,
        address: Option<&str>,
    ) -> Result<(External<Self::User>, String, Option<String>)>;

    async fn create_profiles(&self, database: &Database) -> Result {
        database.execute(match database.kind {
            Engine::Postgres => {
                "CREATE TABLE profiles (id UUID PRIMARY KEY, notes BYTEA NOT NULL, address BYTEA, address_index BYTEA)"
            }
            Engine::Sqlite => {
                "CREATE TABLE profiles (id BLOB PRIMARY KEY, notes BLOB NOT NULL, address BLOB, address_index BLOB)"
            }
            Engine::Mysql | Engine::Mariadb => {
                "CREATE TABLE profiles (id BINARY(16) PRIMARY KEY, notes LONGBLOB NOT NULL, address VARBINARY(900), address_index BINARY(16))"
            }
        })
    }
    async fn add_profile(&self, profile: &ProfileOf<Self>) -> Result;
    /// Returns the profiles in the order of ids.
    async fn profiles(&self) -> Result<Vec<ProfileOf<Self>>>;
    async fn update_profile(&self, profile: &ProfileOf<Self>) -> Result;
    /// Returns the profiles with this fingerprint in the blind index.
    async fn profiles_at(&self, address: &Fingerprint<Self::User>) -> Result<Vec<ProfileOf<Self>>>;
}

/// Writes the methods that are the same in every adapter. The expression is the calls' argument, and the path
/// converts their result into a future.
#[macro_export]
macro_rules! column_calls {
    ($column:ident, $user:ty, $self:ident, $on:expr, $done:path) => {
        async fn add_by_request(
            &self,
            [notes, address]: [Self::Column<$user, ::opaque_id_packs::Json>; 2],
            keyring: &::opaque_id_core::Keyring,
            text: &str,
            address_text: Option<&str>,
        ) -> Result<(::opaque_id_core::External<$user>, String, Option<String>)> {
            type Row = $crate::conformance::columns::Profile<
                $crate::conformance::shop::IdOf<$user>,
                ::opaque_id_packs::Encrypted<$user, String>,
                ::opaque_id_packs::Fingerprint<$user>,
            >;

            struct Columns {
                notes: $column<$user, String>,
                address: $column<$user, String>,
            }

            #[derive(::opaque_id_core::IntoModel)]
            #[model(
                into = Row,
                given(id: $crate::conformance::shop::IdOf<$user>, index = None),
                columns = Columns,
                error = Box<dyn std::error::Error + Send + Sync>
            )]
            struct Request {
                #[model(encrypt)]
                notes: String,
                #[model(encrypt)]
                address: Option<String>,
            }

            #[derive(::opaque_id_core::View)]
            #[view(from = Row, columns = Columns, error = Box<dyn std::error::Error + Send + Sync>)]
            struct Shown {
                id: ::opaque_id_core::External<$user>,
                #[view(decrypt)]
                notes: String,
                #[view(decrypt)]
                address: Option<String>,
            }

            let columns = Columns { notes, address };
            let request = Request { notes: text.to_owned(), address: address_text.map(Into::into) };
            let row = request.encrypt(keyring, $crate::conformance::shop::generate(), &columns)?;
            self.add_profile(&row).await?;
            let found = self.profiles().await?.pop().ok_or("a row")?;
            let Shown { id, notes, address } = Shown::decrypt(keyring, found, &columns)?;
            Ok((id, notes, address))
        }

        type Column<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>> = $column<T, String, E>;

        fn create_column<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            dialect: ::opaque_id_sql::Dialect,
            name: &str,
        ) -> String {
            Self::Column::<T, E>::create_sql(dialect, name)
        }

        async fn open_column<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            keyring: &::opaque_id_core::keyring::SharedKeyring,
            name: ::opaque_id_packs::TableName,
            settings: Option<::opaque_id_packs::Settings>,
        ) -> Result<Self::Column<T, E>> {
            Ok(match settings {
                Some(settings) => $done($column::open($on, keyring, name, settings)).await?,
                None => $done($column::open_existing($on, keyring, name)).await?,
            })
        }

        fn encrypt<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            id: $crate::conformance::shop::IdOf<T>,
            value: &str,
        ) -> Result<::opaque_id_packs::Encrypted<T, String>> {
            Ok(column.encrypt(id, &value.to_owned())?)
        }

        fn decrypt<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            id: $crate::conformance::shop::IdOf<T>,
            encrypted: &::opaque_id_packs::Encrypted<T, String>,
        ) -> ::std::result::Result<String, ::opaque_id_packs::TableError> {
            column.decrypt(id, encrypted).map_err(|error| match error {
                ::opaque_id_packs::PackError::Table(problem) => problem,
                error => panic!("a call without a statement: {error}"),
            })
        }

        fn is_current<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            encrypted: &::opaque_id_packs::Encrypted<T, String>,
        ) -> bool {
            column.is_current(encrypted)
        }

        async fn with_index<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            column: Self::Column<T, E>,
            normalizer: ::opaque_id_packs::Normalizer,
        ) -> Result<Self::Column<T, E>> {
            let normalize = move |text: &String| normalizer.apply(text);
            Ok($done(column.with_index($on, normalize)).await?)
        }

        fn fingerprint<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: &Self::Column<T, E>,
            value: &str,
        ) -> Result<::opaque_id_packs::Fingerprint<T>> {
            Ok(column.fingerprint(&value.to_owned())?)
        }

        fn accept_plaintext<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            column: Self::Column<T, E>,
            until: ::std::time::SystemTime,
        ) -> Self::Column<T, E> {
            column.accept_plaintext_until(until)
        }

        $crate::column_methods!(delegate_calls [$self, $on, $done];);
    };
}

/// Returns all cases by name for one adapter.
pub fn all<S: ColumnShop>() -> Cases {
    cases! {
        S, |shop, database, case| case(&shop, database).await;
        columns_come_back
        columns_that_were_altered
        columns_are_trained_and_rekeyed
        columns_that_lost_a_dictionary
        columns_follow_a_rotation
        columns_of_rows_by_integers
        columns_in_groups
        columns_are_found_by_value
        columns_of_requests_and_views
        columns_are_encrypted_while_clients_write
        columns_that_cannot_be_converted
        columns_that_had_any_type
    }
}

const NAME: &str = "profiles_notes";

fn notes() -> ColumnName {
    ColumnName::new("profiles", "notes")
}

/// Creates the column's own table, and opens the column.
async fn create<S: ColumnShop, T: OpaqueId, E: Encoding<String>>(
    shop: &S,
    database: &Database,
    name: &str,
) -> Result<S::Column<T, E>> {
    database.execute(&S::create_column::<T, E>(dialect(database.kind), name))?;
    shop.open_column(&keyring(0)?, name.into(), Some(Settings::default())).await
}

/// Opens the column as another process.
async fn fresh<S: ColumnShop, T: OpaqueId, E: Encoding<String>>(
    shop: &S,
) -> Result<S::Column<T, E>> {
    shop.open_column(&keyring(0)?, NAME.into(), None).await
}

/// Adds rows with these texts as notes, in the order of their ids.
async fn add<S: ColumnShop>(
    shop: &S,
    column: &S::Column<S::User, Json>,
    texts: impl IntoIterator<Item = String>,
) -> Result<Vec<(IdOf<S::User>, String)>> {
    let mut rows = Vec::new();
    for text in texts {
        let id = generate();
        let notes = S::encrypt(column, id, &text)?;
        shop.add_profile(&Profile { id, notes, address: None, index: None }).await?;
        rows.push((id, text));
    }
    rows.sort();
    Ok(rows)
}

/// Returns all notes, decrypted.
async fn read<S: ColumnShop>(
    shop: &S,
    column: &S::Column<S::User, Json>,
) -> Result<Vec<(IdOf<S::User>, String)>> {
    let mut rows = Vec::new();
    for profile in shop.profiles().await? {
        rows.push((profile.id, shop.decrypt_on(column, profile.id, &profile.notes).await?));
    }
    Ok(rows)
}

const ADDRESS: &str = "profiles_address";

/// The column of addresses with its index and its plaintext.
fn address() -> ColumnName {
    ColumnName::new("profiles", "address").index("address_index").plaintext("address_text")
}

/// Opens the column of addresses by these secrets, with an index that ignores case.
async fn addresses<S: ColumnShop>(
    shop: &S,
    keyring: impl Into<SharedKeyring>,
) -> Result<S::Column<S::User, Text>> {
    let column =
        shop.open_column(&keyring.into(), ADDRESS.into(), Some(Settings::default())).await?;
    shop.with_index(column, Normalizer::Caseless).await
}
