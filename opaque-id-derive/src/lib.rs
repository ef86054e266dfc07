#![doc = include_str!("../README.md")]

mod attr;
mod expand;
mod request;
mod sea_orm;
mod view;

use proc_macro::TokenStream;

/// `#[derive(OpaqueId)]` of `opaque-id-core`, whose `Internal<T>` does not depend on an ORM.
///
/// ```text
/// #[derive(OpaqueId)]
/// #[opaque_id(
///     prefix = "user",          // what text ids start with; the only required option
///     domain = "legacy_user",   // what subkeys are derived from; default: the prefix
///     key = Uuid7,              // or Ulid, StructuredKey, Uuid, i64, i32, u32, without an import; default: Uuid7
///     form = "text",            // or "short", "tagged", "uuid", "mapped", "mapped_uuid"; default: "text"
///     crate = "path::to::core"  // the path to this crate, if it is renamed
/// )]
/// struct User { … }
/// ```
///
/// A type may be generic, but its key must not depend on a parameter. All its instances are one resource: they share
/// prefix and domain, so an id of `Doc<TenantA>` is also one of `Doc<TenantB>`.
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

/// `#[derive(View)]` of `opaque-id-core`: fills a view, which an API shows, from a model.
///
/// ```text
/// #[derive(Serialize, View)]
/// #[view(
///     from = User,              // the model; more than one `from` is possible
///     crate = "path::to::core"  // the path to this crate, if it is renamed
/// )]
/// struct UserView {
///     id: External<User>,       // the model has `id: Internal<User>`
///     team: Option<TeamView>,   // the model has `team: Option<Team>`, and TeamView is a view of Team
///     #[view(rename = "name")]  // the name of the model's field
///     title: String,
///     #[view(with = initials)]  // a function: fn initials(user: &User) -> String
///     initials: String,
///     #[view(given)]            // not in the model: the impl is for the tuple (User, u64)
///     followers: u64,
/// }
/// ```
#[proc_macro_derive(CoreView, attributes(view))]
pub fn core_view(input: TokenStream) -> TokenStream {
    derive_with(input, view::expand, "::opaque_id_core")
}

/// `#[derive(View)]` of `opaque-id-sqlx`, with the options of the core's.
#[proc_macro_derive(SqlxView, attributes(view))]
pub fn sqlx_view(input: TokenStream) -> TokenStream {
    derive_with(input, view::expand, "::opaque_id_sqlx")
}

/// `#[derive(View)]` of `opaque-id-diesel`, with the options of the core's.
#[proc_macro_derive(DieselView, attributes(view))]
pub fn diesel_view(input: TokenStream) -> TokenStream {
    derive_with(input, view::expand, "::opaque_id_diesel")
}

/// `#[derive(View)]` of `opaque-id-seaorm`, with the options of the core's.
#[proc_macro_derive(SeaOrmView, attributes(view))]
pub fn sea_orm_view(input: TokenStream) -> TokenStream {
    derive_with(input, view::expand, "::opaque_id_seaorm")
}

/// `#[derive(IntoModel)]` of `opaque-id-core`: opens the ids of a request, which a client sent.
///
/// ```text
/// #[derive(Deserialize, IntoModel)]
/// #[model(
///     into = NewUser,           // the model
///     with = Set,               // a function for every opened value, such as SeaORM's `Set`
///     default,                  // the model's other fields have their defaults
///     crate = "path::to::core"  // the path to this crate, if it is renamed
/// )]
/// #[serde(rename_all = "camelCase")]
/// struct CreateUser {
///     team_id: Option<External<Team>>,  // the model has `team_id: Option<Internal<Team>>`
///     #[model(rename = "name")]       // the name of the model's field
///     title: String,
///     #[model(with = trimmed)]        // a function: fn trimmed(bio: String) -> String
///     bio: String,
/// }
/// ```
#[proc_macro_derive(CoreIntoModel, attributes(model))]
pub fn core_into_model(input: TokenStream) -> TokenStream {
    derive_with(input, request::expand, "::opaque_id_core")
}

/// `#[derive(IntoModel)]` of `opaque-id-sqlx`, with the options of the core's.
#[proc_macro_derive(SqlxIntoModel, attributes(model))]
pub fn sqlx_into_model(input: TokenStream) -> TokenStream {
    derive_with(input, request::expand, "::opaque_id_sqlx")
}

/// `#[derive(IntoModel)]` of `opaque-id-diesel`, with the options of the core's.
#[proc_macro_derive(DieselIntoModel, attributes(model))]
pub fn diesel_into_model(input: TokenStream) -> TokenStream {
    derive_with(input, request::expand, "::opaque_id_diesel")
}

/// `#[derive(IntoModel)]` of `opaque-id-seaorm`, with the options of the core's.
#[proc_macro_derive(SeaOrmIntoModel, attributes(model))]
pub fn sea_orm_into_model(input: TokenStream) -> TokenStream {
    derive_with(input, request::expand, "::opaque_id_seaorm")
}

fn derive_with(
    input: TokenStream,
    expand: fn(&syn::DeriveInput, &str) -> syn::Result<proc_macro2::TokenStream>,
    default_crate: &str,
) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand(&input, default_crate).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// The derive of all crates, which differ only in the path of their `Internal<T>`.
fn derive(input: TokenStream, default_crate: &str) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    attr::Options::parse(&input)
        .and_then(|options| expand::expand(&input, &options, default_crate))
        .unwrap_or_else(syn::Error::into_compile_error)
        .into()
}
