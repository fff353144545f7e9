//! `diff` of made programs that differ in one known way: logs of the Tenstorrent runtime, and snapshots of PyTorch's
//! allocator. `python/tests/test_diff.py` does the same for recordings, `python/ttnn_tests/test_ttnn_diff.py` for captures.

use std::fs;

use ttmem::model::Profile;
use ttmem::query::{ChangeKind, ChangeRow, Diff, DiffRequest, OverlapRow, PoolDiff, RankDiff, diff};
use ttmem::read;
use ttmem_testkit::torch::{self, Allocator, Py, Settings, Snapshot, frames};
use ttmem_testkit::tt::{self, Layers, Scenario};

const MIB: u64 = 1 << 20;

/// A profile, and the peak of its only pool according to the model that made it.
struct Made {
    profile: Profile,
    peak: u64,
}

impl Made {
    /// How exact the sizes of a pool are: a log rounds them.
    fn quantum(&self) -> u64 {
        self.profile.ranks[0].pools.iter().map(|pool| pool.quantum).max().unwrap()
    }
}

fn opened(name: &str, bytes: &[u8]) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    read::open(path.to_str().unwrap()).unwrap()
}

fn of(before: &Profile, after: &Profile) -> RankDiff {
    let Diff { mut ranks, .. } = diff(before, after, &DiffRequest::default()).unwrap();
    assert_eq!(ranks.len(), 1);
    ranks.remove(0)
}

/// The comparison of two programs. The peaks are those of the models, and the other direction is the mirror image.
fn compared(before: &Made, after: &Made) -> RankDiff {
    for made in [before, after] {
        let same = of(&made.profile, &made.profile);
        assert_eq!((&*same.verdict, same.changes), ("No differences.", Vec::new()));
    }
    let (there, back) = (of(&before.profile, &after.profile), of(&after.profile, &before.profile));
    let pool = pool(&there);
    let quantum = before.quantum().max(after.quantum());
    for (found, made) in [(pool.before_per_bank, before), (pool.after_per_bank, after)] {
        assert!(found.unwrap().abs_diff(made.peak) <= quantum, "{found:?} {}", made.peak);
    }
    // The changes explain the difference of the peaks.
    let unexplained = pool.explained_per_bank - pool.change_per_bank.unwrap();
    assert!(unexplained.unsigned_abs() <= 2 * quantum, "{pool:#?} {:#?}", there.changes);
    let mirrored = |row: &ChangeRow| {
        (-row.effect_per_bank, shape(row.no_longer_overlaps.as_ref()), shape(row.now_overlaps.as_ref()))
    };
    let same = |row: &ChangeRow| {
        (row.effect_per_bank, shape(row.now_overlaps.as_ref()), shape(row.no_longer_overlaps.as_ref()))
    };
    let mut rows =
        [there.changes.iter().map(same).collect::<Vec<_>>(), back.changes.iter().map(mirrored).collect()];
    for rows in &mut rows {
        rows.sort_unstable();
    }
    assert_eq!(rows[0], rows[1]);
    there
}

/// Whether tensors overlap each other, and the number and bytes of the others that they overlap.
type Shape = (bool, [Option<(usize, u64)>; 2]);

fn shape(overlap: Option<&OverlapRow>) -> Option<Shape> {
    let overlap = overlap?;
    let others = [&overlap.freed_before, &overlap.allocated_after];
    Some((
        overlap.each_other,
        others.map(|others| others.as_ref().map(|others| (others.tensors, others.per_bank))),
    ))
}

fn pool(rank: &RankDiff) -> &PoolDiff {
    let mut used = rank.pools.iter().map(|(_, pool)| pool).filter(|pool| pool.before_per_bank != Some(0));
    let pool = used.next().unwrap();
    assert!(used.next().is_none());
    pool
}

/// The kind and description of the first change, which the verdict names.
fn first(rank: &RankDiff) -> (String, &str) {
    let row = &rank.changes[0];
    assert!(
        rank.verdict.contains(&format!("the largest change is {}: {}", row.title, row.detail)),
        "{}",
        rank.verdict
    );
    (serde_json::to_value(row.kind).unwrap().as_str().unwrap().to_owned(), &row.detail)
}

fn log(layers: Layers) -> Made {
    let mut log = Vec::new();
    let truth = tt::make(Scenario::Layers(layers), &tt::Options::default(), &mut log).unwrap();
    Made { profile: opened("layers.log", &log), peak: truth.pools["DRAM"].peak_per_bank }
}

/// A log, and one of a variant.
fn logs(after: Layers) -> RankDiff {
    compared(&log(Layers::default()), &log(after))
}

#[test]
fn a_log_with_twice_the_rows() {
    let rank = logs(Layers { rows: 512, ..Layers::default() });
    assert_eq!(first(&rank), ("resized".into(), "a dimension of 256 became 512"));
    // The input and five tensors of each layer.
    assert_eq!(rank.changes[0].tensors, 16);
    assert!(rank.changes[1..].iter().all(|row| row.effect_per_bank == 0), "{:#?}", rank.changes);
}

