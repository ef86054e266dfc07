#![doc = include_str!("../README.md")]

mod attr;
mod expand;
mod sea_orm;

use proc_macro::TokenStream;

/// `#[derive(OpaqueId)]` of `opaque-id-core`, whose `Internal<T>` does not depend on an ORM.
///
/// ```text
/// #[derive(OpaqueId)]
/// #[opaque_id(
///     prefix = "user",          // what text ids start with; the only required option
///     domain = "legacy_user",   // what subkeys are derived from; default: the prefix
///     key = Uuid7,              // or Ulid, StructuredKey, Uuid, i64, without an import; default: Uuid7
///     form = "text",            // or "tagged", "uuid", "mapped", "mapped_uuid"; default: "text"
///     crate = "path::to::core"  // the path to this crate, if it is renamed
/// )]
/// struct User { … }
/// ```
#[proc_macro_derive(CoreOpaqueId, attributes(opaque_id))]
pub fn core(input: TokenStream) -> TokenStream {
    derive(input, "::opaque_id_core")
}

/// `#[derive(OpaqueId)]` of `opaque-id-sqlx`, whose `Internal<T>` implements sqlx's traits.
///
/// It accepts the options of the core's derive: `prefix`, `domain`, `key`, `form`, `crate`.
#[proc_macro_derive(SqlxOpaqueId, attributes(opaque_id))]
pub fn sqlx(input: TokenStream) -> TokenStream {
    derive(input, "::opaque_id_sqlx")
}

/// `#[derive(OpaqueId)]` of `opaque-id-diesel`, whose `Internal<T>` implements diesel's traits.
///
/// It accepts the options of the core's derive: `prefix`, `domain`, `key`, `form`, `crate`.
#[proc_macro_derive(DieselOpaqueId, attributes(opaque_id))]
pub fn diesel(input: TokenStream) -> TokenStream {
    derive(input, "::opaque_id_diesel")
}

/// `#[derive(OpaqueId)]` of `opaque-id-seaorm`, whose `Internal<T>` implements SeaORM's traits.
///
/// It accepts the options of the core's derive: `prefix`, `domain`, `key`, `form`, `crate`. On a `Model` it
/// also rejects a 16-byte primary key that SeaORM would treat as auto-incremented.
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

/// The derive of all crates, which differ only in the path of their `Internal<T>`.
fn derive(input: TokenStream, default_crate: &str) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    attr::Options::parse(&input)
        .and_then(|options| expand::expand(&input, &options, default_crate))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
