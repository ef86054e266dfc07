use core::fmt;

#[cfg(feature = "tokens")]
use aes_gcm_siv::{Aes256GcmSiv, KeyInit};
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use crate::hazmat::{AesBlock, Feistel, Ff1};

/// The use of a subkey. FORMAT.md lists them too.
///
/// A label belongs to one use forever: add a new use here first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label {
    /// 16 bytes: AES of the text form and the tagged form.
    Block,
    /// 96 bytes: the round keys of the uuid form.
    Feistel,
    /// 8 bytes: the value that follows an integer in its plaintext.
    Tag,
    /// 16 bytes: the tag of the tagged form.
    Mac,
    /// 32 bytes: the encryption of cursors, then their tag.
    Cursor,
    /// 4 bytes, empty domain: the check value of a secret.
    Check,
    /// 16 bytes, empty domain: the windows of pseudo-ordered UUIDs.
    Window,
    /// 32 bytes: the encryption of packs.
    Packs,
    /// 16 bytes: FF1 of the short form.
    Short,
    /// 32 bytes, the audience's name for a domain: the master secret of an audience.
    Audience,
    /// 32 bytes: the encryption of tokens.
    Token,
    /// 32 bytes: the blind indexes of encrypted columns.
    Index,
}

impl Label {
    /// The registry, in the order of FORMAT.md.
    pub const ALL: [Self; 12] = [
        Self::Block,
        Self::Feistel,
        Self::Tag,
        Self::Mac,
        Self::Cursor,
        Self::Check,
        Self::Window,
        Self::Packs,
        Self::Short,
        Self::Audience,
        Self::Token,
        Self::Index,
    ];

    /// Returns the label's bytes as text.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Feistel => "feistel",
            Self::Tag => "tag",
            Self::Mac => "mac",
            Self::Cursor => "cursor",
            Self::Check => "check",
            Self::Window => "window",
            Self::Packs => "packs",
            Self::Short => "short",
            Self::Audience => "audience",
            Self::Token => "token",
            Self::Index => "index",
        }
    }
}

pub(crate) fn expand(prk: &Hkdf<Sha256>, label: Label, domain: &str, subkey: &mut [u8]) {
    prk.expand_multi_info(&[label.as_str().as_bytes(), &[0], domain.as_bytes()], subkey)
        .expect("at most 8160 bytes");
}

/// The subkeys `block`, `feistel`, `tag`, `mac`, `cursor` and `short`.
pub type IdSubkeys = [u8; 184];

pub(crate) fn expand_ids(prk: &Hkdf<Sha256>, domain: &str, subkeys: &mut IdSubkeys) {
    let mut rest = &mut subkeys[..];
    for (label, len) in [
        (Label::Block, 16),
        (Label::Feistel, 96),
        (Label::Tag, 8),
        (Label::Mac, 16),
        (Label::Cursor, 32),
        (Label::Short, 16),
    ] {
        let (subkey, after) = rest.split_at_mut(len);
        expand(prk, label, domain, subkey);
        rest = after;
    }
}

/// The subkeys that seal a resource's ids under one master secret. They are wiped on drop.
pub struct Subkeys {
    pub(crate) block: AesBlock,
    pub(crate) mac: AesBlock,
    pub(crate) cursor: [AesBlock; 2],
    pub(crate) six_rounds: Feistel<6>,
    pub(crate) four_rounds: Feistel<4>,
    pub(crate) two_rounds: Feistel<2>,
    pub(crate) short: Ff1,
    pub(crate) tag: u64,
    /// `None` if the key is public or unknown.
    #[cfg(feature = "tokens")]
    pub(crate) token: Option<Aes256GcmSiv>,
    is_public: bool,
}

impl Subkeys {
    /// The subkeys of the example secret are public.
    pub(crate) fn derive(prk: &Hkdf<Sha256>, domain: &str, is_public: bool) -> Self {
        let mut ids = Zeroizing::new([0; size_of::<IdSubkeys>()]);
        expand_ids(prk, domain, &mut ids);
        let mut subkeys = Self::from_ids(&ids);
        subkeys.is_public = is_public;
        #[cfg(feature = "tokens")]
        if !is_public {
            let mut token = Zeroizing::new([0; 32]);
            expand(prk, Label::Token, domain, &mut *token);
            subkeys.token = Some(Aes256GcmSiv::new((&*token).into()));
        }
        subkeys
    }

    /// No token opens with them.
    pub(crate) fn from_ids(subkeys: &IdSubkeys) -> Self {
        fn next<'s, const N: usize>(rest: &mut &'s [u8]) -> &'s [u8; N] {
            let (subkey, after) = rest.split_first_chunk().expect("184 bytes in all");
            *rest = after;
            subkey
        }
        let rest = &mut &subkeys[..];
        let block = AesBlock::new(next(rest));
        let (rounds, _) = next::<96>(rest).as_chunks::<16>();
        Self {
            block,
            six_rounds: Feistel::new(rounds.first_chunk().expect("six keys")),
            four_rounds: Feistel::new(rounds.first_chunk().expect("six keys")),
            two_rounds: Feistel::new(rounds.first_chunk().expect("six keys")),
            tag: u64::from_be_bytes(*next(rest)),
            mac: AesBlock::new(next(rest)),
            cursor: [AesBlock::new(next(rest)), AesBlock::new(next(rest))],
            short: Ff1::new(next(rest)),
            #[cfg(feature = "tokens")]
            token: None,
            is_public: false,
        }
    }

    /// Returns a decrypted value, unless the subkeys are public and it is not the documented example, because
    /// any client can encrypt with public subkeys. Every decryption of an id or a cursor must end here.
    #[inline]
    pub(crate) fn admit<R: Eq>(&self, repr: R, example: R) -> Option<R> {
        (!self.is_public || repr == example).then_some(repr)
    }
}

impl Drop for Subkeys {
    fn drop(&mut self) {
        self.tag.zeroize();
    }
}

impl fmt::Debug for Subkeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subkeys { .. }")
    }
}
