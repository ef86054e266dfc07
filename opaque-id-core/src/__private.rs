//! Items that the derive, the adapters and the other crates of this family need from the core. They are not for
//! users, but semver covers them: an adapter works with every later core of the same major version.

#[cfg(feature = "serde")]
pub use serde_core;

pub use crate::any_id::{AnyId, assert_distinct, open_variant, variant_prefix};
pub use crate::external::External;
pub use crate::extractor::{Extractor, OfOldId, replace_extractor, take_refused};
pub use crate::fork::Guard as ForkGuard;
pub use crate::internal::Internal;
pub use crate::internal_id_serde;
pub use crate::keyring::Keyring;
pub use crate::prefix::{Prefixes, is_prefix};
pub use crate::private::{
    InternalIdOf, MayBeRaw, MayEnter, MayLeave, Private, RawKeyOf, SerdeRepr,
};
pub use crate::random::random_uuid;
pub use crate::raw_keys;
pub use crate::request::{IntoModel, OpenByModel, OpenNothing, Opening};
pub use crate::resource::stand_in;
pub use crate::slot::Slot;
pub use crate::subkeys::{IdSubkeys, Label};
pub use crate::view::{
    FillAsItIs, FillByView, FillNotAtAll, Filling, IntoView, PartField, ViewPart,
};
