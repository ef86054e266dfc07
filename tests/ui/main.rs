//! What must not compile, and what the compiler says then.
//!
//! `TRYBUILD=overwrite cargo test -p opaque-id-tests --test ui` rewrites the expectations.

use std::fmt::Display;

use opaque_id_core::{External, OpaqueId};
use opaque_id_sqlx::Internal as SqlxInternal;

#[test]
fn what_must_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("ui/core/*.rs");
    cases.compile_fail("ui/derive/*.rs");
    cases.compile_fail("ui/sqlx/*.rs");
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

/// Fails to compile, as ambiguous, if `$type` implements one of the traits.
macro_rules! assert_not_impl_any {
    ($type:ty: $($bound:path),+) => {{
        trait AmbiguousIfImplemented<A> {
            fn some_item() {}
        }
        impl<T: ?Sized> AmbiguousIfImplemented<()> for T {}
        $({
            struct Marker;
            impl<T: ?Sized + $bound> AmbiguousIfImplemented<Marker> for T {}
            <$type as AmbiguousIfImplemented<_>>::some_item();
        })+
    }};
}

#[test]
fn what_no_id_implements() {
    assert_not_impl_any!(opaque_id_core::Internal<User>: serde::Serialize, serde::de::DeserializeOwned, Display);
    assert_not_impl_any!(opaque_id_core::Internal<User>: From<opaque_id_core::Uuid>, Into<opaque_id_core::Uuid>);
    assert_not_impl_any!(opaque_id_core::Internal<User>: std::ops::Deref, std::str::FromStr);
    assert_not_impl_any!(SqlxInternal<User>: serde::Serialize, serde::de::DeserializeOwned, Display);
    assert_not_impl_any!(SqlxInternal<User>: From<opaque_id_core::Uuid>, Into<opaque_id_core::Uuid>);
    assert_not_impl_any!(SqlxInternal<User>: std::ops::Deref, std::str::FromStr);
    assert_not_impl_any!(External<User>: PartialOrd, Ord);
    assert_not_impl_any!(External<User>: sqlx::Type<sqlx::Sqlite>, sqlx::Encode<'static, sqlx::Sqlite>);
    assert_not_impl_any!(External<User>: sqlx::Decode<'static, sqlx::Sqlite>);
}

#[test]
fn what_every_id_implements() {
    fn internal<I: Copy + Eq + Ord + std::hash::Hash + Send + Sync + std::fmt::Debug>() {}
    fn external<
        I: Copy
            + Eq
            + std::hash::Hash
            + Send
            + Sync
            + Display
            + std::str::FromStr
            + serde::Serialize
            + serde::de::DeserializeOwned,
    >() {
    }
    internal::<opaque_id_core::Internal<User>>();
    internal::<SqlxInternal<User>>();
    external::<External<User>>();
}
