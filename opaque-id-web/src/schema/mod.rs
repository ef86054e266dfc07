//! Schemas of the types in a handler's signature.

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
