use core::fmt;
use core::marker::PhantomData;

use serde_core::Serialize;
use serde_core::de::DeserializeOwned;
use serde_core::ser::Error;

use crate::error::{IdError, OpenError};
use crate::keyring::Keyring;
use crate::resource::{InternalId, OpaqueId};
use crate::token::{MAX_CHARS, Purpose};

/// A list that is ordered by other columns before the key. It seals and opens the positions that clients send
/// for its pages.
///
/// A position is the sort values of a row, `V`, and its id, sealed by authenticated encryption. It is bound
/// to the list's name, the filter, the resource and the secret that sealed it. AIP-158 calls it a page token.
///
/// The key comes last, so that rows with equal values have an order. A column that can be NULL is an `Option`
/// in `V`. The adapters' `PageSql` writes the SQL.
///
/// Seal the values of rows that the database has returned. An inserted row may have more digits of a time
/// than its column stores, so its position would repeat the row or omit its neighbors, unless the SQL rounds
/// the value.
///
/// ```
/// use std::error::Error;
///
/// use opaque_id_core::page::{Listing, Page, PageRequest, Start};
/// use opaque_id_core::{Internal, Keyring, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User {
///     id: Internal<User>,
///     name: String,
/// }
///
/// #[derive(serde::Serialize)]
/// struct Filter {
///     team: String,
/// }
///
/// /// `GET /users?team=red&starting_after=user_position_…`
/// fn list(keyring: &Keyring, filter: &Filter, after: Option<&str>) -> Result<Page<User, String>, Box<dyn Error>> {
///     let by_name = Listing::<Internal<User>, String>::new("users by name", filter)?;
///     let start = after.map_or(Start::First, Start::After).try_map(|text| by_name.open(keyring, text))?;
///     let request = PageRequest::ascending(20, start);
///     let rows: Vec<User> = match request.position() {
///         // SELECT … WHERE team = ? ORDER BY name, id LIMIT {request.fetch()}
///         None => Vec::new(),
///         // SELECT … WHERE team = ? AND (name, id) > ({name}, {id}) ORDER BY name, id LIMIT {request.fetch()}
///         Some((name, id)) => Vec::new(),
///     };
///     Ok(request.finish(rows, |user| by_name.seal(keyring, &user.name, user.id)).transpose()?)
/// }
/// ```
pub struct Listing<I, V> {
    purpose: Purpose,
    of: PhantomData<fn() -> (I, V)>,
}

impl<I: InternalId, V: Serialize + DeserializeOwned> Listing<I, V> {
    /// Creates a list from its name and the filter of a request (`&()` if there is none). The name must
    /// identify the columns too.
    ///
    /// A position opens if the filter's JSON has the same bytes. So use structs instead of a `HashMap`. Other
    /// languages write the same JSON with the members in the same order and with integers below 2^53. An id in
    /// the filter is an internal one, with `trusted`, because the text of an external id changes in a rotation.
    ///
    /// # Errors
    /// serde's own, if the filter cannot be serialized.
    pub fn new(name: &str, filter: &impl Serialize) -> Result<Self, serde_json::Error> {
        let filter = serde_json::to_string(filter).map_err(not_json("the filter"))?;
        Ok(Self { purpose: Purpose::position(name, &filter), of: PhantomData })
    }

    /// Seals the position of a row: its sort values and its id.
    ///
    /// # Errors
    /// serde's own, if the values do not deserialize to themselves (such as a `NaN`), or if the position
    /// would have more than 16,384 characters.
    pub fn seal(&self, keyring: &Keyring, values: &V, id: I) -> Result<String, serde_json::Error> {
        let what = "the sort values";
        let payload = serde_json::to_vec(values).map_err(not_json(what))?;
        serde_json::from_slice::<V>(&payload).map_err(not_json(what))?;
        let position = keyring.seal_token(&self.purpose, id, &payload);
        match position.len() {
            0..=MAX_CHARS => Ok(position),
            found => {
                let problem = format!("expected at most {MAX_CHARS} characters, found {found}");
                Err(not_json(what)(problem))
            }
        }
    }

    /// Opens a position.
    ///
    /// # Errors
    /// [`IdError::Open`] if it is not genuine or of another list, and [`IdError::MalformedToken`] if it is
    /// not a position. Answer a client "not found".
    pub fn open(&self, keyring: &Keyring, text: &str) -> Result<(V, I), IdError> {
        let (id, payload) = keyring.open_token(&self.purpose, text)?;
        let values = serde_json::from_slice(&payload);
        let refusal = |_| OpenError::NotGenuine.counted(<I::Resource>::PREFIX);
        Ok((values.map_err(refusal)?, id))
    }
}

fn not_json<E: fmt::Display>(what: &'static str) -> impl Fn(E) -> serde_json::Error {
    move |problem| {
        Error::custom(format_args!("{what} cannot be written as JSON and read back: {problem}"))
    }
}

impl<I, V> fmt::Debug for Listing<I, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listing").finish_non_exhaustive()
    }
}
