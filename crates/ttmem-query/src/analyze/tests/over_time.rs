use super::*;
use crate::analyze::over_time::{PaddedSum, PaddingOverTime};
use crate::analyze::padding::padding;

#[test]
fn tensors_without_both_sizes_are_skipped() {
    let mut evidence = Evidence::new();
    let (dram, l1) = (evidence.pool("DRAM"), evidence.pool("L1"));
    evidence.step("ttnn.add");
    let padded = evidence.sized(None, Some(60), Some(100));
    let unknown = [evidence.sized(None, None, Some(9)), evidence.sized(None, Some(9), None)];
    for (pool, ty) in [(dram, Some(padded)), (dram, None), (l1, Some(padded))] {
        evidence.tensor(Tensor { ty, ..tensor(pool, 1, after(0), NEVER) });
    }
    for ty in unknown {
        evidence.tensor(Tensor { ty: Some(ty), ..tensor(dram, 1, START, NEVER) });
    }
    let profile = evidence.finish();
    let mut sums = PaddingOverTime::new(&profile, first(&profile), dram);
    assert_eq!(sums.at(before(0)), PaddedSum::default());
    assert_eq!(sums.at(after(0)), PaddedSum { padded: 100, logical: 60, tensors: 1 });
}

#[test]
fn saturated_sums_recover() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.step("ttnn.add");
    let huge = evidence.sized(None, Some(u64::MAX - 1), Some(u64::MAX - 1));
    let small = evidence.sized(None, Some(5), Some(7));
    for (ty, dies) in [(huge, after(0)), (huge, after(0)), (small, NEVER)] {
        evidence.tensor(Tensor { ty: Some(ty), ..tensor(dram, 1, START, dies) });
    }
    let profile = evidence.finish();
    let mut sums = PaddingOverTime::new(&profile, first(&profile), dram);
    assert_eq!(sums.at(START), PaddedSum { padded: u64::MAX, logical: u64::MAX, tensors: 3 });
    assert_eq!(sums.at(after(0)), PaddedSum { padded: 7, logical: 5, tensors: 1 });
}

proptest! {
    /// Compared with a scan of all tensors, at any moments in order.
    #[test]
    fn sums_equal_those_of_the_live_tensors(
        lives in vec((0..25_usize, 0..25_usize, 1..9_u64, 0..9_u64), 1..15),
        asked in prop::sample::subsequence((0..26).collect::<Vec<usize>>(), 0..26),
    ) {
        let moment = |index| Moment::from_index(index).unwrap();
        let mut evidence = Evidence::new();
        let dram = evidence.pool("DRAM");
        evidence.steps(STEPS, "ttnn.add");
        for (born, dies, logical, more) in lives {
            let ty = Some(evidence.sized(None, Some(logical), Some(logical + more)));
            evidence.tensor(Tensor { ty, ..tensor(dram, 1, moment(born), moment(dies)) });
        }
        let profile = evidence.finish();
        let mut sums = PaddingOverTime::new(&profile, first(&profile), dram);
        for at in asked.into_iter().map(moment) {
            let (sum, found) = (sums.at(at), padding(&profile, first(&profile), dram, at, 0).unwrap());
            prop_assert_eq!((sum.padded, sum.logical), (found.padded, found.logical), "{:?}", at);
            prop_assert_eq!(sum.tensors, first(&profile).live(dram, at).count());
        }
    }
}
