//! Scalars of ids and cursors, for async-graphql.

use std::borrow::Cow;

use async_graphql7::connection::CursorType;
use async_graphql7::{InputValueError, InputValueResult, Scalar, ScalarType, TypeName, Value};

use crate::cursor::Cursor;
use crate::error::ParseError;
use crate::external::External;
use crate::resource::OpaqueId;

/// A text, or what [`ParseError`] says, which repeats nothing of it.
fn parse<T: core::str::FromStr<Err = ParseError>>(value: &Value) -> Result<T, String> {
    match value {
        Value::String(text) => text.parse().map_err(|error: ParseError| error.to_string()),
        _ => Err("expected a string".to_owned()),
    }
}

/// `LineItemId` for `line_item`.
fn name(prefix: &str, suffix: &'static str) -> Cow<'static, str> {
    let words = prefix.split('_').chain([suffix]);
    let capitalized = words.flat_map(|word| {
        let (first, rest) = word.split_at(word.len().min(1));
        [first.to_ascii_uppercase(), rest.to_owned()]
    });
    capitalized.collect::<String>().into()
}

macro_rules! scalars {
    ($($(#[$doc:meta])* $name:ident: $suffix:literal,)*) => {$(
        impl<T: OpaqueId> TypeName for $name<T> {
            fn type_name() -> Cow<'static, str> {
                name(T::PREFIX, $suffix)
            }
        }

        $(#[$doc])*
        #[Scalar(crate = "async_graphql7", name_type)]
        impl<T: OpaqueId> ScalarType for $name<T> {
            fn parse(value: Value) -> InputValueResult<Self> {
                parse(&value).map_err(InputValueError::custom)
            }

            fn is_valid(value: &Value) -> bool {
                matches!(value, Value::String(_))
            }

            fn to_value(&self) -> Value {
                Value::String(self.to_string())
            }
        }
    )*};
}

scalars! {
    /// An id. Opaque: compare it as a text, and expect another text after a secret of the API was replaced.
    External: "id",
    /// A position in a list. Opaque.
    Cursor: "cursor",
}

/// The cursors of Relay's connections.
impl<T: OpaqueId> CursorType for Cursor<T> {
    type Error = ParseError;

    fn decode_cursor(text: &str) -> Result<Self, ParseError> {
        text.parse()
    }

    fn encode_cursor(&self) -> String {
        self.to_string()
    }
}
