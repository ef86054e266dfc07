//! Schemas of ids and cursors, for OpenAPI and JSON Schema.

#[cfg(feature = "schemars08")]
#[path = "schemars"]
mod schemars08 {
    use ::schemars08::{JsonSchema, r#gen::SchemaGenerator, schema::Schema};

    type Name = String;

    mod schemas;
}
#[cfg(feature = "schemars09")]
#[path = "schemars"]
mod schemars09 {
    use ::schemars09::{JsonSchema, Schema, SchemaGenerator};

    type Name = std::borrow::Cow<'static, str>;

    #[allow(clippy::duplicate_mod, reason = "each version of schemars has the same sources")]
    mod schemas;
}
#[cfg(feature = "schemars1")]
#[path = "schemars"]
mod schemars1 {
    use ::schemars1::{JsonSchema, Schema, SchemaGenerator};

    type Name = std::borrow::Cow<'static, str>;

    #[allow(clippy::duplicate_mod, reason = "each version of schemars has the same sources")]
    mod schemas;
}
#[cfg(feature = "utoipa5")]
#[path = "utoipa"]
mod utoipa5 {
    use ::utoipa5 as utoipa;

    mod schemas;
}
#[cfg(feature = "utoipa6")]
#[path = "utoipa"]
mod utoipa6 {
    use ::utoipa6 as utoipa;

    #[allow(clippy::duplicate_mod, reason = "each version of utoipa has the same sources")]
    mod schemas;
}

use crate::cursor::Cursor;
use crate::external::External;
use crate::form::{Form, MappedUuid, UuidForm};
use crate::resource::OpaqueId;

struct Shape {
    name: String,
    description: String,
    pattern: String,
    format: Option<&'static str>,
    example: String,
    grows_by: usize,
    /// Generators of clients create a type for each resource from this prefix.
    id_of: Option<&'static str>,
}

const EXTENSION: &str = "x-opaque-id";

fn id_shape<T: OpaqueId>() -> Shape {
    let example = External::<T>::example().to_string();
    let is_uuid = [UuidForm::NAME, MappedUuid::NAME].contains(&T::Form::NAME);
    Shape {
        name: format!("{}_id", T::PREFIX),
        description: format!(
            "The id of a `{}`. Opaque: compare it as a text, and expect another text after a secret of the API was replaced. It never has more than {} characters.",
            T::PREFIX,
            example.len() + T::Form::GROWS_BY
        ),
        pattern: External::<T>::pattern(),
        format: is_uuid.then_some("uuid"),
        grows_by: T::Form::GROWS_BY,
        example,
        id_of: Some(T::PREFIX),
    }
}

fn cursor_shape<T: OpaqueId>() -> Shape {
    Shape {
        name: format!("{}_cursor", T::PREFIX),
        description: format!("A position in a list of `{}` rows. Opaque.", T::PREFIX),
        pattern: Cursor::<T>::pattern(),
        format: None,
        example: Cursor::<T>::example().to_string(),
        grows_by: 0,
        id_of: None,
    }
}
