//! Compares the logs with their truths. The logs are parsed in the simplest way: the goal is to catch errors of the
//! model, not to be a parser.

use std::collections::BTreeSet;

use super::chip::Pool;
use super::{Chip, ErrorEra, Layers, LayoutEra, Level, MemoryLevel, Modules, Options, Scenario, Truth, make};

fn scenarios() -> Vec<Scenario> {
    let layers = Scenario::Layers(Layers::default());
    let others = [Scenario::Repeated { ops: 700 }, Scenario::Distinct { ops: 700 }, layers];
    [&Scenario::KINDS[..], &others].concat()
}
const CHIPS: [Chip; 3] = [Chip::Wormhole, Chip::BlackholeP150, Chip::BlackholeP100];

fn log_of(scenario: Scenario, options: &Options) -> (String, Truth) {
    let mut log = Vec::new();
    let truth = make(scenario, options, &mut log).unwrap();
    (String::from_utf8(log).unwrap(), truth)
}

/// Every scenario, for some seeds on every chip, with exact states and without colors.
fn for_each(mut check: impl FnMut(&str, &Truth, &Options)) {
    for scenario in scenarios() {
        let seeds = if scenario == Scenario::Random { 30 } else { 4 };
        for seed in 0..seeds {
            for chip in CHIPS {
                let options = Options { seed, chip, color: false, exact_states: true, ..Options::default() };
                let (log, truth) = log_of(scenario, &options);
                check(&log, &truth, &options);
            }
        }
    }
}

/// The allocated thousandths of a mebibyte of one pool, in print order.
fn printed_states(log: &str, pool: &str) -> Vec<u64> {
    let head = format!("Device {pool} memory state: MemoryView{{");
    let number = |line: &str| {
        let (_, value) = line.split_once("totalBytesAllocatedPerBank: ").unwrap();
        value.split_once(" MB").unwrap().0.replace('.', "").parse().unwrap()
    };
    log.lines().filter(|line| line.contains(&head)).map(number).collect()
}

/// Whether a printed state is this many bytes after rounding.
fn is_rounded(thousandths: u64, bytes: u64) -> bool {
    (thousandths << 20).abs_diff(bytes * 1000) <= 1 << 19
}

#[test]
fn live_tensors_are_all_that_is_allocated() {
    for_each(|_, truth, options| {
        assert_eq!(truth.states, truth.tensors, "{} {}", truth.scenario, options.seed);
        assert_eq!(truth.live_sum_per_bank, truth.pools["DRAM"].peak_per_bank);
        assert_eq!(truth.live_by_class.values().sum::<u64>(), truth.live_sum_per_bank);
        assert_eq!(
            truth.live_at_dram_peak.iter().map(|tensor| tensor.per_bank).sum::<u64>(),
            truth.live_sum_per_bank
        );
        assert!(truth.residue.is_empty());
    });
}

#[test]
fn peaks_are_the_highest_states() {
    for_each(|_, truth, _| {
        let states = truth.states.as_ref().unwrap();
        for pool in Pool::ALL {
            let (states, pool) = (&states[pool.name()], &truth.pools[pool.name()]);
            assert_eq!(states.len() as u64, truth.total_ops + 1);
            let (last, before) = states.split_last().unwrap();
            let peak = before.iter().copied().max().unwrap();
            let first = before.iter().position(|&state| state == peak).map(|at| at as u64);
            assert_eq!((pool.peak_per_bank, pool.last), (peak, *last));
            assert_eq!(pool.peak_at_seq, first.filter(|_| peak > 0));
            match (pool.peak_at_seq, pool.caused_by_seq) {
                (Some(at), Some(cause)) => assert_eq!(cause + 1, at),
                (Some(at), None) => assert!(at == 0 || is_gap(truth, at), "arguments alone"),
                (None, cause) => assert_eq!(cause, None),
            }
            assert_eq!(pool.printed_peak_per_bank, peak);
            assert_eq!(Some(&pool.last_printed), before.last());
            assert!(peak <= pool.capacity_per_bank);
        }
    });
}

#[test]
fn the_log_shows_the_exact_states_rounded() {
    for_each(|log, truth, _| {
        for (pool, states) in truth.states.as_ref().unwrap() {
            let printed = printed_states(log, pool);
            assert_eq!(printed.len() as u64, truth.total_ops);
            assert!(printed.iter().zip(states).all(|(&shown, &bytes)| is_rounded(shown, bytes)));
        }
        let count = |text: &str| log.matches(text).count() as u64;
        assert_eq!(count("Executing operation: "), truth.total_ops);
        assert_eq!(
            count("Executing operation: ") - count("DeallocateOp") - count("GetDeviceOp"),
            truth.reported_ops
        );
        let unfinished = count("Starting execution") - count("Finished execution");
        assert_eq!(unfinished, u64::from(truth.oom.is_some()));
        assert_eq!(count("Cache miss"), count("executed sub-func"));
    });
}

