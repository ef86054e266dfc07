use crate::error::IdError;
use crate::external::External;
use crate::form::PrefixedForm;
use crate::keyring::Keyring;
use crate::metrics;
use crate::resource::{InternalId, OpaqueId, SealedResource, stand_in};

/// An internal id of one of several resources, such as for GraphQL's `node`, references to rows of several
/// tables, or a search box.
///
/// Derive it on an enum with an internal id in each variant. [`Keyring::open_any`] and [`Keyring::seal_any`]
/// convert. The resources must have the text, short or tagged form. Two variants with one prefix do not
/// compile.
///
/// ```
/// use opaque_id_core::{AnyId, Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "order", key = i64, form = "short")]
/// struct Order;
///
/// #[derive(AnyId, Debug, PartialEq)]
/// enum Node {
///     User(Internal<User>),
///     Order(Internal<Order>),
/// }
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let order = Internal::<Order>::from_key(42)?;
/// let text = keyring.seal(order).to_string(); // order_0zzxq2vt6yy6y
/// let node: Node = keyring.open_any(&text)?;
/// assert_eq!(node, Node::Order(order));
/// assert_eq!(keyring.seal_any(&node), text);
///
/// let error = keyring.open_any::<Node>("team_0zzxq2vt6yy6y").unwrap_err();
/// assert_eq!(error.to_string(), "expected an id that starts with `user_` or `order_`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not one of several ids",
    label = "not an enum of internal ids",
    note = "add `#[derive(AnyId)]` to an enum such as `enum Node {{ User(Internal<User>), Order(Internal<Order>) }}`"
)]
pub trait AnyId: Sized {
    /// The prefixes of the resources, in the order of the variants.
    const PREFIXES: &'static [&'static str];

    #[doc(hidden)]
    fn open_text(
        keyring: &Keyring,
        prefix: &str,
        text: &str,
        stand_in: Option<u32>,
    ) -> Result<Option<Self>, IdError>;
    #[doc(hidden)]
    fn seal_text(&self, keyring: &Keyring) -> String;
}

impl Keyring {
    /// Opens an id of the resource that its prefix names. Success does not mean that the row exists.
    ///
    /// # Errors
    /// [`IdError`]. Answer a client "not found" for every reason.
    pub fn open_any<A: AnyId>(&self, text: &str) -> Result<A, IdError> {
        let prefix = text.rsplit_once('_').map_or("", |(prefix, _)| prefix);
        A::open_text(self, prefix, text, None)?.ok_or_else(|| {
            metrics::refused("any", "other_resource");
            IdError::OtherPrefix { prefixes: A::PREFIXES }
        })
    }

    /// Seals an id of one of several resources and returns its text.
    #[must_use]
    pub fn seal_any<A: AnyId>(&self, id: &A) -> String {
        id.seal_text(self)
    }
}

/// Opens the id of a variant, or returns an id that no row has if `number` is given.
///
/// # Errors
/// The same as [`Keyring::open_any`].
pub fn open_variant<I>(keyring: &Keyring, text: &str, number: Option<u32>) -> Result<I, IdError>
where
    I: InternalId,
    I::Resource: SealedResource<Form: PrefixedForm>,
{
    if let Some(number) = number {
        return Ok(stand_in::<I::Resource>(number).convert());
    }
    let id: External<I::Resource> = text.parse()?;
    Ok(keyring.open(id)?.convert())
}

/// Returns the prefix of a variant's resource.
#[must_use]
pub const fn variant_prefix<I: InternalId>() -> &'static str {
    <I::Resource>::PREFIX
}

/// Checks that all prefixes differ, when the derive is compiled.
///
/// # Panics
/// If two variants have the same prefix.
pub const fn assert_distinct(prefixes: &[&str]) {
    let mut i = 0;
    while i < prefixes.len() {
        let mut j = 0;
        while j < i {
            assert!(
                !is_same(prefixes[i].as_bytes(), prefixes[j].as_bytes()),
                "two variants have the same prefix, so an id does not say which of them it is of"
            );
            j += 1;
        }
        i += 1;
    }
}

const fn is_same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}
