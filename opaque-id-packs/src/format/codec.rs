//! Compression by zstd, and a limit for decompressed sizes.

use std::sync::{Mutex, PoisonError};
use std::{fmt, io};

use zeroize::Zeroizing;
use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe;

use super::error::FormatError;
use super::plaintext::Plaintext;

/// The most bytes of a value, or of all values of a pack: 64 MiB. A longer frame is not decompressed.
pub const MAX_LEN: usize = 64 << 20;

/// A dictionary that zstd trained from rows, and its number in the table, from 1.
#[derive(Clone)]
pub struct Dictionary {
    id: u16,
    bytes: Zeroizing<Vec<u8>>,
}

impl Dictionary {
    /// Names a dictionary.
    ///
    /// # Panics
    /// If the number is 0, because 0 means no dictionary.
    #[must_use]
    pub fn new(id: u16, bytes: Vec<u8>) -> Self {
        assert_ne!(id, 0, "dictionaries have numbers from 1");
        Self { id, bytes: Zeroizing::new(bytes) }
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({})", self.id)
    }
}

/// Compresses and decompresses values, at one level and with one dictionary or none. zstd does not wipe its own memory.
pub struct Codec {
    level: i32,
    dictionary: Option<Dictionary>,
    compressors: Pool<Compressor<'static>>,
    decompressors: Pool<Decompressor<'static>>,
}

impl Codec {
    /// Prepares a dictionary for a level: 3 for rows, because a client waits for them, and 9 for packs.
    ///
    /// # Errors
    /// [`FormatError::Zstd`] if zstd refuses the dictionary.
    pub fn new(level: i32, dictionary: Option<Dictionary>) -> Result<Self, FormatError> {
        let codec = Self {
            level,
            dictionary,
            compressors: Pool::default(),
            decompressors: Pool::default(),
        };
        // zstd reads a dictionary only when it first needs it.
        let frame = codec.compress(b"")?;
        codec.decompress(&frame, 0)?;
        Ok(codec)
    }

    /// Returns a codec with the same dictionary and another level.
    ///
    /// # Errors
    /// [`FormatError::Zstd`] if zstd refuses it.
    pub fn at_level(&self, level: i32) -> Result<Self, FormatError> {
        Self::new(level, self.dictionary.clone())
    }

    /// Returns the number of the dictionary; 0 is none.
    #[must_use]
    pub fn dictionary_id(&self) -> u16 {
        self.dictionary.as_ref().map_or(0, |dictionary| dictionary.id)
    }

    pub(crate) fn dictionary(&self) -> &[u8] {
        self.dictionary.as_ref().map_or(&[], |dictionary| &dictionary.bytes)
    }

    pub(super) fn compress(&self, value: &[u8]) -> io::Result<Plaintext> {
        #[cfg(test)]
        COMPRESSED.set(COMPRESSED.get() + value.len());
        // A frame has the id that zstd gave the dictionary. So another dictionary of this number causes an
        // error, not another value.
        let new = || Compressor::with_dictionary(self.level, self.dictionary());
        let frame = self.compressors.with(new, |compressor| compressor.compress(value));
        frame.map(Plaintext::from)
    }

    pub(super) fn decompress(&self, frame: &[u8], max: usize) -> Result<Vec<u8>, FormatError> {
        let announced = zstd_safe::get_frame_content_size(frame);
        let Ok(Some(len)) = announced else {
            return Err(FormatError::Invalid("a frame does not say how long it is"));
        };
        // The check precedes the allocation of memory.
        check_len(len, max)?;
        let len = usize::try_from(len).unwrap_or(MAX_LEN);
        let new = || Decompressor::with_dictionary(self.dictionary());
        let value =
            self.decompressors.with(new, |decompressor| decompressor.decompress(frame, len))?;
        match value.len() == len {
            true => Ok(value),
            false => Err(FormatError::Invalid("a frame is shorter than it says")),
        }
    }
}

/// There are as many as were used at the same time, each with its own copy of the dictionary.
#[derive(Default)]
struct Pool<C>(Mutex<Vec<C>>);

impl<C> Pool<C> {
    fn with<R>(
        &self,
        new: impl FnOnce() -> io::Result<C>,
        run: impl FnOnce(&mut C) -> io::Result<R>,
    ) -> io::Result<R> {
        let contexts = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = contexts().pop();
        let mut context = waiting.map_or_else(new, Ok)?;
        let result = run(&mut context);
        contexts().push(context);
        result
    }
}

pub(super) fn check_len(found: u64, max: usize) -> Result<(), FormatError> {
    match found > max as u64 {
        true => Err(FormatError::TooLong { max, found }),
        false => Ok(()),
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("level", &self.level)
            .field("dictionary_id", &self.dictionary_id())
            .finish()
    }
}

#[cfg(test)]
thread_local! {
    pub(crate) static COMPRESSED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}
