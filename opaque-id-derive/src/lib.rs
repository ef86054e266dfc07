#![doc = include_str!("../README.md")]

mod attr;
mod expand;
mod sea_orm;

use proc_macro::TokenStream;

/// `#[derive(OpaqueId)]` of `opaque-id-core`, whose `Internal<T>` knows no ORM.
///
/// ```text
/// #[derive(OpaqueId)]
/// #[opaque_id(
///     prefix = "user",          // what text ids start with; the only option that must be there
///     domain = "legacy_user",   // what subkeys are derived from; the prefix unless given
///     key = Uuid7,              // or Ulid, StructuredKey, Uuid, i64; Uuid7 unless given
///     form = "text",            // or "tagged", "uuid", "mapped", "mapped_uuid"; "text" unless given
///     crate = "path::to::core"  // where the derive finds this crate, if it is renamed
/// )]
/// struct User { … }
/// ```
#[proc_macro_derive(CoreOpaqueId, attributes(opaque_id))]
pub fn core(input: TokenStream) -> TokenStream {
    derive(input, "::opaque_id_core")
}

/// `#[derive(OpaqueId)]` of `opaque-id-sqlx`, whose `Internal<T>` goes to a database through sqlx.
///
/// The options are those of the core's derive: `prefix`, `domain`, `key`, `form`, `crate`.
#[proc_macro_derive(SqlxOpaqueId, attributes(opaque_id))]
pub fn sqlx(input: TokenStream) -> TokenStream {
    derive(input, "::opaque_id_sqlx")
}

/// `#[derive(OpaqueId)]` of `opaque-id-diesel`, whose `Internal<T>` goes to a database through diesel.
///
/// The options are those of the core's derive: `prefix`, `domain`, `key`, `form`, `crate`.
#[proc_macro_derive(DieselOpaqueId, attributes(opaque_id))]
pub fn diesel(input: TokenStream) -> TokenStream {
    derive(input, "::opaque_id_diesel")
}

/// `#[derive(OpaqueId)]` of `opaque-id-seaorm`, whose `Internal<T>` goes to a database through SeaORM.
///
/// The options are those of the core's derive: `prefix`, `domain`, `key`, `form`, `crate`. On a `Model` it
/// also sees to it that SeaORM does not take a 16-byte primary key for an auto-incremented one.
#[proc_macro_derive(SeaOrmOpaqueId, attributes(opaque_id))]
pub fn sea_orm(input: TokenStream) -> TokenStream {
    let model = input.clone();
    let model = syn::parse_macro_input!(model as syn::DeriveInput);
    if sea_orm::is_model_ex(&model) {
        return TokenStream::new();
    }
    let mut tokens = derive(input, "::opaque_id_seaorm");
    tokens.extend(TokenStream::from(sea_orm::check_primary_key(&model)));
    tokens
}

/// One derive for all crates: they differ in where their `Internal<T>` is.
fn derive(input: TokenStream, default_crate: &str) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    attr::Options::parse(&input)
        .and_then(|options| expand::expand(&input, &options, default_crate))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
