//! Compares many bytes of an entry at once, and finds numbers at known places.

/// Bytes of an entry whose places are known relative to one another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The bits that entries repeat, and which bits these are. Both are 0 after the end of the part.
    repeated: [u64; Self::WORDS],
    mask: [u64; Self::WORDS],
    len: u8,
}

impl Part {
    const WORDS: usize = 8;
    pub const MAX: usize = 8 * Self::WORDS;

    /// `None` if there are too many bytes.
    pub fn new(bytes: &[u8], mask: &[u8]) -> Option<Self> {
        let words = |bytes: &[u8]| {
            let mut padded = [0; Self::MAX];
            padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
            let mut words = [0; Self::WORDS];
            for (word, bytes) in words.iter_mut().zip(padded.as_chunks().0) {
                *word = u64::from_le_bytes(*bytes);
            }
            Some(words)
        };
        let (mut repeated, mask) = (words(bytes)?, words(mask)?);
        for (word, mask) in repeated.iter_mut().zip(mask) {
            *word &= mask;
        }
        Some(Self { repeated, mask, len: u8::try_from(bytes.len()).ok()? })
    }

    /// The number of bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether bytes begin with the part. There are at least as many of them, so that their number is a constant,
    /// and nothing is decided before the end, so that they are compared in parallel.
    #[inline]
    pub fn is_next(&self, bytes: &[u8; Self::MAX]) -> bool {
        let words = bytes.as_chunks().0.iter().zip(self.repeated.iter().zip(&self.mask));
        let difference = words.fold(0, |difference, (bytes, (repeated, mask))| {
            difference | (u64::from_le_bytes(*bytes) & mask) ^ repeated
        });
        difference == 0
    }

    /// The same part whose bytes from a position on, up to another, are repeated as well.
    pub fn with(&self, offset: usize, bytes: &[u8]) -> Option<Self> {
        let (mut all, mut mask) = ([0; Self::MAX], [0; Self::MAX]);
        for (to, words) in [(&mut all, &self.repeated), (&mut mask, &self.mask)] {
            for (to, word) in to.as_chunks_mut().0.iter_mut().zip(words) {
                *to = word.to_le_bytes();
            }
        }
        all.get_mut(offset..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
        mask.get_mut(offset..)?.get_mut(..bytes.len())?.fill(u8::MAX);
        Self::new(all.get(..self.len())?, mask.get(..self.len())?)
    }
}

/// A number at a known place of an entry: the lowest bytes of a word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// The part that has it, by its index, and the position in that part.
    part: u8,
    offset: u8,
    /// The bits of the number.
    mask: u64,
}

impl Place {
    /// The place of a number that entries do not have: it is 0.
    pub const NONE: Self = Self { part: 0, offset: 0, mask: 0 };

    /// The place of a number of one to eight bytes.
    pub fn new(part: usize, offset: usize, len: usize) -> Option<Self> {
        let (part, offset) = (u8::try_from(part).ok()?, u8::try_from(offset).ok()?);
        Some(Self { part, offset, mask: u64::MAX >> (64 - 8 * len) })
    }

    pub fn part(self) -> usize {
        self.part.into()
    }

    /// The position in the part.
    pub fn offset(self) -> usize {
        self.offset.into()
    }

    /// The number in an entry whose parts start at some positions.
    #[inline]
    pub fn number(self, entry: &[u8], starts: &[usize]) -> Option<u64> {
        let at = starts.get(self.part())? + self.offset();
        Some(u64::from_le_bytes(*entry.get(at..)?.first_chunk()?) & self.mask)
    }

    /// The bytes of the number.
    pub fn bytes(self, entry: &[u8], starts: &[usize]) -> Option<Vec<u8>> {
        let number = self.number(entry, starts)?.to_le_bytes();
        Some(number[..(self.mask.count_ones() / 8) as usize].to_vec())
    }
}