#[test]
fn a_log_with_another_element_type() {
    let rank = logs(Layers { is_wide: true, ..Layers::default() });
    assert_eq!(first(&rank), ("dtype".into(), "bf16 → f32"));
    assert!(rank.changes.iter().all(|row| row.kind == ChangeKind::Dtype), "{:#?}", rank.changes);
}

#[test]
fn a_log_with_another_layer() {
    let rank = logs(Layers { count: 4, ..Layers::default() });
    assert_eq!(first(&rank).0, "appeared");
    assert!(rank.changes[0].title.contains("layers.3"), "{}", rank.changes[0].title);
    let has_effect = |row: &&ChangeRow| row.effect_per_bank != 0;
    assert!(rank.changes.iter().filter(has_effect).all(|row| row.kind == ChangeKind::Appeared));
    assert_eq!((rank.operations.added, rank.operations.removed), (5, 0));
}

/// The kept sum of the first layer is live while the second one runs, which overlaps it for the first time.
#[test]
fn a_log_without_one_deallocation() {
    let rank = logs(Layers { keeps: true, ..Layers::default() });
    let (kind, detail) = first(&rank);
    assert_eq!(kind, "freed_later");
    assert!(detail.starts_with("freed before step "), "{detail}");
    let row = &rank.changes[0];
    assert_eq!((row.tensors, &*row.title), (1, "layers.0.add"));
    let overlap = row.now_overlaps.as_ref().unwrap();
    let others = overlap.allocated_after.as_ref().unwrap();
    assert_eq!((overlap.each_other, &overlap.freed_before, others.tensors), (false, &None, 4));
    assert_eq!(others.largest.len(), 3);
    assert_eq!(
        overlap.sentence,
        "layers.0.add is now live at the same time as layers.1.matmul, layers.1.exp, layers.1.relu and 1 other, which were \
         allocated after it was freed."
    );
    assert_eq!(rank.changes.len(), 1, "{:#?}", rank.changes);
}

#[test]
fn a_log_with_swapped_operations() {
    let rank = logs(Layers { swaps: true, ..Layers::default() });
    assert_eq!(first(&rank).0, "reordered");
    let operations = rank.operations;
    assert_eq!((operations.added, operations.removed, operations.reordered), (0, 0, 3));
    assert_eq!(pool(&rank).explained_per_bank, 0);
}

/// A program that trains a stack of equal layers.
#[derive(Clone, Copy)]
struct Training {
    /// The bytes of each activation.
    activation: u64,
    /// The bytes of each weight.
    weight: u64,
    layers: usize,
    /// Whether the loss of every iteration is kept in a list.
    keeps: bool,
    /// Whether the loss of every iteration is kept until the next one ends.
    lags: bool,
    /// Whether the mask is made before the input.
    swaps: bool,
    /// The script.
    script: &'static str,
}

impl Default for Training {
    fn default() -> Self {
        Self {
            activation: 4 * MIB,
            weight: 2 * MIB,
            layers: 3,
            keeps: false,
            lags: false,
            swaps: false,
            script: "/home/me/train.py",
        }
    }
}

/// The stacks of the program, by origin.
const WEIGHT: usize = 0;
const LINEAR: usize = 1;
const RELU: usize = 2;
const LOSS: usize = 3;
const INPUT: usize = 4;
const MASK: usize = 5;
const BACKWARD: usize = 6;

fn stacks(script: &str) -> Vec<Py> {
    let at = |library: Option<(&str, &str, u32)>, name: &str, line: u32| {
        let user = (name, script, line);
        frames(&library.into_iter().chain([user]).collect::<Vec<_>>())
    };
    let modules = "/lib/python3.12/site-packages/torch/nn/modules";
    let (linear, activation) = (format!("{modules}/linear.py"), format!("{modules}/activation.py"));
    vec![
        at(Some(("__init__", &linear, 98)), "__init__", 8),
        at(Some(("forward", &linear, 134)), "forward", 15),
        at(Some(("forward", &activation, 133)), "forward", 16),
        at(None, "step", 27),
        at(None, "step", 21),
        at(None, "step", 22),
        at(None, "step", 28),
    ]
}

impl Training {
    fn snapshot(self) -> Made {
        let mut allocator = Allocator::new(Settings::default());
        for _ in 0..self.layers {
            allocator.allocate(self.weight, 0, WEIGHT);
        }
        let mut last = None;
        for _ in 0..3 {
            let loss = self.iteration(&mut allocator);
            if let Some(address) = if self.lags { last.replace(loss) } else { Some(loss) }
                && !self.keeps
            {
                allocator.free(address, false, BACKWARD);
            }
        }
        let snapshot = Snapshot::of(&allocator, &stacks(self.script), torch::Options::default());
        let peak = allocator.events.iter().map(|event| event.levels.allocated).max().unwrap();
        Made { profile: opened("snapshot.pickle", &snapshot.pickle()), peak }
    }

