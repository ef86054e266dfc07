use core::fmt;

use opaque_id_core::{IntoView, Keyring};

/// An extractor of the request's keyring, such as for sealing cursors.
///
/// In axum, it is the keyring from the layer `lend_keyring`, and without the layer the answer is 500. In
/// actix-web, it is the keyring of the other extractors.
#[derive(Clone, Debug)]
pub struct RequestKeyring(
    /// The keyring.
    pub Keyring,
);

/// A JSON response with ids that the request's keyring seals, so that a handler needs no keyring.
///
/// In axum, the layer `lend_keyring` must be around the handler. In actix-web, the keyring is the one of the
/// extractors. Without it, the log names the remedy, and the response is an error with the status 500, unless
/// the handler sets another one.
///
/// ```
/// use opaque_id_core::{Internal, OpaqueId, View};
/// use opaque_id_web::Viewed;
///
/// #[derive(OpaqueId, View)]
/// #[opaque_id(prefix = "user")]
/// #[view(into = UserView, derive(serde::Serialize))]
/// struct User {
///     id: Internal<User>,
/// }
///
/// async fn add() -> Viewed<UserView> {
///     Viewed::of(User { id: Internal::generate() })
/// }
/// ```
pub struct Viewed<V>(Box<dyn FnOnce(&Keyring) -> V + Send>);

impl<V> Viewed<V> {
    /// Converts a model into its view, or a `Vec` of them, when the response is made.
    #[must_use]
    pub fn of<M: IntoView<V> + Send + 'static>(model: M) -> Self {
        Self::by(|keyring| keyring.view(model))
    }

    /// Creates the view when the response is made, such as a page with its cursors.
    #[must_use]
    pub fn by(view: impl FnOnce(&Keyring) -> V + Send + 'static) -> Self {
        Self(Box::new(view))
    }

    /// Returns the view.
    #[must_use]
    pub fn view(self, keyring: &Keyring) -> V {
        self.0(keyring)
    }
}

impl<V> fmt::Debug for Viewed<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Viewed").finish_non_exhaustive()
    }
}
