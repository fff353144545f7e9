//! The only source of randomness: a splitmix64 generator, so that a seed always gives the same log, on every machine.

/// A deterministic stream of numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A second stream, independent of later draws from this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::new(self.draw())
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high, "empty range {low}..={high}");
        low + self.draw() % (high - low + 1)
    }

    /// An index into a list of this length.
    ///
    /// # Panics
    ///
    /// If the length is zero.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.between(0, length as u64 - 1)).expect("an index is no larger than a length")
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u8) -> bool {
        self.between(0, 99) < u64::from(percent)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.index(items.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_stream_is_splitmix64() {
        // The first outputs of the published generator for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn ranges_are_inclusive_and_chances_are_percent() {
        let mut random = Random::new(7);
        let drawn: Vec<u64> = (0..1000).map(|_| random.between(3, 5)).collect();
        assert!((3..=5).all(|number| drawn.contains(&number)) && drawn.iter().all(|n| (3..=5).contains(n)));
        assert!((0..1000).all(|_| !random.chance(0)) && (0..1000).all(|_| random.chance(100)));
    }
}
