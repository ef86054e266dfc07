//! Schemas of the types in a handler's signature.

#[cfg(feature = "schemars1")]
mod schemars;
#[cfg(feature = "utoipa6")]
mod utoipa;
