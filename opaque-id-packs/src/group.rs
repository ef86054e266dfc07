use opaque_id_core::OpaqueId;
use opaque_id_core::resource::InternalId;

use crate::order;

/// The group of a row, such as a tenant, a user or a data subject. Rows of a group are compressed apart from
/// other groups. Erasing a group's data key erases its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Group(pub(crate) u128);

impl Group {
    /// Names a group by a number of the application, such as a hash.
    #[must_use]
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Returns the group for an id. Ids of two resources can be the same group if their keys are integers.
    #[must_use]
    pub fn of<T: OpaqueId>(id: T::Internal) -> Self {
        Self(order::number(*id.as_repr()))
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Group(..)")
    }
}
