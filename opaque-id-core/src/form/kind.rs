//! Forms that are known only at run time.

use core::str::FromStr;

use super::{Form, Mapped, MappedUuid, Short, Tagged, Text, UuidForm};
use crate::error::Invalid;

/// A form of external ids for tools that know it only at run time. It parses the name in the derive's `form =
/// …`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FormKind(&'static str);

impl FormKind {
    /// [`Text`]
    pub const TEXT: Self = Self(Text::NAME);
    /// [`Short`]
    pub const SHORT: Self = Self(Short::NAME);
    /// [`Tagged`]
    pub const TAGGED: Self = Self(Tagged::NAME);
    /// [`UuidForm`]
    pub const UUID: Self = Self(UuidForm::NAME);
    /// [`Mapped`]
    pub const MAPPED: Self = Self(Mapped::NAME);
    /// [`MappedUuid`]
    pub const MAPPED_UUID: Self = Self(MappedUuid::NAME);

    /// Returns the form's name in the derive.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// Returns whether a mapping table stores the ids. No keyring seals such ids.
    #[must_use]
    pub fn is_mapped(self) -> bool {
        matches!(self, Self::MAPPED | Self::MAPPED_UUID)
    }
}

impl FromStr for FormKind {
    type Err = Invalid;

    fn from_str(name: &str) -> Result<Self, Invalid> {
        let all =
            [Self::TEXT, Self::SHORT, Self::TAGGED, Self::UUID, Self::MAPPED, Self::MAPPED_UUID];
        all.into_iter().find(|form| form.name() == name).ok_or(Invalid::setting(
            "expected `text`, `short`, `tagged`, `uuid`, `mapped` or `mapped_uuid`",
        ))
    }
}
