use core::fmt;
use core::iter::FusedIterator;

use super::{FormOf, KeyId, Keyring, Subkeys, internal};
use crate::error::OpenError;
use crate::external::External;
use crate::form::Sealing;
use crate::internal::InternalId;
use crate::resource::{OpaqueId, SealedResource};

/// How many ids go through the cipher at once: as many blocks as its widest backend takes.
const BATCH: usize = 64;

/// External ids, in the order of the internal ones: [`Keyring::seal_all`].
///
/// ```
/// # use opaque_id_core::{Internal, Keyring, OpaqueId};
/// # #[derive(OpaqueId)]
/// # #[opaque_id(prefix = "user")]
/// # struct User;
/// # let keyring = Keyring::builder().sealing(0, [7; 32]).build()?;
/// let ids = keyring.seal_all([Internal::<User>::generate(), Internal::generate()]);
/// assert_eq!(ids.len(), 2);
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
pub struct SealAll<'k, I> {
    keys: &'k Subkeys,
    key_id: KeyId,
    ids: I,
    blocks: [u128; BATCH],
    next: usize,
    len: usize,
}

type ResourceOf<I> = <<I as Iterator>::Item as InternalId>::Resource;

impl<'k, I: Iterator<Item: InternalId<Resource: SealedResource>>> SealAll<'k, I> {
    pub(super) fn new(keyring: &'k Keyring, ids: I) -> Self {
        let keys = keyring.sealing_subkeys(ResourceOf::<I>::resource());
        let key_id = keyring.sealing_key_id();
        Self {
            keys,
            key_id,
            ids,
            blocks: [0; BATCH],
            next: 0,
            len: 0,
        }
    }

    fn fill(&mut self) {
        self.next = 0;
        self.len = 0;
        for (block, id) in self.blocks.iter_mut().zip(&mut self.ids) {
            *block = FormOf::<ResourceOf<I>>::to_plaintext(self.keys, *id.as_repr());
            self.len += 1;
        }
        FormOf::<ResourceOf<I>>::encrypt_all(self.keys, &mut self.blocks[..self.len]);
    }
}

impl<I: Iterator<Item: InternalId<Resource: SealedResource>>> Iterator for SealAll<'_, I> {
    type Item = External<ResourceOf<I>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.len {
            self.fill();
        }
        let block = *self.blocks[..self.len].get(self.next)?;
        self.next += 1;
        Some(External::new(FormOf::<ResourceOf<I>>::assemble(
            self.keys,
            self.key_id,
            block,
        )))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        with_pending(self.ids.size_hint(), self.len - self.next)
    }
}

impl<I: FusedIterator<Item: InternalId<Resource: SealedResource>>> FusedIterator
    for SealAll<'_, I>
{
}
impl<I: ExactSizeIterator<Item: InternalId<Resource: SealedResource>>> ExactSizeIterator
    for SealAll<'_, I>
{
}

impl<I> fmt::Debug for SealAll<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealAll")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

/// Internal ids, each with a result of its own, in the order of the external ones:
/// [`Keyring::open_all`].
///
/// ```
/// # use opaque_id_core::{Internal, Keyring, OpaqueId};
/// # #[derive(OpaqueId)]
/// # #[opaque_id(prefix = "user")]
/// # struct User;
/// # let keyring = Keyring::builder().sealing(0, [7; 32]).build()?;
/// let ids = keyring.open_all([keyring.seal(Internal::<User>::generate())]);
/// assert_eq!(ids.len(), 1);
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
pub struct OpenAll<'k, T: OpaqueId, I> {
    keyring: &'k Keyring,
    ids: I,
    opened: [Option<Result<T::Internal, OpenError>>; BATCH],
    next: usize,
    len: usize,
}

impl<'k, T: SealedResource, I: Iterator<Item = External<T>>> OpenAll<'k, T, I> {
    pub(super) fn new(keyring: &'k Keyring, ids: I) -> Self {
        Self {
            keyring,
            ids,
            opened: [None; BATCH],
            next: 0,
            len: 0,
        }
    }

    fn fill(&mut self) {
        let mut key_ids = [KeyId::truncated(0); BATCH];
        let mut blocks = [0; BATCH];
        self.next = 0;
        self.len = 0;
        for (i, id) in (0..BATCH).zip(&mut self.ids) {
            let key_id = id.key_id();
            let ciphertext = self
                .keyring
                .subkeys(key_id, T::resource())
                .and_then(|keys| {
                    FormOf::<T>::take_apart(keys, id.id()).ok_or(OpenError::InvalidPlaintext)
                });
            key_ids[i] = key_id;
            blocks[i] = ciphertext.unwrap_or_default();
            self.opened[i] = ciphertext.err().map(Err);
            self.len += 1;
        }
        // Ids of the same secret go together: all of them, unless a secret is being rotated.
        let mut start = 0;
        for run in key_ids[..self.len].chunk_by(KeyId::eq) {
            let end = start + run.len();
            if let Ok(keys) = self.keyring.subkeys(run[0], T::resource()) {
                FormOf::<T>::decrypt_all(keys, &mut blocks[start..end]);
                let mut count = 0;
                for (id, plaintext) in self.opened[start..end].iter_mut().zip(&blocks[start..end]) {
                    if id.is_none() {
                        let opened = internal::<T>(FormOf::<T>::from_plaintext(keys, *plaintext));
                        count += u64::from(opened.is_ok());
                        *id = Some(opened);
                    }
                }
                self.keyring.0.opened.count(run[0], count);
            }
            start = end;
        }
    }
}

impl<T: SealedResource, I: Iterator<Item = External<T>>> Iterator for OpenAll<'_, T, I> {
    type Item = Result<T::Internal, OpenError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.len {
            self.fill();
        }
        let id = *self.opened[..self.len].get(self.next)?;
        self.next += 1;
        id
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        with_pending(self.ids.size_hint(), self.len - self.next)
    }
}

impl<T: SealedResource, I: FusedIterator<Item = External<T>>> FusedIterator for OpenAll<'_, T, I> {}
impl<T: SealedResource, I: ExactSizeIterator<Item = External<T>>> ExactSizeIterator
    for OpenAll<'_, T, I>
{
}

impl<T: OpaqueId, I> fmt::Debug for OpenAll<'_, T, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAll")
            .field("keyring", &self.keyring)
            .finish_non_exhaustive()
    }
}

fn with_pending((lower, upper): (usize, Option<usize>), pending: usize) -> (usize, Option<usize>) {
    (
        lower.saturating_add(pending),
        upper.and_then(|upper| upper.checked_add(pending)),
    )
}