    /// Returns the loss.
    fn iteration(self, allocator: &mut Allocator) -> u64 {
        let inputs = if self.swaps { [MASK, INPUT] } else { [INPUT, MASK] };
        let mut saved: Vec<u64> =
            inputs.map(|origin| allocator.allocate(self.activation / 2, 0, origin)).to_vec();
        for _ in 0..self.layers {
            saved.extend([LINEAR, RELU].map(|origin| allocator.allocate(self.activation, 0, origin)));
        }
        let loss = allocator.allocate(MIB, 0, LOSS);
        for address in saved.into_iter().rev() {
            allocator.free(address, false, BACKWARD);
        }
        loss
    }
}

/// A snapshot, and one of a variant.
fn snapshots(after: Training) -> RankDiff {
    compared(&Training::default().snapshot(), &after.snapshot())
}

#[test]
fn a_snapshot_with_twice_the_batch() {
    let rank = snapshots(Training { activation: 8 * MIB, ..Training::default() });
    let (kind, detail) = first(&rank);
    // A snapshot has no shapes.
    assert_eq!((&*kind, detail), ("resized", "4.0 MiB → 8.0 MiB"));
    assert!(rank.changes.iter().all(|row| row.effect_per_bank > 0), "{:#?}", rank.changes);
    // Weights have the same size.
    assert_eq!(rank.changes.iter().map(|row| row.tensors).sum::<usize>(), 3 * (2 + 2 * 3));
}

#[test]
fn a_snapshot_with_another_element_type() {
    let rank = snapshots(Training { activation: 2 * MIB, weight: MIB, ..Training::default() });
    assert_eq!(first(&rank), ("resized".into(), "4.0 MiB → 2.0 MiB"));
    assert!(rank.changes.iter().all(|row| row.effect_per_bank < 0), "{:#?}", rank.changes);
}

#[test]
fn a_snapshot_with_another_layer() {
    let rank = snapshots(Training { layers: 4, ..Training::default() });
    assert_eq!(first(&rank).0, "appeared");
    assert_eq!((rank.operations.added, rank.operations.removed), (1 + 3 * 2, 0));
    assert_eq!(rank.changes.iter().map(|row| row.tensors).sum::<usize>(), 1 + 3 * 2);
}

#[test]
fn a_snapshot_with_a_kept_tensor() {
    let rank = snapshots(Training { keeps: true, ..Training::default() });
    let (kind, detail) = first(&rank);
    assert_eq!(kind, "freed_later");
    assert!(detail.ends_with("never freed"), "{detail}");
    assert_eq!((rank.changes.len(), rank.changes[0].tensors), (1, 3));
    let overlap = rank.changes[0].now_overlaps.as_ref().unwrap();
    assert!(overlap.each_other && overlap.allocated_after.is_some(), "{overlap:?}");
    assert!(
        overlap.sentence.ends_with(" are now live at the same time as each other."),
        "{}",
        overlap.sentence
    );
}

/// Three losses are freed later, and two of them are live at the peak.
#[test]
fn a_snapshot_with_tensors_that_are_kept_for_an_iteration() {
    let rank = snapshots(Training { lags: true, ..Training::default() });
    let row = &rank.changes[0];
    assert_eq!((first(&rank).0.as_str(), row.tensors), ("freed_later", 3));
    let overlap = row.now_overlaps.as_ref().unwrap();
    assert_eq!((overlap.tensors, overlap.each_other), (2, true));
    let subject = format!("2 of {}", row.title);
    assert_eq!(overlap.sentence, format!("{subject} are now live at the same time as each other."));
}

#[test]
fn a_snapshot_with_swapped_operations() {
    let rank = snapshots(Training { swaps: true, ..Training::default() });
    assert_eq!(first(&rank).0, "reordered");
    let operations = rank.operations;
    assert_eq!((operations.added, operations.removed, operations.reordered), (0, 0, 3));
    assert_eq!(pool(&rank).explained_per_bank, 0);
}

/// Another checkout, a renamed script, and both together with a change.
#[test]
fn a_snapshot_of_another_checkout() {
    for script in ["/builds/17/repo/train.py", r"D:\a\repo\train.py", "/home/me/train_v2.py"] {
        let rank = snapshots(Training { script, ..Training::default() });
        assert_eq!((&*rank.verdict, rank.changes), ("No differences.", Vec::new()), "{script}");
        let rank = snapshots(Training { activation: 8 * MIB, script, ..Training::default() });
        assert_eq!(first(&rank), ("resized".into(), "4.0 MiB → 8.0 MiB"));
        assert_eq!((rank.operations.added, rank.operations.removed), (0, 0), "{script}");
    }
}
