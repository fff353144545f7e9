//! Recordings of several ranks: their order, how the worst differs from the others, and one profile with all of them.

use std::fs;
use std::path::{Path, PathBuf};

use ttmem::model::{Class, Launch, Profile, Source};
use ttmem::query::{CheckRequest, Checked, Outcome, Request, Summary, check, summary};
use ttmem::read;
use ttmem::record::live::{Allocation, FailedAllocation, Options, Recorder, TypeOf};

const MIB: u64 = 1 << 20;

/// A rank that allocates parameters and activations of these sizes in MiB, and may run out of memory.
struct Ran {
    rank: u32,
    parameters: u64,
    activations: u64,
    fails: bool,
    limit: Option<u64>,
}

fn ran(rank: u32, parameters: u64, activations: u64) -> Ran {
    Ran { rank, parameters, activations, fails: false, limit: None }
}

fn recorded(folder: &Path, ran: &Ran, of: u32) -> PathBuf {
    let path = folder.join(format!("memory_profile_rank{}_20261118_120000.ttmem", ran.rank));
    let mut recorder =
        Recorder::recording_with(&path, Options { limit: ran.limit, ..Options::default() }).unwrap();
    // The ids of texts differ between ranks.
    for number in 0..ran.rank {
        recorder.text(&format!("text {number}"));
    }
    let label = Some(recorder.text(&ran.rank.to_string()));
    let (host, torch) = (Some(recorder.text("gpu-7")), Some(recorder.text("2.9.0")));
    let (rank, world_size) = (Some(ran.rank), Some(of));
    let arguments = ["train.py", "--fast"].map(|argument| recorder.text(argument));
    let launch = Launch { label, rank, world_size, host, torch, pid: Some(4242), ..Launch::default() };
    recorder.launch(launch, &arguments);
    let pool = recorder.pool(&format!("cuda:{}", ran.rank), false);
    let dtype = recorder.text("torch.float32");
    for (bytes, class) in [(ran.parameters, Class::Parameter), (ran.activations, Class::Activation)] {
        let bytes = bytes * MIB;
        let name = recorder.text(&format!("aten::empty_{}", ran.rank));
        let op = recorder.op(name, None, None);
        let ty = recorder.tensor_type(TypeOf { shape: &[bytes / 4], dtype, bytes });
        recorder.allocated(Allocation { pool, bytes, op, ty, class, within: None }).unwrap();
    }
    if ran.limit.is_some() {
        let name = recorder.text("aten::small");
        let op = recorder.op(name, None, None);
        for number in 0..20_000 {
            let allocation = Allocation {
                pool,
                bytes: 1 + number % 99,
                op,
                ty: None,
                class: Class::Temporary,
                within: None,
            };
            let place = recorder.allocated(allocation).unwrap();
            recorder.freed(place, None);
        }
    }
    if ran.fails {
        let name = recorder.text("aten::empty");
        let op = Some(recorder.op(name, None, None));
        let (bytes, free, within) = (Some(MIB), Some(0), None);
        let pool = &*format!("cuda:{}", ran.rank);
        let message = "CUDA out of memory";
        recorder.allocation_failed(FailedAllocation { pool, bytes, free, op, within, message });
        recorder.last_failure_ended_program();
    }
    recorder.finish().unwrap();
    path
}

fn opened(paths: &[PathBuf]) -> Vec<Profile> {
    paths.iter().map(|path| read::open(path.to_str().unwrap()).unwrap()).collect()
}

fn answer(profiles: &[Profile]) -> Summary {
    summary(profiles, &Request::default()).unwrap()
}

fn sentence(all: &[Ran], of: u32) -> (String, Option<String>) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = all.iter().map(|ran| recorded(folder.path(), ran, of)).collect();
    let found = answer(&opened(&paths)).comparison.unwrap();
    (found.sentence, found.missing)
}

