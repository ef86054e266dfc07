use crate::cursor::{self, Cursor};
use crate::external::External;
use crate::form::{Form, FormOf, Tagged};
use crate::key::Key;
use crate::keyring::example_subkeys;
use crate::prefix::cursor_prefix;
use crate::resource::OpaqueId;

impl<T: OpaqueId> External<T> {
    /// Returns the example id for documentation, sealed with
    /// [`MasterSecret::example`](crate::MasterSecret::example).
    ///
    /// An integer's example has the key 1, and a structured key's the sequence 1. The other kinds have the
    /// examples of their specifications. An id of a mapped form is the UUIDv4 of RFC 9562, appendix A.3.
    ///
    /// ```
    /// use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "team", key = i64)]
    /// struct Team;
    ///
    /// let id = External::<Team>::example();
    /// assert_eq!(id.to_string(), "team_znqtbbqypg48k1mx0zkwp0jj86");
    ///
    /// let keyring = Keyring::builder()
    ///     .sealing(0, MasterSecret::generate())
    ///     .opening(MasterSecret::EXAMPLE_KEY_ID, MasterSecret::example())
    ///     .build()?;
    /// assert_eq!(keyring.open(id)?, Internal::from_key(1)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn example() -> Self {
        let (keys, key_id) = example_subkeys(T::DOMAIN);
        Self::new(<T::Form as FormOf<T::Key>>::example(&keys, key_id))
    }

    /// Returns the regular expression of exactly the ids of this resource, such as
    /// `^user_[0-9a-hjkmnp-tv-z]{26}$`, in the syntax that ECMA 262 (JSON Schema, OpenAPI), PCRE, PostgreSQL
    /// and the `regex` crate share.
    #[must_use]
    pub fn pattern() -> String {
        T::Form::pattern(T::PREFIX)
    }
}

impl<T: OpaqueId> Cursor<T> {
    /// Returns the example cursor for documentation.
    #[must_use]
    pub fn example() -> Self {
        let (keys, key_id) = example_subkeys(T::DOMAIN);
        Self::new(cursor::seal(&keys, key_id, cursor::block(T::Key::EXAMPLE)))
    }

    /// Returns the regular expression of exactly the cursors of this resource, like
    /// [`External::pattern`]: `^user_cursor_[0-9a-hjkmnp-tv-z]{34}$`.
    #[must_use]
    pub fn pattern() -> String {
        Tagged::pattern(&cursor_prefix(T::PREFIX))
    }
}
