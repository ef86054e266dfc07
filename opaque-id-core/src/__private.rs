//! Items for the other crates of this family. Semver covers them: an adapter works with every later core of
//! the same major version.

#[cfg(feature = "arbitrary1")]
pub use arbitrary1;
#[cfg(feature = "proptest1")]
pub use proptest1;
#[cfg(feature = "serde")]
pub use serde_core;

pub use crate::any_id::{AnyId, assert_distinct, open_variant, variant_prefix};
pub use crate::external::External;
pub use crate::extractor::{Extractor, OldIdResult, replace_extractor, take_refused};
pub use crate::fields::{
    FillAsItIs, FillByParts, FillByView, FillNotAtAll, Filling, OpenByModel, OpenByParts,
    OpenNothing, Opening,
};
pub use crate::fork::Guard as ForkGuard;
pub use crate::internal::Internal;
pub use crate::keyring::Keyring;
pub use crate::keyring::debug_id;
pub use crate::prefix::{Prefixes, is_prefix};
pub use crate::private::{
    InternalIdOf, MayBeRaw, MayEnter, MayLeave, Private, RawKeyOf, SerdeRepr,
};
pub use crate::random::random_uuid;
pub use crate::request::IntoModel;
pub use crate::resource::{IsInternal, id_from_bits, stand_in};
pub use crate::slot::Slot;
pub use crate::subkeys::{IdSubkeys, Label};
pub use crate::view::{IntoView, PartField, ViewPart};
pub use crate::{
    from_internal_id, internal_id_arbitrary, internal_id_proptest, into_internal_id, never_leaves,
    never_leaves_by_serde,
};
