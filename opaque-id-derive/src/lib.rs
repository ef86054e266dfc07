#![doc = include_str!("../README.md")]
// cargo documents crates in any order, and links need this root until this crate is documented.
#![doc(html_root_url = "https://docs.rs/opaque-id-derive/latest")]

mod any_id;
mod attr;
mod expand;
mod newtype;
mod request;
mod sea_orm;
mod view;
mod written;

use proc_macro::TokenStream;

macro_rules! derives {
    ($($(#[$doc:meta])* $name:ident: $derive:ident, $($attribute:ident)+, $expand:path, $krate:literal;)*) => {$(
        $(#[$doc])*
        #[proc_macro_derive($derive, attributes($($attribute),+))]
        pub fn $name(input: TokenStream) -> TokenStream {
            derive(input, $expand, $krate)
        }
    )*};
}

fn derive(
    input: TokenStream,
    expand: fn(&syn::DeriveInput, &str) -> syn::Result<proc_macro2::TokenStream>,
    default_crate: &str,
) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    // `#[sea_orm::model]` copies the derives of `Model` to `ModelEx`.
    if input.ident == "ModelEx" && default_crate == "::opaque_id_seaorm" {
        return TokenStream::new();
    }
    expand(&input, default_crate).unwrap_or_else(syn::Error::into_compile_error).into()
}

derives! {
    /// `#[derive(OpaqueId)]` of `opaque-id-core`. Its `Internal<T>` does not depend on an ORM.
    ///
    /// ```text
    /// #[derive(OpaqueId)]
    /// #[opaque_id(
    ///     prefix = "user",          // what text ids start with; the only required option
    ///     domain = "legacy_user",   // what subkeys are derived from; default: the prefix
    ///     key = Uuid7,              // or Ulid, StructuredKey, Uuid, i64, i32, u32, without an import; default: Uuid7
    ///     form = "text",            // or "short", "tagged", "uuid", "mapped", "mapped_uuid"; default: "text"
    ///     internal = UserId,        // a newtype that derives `IdNewtype`; default: Internal<User>
    ///     crate = "path::to::core"  // the path to this crate, if it is renamed
    /// )]
    /// struct User { … }
    /// ```
    ///
    /// A type may be generic, but its key must not depend on a parameter. All its instances are one resource:
    /// an id of `Doc<TenantA>` is also one of `Doc<TenantB>`.
    core: CoreOpaqueId, opaque_id, expand::expand, "::opaque_id_core";

    /// `#[derive(OpaqueId)]` of `opaque-id-sqlx`, with the core's options. Its `Internal<T>` implements
    /// sqlx's traits.
    sqlx: SqlxOpaqueId, opaque_id, expand::expand, "::opaque_id_sqlx";

    /// `#[derive(OpaqueId)]` of `opaque-id-diesel`, with the core's options. Its `Internal<T>` implements
    /// diesel's traits.
    diesel: DieselOpaqueId, opaque_id, expand::expand, "::opaque_id_diesel";

    /// `#[derive(OpaqueId)]` of `opaque-id-seaorm`, with the core's options. Its `Internal<T>` implements
    /// SeaORM's traits. On a `Model` it also rejects a 16-byte primary key that SeaORM would treat as
    /// auto-incremented.
    sea_orm: SeaOrmOpaqueId, opaque_id, sea_orm::expand, "::opaque_id_seaorm";

    /// `#[derive(AnyId)]` of `opaque-id-core`: ids of several resources.
    ///
    /// ```text
    /// #[derive(AnyId)]
    /// #[any_id(crate = "path::to::core")] // only if this crate is renamed
    /// enum Node {
    ///     User(Internal<User>),
    ///     Order(Internal<Order>),
    /// }
    /// ```
    core_any_id: CoreAnyId, any_id, any_id::expand, "::opaque_id_core";

    /// `#[derive(AnyId)]` of `opaque-id-sqlx`, like the core's.
    sqlx_any_id: SqlxAnyId, any_id, any_id::expand, "::opaque_id_sqlx";

    /// `#[derive(AnyId)]` of `opaque-id-diesel`, like the core's.
    diesel_any_id: DieselAnyId, any_id, any_id::expand, "::opaque_id_diesel";

    /// `#[derive(AnyId)]` of `opaque-id-seaorm`, like the core's.
    sea_orm_any_id: SeaOrmAnyId, any_id, any_id::expand, "::opaque_id_seaorm";

    /// `#[derive(View)]` of `opaque-id-core`: fills an API's view from a model.
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
    ///     #[view(into)]             // the model's field has another type, which converts
    ///     joined: Timestamp,
    ///     #[view(prefix = "plan_")] // from the model's `plan_id`, `plan_name`, …; or `Option<PlanView>`; `""` is none
    ///     plan: PlanView,
    /// }
    ///
    /// #[derive(Serialize, View)]
    /// #[view(part)]                 // of other views, with a `prefix` there; beside a `from` as well
    /// struct PlanView {
    ///     id: External<Plan>,
    ///     name: String,
    /// }
    /// ```
    ///
    /// On a model, it writes the view, with the model's doc comments and attributes of serde:
    ///
    /// ```text
    /// #[derive(Queryable, View)]
    /// #[view(
    ///     into = PartView,             // the name of the view; it and its fields are as visible as in the model
    ///     derive(Serialize, Deserialize, IntoModel), // the traits of the view; `IntoModel` converts it back
    ///     attr(schema(title = "a part"))             // other attributes of the view
    /// )]
    /// #[serde(rename_all = "camelCase")]
    /// struct Part {
    ///     id: Internal<Part>,          // the view has `External<Part>`, also in `Option<Vec<Internal<Part>>>`
    ///     #[view(as = External<User>)] // the type in the view: for a newtype, an alias or a nested model
    ///     owner: UserId,
    ///     #[view(skip)]                // not in the view; `with`, `into` and `given` are the view's options
    ///     password: String,
    ///     #[view(attr(schema(title = "a name")))] // other attributes in the view; also of a variant
    ///     name: String,
    /// }
    /// ```
    core_view: CoreView, view serde, view::expand, "::opaque_id_core";

    /// `#[derive(View)]` of `opaque-id-sqlx`, like the core's.
    sqlx_view: SqlxView, view serde, view::expand, "::opaque_id_sqlx";

    /// `#[derive(View)]` of `opaque-id-diesel`, like the core's.
    diesel_view: DieselView, view serde, view::expand, "::opaque_id_diesel";

    /// `#[derive(View)]` of `opaque-id-seaorm`, like the core's.
    sea_orm_view: SeaOrmView, view serde, view::expand, "::opaque_id_seaorm";

    /// `#[derive(IntoModel)]` of `opaque-id-core`: opens the ids of a client's request.
    ///
    /// ```text
    /// #[derive(Deserialize, IntoModel)]
    /// #[model(
    ///     into = NewUser,           // the model
    ///     with = Set,               // a function for the opened values of fields without one, such as SeaORM's `Set`
    ///     default,                  // the model's other fields have their defaults
    ///     given(                    // fields of the model that the client does not send:
    ///         id = Internal::generate(), // computed
    ///         owner: Internal<User>      // from the handler: the impl is for the tuple (CreateUser, Internal<User>)
    ///     ),
    ///     crate = "path::to::core"  // the path to this crate, if it is renamed
    /// )]
    /// #[serde(rename_all = "camelCase")]
    /// struct CreateUser {
    ///     team_id: Option<External<Team>>,  // the model has `team_id: Option<Internal<Team>>`
    ///     #[model(rename = "name")]       // the name of the model's field
    ///     title: String,
    ///     #[model(with = trimmed)]        // a function: fn trimmed(bio: String) -> ActiveValue<String>
    ///     bio: String,
    /// }
    /// ```
    core_into_model: CoreIntoModel, model, request::expand, "::opaque_id_core";

    /// `#[derive(IntoModel)]` of `opaque-id-sqlx`, like the core's.
    sqlx_into_model: SqlxIntoModel, model, request::expand, "::opaque_id_sqlx";

    /// `#[derive(IntoModel)]` of `opaque-id-diesel`, like the core's.
    diesel_into_model: DieselIntoModel, model, request::expand, "::opaque_id_diesel";

    /// `#[derive(IntoModel)]` of `opaque-id-seaorm`, like the core's.
    sea_orm_into_model: SeaOrmIntoModel, model, request::expand, "::opaque_id_seaorm";
}

derives! {
    /// `#[derive(IdNewtype)]` of `opaque-id-core`: an internal id in the application's own type and with its
    /// methods.
    ///
    /// ```text
    /// #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, IdNewtype)]
    /// #[id_newtype(crate = "path::to::core")] // only if this crate is renamed
    /// struct PartId(Internal<Part>);
    /// ```
    core_newtype: CoreIdNewtype, id_newtype, newtype::expand, "::opaque_id_core";

    /// `#[derive(IdNewtype)]` of `opaque-id-sqlx`: like the core's, with sqlx's traits.
    sqlx_newtype: SqlxIdNewtype, id_newtype, newtype::expand, "::opaque_id_sqlx";

    /// `#[derive(IdNewtype)]` of `opaque-id-diesel`: like the core's, with diesel's traits.
    diesel_newtype: DieselIdNewtype, id_newtype, newtype::expand, "::opaque_id_diesel";

    /// `#[derive(IdNewtype)]` of `opaque-id-seaorm`: like the core's, with SeaORM's traits.
    sea_orm_newtype: SeaOrmIdNewtype, id_newtype, newtype::expand, "::opaque_id_seaorm";
}

/// Expands a part of a view. The derive calls it.
#[doc(hidden)]
#[proc_macro]
pub fn fill_part(input: TokenStream) -> TokenStream {
    view::fill_part(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
