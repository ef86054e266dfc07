use super::plaintext::Plaintext;

/// The number of zeros after a plaintext. They make its length reveal less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Padding {
    /// No padding: the length of a ciphertext is that of its compressed content.
    None,
    /// Padding up to the next multiple of this number of bytes. 0 means no padding.
    Steps(u16),
    /// Padding up to the next length that has few digits set in binary (Nikitin, Barman, Lueks, Underwood, Hubaux and Ford, *Reducing
    /// Metadata Leakage from Encrypted Files and Communication with PURBs*, PETS 2019, algorithm 1). A length of *L* bytes reveals O(log
    /// log *L*) bits of the content's length.
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

    pub(super) fn padded(self, parts: &[Plaintext]) -> Plaintext {
        let len = self.padded_len(parts.iter().map(|part| part.len()).sum());
        let mut plaintext = Plaintext::with_capacity(len);
        parts.iter().for_each(|part| plaintext.extend(&**part));
        plaintext.resize(len, 0);
        plaintext
    }
}
