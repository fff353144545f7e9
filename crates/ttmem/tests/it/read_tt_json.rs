//! The JSON files of a report, read without its profile: as much as they tell, and nothing more.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use tempfile::{TempDir, tempdir};
use ttmem::model::{CurveKind, Moment, Profile, Rank, Step};
use ttmem::query::{RankSummary, Request, Summary, summary};
use ttmem::store::write_report;
use ttmem::{Error, read};
use ttmem_testkit::random::Random;
use ttmem_testkit::sweep;
use ttmem_testkit::tt::{Level, MemoryLevel, Modules, Options, Scenario, make};

const MIB: u64 = 1 << 20;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_json")
}

fn malformed(name: &str) -> String {
    corpus().join("malformed").join(name).to_str().unwrap().to_owned()
}

fn open(path: &Path) -> Profile {
    read::open(path.to_str().unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn answer(profile: &Profile) -> Summary {
    summary(std::slice::from_ref(profile), &Request::default()).unwrap()
}

fn messages(profile: &Profile) -> Vec<&str> {
    profile.warnings.iter().map(|warning| warning.message.as_str()).collect()
}

// ------------------------------------------------------------------------------------------------ our own files

/// A log of each kind, with its report in a folder.
fn all_made() -> Vec<(TempDir, Profile)> {
    let scenarios = [&Scenario::KINDS[..], &[Scenario::Distinct { ops: 200 }]].concat();
    let options = [
        Options { seed: 13, ..Options::default() },
        Options { seed: 14, noise: 20, memory: MemoryLevel::Any, ..Options::default() },
        Options { seed: 15, ranks: 2, ..Options::default() },
        Options { seed: 16, level: Level::Info, ..Options::default() },
        Options {
            seed: 17,
            states_at_deallocations: false,
            modules: Modules::SignaturesOnly,
            ..Options::default()
        },
        Options { seed: 18, modules: Modules::None, keep: true, ..Options::default() },
    ];
    let pairs = sweep::pairs(&scenarios, &options);
    let mut all: Vec<(TempDir, Profile)> =
        pairs.map(|(scenario, options)| made(*scenario, options)).collect();
    // More of those with everything that may happen in a program.
    all.extend(
        (100..sweep::cases(110, 300))
            .map(|seed| made(Scenario::Random, &Options { seed, ..Options::default() })),
    );
    all
}

fn made(scenario: Scenario, options: &Options) -> (TempDir, Profile) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("made.log");
    let mut log = Vec::new();
    make(scenario, options, &mut log).unwrap();
    fs::write(&path, log).unwrap();
    let mut profile = open(&path);
    write_report(&mut profile, None, folder.path(), "x").unwrap();
    fs::remove_file(&path).unwrap();
    keep_json(folder.path(), "x");
    (folder, profile)
}

/// Removes all files of a report that tt-memory-profiler 0.x does not write.
fn keep_json(folder: &Path, name: &str) {
    for end in [".ttmem", "_summary.md", "_summary.json", "_about.json", "_report.html"] {
        fs::remove_file(folder.join(format!("{name}{end}"))).unwrap();
    }
}

/// The ranks of a profile that have files, each with what was read from them.
fn ranks_with_files<'a>(
    folder: &Path,
    profile: &'a Profile,
) -> Vec<(&'a Rank, RankSummary, Profile, PathBuf)> {
    let ranks: Vec<&Rank> = profile.ranks.iter().filter(|rank| rank.has_content()).collect();
    let answers = answer(profile).ranks;
    let several = ranks.len() > 1;
    let with_files = ranks.into_iter().zip(answers).map(|(rank, answer)| {
        let label = answer.rank.as_deref().unwrap_or("").replace(',', "-");
        let stem = if several { format!("x_rank{label}") } else { "x".to_owned() };
        let memory = folder.join(format!("{stem}_memory.json"));
        (rank, answer, open(&memory), memory)
    });
    with_files.collect()
}

/// The steps that have rows.
fn reported(profile: &Profile, rank: &Rank) -> Vec<Step> {
    (0..rank.end()).filter(|step| profile.op_kind(rank, *step).is_reported()).collect()
}

#[test]
fn what_the_files_tell_is_what_the_profile_tells() {
    for (folder, profile) in all_made() {
        for (rank, full, files, _) in ranks_with_files(folder.path(), &profile) {
            let found = answer(&files).ranks.remove(0);
            let steps = reported(&profile, rank);
            assert_eq!(found.rank, full.rank);
            assert_eq!(
                (found.operations.total as usize, found.operations.reported),
                (steps.len(), full.operations.reported)
            );
            assert_eq!(
                (found.operations.weight, found.operations.activation),
                (full.operations.weight, full.operations.activation)
            );
            assert_eq!(found.distribution, full.distribution);
            let declared =
                |rank: &RankSummary| rank.weights.as_ref().map(|weights| (weights.count, weights.bytes));
            assert_eq!(declared(&found), declared(&full));
            assert_eq!(found.inputs, full.inputs);
            check_pools((&profile, rank, &full), (&files, &found), &steps);
            assert!(full.runs > found.runs || full.passes == found.passes);
            check_programs((&profile, rank), &files, &steps);
            // Nothing is made up of what is not in them.
            assert!(
                found.peaks.iter().all(|(_, peak)| peak.live.is_none() && peak.explained_per_bank.is_none())
            );
            assert!(found.pools.iter().all(|(_, pool)| pool.final_per_bank.is_none()));
            assert!(found.padding.is_none() && found.oom.is_none());
        }
    }
}

