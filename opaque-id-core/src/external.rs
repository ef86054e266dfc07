use core::cmp::Ordering;
use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use uuid::Uuid;

use crate::error::{IdError, Invalid};
use crate::extractor;
use crate::form::{Form, SealedFormOf, TextBuffer, UuidForm, version_8};
use crate::key_id::KeyId;
use crate::random::random_uuid;
use crate::resource::{MappedResource, OpaqueId, SealedResource};

type Body<T> = <<T as OpaqueId>::Form as Form>::Body;

/// An external id of a resource, for an API, a URL, a webhook or a log.
///
/// Its resource's [`Form`] determines how it prints and parses. It reveals neither order, count nor time of
/// its key, and its `Ord` is only for sorted maps and sets. Parsing checks shape and prefix and needs no
/// secret. To check that an id is real, open it with [`Keyring::open`](crate::Keyring::open), or look it up
/// in the mapping table.
///
/// With serde it is a string in human-readable formats and bytes in the others: 17 in the text form (key id
/// and block), 9 or 17 in the short form, 22 in the tagged form (key id, block and tag), and the UUID's 16 in
/// the other forms.
///
/// ```
/// use opaque_id_core::{External, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let text = "user_2k7a0g3m9hq4w8xn5vz1tcbr6e";
/// let id: External<User> = text.parse()?;
/// assert_eq!(id.to_string(), text);
/// assert!("order_2k7a0g3m9hq4w8xn5vz1tcbr6e".parse::<External<User>>().is_err());
/// assert!("user_2K7A0G3M9HQ4W8XN5VZ1TCBR6E".parse::<External<User>>().is_err());
/// # Ok::<(), opaque_id_core::IdError>(())
/// ```
pub struct External<T: OpaqueId>(Body<T>, PhantomData<fn() -> T>);

crate::value_traits!(External: OpaqueId);

impl<T: OpaqueId> External<T> {
    #[inline]
    pub(crate) fn new(body: Body<T>) -> Self {
        Self(body, PhantomData)
    }

    #[inline]
    pub(crate) fn body(self) -> Body<T> {
        self.0
    }

    /// Writes the text into a buffer, without allocating.
    #[inline]
    pub fn encode(self, buffer: &mut TextBuffer) -> &str {
        T::Form::write(T::PREFIX, self.0, buffer)
    }
}

impl<T: SealedResource> External<T> {
    /// Returns the key id of the secret that the id claims to be sealed with.
    #[must_use]
    #[inline]
    pub fn key_id(self) -> KeyId {
        <T::Form as SealedFormOf<T::Key>>::key_id(self.0)
    }
}

impl<T: OpaqueId> External<T>
where
    T::Form: Form<Body = Uuid>,
{
    /// Converts the id into a UUID, of version 8 in the uuid form and any version in the mapped forms.
    #[must_use]
    pub fn to_uuid(self) -> Uuid {
        self.0
    }
}

impl<T: MappedResource> External<T> {
    /// Generates a random id: a UUIDv4 (RFC 9562, section 5.4) of 122 random bits.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    pub fn random() -> Self {
        Self::new(random_uuid())
    }
}

/// Converts any UUID, without the mapping table.
impl<T: MappedResource> From<Uuid> for External<T> {
    fn from(uuid: Uuid) -> Self {
        Self::new(uuid)
    }
}

impl<T: OpaqueId<Form = UuidForm>> External<T> {
    /// Converts a UUID into an id.
    ///
    /// # Errors
    /// [`IdError::Malformed`] unless it is a UUIDv8.
    pub fn from_uuid(uuid: Uuid) -> Result<Self, IdError> {
        version_8(uuid).map(Self::new).map_err(refusal::<T>)
    }
}

#[cold]
fn refusal<T: OpaqueId>(problem: Invalid) -> IdError {
    let error = IdError::new(T::PREFIX, problem).counted(T::PREFIX);
    extractor::refuse(T::PREFIX, error);
    error
}

impl<T: OpaqueId> FromStr for External<T> {
    type Err = IdError;

    #[inline]
    fn from_str(text: &str) -> Result<Self, IdError> {
        T::Form::parse(T::PREFIX, text).map(Self::new).map_err(refusal::<T>)
    }
}

impl<T: OpaqueId> fmt::Display for External<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.encode(&mut TextBuffer::new()))
    }
}

impl<T: OpaqueId> fmt::Debug for External<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "External({self})")
    }
}

impl<T: OpaqueId> PartialOrd for External<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: OpaqueId> Ord for External<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}
