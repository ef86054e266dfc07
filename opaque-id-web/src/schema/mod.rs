//! Schemas of the types in a handler's signature.

#[cfg(feature = "schemars1")]
mod schemars;
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
