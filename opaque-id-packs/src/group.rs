//! Groups of rows: what they are for the application.

use std::marker::PhantomData;

use opaque_id_core::OpaqueId;
use opaque_id_core::resource::InternalId;

use crate::encoding::Encoding;
use crate::order;

/// The group of a row: a tenant, a user, a data subject. Rows of a group are compressed together, and rows of two groups never are.
/// Each group has a data key of its own, and erasing the key erases the rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) u128);

impl Group {
    /// Names a group by a number of the application's, such as a hash.
    #[must_use]
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Returns the group of what has this id. Ids of two resources can be the same group if their keys are integers.
    #[must_use]
    pub fn of<T: OpaqueId>(id: T::Internal) -> Self {
        Self(order::number(*id.as_repr()))
    }
}

/// Without the id.
impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Group(..)")
    }
}

/// A value that says to which group its row belongs, for [`Grouped`].
pub trait InGroup {
    /// Returns the group.
    fn group(&self) -> Group;
}

/// The values of `E`, in [groups](crate#groups): `PackTable<Event, Entry, Grouped<Json>>`. A table has groups from the beginning
/// or never.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<E>(PhantomData<E>);

impl<V: InGroup, E: Encoding<V>> Encoding<V> for Grouped<E> {
    const NAME: &'static str = E::NAME;
    const IS_GROUPED: bool = true;

    fn encode(value: &V) -> Result<Vec<u8>, String> {
        E::encode(value)
    }

    fn decode(bytes: Vec<u8>) -> Result<V, String> {
        E::decode(bytes)
    }

    fn group(value: &V) -> Option<Group> {
        Some(value.group())
    }
}
