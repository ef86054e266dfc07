/// How many zeros follow a plaintext, so that its length says less of its content.
///
/// ```
/// use opaque_id_packs::format::Padding;
///
/// assert_eq!(Padding::Steps(64).padded_len(65), 128);
/// assert_eq!(Padding::Padme.padded_len(1_000_001), 1_015_808); // at most 12 % more
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Padding {
    /// None: the length of a ciphertext is that of its compressed content.
    None,
    /// Up to the next multiple of this number of bytes; 0 is none.
    Steps(u16),
    /// Up to the next length whose binary form has few digits set (Nikitin, Barman, Lueks, Underwood, Hubaux and Ford,
    /// *Reducing Metadata Leakage from Encrypted Files and Communication with PURBs*, PETS 2019, algorithm 1): a length of
    /// *L* bytes reveals O(log log *L*) bits of the content's.
    #[default]
    Padme,
}

impl Padding {
    /// Returns the length with padding.
    #[must_use]
    pub fn padded_len(self, len: usize) -> usize {
        match self {
            Self::None | Self::Steps(0) => len,
            Self::Steps(step) => len.next_multiple_of(usize::from(step)),
            Self::Padme if len < 2 => len,
            Self::Padme => {
                let exponent = len.ilog2();
                let digits = exponent.ilog2() + 1;
                len.next_multiple_of(1 << exponent.saturating_sub(digits))
            }
        }
    }

    pub(super) fn pad(self, plaintext: &mut Vec<u8>) {
        plaintext.resize(self.padded_len(plaintext.len()), 0);
    }
}