#[test]
fn views_change_nothing_and_gaps_are_between_programs() {
    let mut seen = (0, 0);
    for_each(|_, truth, _| {
        let states = truth.states.as_ref().unwrap();
        for view in &truth.views {
            let at = usize::try_from(view.seq).unwrap();
            assert!(
                states.values().all(|states| states[at] == states[at + 1]) || is_gap(truth, view.seq + 1)
            );
        }
        assert!(truth.gaps.iter().all(|gap| gap.effect != 0 && gap.position < truth.total_ops));
        seen = (seen.0 + truth.views.len(), seen.1 + truth.gaps.len());
    });
    assert!(seen.0 > 100 && seen.1 > 50, "{seen:?}");
}

fn is_gap(truth: &Truth, position: u64) -> bool {
    truth.gaps.iter().any(|gap| gap.position == position)
}

#[test]
fn submitted_programs_show_the_gaps() {
    for seed in 0..20 {
        let options = Options { seed, memory: MemoryLevel::Program, ..Options::default() };
        let (log, truth) = log_of(Scenario::Random, &options);
        let states = printed_states(&log, "DRAM");
        assert_eq!(states.len() as u64, truth.runs * 2);
        let between =
            states[1..states.len() - 1].chunks(2).filter(|pair| pair[0].abs_diff(pair[1]) > 1).count();
        let gaps =
            truth.gaps.iter().filter(|gap| gap.pool == "DRAM" && gap.effect.unsigned_abs() > 2200).count();
        assert!(between >= gaps && between <= truth.gaps.len());
        let any = log_of(Scenario::Random, &Options { memory: MemoryLevel::Any, ..options });
        assert_eq!(printed_states(&any.0, "DRAM").len() as u64, truth.runs * 2 + truth.total_ops);
    }
}

#[test]
fn what_operations_leave_behind_is_the_rest() {
    let mut left = 0;
    for scenario in scenarios() {
        let options = Options { seed: 3, keep: true, exact_states: true, ..Options::default() };
        let (_, truth) = log_of(scenario, &options);
        let residue: u64 = truth.residue.values().sum();
        assert_eq!(truth.live_sum_per_bank + residue, truth.pools["DRAM"].peak_per_bank);
        let (states, tensors) =
            (&truth.states.as_ref().unwrap()["DRAM"], &truth.tensors.as_ref().unwrap()["DRAM"]);
        let rest: Vec<u64> = states.iter().zip(tensors).map(|(all, tensors)| all - tensors).collect();
        assert!(rest.is_sorted(), "what is left behind stays");
        left += residue;
    }
    assert!(left > 0);
}

#[test]
fn weights_may_be_there_twice() {
    let twice = |seed| log_of(Scenario::Llm, &Options { seed, ..Options::default() }).1.kept_twice_bytes;
    let bytes: Vec<u64> = (0..12).map(twice).collect();
    assert!(bytes.contains(&0) && bytes.iter().any(|&bytes| bytes > 0));
}

#[test]
fn shortages_have_the_cause_of_their_name() {
    for (scenario, cause) in
        [(Scenario::OomCapacity, "capacity"), (Scenario::OomFragmentation, "fragmentation")]
    {
        let mut pools = BTreeSet::new();
        for (seed, era) in (0..18).zip(ErrorEra::ALL.into_iter().cycle()) {
            for chip in CHIPS {
                let options = Options { seed, chip, error_era: era, ..Options::default() };
                let (log, truth) = log_of(scenario, &options);
                let oom = truth.oom.unwrap();
                assert_eq!(oom.cause, cause);
                assert!(oom.largest < oom.per_bank && (cause == "capacity" || oom.per_bank <= oom.free));
                assert_eq!(log.matches(&format!("to allocate {} B {}", oom.requested, oom.pool)).count(), 2);
                pools.insert(oom.pool);
            }
        }
        assert_eq!(pools.len(), if cause == "capacity" { 2 } else { 1 });
    }
    assert!(log_of(Scenario::Random, &Options::default()).1.oom.is_none());
}

#[test]
fn how_a_log_looks_does_not_change_its_truth() {
    let plain = Options { seed: 5, color: false, ..Options::default() };
    let looks = [
        Options { color: true, ..plain.clone() },
        Options { noise: 60, ..plain.clone() },
        Options { crlf: true, ..plain.clone() },
        Options { level: Level::Info, modules: Modules::None, ..plain.clone() },
        Options { modules: Modules::SignaturesOnly, ..plain.clone() },
        Options { prefix: "(EngineCore_DP0 pid=230) ".to_owned(), ..plain.clone() },
        Options { error_era: ErrorEra::Request, ..plain.clone() },
    ];
    let eras = LayoutEra::ALL.map(|era| Options { era, ..plain.clone() });
    for scenario in scenarios() {
        let (log, truth) = log_of(scenario, &plain);
        for options in looks.iter().chain(&eras) {
            let (other, same) = log_of(scenario, options);
            assert_eq!(same, truth);
            assert_eq!(printed_states(&other, "DRAM"), printed_states(&log, "DRAM"));
        }
        let colored = log_of(scenario, &looks[0]).0;
        assert_eq!(without_color(&colored), log);
        assert_eq!(log_of(scenario, &looks[2]).0.replace("\r\n", "\n"), log);
        assert_eq!(log_of(scenario, &looks[5]).0.replace("(EngineCore_DP0 pid=230) ", ""), log);
    }
}

