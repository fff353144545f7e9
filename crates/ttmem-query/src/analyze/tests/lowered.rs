use super::*;
use crate::analyze::lowered::{Saving, fall};

fn saving(from: Moment, until: Moment, per_bank: u64) -> Saving {
    Saving { from, until, per_bank }
}

#[test]
fn a_peak_falls_to_the_next_highest_moment_at_most() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    for (step, held) in (0..).zip([50, 100, 90, 10]) {
        evidence.step("ttnn.add");
        evidence.state(dram, after(step), held);
    }
    let profile = evidence.finish();
    let falls = |span, savings: &[Saving]| fall(&account(&profile, dram), span, savings);
    let all = whole(&profile);
    assert_eq!(falls(all, &[]), 0);
    assert_eq!(falls(all, &[saving(after(1), after(2), 7)]), 7);
    assert_eq!(falls(all, &[saving(after(1), after(2), 30)]), 10);
    assert_eq!(falls(all, &[saving(after(1), after(2), 30), saving(START, NEVER, 15)]), 25);
    assert_eq!(falls(all, &[saving(START, NEVER, 1000)]), 100);
    assert_eq!(falls(all, &[saving(after(0), after(1), 30)]), 0);
    // The peak is that of the span.
    assert_eq!(falls(Span { first: 2, end: 4 }, &[saving(after(2), NEVER, 30)]), 30);
    assert_eq!(falls(Span { first: 3, end: 4 }, &[saving(after(2), NEVER, 30)]), 10);
}

#[test]
fn a_tensor_saves_bytes_for_its_lifetime() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("ttnn.add");
    let id = evidence.tensor(tensor(dram, 10, before(0), after(0)));
    let profile = evidence.finish();
    assert_eq!(Saving::of(first(&profile), id, 4), Some(saving(before(0), after(0), 4)));
    assert_eq!(Saving::of(first(&profile), tensor_id(1), 4), None);
    // A pool without readings has no peak.
    assert_eq!(fall(&account(&profile, dram), whole(&profile), &[saving(START, NEVER, 4)]), 0);
}

proptest! {
    #[test]
    fn further_savings_never_raise_a_peak(
        memory in Memory::any(),
        savings in vec((0..26_usize, 0..26_usize, 0..100_u64), 0..5),
    ) {
        let (profile, pool) = memory.profile();
        let moment = |index| Moment::from_index(index).unwrap();
        let savings: Vec<Saving> =
            savings.iter().map(|&(from, until, bytes)| saving(moment(from), moment(until), bytes)).collect();
        let account = account(&profile, pool);
        let falls: Vec<u64> =
            (0..=savings.len()).map(|count| fall(&account, whole(&profile), &savings[..count])).collect();
        prop_assert_eq!(falls[0], 0);
        for (saving, pair) in savings.iter().zip(falls.windows(2)) {
            prop_assert!(pair[0] <= pair[1] && pair[1] <= pair[0] + saving.per_bank);
        }
    }
}
