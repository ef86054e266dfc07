//! Ids, cursors and Relay's connections for async-graphql 7.
//!
//! `External<User>` is the scalar `UserId`, and `Cursor<User>` is `UserCursor`. A malformed text is an error
//! of the document that does not repeat the text. A resolver opens the id. Answer a refusal like a missing
//! row (`null` in most schemas).
//!
//! Limit the complexity of documents (`SchemaBuilder::limit_complexity`), because with aliases one request
//! can guess thousands of ids. It counts a list of ids as one: limit its length, too, by
//! `#[graphql(validator(max_items = 50))]`.
//!
//! Relay's interface `Node` requires an `ID`. An `External<T>` converts into it by `into()`, and
//! [`Keyring::open_any`] opens the argument of `node(id: ID!)`.
//!
//! ```standalone_crate
//! # extern crate async_graphql7 as async_graphql;
//! use async_graphql::connection::Connection;
//! use async_graphql::{Context, Object, Result, SimpleObject};
//! use opaque_id_core::graphql::{connection, page_request};
//! use opaque_id_core::{Cursor, External, Internal, Keyring, OpaqueId, View};
//!
//! #[derive(Clone, OpaqueId, View)]
//! #[opaque_id(prefix = "user", key = i64, form = "short")]
//! #[view(into = UserView, derive(SimpleObject), attr(graphql(name = "User")))]
//! struct User {
//!     id: Internal<User>,
//!     name: String,
//! }
//!
//! struct Query;
//!
//! #[Object]
//! impl Query {
//!     async fn user(&self, context: &Context<'_>, id: External<User>) -> Result<Option<UserView>> {
//!         let keyring = context.data::<Keyring>()?;
//!         let Ok(id) = keyring.open(id) else { return Ok(None) };
//!         let row = context.data::<Vec<User>>()?.iter().find(|row| row.id == id);
//!         Ok(keyring.view(row.cloned()))
//!     }
//!
//!     async fn users(
//!         &self,
//!         context: &Context<'_>,
//!         after: Option<String>,
//!         before: Option<String>,
//!         first: Option<i32>,
//!         last: Option<i32>,
//!     ) -> Result<Connection<Cursor<User>, UserView>> {
//!         let keyring = context.data::<Keyring>()?;
//!         let request = page_request::<User>(keyring, after, before, first, last, 100)?;
//!         // SELECT … WHERE id BETWEEN ? AND ? ORDER BY id … LIMIT ?
//!         let mut rows = context.data::<Vec<User>>()?.clone();
//!         rows.retain(|row| request.range().contains(row.id));
//!         rows.sort_by_key(|row| row.id);
//!         if request.is_descending() {
//!             rows.reverse();
//!         }
//!         rows.truncate(request.fetch() as usize);
//!         Ok(connection(keyring, &request, rows, |row| row.id))
//!     }
//! }
//! # use async_graphql::{EmptyMutation, EmptySubscription, Schema, value};
//! # fn block_on<F: core::future::Future>(future: F) -> F::Output {
//! #     let context = &mut core::task::Context::from_waker(core::task::Waker::noop());
//! #     match core::pin::pin!(future).poll(context) {
//! #         core::task::Poll::Ready(output) => output,
//! #         core::task::Poll::Pending => unreachable!("nothing waits"),
//! #     }
//! # }
//! # let keyring = Keyring::builder().sealing(0, opaque_id_core::MasterSecret::generate()).build()?;
//! # let user = |n| User { id: Internal::from_key(n).expect("a key"), name: format!("user {n}") };
//! # let users = vec![user(1), user(2), user(3)];
//! # let id = keyring.seal(users[0].id);
//! # let schema = Schema::build(Query, EmptyMutation, EmptySubscription).data(keyring).data(users).finish();
//! # let ask = |text: String| block_on(schema.execute(text));
//! # assert_eq!(ask(format!(r#"{{ user(id: "{id}") {{ name }} }}"#)).data, value!({"user": {"name": "user 1"}}));
//! # let page = ask("{ users(first: 2) { nodes { name } pageInfo { hasNextPage hasPreviousPage } } }".into());
//! # let info = value!({"hasNextPage": true, "hasPreviousPage": false});
//! # let nodes = value!([{"name": "user 1"}, {"name": "user 2"}]);
//! # assert_eq!(page.data, value!({"users": {"nodes": nodes, "pageInfo": info}}));
//! # Ok::<(), opaque_id_core::KeyringError>(())
//! ```

use std::borrow::Cow;