/// The pools agree wherever they were looked at before an operation that has a row.
fn check_pools(
    (profile, rank, full): (&Profile, &Rank, &RankSummary),
    (files, found): (&Profile, &RankSummary),
    steps: &[Step],
) {
    let names = |rank: &RankSummary| rank.pools.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>();
    assert_eq!(names(found), names(full));
    for (name, pool) in found.pools.iter() {
        let of_log = full.pools.get(name).unwrap();
        let (_, curves) = rank.pool_named(profile, name).unwrap();
        let allocated = curves.curve(CurveKind::Allocated);
        let seen: Vec<(usize, u64)> = steps
            .iter()
            .enumerate()
            .filter(|(_, step)| curves.observed.contains(Moment::before(**step)))
            .filter_map(|(row, step)| Some((row, allocated?.value_at(Moment::before(*step))?)))
            .collect();
        assert_eq!(pool.banks, of_log.banks);
        let highest = seen.iter().map(|(_, value)| *value).max();
        assert_eq!(pool.peak_per_bank, highest, "{name}");
        assert!(pool.peak_per_bank <= of_log.peak_per_bank, "{name}");
        if let Some(highest) = highest {
            assert!(
                pool.capacity_per_bank.unwrap().abs_diff(of_log.capacity_per_bank.unwrap())
                    <= of_log.quantum_per_bank
            );
            assert_eq!(pool.quantum_per_bank, of_log.quantum_per_bank);
            let row = seen.iter().find(|(_, value)| *value == highest).unwrap().0;
            assert_eq!(pool.peak_step, (highest > 0).then_some(u32::try_from(row).unwrap()), "{name}");
            let here = files.ranks.first().unwrap();
            let step = u32::try_from(row).unwrap();
            assert_eq!(files.op_name(here, step), profile.op_name(rank, steps[row]));
            assert_eq!(files.op_loc(here, step), profile.op_loc(rank, steps[row]));
        }
    }
}