#[test]
fn the_worst_rank_is_compared_with_the_median() {
    let all = [ran(0, 100, 50), ran(1, 100, 90), ran(2, 100, 60), ran(3, 100, 55)];
    let (found, missing) = sentence(&all, 4);
    let expected = "Rank 1 has the highest peak, 190.0 MiB, 35.0 MiB (22.6%) more than the median rank (rank 3): \
                    activations +35.0 MiB.";
    assert_eq!((&*found, missing), (expected, None));
    let fails = [ran(0, 100, 50), Ran { fails: true, ..ran(1, 40, 55) }, ran(2, 100, 60)];
    let (found, missing) = sentence(&fails, 5);
    let expected = "Rank 1 ran out of memory after a peak of 95.0 MiB, 55.0 MiB (36.7%) less than the median rank \
                    (rank 0): parameters -60.0 MiB, activations +5.0 MiB.";
    assert_eq!(found, expected);
    assert_eq!(missing.unwrap(), "The comparison covers 3 of 5 ranks; no recording of rank 3, 4.");
    let (found, _) = sentence(&[ran(0, 100, 50), ran(1, 100, 50)], 2);
    assert_eq!(found, "The peaks of both ranks are equal (150.0 MiB).");
    let (found, _) = sentence(&[ran(0, 1000, 50), ran(1, 1000, 51), ran(2, 1000, 52)], 3);
    assert_eq!(found, "The peaks of all 3 ranks differ by less than 1% (1.03 GiB to 1.03 GiB).");
}

/// The ranks of a program, compared with those of another run.
fn checked(after: &[Ran], before: &[Ran]) -> Checked {
    let of = |all: &[Ran]| {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = all.iter().map(|ran| recorded(folder.path(), ran, 3)).collect();
        opened(&paths)
    };
    check(&of(after), &of(before), &CheckRequest::default()).unwrap()
}

#[test]
fn ranks_are_compared_with_those_of_a_baseline() {
    let before = [ran(0, 100, 50), ran(1, 100, 90)];
    let found = checked(&[ran(0, 100, 50), ran(1, 100, 190)], &before);
    let results: Vec<_> = found.ranks.iter().map(|rank| (rank.rank.as_deref(), rank.result)).collect();
    assert_eq!(results, [(Some("1"), Outcome::Failed), (Some("0"), Outcome::Passed)]);
    let message = &found.ranks[0].limits[0].message;
    assert!(message.starts_with("The peak of cuda:1 grew by 100.0 MiB"), "{message}");
    // A folder of the same ranks in another order is the same baseline.
    let reversed = [ran(1, 100, 90), ran(0, 100, 50)];
    let again = checked(&[ran(0, 100, 50), ran(1, 100, 190)], &reversed);
    assert_eq!(again.ranks[0].limits, found.ranks[0].limits);
    // A rank that only one of them has cannot be checked.
    let more = checked(&[ran(0, 100, 50), ran(1, 100, 90), ran(2, 1, 1)], &before);
    assert_eq!((more.result, more.failed, more.unknown), (Outcome::Unknown, 0, 1));
    assert_eq!(more.ranks[0].limits[0].message, "The baseline has no rank 2.");
    let fewer = checked(&[ran(0, 100, 50)], &before);
    assert_eq!((fewer.result, fewer.failed, fewer.unknown), (Outcome::Unknown, 0, 1));
    assert_eq!(fewer.ranks[0].limits[0].message, "Only the baseline has rank 1.");
}

#[test]
fn the_outlier_is_first() {
    let folder = tempfile::tempdir().unwrap();
    let all = [ran(0, 10, 5), ran(1, 10, 9), Ran { fails: true, ..ran(2, 10, 1) }, ran(3, 10, 7)];
    let paths: Vec<PathBuf> = all.iter().map(|ran| recorded(folder.path(), ran, 4)).collect();
    let found = answer(&opened(&paths));
    let labels: Vec<&str> = found.ranks.iter().filter_map(|rank| rank.rank.as_deref()).collect();
    assert_eq!(labels, ["2", "1", "3", "0"]);
    // The folder stands for these files.
    let ranks = read::ranks_in(folder.path());
    assert_eq!((ranks.files, ranks.others), (paths.clone(), Vec::new()));
    fs::rename(&paths[3], folder.path().join("copy.ttmem")).unwrap();
    let ranks = read::ranks_in(folder.path());
    assert_eq!((ranks.files.len(), ranks.files[3].file_name().unwrap().to_str()), (4, Some("copy.ttmem")));
}