fn without_color(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let first = pieces.next().unwrap().to_owned();
    pieces.fold(first, |plain, piece| plain + piece.split_once('m').unwrap().1)
}

#[test]
fn every_rank_prints_the_whole_log() {
    let plain = Options { seed: 2, ..Options::default() };
    let (log, truth) = log_of(Scenario::Llm, &plain);
    let lines: Vec<&str> = log.lines().collect();
    let (tagged, same) = log_of(Scenario::Llm, &Options { ranks: 3, ..plain.clone() });
    for rank in 0..3 {
        let tag = format!("[1,{rank}]<stdout>:");
        let own: Vec<&str> = tagged.lines().filter_map(|line| line.strip_prefix(&tag)).collect();
        assert_eq!(own, lines);
    }
    assert_eq!((tagged.lines().count(), same.ranks), (lines.len() * 3, 3));
    assert_eq!(Truth { ranks: 1, ..same }, truth);
    let turns = tagged.lines().map(|line| &line[..6]).collect::<Vec<_>>();
    assert!(turns.windows(2).filter(|pair| pair[0] != pair[1]).count() > lines.len() / 2);
    let (split, _) = log_of(Scenario::Llm, &Options { ranks: 2, split_streams: true, ..plain });
    assert!(
        split.lines().all(|line| line.contains("<stderr>:") != line.contains(" | ") || line.contains("MLIR"))
    );
}

#[test]
fn noise_only_adds_lines() {
    let quiet = Options { seed: 9, ..Options::default() };
    let (log, _) = log_of(Scenario::Vae, &quiet);
    let (noisy, _) = log_of(Scenario::Vae, &Options { noise: 100, ..quiet });
    let mut rest = noisy.lines();
    assert!(log.lines().all(|line| rest.any(|other| other == line)), "a subsequence");
    assert!(noisy.lines().count() > log.lines().count() * 3 / 2);
}

#[test]
fn states_at_deallocations_can_be_left_out() {
    let options = Options { states_at_deallocations: false, ..Options::default() };
    let (log, truth) = log_of(Scenario::Vae, &options);
    assert_eq!(printed_states(&log, "DRAM").len() as u64, truth.reported_ops);
    assert!(truth.pools["DRAM"].printed_peak_per_bank <= truth.pools["DRAM"].peak_per_bank);
}

#[test]
fn a_seed_names_one_log() {
    for scenario in scenarios() {
        let logs: BTreeSet<String> =
            [1, 1, 2, 3, 4].map(|seed| log_of(scenario, &Options { seed, ..Options::default() }).0).into();
        // Layers are compared with each other, so nothing about them is drawn.
        let is_drawn = !matches!(scenario, Scenario::Layers(_));
        assert_eq!(logs.len(), if is_drawn { 4 } else { 1 }, "{scenario:?}");
    }
}

#[test]
fn dumped_modules_define_what_they_use() {
    for scenario in scenarios() {
        let (log, _) = log_of(scenario, &Options { seed: 6, ..Options::default() });
        for module in log.split("END OF MLIR MODULE").filter(|module| module.contains("MLIR Module ")) {
            let module = &module[module.find("MLIR Module ").unwrap()..];
            let words =
                module.split(|letter: char| !(letter.is_ascii_alphanumeric() || "#_".contains(letter)));
            let aliases: BTreeSet<&str> =
                words.filter(|word| word.starts_with("#loc") || word.starts_with("#ttnn_layout")).collect();
            assert!(aliases.contains("#loc"));
            for alias in aliases {
                assert!(module.contains(&format!("\n{alias} = ")), "{alias} in {scenario:?}");
            }
        }
    }
}

#[test]
fn large_logs_have_the_size_of_real_ones() {
    let (log, truth) = log_of(Scenario::Repeated { ops: 3000 }, &Options::default());
    let per_op = log.len() as u64 / truth.total_ops;
    assert!((1500..1800).contains(&per_op), "{per_op} bytes per operation");
    assert!(truth.total_ops >= 3000 && truth.runs > 10 && truth.views.is_empty() && truth.gaps.is_empty());
}

#[test]
fn distinct_operations_are_distinct() {
    let options = Options { modules: Modules::None, ..Options::default() };
    let (log, truth) = log_of(Scenario::Distinct { ops: 5000 }, &options);
    let texts: BTreeSet<&str> = log
        .lines()
        .filter_map(|line| line.split_once("Executing operation: "))
        .map(|(_, text)| text)
        .collect();
    assert_eq!(texts.len() as u64, truth.total_ops);
    assert!(truth.total_ops >= 5000 && truth.oom.is_none());
    assert!((1300..2000).contains(&(log.len() as u64 / truth.total_ops)));
}