use async_graphql7::connection::{Connection, CursorType, Edge};
use async_graphql7::{
    Error, InputValueError, InputValueResult, OutputType, Scalar, ScalarType, TypeName, Value,
};

use crate::cursor::Cursor;
use crate::error::IdError;
use crate::external::External;
use crate::keyring::Keyring;
use crate::page::{PageRequest, Start};
use crate::range::Position;
use crate::resource::OpaqueId;
use crate::view::IntoView;

/// Reads the arguments of a Relay connection. A page has at most `limit` rows, and `limit` is also the
/// default size.
///
/// # Errors
/// Fails if a cursor is refused, with the same words for each reason, if `first` or `last` is less than 1, or
/// if the arguments are neither `first` and `after` nor `last` and `before`.
pub fn page_request<T: OpaqueId>(
    keyring: &Keyring,
    after: Option<String>,
    before: Option<String>,
    first: Option<i32>,
    last: Option<i32>,
    limit: u16,
) -> Result<PageRequest<Position<T::Internal>>, Error> {
    let start = match (after, before, first, last) {
        (None, None, _, None) => Start::First,
        (Some(after), None, _, None) => Start::After(after),
        (None, Some(before), None, _) => Start::EndBefore(before),
        (None, None, None, Some(_)) => Start::Last,
        _ => return Err("expected `first` and `after`, or `last` and `before`".into()),
    };
    let size = match first.or(last) {
        Some(..1) => return Err("expected a number of rows from 1 on".into()),
        Some(size) => u16::try_from(size).map_or(limit, |size| size.min(limit)),
        None => limit,
    };
    let open = |text: String| {
        let cursor = text.parse::<Cursor<T>>().ok();
        let position = cursor.and_then(|cursor| keyring.open_cursor(cursor).ok());
        position.ok_or_else(|| Error::new(format!("no such `{}` cursor", T::PREFIX)))
    };
    Ok(PageRequest::ascending(size, start.try_map(open)?))
}

/// Returns the connection of a page's views. `rows` are all rows of the query, as for
/// [`PageRequest::finish`].
pub fn connection<T, R, V>(
    keyring: &Keyring,
    request: &PageRequest<Position<T::Internal>>,
    rows: Vec<R>,
    id: impl Fn(&R) -> T::Internal,
) -> Connection<Cursor<T>, V>
where
    T: OpaqueId,
    R: IntoView<V>,
    V: OutputType,
{
    let page = request.finish(rows, &id);
    let mut connection = Connection::new(page.previous.is_some(), page.next.is_some());
    connection.edges.extend(page.rows.into_iter().map(|row| {
        let cursor = keyring.seal_cursor(id(&row));
        Edge::new(cursor, keyring.view(row))
    }));
    connection
}

fn parse<T: core::str::FromStr<Err = IdError>>(value: &Value) -> Result<T, String> {
    match value {
        Value::String(text) => text.parse().map_err(|error: IdError| error.to_string()),
        _ => Err("expected a string".to_owned()),
    }
}

/// Different prefixes have different names, because `_` stays where no letter follows it.
fn name(prefix: &str, suffix: &'static str) -> Cow<'static, str> {
    let mut name = String::new();
    for (i, word) in prefix.split('_').chain([suffix]).enumerate() {
        let (first, rest) = word.split_at(word.len().min(1));
        if i > 0 && !first.starts_with(|c: char| c.is_ascii_lowercase()) {
            name.push('_');
        }
        name.push_str(&first.to_ascii_uppercase());
        name.push_str(rest);
    }
    name.into()
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

impl<T: OpaqueId> CursorType for Cursor<T> {
    type Error = IdError;

    fn decode_cursor(text: &str) -> Result<Self, IdError> {
        text.parse()
    }

    fn encode_cursor(&self) -> String {
        self.to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::name;

    #[test]
    fn each_prefix_has_a_name_of_its_own() {
        assert_eq!(name("line_item", "id"), "LineItemId");
        assert_eq!(name("user", "cursor"), "UserCursor");
        let chars = ["a", "b", "1", "_"];
        let mut prefixes = vec![String::new()];
        for _ in 0..5 {
            let longer = |prefix: &String| chars.map(|char| format!("{prefix}{char}"));
            prefixes.extend(prefixes.iter().flat_map(longer).collect::<Vec<_>>());
        }
        let prefixes: BTreeSet<_> =
            prefixes.into_iter().filter(|it| crate::prefix::is_prefix(it)).collect();
        let names: BTreeSet<_> = prefixes.iter().map(|prefix| name(prefix, "id")).collect();
        assert!(prefixes.len() > 100 && names.len() == prefixes.len());
    }
}