/// One profile with all ranks has the same answers as the files.
#[test]
fn merged_recordings_say_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let all = [ran(0, 10, 5), ran(1, 12, 9), Ran { fails: true, ..ran(2, 8, 1) }];
    let paths: Vec<PathBuf> = all.iter().map(|ran| recorded(folder.path(), ran, 3)).collect();
    let profiles = opened(&paths);
    let source = Source { format: Source::RECORDING.into(), file: "profiles".into() };
    let merged = Profile::merged(&profiles, source).unwrap();
    assert!(merged.complete && merged.ranks.len() == 3);
    let (apart, mut together) = (answer(&profiles), answer(std::slice::from_ref(&merged)));
    for (one, rank) in together.ranks.iter_mut().zip(&apart.ranks) {
        assert_eq!(one.file, "profiles");
        one.file.clone_from(&rank.file);
    }
    assert_eq!(together.ranks, apart.ranks);
    let sentence = |found: &Summary| found.comparison.as_ref().map(|found| found.sentence.clone());
    assert_eq!(sentence(&together), sentence(&apart));
    // A program that merges merged profiles gets the same.
    let source = merged.source.clone();
    assert_eq!(Profile::merged(std::slice::from_ref(&merged), source).unwrap().ranks, merged.ranks);
}

/// Snapshots do not contain their rank.
#[test]
fn a_folder_of_snapshots_is_one_answer() {
    let folder = tempfile::tempdir().unwrap();
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/torch_snapshot");
    for (of, name) in [
        ("train_gpt2_30m", "iteration_9/rank0_memory_snapshot.pickle.gz"),
        ("train_gpt2_30m", "iteration_10/rank0_memory_snapshot.pickle.gz"),
        ("oom_gpt2_124m", "iteration_10/rank1_memory_snapshot.pickle.gz"),
    ] {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::copy(corpus.join(format!("{of}.pickle.gz")), path).unwrap();
    }
    let ranks = read::ranks_in(folder.path());
    assert!(ranks.have_different_ranks());
    let warning = ranks.warnings(folder.path()).remove(0).message;
    assert!(warning.contains("(iteration_9/rank0_memory_snapshot.pickle.gz)"), "{warning}");
    let profiles = opened(&ranks.files);
    let apart = answer(&profiles);
    let labels: Vec<&str> = apart.ranks.iter().filter_map(|rank| rank.rank.as_deref()).collect();
    assert_eq!(labels, ["1", "0"]);
    let of_rank = Request { rank: Some("0".into()), ..Request::default() };
    assert_eq!(summary(&profiles, &of_rank).unwrap().ranks.len(), 1);
    let found = apart.comparison.clone().unwrap();
    assert!(found.sentence.starts_with("Rank 1 ran out of memory after a peak of 2.43 GiB"), "{found:?}");
    // The report is about one profile with all ranks.
    let source = Source { format: profiles[0].source.format.clone(), file: "snapshots".into() };
    let together = answer(&[Profile::merged(&profiles, source).unwrap()]);
    let sentence = together.comparison.as_ref().map(|found| &found.sentence);
    assert_eq!(sentence, Some(&found.sentence));
    let peaks =
        |of: &Summary| of.ranks.iter().map(|rank| (rank.rank.clone(), rank.peak.clone())).collect::<Vec<_>>();
    assert_eq!(peaks(&together), peaks(&apart));
}

/// The process is in every file of a recording with a limit.
#[test]
fn the_process_survives_a_change_of_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = recorded(folder.path(), &Ran { limit: Some(30_000), ..ran(3, 10, 5) }, 4);
    let before = path.with_extension("before.ttmem");
    let peak = path.with_extension("peak.ttmem");
    let files: Vec<PathBuf> = [path, before, peak].into_iter().filter(|path| path.exists()).collect();
    assert!(files.len() > 1, "{files:?}");
    for profile in opened(&files) {
        let found = answer(std::slice::from_ref(&profile));
        let launch = found.ranks[0].launch.clone().unwrap();
        assert_eq!(launch.argv, ["train.py", "--fast"]);
        assert_eq!((launch.pid, launch.rank, launch.world_size), (Some(4242), Some(3), Some(4)));
        assert_eq!(launch.text(), "rank 3 of 4 on gpu-7, PyTorch 2.9.0");
        assert_eq!(found.ranks[0].rank.as_deref(), Some("3"));
    }
}
