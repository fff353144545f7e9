use super::*;
use crate::analyze::allocator::{Bank, SearchFrom};

const START: u64 = 96;
const UNIT: u64 = 32;
const UNITS: usize = 64;

/// A bank as a list of units, which is slow and simple.
#[derive(Clone, Default)]
struct Units(Vec<bool>);

impl Units {
    fn new() -> Self {
        Self(vec![false; UNITS])
    }

    fn search(&self, units: usize, from: SearchFrom) -> Option<usize> {
        let mut starts = 0..=UNITS.checked_sub(units)?;
        let is_free = |start: &usize| self.0[*start..start + units].iter().all(|used| !used);
        match from {
            SearchFrom::Bottom => starts.find(is_free),
            SearchFrom::Top => starts.rfind(is_free),
        }
    }

    fn set(&mut self, start: usize, units: usize, used: bool) {
        self.0[start..start + units].fill(used);
    }

    fn largest(&self) -> usize {
        self.0.split(|used| *used).map(<[bool]>::len).max().unwrap_or(0)
    }
}

proptest! {
    #[test]
    fn allocations_get_the_first_place_from_their_end(
        actions in vec((any::<bool>(), 1..12_u64 * UNIT, any::<prop::sample::Index>(), any::<bool>()), 1..200)
    ) {
        let mut bank = Bank::new(START..START + UNITS as u64 * UNIT, UNIT);
        let mut simple = Units::new();
        let mut live: Vec<(u64, usize)> = Vec::new();
        for (frees, bytes, which, from_top) in actions {
            if frees && !live.is_empty() {
                let (address, units) = live.swap_remove(which.index(live.len()));
                prop_assert!(bank.free(address) && !bank.free(address));
                simple.set(usize::try_from((address - START) / UNIT).unwrap(), units, false);
            } else {
                let from = if from_top { SearchFrom::Top } else { SearchFrom::Bottom };
                let units = usize::try_from(bytes.div_ceil(UNIT)).unwrap();
                let expected = simple.search(units, from);
                let address = bank.allocate(bytes, from);
                prop_assert_eq!(address, expected.map(|start| START + start as u64 * UNIT));
                if let (Some(address), Some(start)) = (address, expected) {
                    simple.set(start, units, true);
                    live.push((address, units));
                }
            }
            prop_assert_eq!(bank.largest_free(), simple.largest() as u64 * UNIT);
            let free = simple.0.iter().filter(|used| !**used).count() as u64;
            prop_assert_eq!(bank.free_bytes(), free * UNIT);
            prop_assert_eq!(bank.lowest(), live.iter().map(|(address, _)| *address).min());
        }
    }
}

#[test]
fn only_free_memory_can_be_placed() {
    let mut bank = Bank::new(0..320, 32);
    assert!(bank.place(64, 33));
    assert_eq!((bank.lowest(), bank.free_bytes()), (Some(64), 256));
    for (address, bytes) in [(64, 1), (96, 1), (32, 64), (288, 64), (u64::MAX - 5, 32)] {
        assert!(!bank.place(address, bytes), "{address}");
    }
    assert!(bank.place(32, 32) && bank.place(128, 192));
    assert_eq!((bank.largest_free(), bank.free_bytes()), (32, 32));
    assert!(!bank.free(96));
    assert_eq!(Bank::new(5..5, 32).allocate(1, SearchFrom::Top), None);
}