/// Every row ran in the program, and in the run, that it ran in; runs without rows are not there.
fn check_programs((profile, rank): (&Profile, &Rank), files: &Profile, steps: &[Step]) {
    let here = files.ranks.first().unwrap();
    let numbers = |rank: &Rank, steps: &mut dyn Iterator<Item = Step>| {
        let of_run = rank.run_numbers();
        let mut seen = Vec::new();
        let number = |step: Step| of_run[rank.steps.run[step as usize]?.index()].into();
        steps
            .map(|step| {
                let number: Option<usize> = number(step);
                number.map(|number| {
                    let known = seen.iter().position(|known| *known == number);
                    known.unwrap_or_else(|| {
                        seen.push(number);
                        seen.len() - 1
                    })
                })
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(numbers(here, &mut (0..here.end())), numbers(rank, &mut steps.iter().copied()));
    for (row, step) in (0..).zip(steps) {
        let (found, full) = (here.run_of(row), rank.run_of(*step));
        assert_eq!(found.map(|run| files.text(run.program)), full.map(|run| profile.text(run.program)));
        assert_eq!(found.map(|run| run.const_eval), full.map(|run| run.const_eval));
        let module = |rank: &Rank, step: Step| rank.module_of(rank.steps.run[step as usize]?);
        assert_eq!(module(here, row), module(rank, *step));
    }
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Rows without what only the profile knows.
fn known(rows: &Value, unknown: &[&str]) -> Vec<Map<String, Value>> {
    let row = |row: &Value| {
        let mut row = row.as_object().unwrap().clone();
        row.retain(|key, _| !unknown.contains(&key.as_str()));
        row
    };
    rows.as_array().unwrap().iter().map(row).collect()
}

#[test]
fn a_report_of_the_files_has_the_same_rows_and_is_the_same_from_then_on() {
    for (folder, profile) in all_made() {
        for (_, _, mut files, memory) in ranks_with_files(folder.path(), &profile) {
            let (second, third) = (folder.path().join("second"), folder.path().join("third"));
            write_report(&mut files, None, &second, "x").unwrap();
            let first = |end: &str| {
                let name = memory.file_name().unwrap().to_str().unwrap().replace("_memory.json", end);
                read_json(&folder.path().join(name))
            };
            let again = |end: &str| read_json(&second.join(format!("x{end}")));
            let (before, after) = (first("_memory.json"), again("_memory.json"));
            let only_profile = ["step", "unpadded_memory"];
            assert_eq!(
                known(&after["operations"], &only_profile),
                known(&before["operations"], &only_profile)
            );
            let (before, after) = (first("_operations.json"), again("_operations.json"));
            let only_profile = ["step", "run", "weights"];
            assert_eq!(known(&after, &only_profile), known(&before, &only_profile));
            // Weights are followed through views, which only the lives of tensors tell.
            assert!(after.as_array().unwrap().iter().all(|row| row["weights"].is_null()));
            assert_eq!(again("_inputs_registry.json")["entries"], first("_inputs_registry.json")["entries"]);
            let (before, after) = (first("_ir.json"), again("_ir.json"));
            let same = after == before;
            assert!(same, "the texts of {} differ", memory.display());

            keep_json(&second, "x");
            let mut files = open(&second);
            write_report(&mut files, None, &third, "x").unwrap();
            for end in ["_operations.json", "_inputs_registry.json", "_ir.json"] {
                let text = |folder: &Path| fs::read_to_string(folder.join(format!("x{end}"))).unwrap();
                assert!(text(&third) == text(&second), "{end} of {} differs", memory.display());
            }
            let memory = |folder: &Path| read_json(&folder.join("x_memory.json"))["operations"].take();
            assert_eq!(memory(&third), memory(&second));
            fs::remove_dir_all(&second).unwrap();
            fs::remove_dir_all(&third).unwrap();
        }
    }
}

/// A rank's files say which rank they are of, and that there are others.
#[test]
fn a_folder_of_several_ranks_is_that_of_the_rank_with_the_highest_peak() {
    let (folder, profile) = made(Scenario::Vae, &Options { ranks: 3, ..Options::default() });
    let files = open(folder.path());
    assert_eq!(files.ranks.len(), 1);
    let label = answer(&files).ranks[0].rank.clone().unwrap();
    assert_eq!(label, "1,0");
    assert!(
        messages(&files).iter().any(|text| text.contains("rank 1,0") && text.contains("x_rank*_memory.json"))
    );
    let one = open(&folder.path().join("x_rank1-2_memory.json"));
    assert_eq!(answer(&one).ranks[0].rank.as_deref(), Some("1,2"));
    assert!(!messages(&one).iter().any(|text| text.contains("other ranks")), "{:?}", messages(&one));
    assert_eq!(profile.ranks.len(), 3);
}

// -------------------------------------------------------------------------------- files of tt-memory-profiler 0.x

/// Files as tt-memory-profiler 0.x writes them, from ours.
fn as_the_earlier_tool_writes_them(folder: &Path) {
    let path = |end: &str| folder.join(format!("x{end}"));
    let mut memory = read_json(&path("_memory.json"));
    let mut operations = read_json(&path("_operations.json"));
    memory["metadata"]
        .as_object_mut()
        .unwrap()
        .retain(|key, _| key == "memory_config" || key == "total_operations");
    let programs: Vec<String> = operations
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["program"].as_str().unwrap_or_default().to_owned())
        .collect();
    let pairs =
        memory["operations"].as_array_mut().unwrap().iter_mut().zip(operations.as_array_mut().unwrap());
    for (index, (memory, operation)) in pairs.enumerate() {
        // It goes by names alone, and takes the name of a function that is called for that of the operation.
        let program = &programs[index];
        let inside = program.contains("const_eval");
        let called = programs.get(index + 1).filter(|next| *next != program);
        for row in [&mut *memory, &mut *operation] {
            let row = row.as_object_mut().unwrap();
            row.remove("step");
            bare_location(row);
            row.insert("const_eval_graph".into(), inside.then_some(program.as_str()).into());
            row.insert("const_eval_cache_miss".into(), inside.into());
            row.insert("is_weight_op".into(), inside.into());
            if row["mlir_op"] == "func.call" {
                row.insert("mlir_op".into(), called.map_or("f", String::as_str).into());
            }
        }
        let operation = operation.as_object_mut().unwrap();
        if operation["mlir_op"] == "ttcore.load_cached" {
            let function = called.map_or("@main_const_eval_0".into(), |name| format!("@{name}"));
            let inputs = operation["inputs"].as_array_mut().unwrap();
            inputs.insert(0, function.into());
        }
        for key in ["program", "run", "graph", "results"] {
            operation.remove(key);
        }
        // `%5:2 = …` was not understood, nor was what a call returns.
        let is_call = !operation["mlir_op"].as_str().unwrap().contains('.');
        if is_call || operation["result"].as_str().is_some_and(|result| result.contains('#')) {
            operation.insert("result".into(), Value::Null);
        }
    }
    fs::write(path("_memory.json"), serde_json::to_string_pretty(&memory).unwrap()).unwrap();
    fs::write(path("_operations.json"), serde_json::to_string_pretty(&operations).unwrap()).unwrap();
}

/// What stands between the first two quotes.
fn bare_location(row: &mut Map<String, Value>) {
    let bare = row["loc"].as_str().and_then(|loc| loc.split('"').nth(1)).map(str::to_owned);
    row.insert("loc".into(), bare.into());
}

#[test]
fn without_names_of_programs_runs_are_told_by_the_numbers_of_results() {
    let scenarios = [
        (Scenario::Vae, 1),
        (Scenario::Llm, 1),
        (Scenario::TwoGraphs, 1),
        (Scenario::OomFragmentation, 1),
        (Scenario::Random, 8),
    ];
    for (scenario, seeds) in scenarios {
        for seed in 0..sweep::cases(seeds, seeds * 10) {
            let (folder, profile) = made(scenario, &Options { seed, ..Options::default() });
            as_the_earlier_tool_writes_them(folder.path());
            let files = open(folder.path());
            let (full, found) = (answer(&profile).ranks.remove(0), answer(&files).ranks.remove(0));
            assert_eq!((found.runs, found.passes), (full.runs, full.passes), "{scenario:?} {seed}");
            assert_eq!(found.distribution, full.distribution, "{scenario:?} {seed}");
            let runs = |profile: &Profile| {
                let rank = &profile.ranks[0];
                let numbers = rank.run_numbers();
                let run = |step: &Step| rank.steps.run[*step as usize].unwrap();
                let row = |step| (numbers[run(step).index()], rank.run(run(step)).unwrap().const_eval);
                reported(profile, rank).iter().map(row).collect::<Vec<_>>()
            };
            let rank = &files.ranks[0];
            for (row, (found, full)) in (0..).zip(runs(&files).into_iter().zip(runs(&profile))) {
                assert_eq!(found.1, full.1, "{scenario:?} {seed}, row {row}");
                // A run whose first results have no numbers is noticed at the first that has one.
                let is_numbered = !files.op_of(rank, row).unwrap().results.is_empty();
                let late = usize::from(!is_numbered || rank.run_of(row).unwrap().parent.is_some());
                assert!((found.0..=found.0 + late).contains(&full.0), "{scenario:?} {seed}, row {row}");
            }
        }
    }
}

#[test]
fn functions_that_are_called_are_no_runs_of_their_own() {
    // main calls f, which numbers its results from 0, and goes on; then everything again.
    let row = |index: usize, name: &str, result: Value| {
        let used = f64::from(u32::try_from(index).unwrap());
        let memory = json!({"index": index, "mlir_op": name, "loc": null, "is_weight_op": false,
            "memory": {"DRAM": {"numBanks": 12, "totalBytesAllocatedPerBank_MB": used}}});
        let operation = json!({"index": index, "mlir_op": name, "loc": null, "result": result,
            "output_type": "tensor<2x2xf32>"});
        (memory, operation)
    };
    let run = [
        ("ttnn.add", json!("%0")),
        ("ttnn.add", json!("%1")),
        ("f", json!("%2")),
        ("ttnn.silu", json!("%0")),
        ("ttnn.silu", json!("%1")),
        ("ttnn.silu", json!("%5")),
        ("ttnn.split", Value::Null),
        ("ttnn.add", json!("%4")),
    ];
    let rows = run.iter().chain(&run).enumerate();
    let (memory, operations): (Vec<Value>, Vec<Value>) =
        rows.map(|(index, (name, result))| row(index, name, result.clone())).unzip();
    let folder = tempdir().unwrap();
    let write = |end: &str, value: Value| fs::write(folder.path().join(end), value.to_string()).unwrap();
    write("x_memory.json", json!({"metadata": {"memory_config": {}}, "operations": memory}));
    write("x_operations.json", json!(operations));
    let files = open(folder.path());
    let runs: Vec<(u32, u32)> = files.ranks[0].runs.iter().map(|run| (run.first, run.end)).collect();
    assert_eq!(runs, [(0, 8), (8, 16)]);
    // The tool has the name of the function where it is called.
    assert_eq!(files.op_name(&files.ranks[0], 2), Some("func.call"));
}

#[test]
fn a_report_of_the_earlier_tool_is_read() {
    let profile = open(&corpus().join("small_model"));
    assert_eq!(profile.source.format, "tt_json");
    assert!(profile.complete);
    let [warning, earlier] = messages(&profile)[..] else { panic!("{:?}", profile.warnings) };
    assert!(warning.contains("deallocations") && warning.contains("live tensors"), "{warning}");
    assert!(earlier.contains("tt-memory-profiler 0.x"), "{earlier}");
    let rank = answer(&profile).ranks.remove(0);
    assert_eq!((rank.runs, rank.passes, rank.operations.total, rank.operations.reported), (2, 2, 13, 13));
    // Two loads and one conversion; what the tool took for weights by their shapes is none.
    assert_eq!((rank.operations.weight, rank.operations.activation), (Some(3), Some(10)));
    let dram = rank.pools.get("DRAM").unwrap();
    // 0x4800 bytes and five tensors: 0.033 MiB, first before the last step of the first run.
    assert_eq!((dram.banks, dram.capacity_per_bank), (Some(12), Some(1 << 30)));
    assert_eq!((dram.peak_per_bank, dram.peak_step, dram.caused_by_step), (Some(34_603), Some(6), Some(5)));
    assert_eq!((dram.final_per_bank, dram.quantum_per_bank), (None, 1049));
    let peak = rank.peak.unwrap();
    let cause = peak.caused_by.unwrap();
    assert_eq!((cause.op.as_deref(), cause.loc.as_deref()), (Some("ttnn.topk"), Some("\"topk.9\"")));
    assert_eq!((cause.program.as_deref(), cause.run), (Some("unnamed program"), Some(1)));
    assert!(peak.live.is_none() && rank.padding.is_none());
    // The mask has one byte for each of its elements, whatever the tool thought.
    let weights = rank.weights.unwrap();
    assert_eq!((weights.count, weights.bytes), (3, 128 * 256 * 4 + 256 * 2 + 50 * 50));
    assert_eq!((rank.inputs.unwrap().count, weights.kept_twice_bytes), (2, None));
    // Inputs arrive between the runs; no step is charged with that.
    assert!(rank.suspects.iter().all(|suspect| suspect.step != 6), "{:?}", rank.suspects);
}

#[test]
fn what_a_row_says_of_its_operation_is_taken_apart_as_in_a_log() {
    let profile = open(&corpus().join("small_model"));
    let rank = &profile.ranks[0];
    let text = |ids: &[ttmem::model::StrId]| ids.iter().map(|id| profile.text(*id)).collect::<Vec<_>>();
    let load = profile.op_of(rank, 0).unwrap();
    assert_eq!((text(&load.results), text(&load.operands)), (vec!["%0"], vec!["%arg1"]));
    assert_eq!(load.callee.map(|callee| profile.text(callee)), Some("main_const_eval_0"));
    // The tool made that location up.
    assert_eq!(load.loc, None);
    let marks = |step: usize| rank.steps.marks[step];
    assert!(marks(0).has(ttmem::model::StepMarks::CACHE_MISS));
    assert_eq!(marks(7), ttmem::model::StepMarks::default());
    let program = |step| rank.run_of(step).map(|run| (profile.text(run.program), run.const_eval));
    assert_eq!(program(1), Some(("main_const_eval_0", true)));
    assert_eq!(program(2), Some(("unnamed program", false)));
    let matmul = profile.op_of(rank, 2).unwrap();
    let ty = profile.tensor_type(matmul.result_types[0].unwrap()).unwrap();
    assert_eq!(
        (ty.shape.as_slice(), ty.logical.get(), ty.padded.get()),
        (&[50, 256][..], Some(25_600), Some(32_768))
    );
    let topk = profile.op_of(rank, 5).unwrap();
    assert_eq!((topk.results.len(), topk.result_types.len()), (0, 2));
    // The text of the graph is there; it has no stage but one.
    let stages: Vec<&str> = rank.modules[0].stages.iter().map(|stage| profile.text(stage.name)).collect();
    assert_eq!(stages, ["ttnn"]);
    assert!(profile.source_text(rank.modules[0].stages[0].source).unwrap().contains("@main_const_eval_0"));
    assert_eq!(rank.runs[0].module, None);
}

#[test]
fn a_report_beside_the_files_leaves_them_as_they_are() {
    let folder = tempdir().unwrap();
    let small = corpus().join("small_model");
    let names: Vec<String> = fs::read_dir(&small)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for name in &names {
        fs::copy(small.join(name), folder.path().join(name)).unwrap();
    }
    let unchanged = || {
        names
            .iter()
            .all(|name| fs::read(small.join(name)).unwrap() == fs::read(folder.path().join(name)).unwrap())
    };
    write_report(&mut open(folder.path()), None, folder.path(), "small_model").unwrap();
    assert!(unchanged());
    // From now on there is a profile, and it remembers.
    let mut profile = open(folder.path());
    assert_eq!(read::report_in(folder.path()).unwrap().extension().unwrap(), "ttmem");
    assert_eq!(profile.source.format, "tt_json");
    write_report(&mut profile, None, folder.path(), "small_model").unwrap();
    assert!(unchanged());
    // Nor does it matter that the name it remembers leads nowhere from here.
    profile.source.file = "elsewhere/small_model_memory.json".into();
    write_report(&mut profile, None, folder.path(), "small_model").unwrap();
    assert!(unchanged());
    // In a folder of its own, or under another name, a report is all there is.
    let other = tempdir().unwrap();
    write_report(&mut open(&small), None, other.path(), "small_model").unwrap();
    assert!(other.path().join("small_model_operations.json").is_file());
    write_report(&mut open(&small), None, other.path(), "small_model").unwrap();
    write_report(&mut open(&folder.path().join("small_model_memory.json")), None, folder.path(), "again")
        .unwrap();
    assert!(unchanged() && folder.path().join("again_operations.json").is_file());
}

#[test]
fn packed_files_are_read_with_those_beside_them() {
    let folder = tempdir().unwrap();
    let small = corpus().join("small_model");
    let pack = |name: &str| {
        let file = fs::File::create(folder.path().join(format!("{name}.gz"))).unwrap();
        let mut packer = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        packer.write_all(&fs::read(small.join(name)).unwrap()).unwrap();
        packer.finish().unwrap();
    };
    pack("small_model_memory.json");
    pack("small_model_operations.json");
    for name in ["small_model_inputs_registry.json", "small_model_ir.json"] {
        fs::copy(small.join(name), folder.path().join(name)).unwrap();
    }
    let packed = open(&folder.path().join("small_model_memory.json.gz"));
    let mut plain = open(&small);
    plain.source.file.clone_from(&packed.source.file);
    assert_eq!(packed, plain);
}

#[test]
fn files_that_are_not_beside_it_are_missed() {
    let folder = tempdir().unwrap();
    fs::copy(
        corpus().join("small_model/small_model_memory.json"),
        folder.path().join("small_model_memory.json"),
    )
    .unwrap();
    // A folder is no file.
    fs::create_dir(folder.path().join("small_model_ir.json")).unwrap();
    let profile = open(folder.path());
    let missing = messages(&profile)[0];
    for end in ["*_operations.json", "*_inputs_registry.json", "*_ir.json"] {
        assert!(missing.contains(end), "{missing}");
    }
    let rank = answer(&profile).ranks.remove(0);
    let full = answer(&open(&corpus().join("small_model"))).ranks.remove(0);
    assert_eq!((rank.operations.total, &rank.distribution), (13, &full.distribution));
    assert_eq!(rank.pools.get("DRAM").unwrap().peak_per_bank, full.pools.get("DRAM").unwrap().peak_per_bank);
    assert!(rank.weights.is_none() && rank.inputs.is_none());
    // Rows say what is computed once, but not where a run ends.
    assert_eq!((rank.operations.weight, rank.runs), (full.operations.weight, 1));
}

// ------------------------------------------------------------------------------------------------------- bad files

fn refused(name: &str, code: u8, words: &[&str]) {
    let error = read::open(&malformed(name)).unwrap_err();
    assert_eq!(error.exit_code(), code, "{error}");
    let message = error.to_string();
    for word in words.iter().chain(&[name]) {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
}

/// Answers, with just these warnings besides those that such files always have.
#[track_caller]
fn answered(name: &str, warnings: &[(Option<u64>, &str)]) -> (Profile, RankSummary) {
    let profile = open(Path::new(&malformed(name)));
    let usual = ["do not record deallocations", "tt-memory-profiler 0.x", "files next to the memory file"];
    let found: Vec<(Option<u64>, &str)> = profile
        .warnings
        .iter()
        .filter(|warning| !usual.iter().any(|usual| warning.message.contains(usual)))
        .map(|warning| (warning.line, warning.message.as_str()))
        .collect();
    assert_eq!(found.len(), warnings.len(), "{found:?}");
    for ((line, message), (wanted_line, words)) in found.iter().zip(warnings) {
        assert!(
            line == wanted_line && message.contains(words),
            "{line:?} {message}, not {wanted_line:?} {words}"
        );
    }
    let rank = answer(&profile).ranks.remove(0);
    (profile, rank)
}

fn peak(rank: &RankSummary) -> (Option<u64>, Option<u32>) {
    let dram = rank.pools.get("DRAM").unwrap();
    (dram.peak_per_bank, dram.peak_step)
}

const PEAK: (Option<u64>, Option<u32>) = (Some(3 * MIB), Some(1));

#[test]
fn files_without_states_are_refused() {
    refused("empty_memory.json", 2, &["empty file"]);
    refused("another-format.json", 2, &["unknown format"]);
    refused(
        "no-rows_memory.json",
        4,
        &["no memory states in 0 rows", "TT_RUNTIME_MEMORY_LOG_LEVEL=operation"],
    );
    refused("no-states_memory.json", 4, &["no memory states in 2 rows"]);
    refused("cut-before-rows_memory.json", 4, &["corrupt", "EOF"]);
    let options = read::Options { format: Some("tt_json".into()), ..read::Options::default() };
    let error = read::open_with(&malformed("another-format.json"), &options).unwrap_err();
    assert_eq!(error.exit_code(), 4, "{error}");
    let log = corpus().join("../tt_log/vae-decoder.log");
    let error = read::open_with(log.to_str().unwrap(), &options).unwrap_err();
    assert!(error.to_string().contains("corrupt before its first state"), "{error}");
    let folder = tempdir().unwrap();
    assert!(matches!(read::open(folder.path().to_str().unwrap()), Err(Error::Directory { .. })));
}

#[test]
fn a_corrupt_file_is_answered_up_to_the_corruption() {
    let (profile, rank) = answered("cut_memory.json", &[(Some(4), "is corrupt")]);
    assert_eq!((rank.operations.total, peak(&rank), profile.complete), (2, PEAK, false));
    // JSON has no such number.
    let (_, rank) = answered("not-a-number_memory.json", &[(Some(3), "is corrupt")]);
    assert_eq!((rank.operations.total, peak(&rank)), (1, (Some(MIB), Some(0))));
}

#[test]
fn what_is_no_row_is_counted() {
    let warning = "5 rows are not objects and were skipped; the first is row 1 of";
    let misplaced = "2 rows have an index that does not match their position";
    let (_, rank) = answered("rows-are-no-objects_memory.json", &[(None, misplaced), (None, warning)]);
    assert_eq!((rank.operations.total, peak(&rank)), (3, PEAK));
}

/// One row that is too large to be held does not hide those after it.
#[test]
fn rows_over_64_mib_are_skipped_and_counted() {
    let folder = tempdir().unwrap();
    let small = corpus().join("small_model");
    for entry in fs::read_dir(&small).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let expected = open(&small);
    let path = folder.path().join("small_model_memory.json");
    let text = fs::read_to_string(&path).unwrap();
    let (before, after) = text.split_at(text.find("\"operations\"").unwrap());
    let (key, rows) = after.split_once('[').unwrap();
    let large = "x".repeat(65 << 20);
    fs::write(&path, format!("{before}{key}[{{\"mlir_op\": \"{large}\"}},{rows}")).unwrap();
    let profile = open(folder.path());
    let warned = "1 value exceeds 64 MiB and was skipped; the first is in row 0 of ";
    assert!(messages(&profile).iter().any(|message| message.starts_with(warned)), "{:?}", messages(&profile));
    assert_eq!(profile.ranks[0].steps.len(), expected.ranks[0].steps.len());
    assert!(profile.complete);
}

#[test]
fn values_that_cannot_be_are_counted_and_not_known() {
    let (profile, rank) = answered("wrong-values_memory.json", &[(None, "9 values have the wrong type")]);
    assert_eq!((rank.operations.total, peak(&rank)), (3, PEAK));
    let dram = rank.pools.get("DRAM").unwrap();
    // The first row has a wrong number of banks; the file's head has the right one.
    assert_eq!((dram.banks, dram.capacity_per_bank), (Some(12), Some(1 << 30)));
    assert_eq!(
        (dram.free_at_peak_per_bank, dram.largest_free_at_peak_per_bank),
        (Some(1021 * MIB), Some(1023 * MIB))
    );
    let names: Vec<Option<&str>> = (0..3).map(|step| profile.op_name(&profile.ranks[0], step)).collect();
    assert_eq!(names, [Some("ttnn.add"), Some("unknown"), Some("ttnn.add")]);
    assert_eq!(rank.pools.get("L1").unwrap().peak_per_bank, None);
}

#[test]
fn counts_and_indexes_that_do_not_fit_are_said() {
    let (_, rank) = answered(
        "wrong-total_memory.json",
        &[(None, "the metadata lists 5 operations, but the file contains 3")],
    );
    assert_eq!(peak(&rank), PEAK);
    let (_, rank) = answered(
        "double-indexes_memory.json",
        &[(None, "1 row has an index that does not match its position")],
    );
    assert_eq!((rank.operations.total, peak(&rank)), (3, PEAK));
}

#[test]
fn other_orders_of_the_file_are_read() {
    let (_, rank) = answered("rows-alone_memory.json", &[]);
    assert_eq!((rank.operations.total, peak(&rank)), (3, PEAK));
    let (_, rank) = answered("metadata-last_memory.json", &[]);
    assert_eq!(peak(&rank), PEAK);
    assert_eq!(rank.pools.get("L1").unwrap().banks, Some(64));
}

#[test]
fn rows_of_the_two_lists_belong_together_by_their_index() {
    let (profile, rank) = answered(
        "fewer-operations_memory.json",
        &[(None, "has 2 rows, but the memory file has 3; 1 operation is known only by name")],
    );
    assert_eq!(peak(&rank), PEAK);
    let result = |step| {
        let op = profile.op_of(&profile.ranks[0], step).unwrap();
        op.results.first().map(|result| profile.text(*result).to_owned())
    };
    assert_eq!([0, 1, 2].map(result), [Some("%0".into()), None, Some("%2".into())]);
}

#[test]
fn a_file_of_another_run_is_not_believed() {
    let (profile, _) = answered(
        "other-operations_memory.json",
        &[(None, "2 rows of other-operations_operations.json do not match")],
    );
    let op = |step| profile.op_of(&profile.ranks[0], step).unwrap();
    assert_eq!((op(0).results.len(), op(1).results.len(), op(2).results.len()), (0, 0, 1));
    assert_eq!(profile.op_name(&profile.ranks[0], 0), Some("ttnn.add"));
}

#[test]
fn corrupt_files_beside_it_are_read_as_far_as_they_go() {
    let (profile, rank) = answered(
        "damaged-siblings_memory.json",
        &[
            (None, "damaged-siblings_ir.json is corrupt at line 1"),
            (None, "damaged-siblings_operations.json is corrupt at line 3"),
            (None, "has 1 row, but the memory file has 3; 2 operations are known only by name"),
            (None, "1 row is not an object and was skipped"),
        ],
    );
    assert_eq!(peak(&rank), PEAK);
    assert_eq!(rank.weights.map(|weights| (weights.count, weights.bytes)), Some((1, 16)));
    // Nobody knows how large `2xtwo` is.
    assert_eq!(profile.ranks[0].modules[0].arguments[1].ty, None);
}

#[test]
fn hostile_numbers_ask_for_nothing() {
    // Pools, graphs, runs and indexes of which the numbers or names are beyond all measure.
    let rows = 5000;
    let row = |index: u32| {
        json!({"index": u32::MAX - index, "step": 1, "mlir_op": format!("op{index}"), "is_weight_op": true,
            "const_eval_graph": format!("g{index}"),
            "memory": {"DRAM": {"numBanks": u32::MAX, "totalBytesAllocatedPerBank_MB": 1e12},
                format!("POOL{index}"): {"totalBytesAllocatedPerBank_MB": 1.0}}})
    };
    let operation = |index: u32| {
        json!({"index": u32::MAX - index, "step": 1, "mlir_op": format!("op{index}"), "program": format!("p{index}"),
            "run": index, "graph": u32::MAX - index * 7,
            "output_type": "(".repeat(500), "input_types": "tensor<99999999999999999999x1xf32>"})
    };
    let entry = |index: u32| json!({"graph": u32::MAX - index * 7, "ssa": "%arg4000000000", "dtype": "f32", "shape": "4000000000x4000000000x4000000000"});
    let folder = tempdir().unwrap();
    let write = |end: &str, value: Value| fs::write(folder.path().join(end), value.to_string()).unwrap();
    write(
        "x_memory.json",
        json!({"metadata": {"memory_config": {}}, "operations": (0..rows).map(row).collect::<Vec<_>>()}),
    );
    write("x_operations.json", (0..rows).map(operation).collect());
    write("x_inputs_registry.json", json!({"entries": (0..2000).map(entry).collect::<Vec<_>>()}));
    let mut profile = open(folder.path());
    let rank = answer(&profile).ranks.remove(0);
    assert_eq!((rank.operations.total, rank.pools.iter().count()), (rows, 64));
    assert!(messages(&profile).iter().any(|text| text.contains("more than 64 pools")));
    let out = tempdir().unwrap();
    write_report(&mut profile, None, out.path(), "x").unwrap();
}

#[test]
fn programs_that_never_return_nest_only_so_deep() {
    let rows = 5_000;
    let row = |index: u32| {
        json!({"index": index, "step": index, "mlir_op": "func.call", "is_weight_op": false,
            "memory": {"DRAM": {"totalBytesAllocatedPerBank_MB": 1.0}}})
    };
    let operation = |index: u32| json!({"index": index, "step": index, "mlir_op": "func.call", "program": format!("p{index}"), "run": 1});
    let folder = tempdir().unwrap();
    let write = |end: &str, value: Value| fs::write(folder.path().join(end), value.to_string()).unwrap();
    write("x_memory.json", (0..rows).map(row).collect());
    write("x_operations.json", (0..rows).map(operation).collect());
    let profile = open(folder.path());
    let rank = &profile.ranks[0];
    assert_eq!((rank.runs.len(), rank.top_level_runs().count()), (rows as usize, 1));
    let mut depths: Vec<usize> = Vec::new();
    for run in &rank.runs {
        depths.push(run.parent.map_or(0, |parent| depths[parent.index()] + 1));
    }
    assert_eq!(depths.iter().max(), Some(&64));
}

#[test]
fn many_rows_are_read() {
    let rows = 100_000u32;
    let folder = tempdir().unwrap();
    let mut file = std::io::BufWriter::new(fs::File::create(folder.path().join("x_memory.json")).unwrap());
    write!(file, "[").unwrap();
    for row in 0..rows {
        let comma = if row > 0 { "," } else { "" };
        let used = f64::from(row % 1000);
        write!(file, "{comma}{{\"memory\":{{\"DRAM\":{{\"totalBytesAllocatedPerBank_MB\":{used}}}}}}}")
            .unwrap();
    }
    write!(file, "]").unwrap();
    file.into_inner().unwrap();
    let rank = answer(&open(folder.path())).ranks.remove(0);
    assert_eq!((rank.operations.total, peak(&rank)), (rows, (Some(999 * MIB), Some(999))));
}

/// Whatever becomes of the bytes: an answer or an error, and never a report that cannot be written.
#[test]
fn no_corruption_makes_it_panic() {
    let small = corpus().join("small_model");
    let mut random = Random::new(7);
    let ends = ["_memory.json", "_operations.json", "_inputs_registry.json", "_ir.json"];
    let bytes = b"{}[]\",:0-9.eEtruefalsn\\u \n\x00\xff";
    for round in 0..sweep::cases(100, 4000) {
        let folder = tempdir().unwrap();
        for end in ends {
            let mut content = fs::read(small.join(format!("small_model{end}"))).unwrap();
            for _ in 0..random.index(4) {
                let at = random.index(content.len());
                let new = random.pick(bytes);
                match random.index(4) {
                    0 => content[at] = new,
                    1 => content.insert(at, new),
                    2 => drop(content.remove(at)),
                    _ => content.truncate(at.max(1)),
                }
            }
            fs::write(folder.path().join(format!("x{end}")), content).unwrap();
        }
        let opened = read::open(folder.path().to_str().unwrap());
        if let Ok(mut profile) = opened
            && round % 10 == 0
        {
            write_report(&mut profile, None, folder.path(), "y").unwrap();
        }
    }
}

#[test]
fn files_of_other_formats_are_not_taken_for_it() {
    let tt_json = read::readers().iter().find(|reader| reader.name() == "tt_json").unwrap();
    let sniff = |text: &str| tt_json.sniff(text.as_bytes());
    assert_eq!(sniff(" \n{ \"metadata\" :\n{\"memory_config\": {}}"), read::Sniff::Yes);
    assert_eq!(
        sniff("{\"operations\": [{\"memory\": {\"DRAM\": {\"totalBytesAllocatedPerBank_MB\": 1"),
        read::Sniff::Yes
    );
    for other in
        ["{\"schema\": 1}", "[1,0]<stdout>: \"memory_config\"", "x {\"memory_config\": 1}", "[]", "{}"]
    {
        assert_eq!(sniff(other), read::Sniff::No, "{other}");
    }
    // What `ttmem` itself writes beside it is something else.
    let (_made, mut profile) = made(Scenario::Vae, &Options::default());
    let folder = tempdir().unwrap();
    write_report(&mut profile, None, folder.path(), "x").unwrap();
    for file in ["x_operations.json", "x_inputs_registry.json", "x_ir.json", "x_summary.json", "x_about.json"]
    {
        let head = fs::read(folder.path().join(file)).unwrap();
        assert_eq!(tt_json.sniff(&head[..head.len().min(64 << 10)]), read::Sniff::No, "{file}");
    }
    let head = fs::read(folder.path().join("x_memory.json")).unwrap();
    assert_eq!(tt_json.sniff(&head[..64 << 10]), read::Sniff::Yes);
}
