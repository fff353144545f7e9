//! The report folder: its files say what the summary and the log say, and it is whole or absent.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use ttmem::Error;
use ttmem::analyze::padding::padding;
use ttmem::model::{ByteRange, Moment, Profile, Rank};
use ttmem::query::{RankSummary, Request, summary};
use ttmem::read;
use ttmem::store::{SourceId, Store, clean_name, replace_files, write_report};
use ttmem_testkit::sweep;
use ttmem_testkit::tt::{Level, MemoryLevel, Modules, Options, Scenario, Truth, make};

fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log");
    let mut logs: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    logs.sort_unstable();
    logs
}

/// A log in a folder of its own.
fn made(scenario: Scenario, options: &Options) -> (TempDir, PathBuf, Truth) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("made_profile.log");
    let mut log = Vec::new();
    let truth = make(scenario, options, &mut log).unwrap();
    fs::write(&path, log).unwrap();
    (folder, path, truth)
}

/// Logs of all kinds, and how each differs from the plainest.
fn all_made() -> Vec<(TempDir, PathBuf, Truth)> {
    let large = [Scenario::Repeated { ops: 400 }, Scenario::Distinct { ops: 300 }];
    let scenarios = [&Scenario::KINDS[..], &large].concat();
    let options = [
        Options { seed: 3, ..Options::default() },
        Options { seed: 4, color: false, noise: 30, crlf: true, ..Options::default() },
        Options { seed: 5, ranks: 2, split_streams: true, noise: 10, ..Options::default() },
        Options { seed: 6, level: Level::Info, memory: MemoryLevel::Any, ..Options::default() },
        Options {
            seed: 7,
            states_at_deallocations: false,
            modules: Modules::SignaturesOnly,
            ..Options::default()
        },
        Options { seed: 8, modules: Modules::None, keep: true, ..Options::default() },
    ];
    sweep::pairs(&scenarios, &options).map(|(scenario, options)| made(*scenario, options)).collect()
}

fn open(path: &Path) -> Profile {
    read::open(path.to_str().unwrap()).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(path: impl AsRef<Path>) -> Value {
    let path = path.as_ref();
    serde_json::from_slice(&fs::read(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The four files of one rank.
struct Files {
    memory: Value,
    operations: Value,
    registry: Value,
    ir: Value,
}

impl Files {
    fn read(folder: &Path, base: &str) -> Self {
        let file = |end: &str| json(folder.join(format!("{base}_{end}.json")));
        Self {
            memory: file("memory"),
            operations: file("operations"),
            registry: file("inputs_registry"),
            ir: file("ir"),
        }
    }

    fn rows(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let (memory, operations) = (list(&self.memory["operations"]), list(&self.operations));
        assert_eq!(memory.len(), operations.len());
        memory.iter().zip(operations)
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

fn words(text: &str) -> BTreeSet<&str> {
    text.split_whitespace().collect()
}

fn step_of(row: &Value) -> u32 {
    u32::try_from(row["step"].as_u64().unwrap()).unwrap()
}

/// The files of each rank that has some, with the rank and its summary.
fn reported(path: &Path, folder: &Path) -> (Profile, Vec<(Files, RankSummary, usize)>) {
    let mut profile = open(path);
    let files = write_report(&mut profile, None, folder, "x").unwrap();
    assert!(files.iter().all(|file| file.is_file()));
    let answer = summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
    let indices = (0..profile.ranks.len()).filter(|&index| profile.ranks[index].has_content());
    let several = answer.ranks.len() > 1;
    let with_files = answer.ranks.into_iter().zip(indices).map(|(rank, index)| {
        let label = rank.rank.as_deref().unwrap_or("").replace(',', "-");
        let base = if several { format!("x_rank{label}") } else { "x".to_owned() };
        (Files::read(folder, &base), rank, index)
    });
    let with_files = with_files.collect();
    (profile, with_files)
}

fn for_every_report(check: impl Fn(&Profile, &Rank, &RankSummary, &Files)) {
    let made = all_made();
    for path in corpus().iter().chain(made.iter().map(|(_, path, _)| path)) {
        let folder = tempdir().unwrap();
        let (profile, ranks) = reported(path, folder.path());
        for (files, answer, index) in &ranks {
            check(&profile, &profile.ranks[*index], answer, files);
        }
    }
}

#[test]
fn the_nth_rows_are_the_same_operation() {
    for_every_report(|profile, rank, answer, files| {
        let mut count = 0;
        let mut before = None;
        for (index, (memory, operation)) in files.rows().enumerate() {
            for field in words("index step mlir_op loc const_eval_graph const_eval_cache_miss is_weight_op") {
                assert_eq!(memory[field], operation[field], "{field} of row {index}");
            }
            let step = step_of(memory);
            assert_eq!(memory["index"], index);
            assert!(before < Some(step));
            assert_eq!(memory["mlir_op"], *profile.op_name(rank, step).unwrap());
            before = Some(step);
            count += 1;
        }
        assert_eq!(count, answer.operations.reported);
        assert_eq!(files.memory["metadata"]["total_operations"], count);
        let skipped = (0..rank.end()).filter(|&step| !profile.op_kind(rank, step).is_reported()).count();
        assert_eq!(count as usize + skipped, rank.steps.len());
    });
}

#[test]
fn fields_are_the_contracts() {
    for_every_report(|_, _, _, files| {
        assert_eq!(keys(&files.memory), words("metadata operations"));
        assert_eq!(keys(&files.memory["metadata"]), words("memory_config total_operations rank format file"));
        for config in files.memory["metadata"]["memory_config"].as_object().unwrap().values() {
            assert_eq!(keys(config), words("num_banks total_bytes_per_bank_MB"));
        }
        for (memory, operation) in files.rows() {
            memory_fields(memory);
            operation_fields(operation);
        }
        assert_eq!(keys(&files.registry), words("metadata entries"));
        let graphs = files.registry["metadata"]["total_graphs"].as_u64();
        // What is not known is left out.
        let totals = match graphs {
            Some(0) => words("total_graphs"),
            _ => words(
                "total_entries total_weights total_inputs total_weight_bytes total_weight_MB total_graphs",
            ),
        };
        assert_eq!(keys(&files.registry["metadata"]), totals);
        let several = graphs > Some(1);
        let mut entry_fields = words("index ssa name type shape dtype bytes bytes_MB");
        entry_fields.extend(several.then_some("graph"));
        for entry in list(&files.registry["entries"]) {
            assert_eq!(keys(entry), entry_fields);
        }
        assert!(keys(&files.ir).is_superset(&words("ttir ttnn")));
        for stage in [&files.ir["ttir"], &files.ir["ttnn"]] {
            assert!(keys(stage).is_empty() || keys(stage) == words("text loc_index lines"));
        }
    });
}

fn memory_fields(row: &Value) {
    assert_eq!(
        keys(row),
        words(
            "index step mlir_op loc op_type is_weight_op const_eval_graph const_eval_cache_miss memory \
             unpadded_memory"
        )
    );
    for state in row["memory"].as_object().unwrap().values().filter(|state| !state.is_null()) {
        assert_eq!(
            keys(state),
            words(
                "numBanks totalBytesPerBank_MB totalBytesAllocatedPerBank_MB totalBytesFreePerBank_MB \
                 largestContiguousBytesFreePerBank_MB"
            )
        );
    }
    for pool in row["unpadded_memory"].as_object().into_iter().flat_map(|pools| pools.values()) {
        assert!(
            pool.is_null()
                || keys(pool)
                    == words(
                        "unpadded_bytes padded_bytes num_tensors unpadded_MB padded_MB overhead_MB overhead_pct"
                    )
        );
    }
}

fn operation_fields(row: &Value) {
    assert_eq!(
        keys(row),
        words(
            "index step result results mlir_op inputs attributes input_types output_type input_shapes \
             input_dtypes output_shapes output_dtypes output_layout_info loc const_eval_graph \
             const_eval_cache_miss is_weight_op weights program run graph"
        )
    );
    let layout = &row["output_layout_info"];
    assert!(
        layout.is_null()
            || keys(layout)
                == words(
                    "logical_shape dtype is_tiled memref_shape tile_size padded_shape buffer_type \
                     unpadded_bytes padded_bytes overhead_pct stored_dtype memory_layout grid"
                )
    );
    for weight in row["weights"].as_array().into_iter().flatten() {
        let mut fields = keys(weight);
        fields.remove("graph");
        assert_eq!(fields, words("registry_index name shape dtype bytes"));
    }
}

/// Bytes as the log prints them.
#[allow(clippy::cast_precision_loss)]
fn mib(bytes: u64) -> f64 {
    (bytes as f64 * 1000.0 / f64::from(1 << 20)).round() / 1000.0
}

#[test]
fn numbers_are_the_summarys() {
    for_every_report(|_, _, answer, files| {
        let is_weight = |(memory, _): &(&Value, &Value)| memory["is_weight_op"] == true;
        let weights = files.rows().filter(is_weight).count();
        if let Some(count) = answer.operations.weight {
            assert_eq!(weights, count as usize);
        } else {
            assert!(files.rows().all(|(memory, _)| memory["is_weight_op"].is_null()));
        }
        for (name, pool) in answer.pools.iter() {
            let config = &files.memory["metadata"]["memory_config"][name];
            assert_eq!(config["num_banks"], serde_json::to_value(pool.banks).unwrap());
            assert_eq!(config["total_bytes_per_bank_MB"].as_f64(), pool.capacity_per_bank.map(mib), "{name}");
            let peak = pool.peak_per_bank.map(mib);
            for (row, _) in files.rows() {
                let allocated = row["memory"][name]["totalBytesAllocatedPerBank_MB"].as_f64();
                assert!(allocated <= peak, "{name}: {allocated:?} is above {peak:?}");
                if Some(step_of(row)) == pool.peak_step && allocated.is_some() {
                    assert_eq!(allocated, peak);
                    let free = row["memory"][name]["totalBytesFreePerBank_MB"].as_f64();
                    assert_eq!(free, pool.free_at_peak_per_bank.map(mib));
                }
            }
        }
        padding_is_the_summarys(answer, files);
        let totals = &files.registry["metadata"];
        let weights = answer.weights.as_ref();
        assert_eq!(totals["total_weights"].as_u64(), weights.map(|weights| weights.count as u64));
        assert_eq!(totals["total_weight_bytes"].as_u64(), weights.map(|weights| weights.bytes));
        let inputs = answer.inputs.as_ref();
        assert_eq!(totals["total_inputs"].as_u64(), inputs.map(|inputs| inputs.count as u64));
    });
}

fn padding_is_the_summarys(answer: &RankSummary, files: &Files) {
    let (Some(dram), Some(padding)) = (answer.pools.get("DRAM"), &answer.padding) else { return };
    let at_peak = files.rows().find(|(row, _)| Some(step_of(row)) == dram.peak_step);
    if let Some((row, _)) = at_peak.filter(|(row, _)| !row["memory"]["DRAM"].is_null()) {
        let shown = &row["unpadded_memory"]["DRAM"];
        assert_eq!(shown["padded_bytes"], padding.padded_bytes);
        assert_eq!(shown["unpadded_bytes"], padding.logical_bytes);
        assert_eq!(shown["overhead_pct"].as_f64(), padding.overhead_pct);
    }
}

#[test]
fn padding_sums_are_those_of_each_moment() {
    for_every_report(|profile, rank, _, files| {
        for (row, _) in files.rows() {
            for name in ["DRAM", "L1"] {
                let shown = &row["unpadded_memory"][name];
                let Some((id, _)) = rank.pool_named(profile, name).filter(|_| rank.has_tensors()) else {
                    assert!(shown.is_null());
                    continue;
                };
                let at = Moment::before(step_of(row));
                let naive = padding(profile, rank, id, at, 0).unwrap();
                assert_eq!(shown["padded_bytes"], naive.padded);
                assert_eq!(shown["unpadded_bytes"], naive.logical);
                let has_sizes = |index: &usize| {
                    let ty = rank.tensors.ty[*index].and_then(|ty| profile.tensor_type(ty));
                    ty.is_some_and(|ty| ty.padded.get().is_some() && ty.logical.get().is_some())
                };
                assert_eq!(shown["num_tensors"], rank.live(id, at).filter(has_sizes).count());
            }
        }
    });
}

/// The DRAM numbers before each reported operation, as a plain log prints them.
fn printed_dram(log: &str) -> Vec<f64> {
    let mut printed = Vec::new();
    let mut wanted = false;
    for line in log.lines() {
        if let Some((_, op)) = line.split_once(" | Device memory state before operation ") {
            wanted = !matches!(op.trim(), "DeallocateOp" | "GetDeviceOp");
        } else if line.contains(" | Device memory state ") {
            wanted = false;
        } else if wanted && line.contains("Device DRAM memory state: ") {
            let (_, rest) = line.split_once("totalBytesAllocatedPerBank: ").unwrap();
            printed.push(rest.split_once(" MB").unwrap().0.parse().unwrap());
        }
    }
    printed
}

#[test]
fn states_are_what_the_log_printed() {
    let made = all_made();
    let mut compared = 0;
    for path in corpus().iter().chain(made.iter().map(|(_, path, _)| path)) {
        let log = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        let folder = tempdir().unwrap();
        let (_, ranks) = reported(path, folder.path());
        let [(files, ..)] = &ranks[..] else { continue };
        let allocated =
            |(row, _): (&Value, &Value)| row["memory"]["DRAM"]["totalBytesAllocatedPerBank_MB"].as_f64();
        let shown: Vec<f64> = files.rows().filter_map(allocated).collect();
        let printed = printed_dram(&log);
        if !printed.is_empty() {
            assert_eq!(shown, printed, "{}", path.display());
            compared += shown.len();
        }
    }
    assert!(compared > 1000);
}

#[test]
fn the_registry_is_the_truths() {
    for (_keep, path, truth) in all_made() {
        let folder = tempdir().unwrap();
        let (_, ranks) = reported(&path, folder.path());
        for (files, ..) in &ranks {
            let entries = list(&files.registry["entries"]);
            if entries.is_empty() {
                continue;
            }
            let truth = serde_json::to_value(&truth.registry).unwrap();
            assert_eq!(entries.len(), list(&truth).len());
            // Their bytes are held against the truth with all other sizes, in `truth`.
            for (entry, truth) in entries.iter().zip(list(&truth)) {
                for field in words("index name type shape dtype") {
                    assert_eq!(entry[field], truth[field], "{field} of {truth}");
                }
            }
        }
    }
}

#[test]
fn weights_are_traced_to_the_registry() {
    let mut seen = 0;
    for_every_report(|_, _, _, files| {
        let entries = list(&files.registry["entries"]);
        for (_, operation) in files.rows() {
            for weight in operation["weights"].as_array().into_iter().flatten() {
                let is_it = |entry: &&Value| {
                    entry["index"] == weight["registry_index"] && entry["graph"] == weight["graph"]
                };
                let entry = entries.iter().find(is_it).unwrap();
                for field in words("name shape dtype bytes") {
                    assert_eq!(entry[field], weight[field]);
                }
                assert!(entry["type"] == "parameter" || entry["type"] == "constant");
            }
        }
    });
    for (_keep, path, _) in
        [made(Scenario::Vae, &Options::default()), made(Scenario::TwoGraphs, &Options::default())]
    {
        let folder = tempdir().unwrap();
        let (_, ranks) = reported(&path, folder.path());
        let (files, ..) = &ranks[0];
        for (_, operation) in files.rows() {
            let weights = list(&operation["weights"]);
            let shapes = list(&operation["input_shapes"]);
            let inputs = list(&operation["inputs"]);
            // In the main program an argument is named by its number, and nothing else has that name.
            if operation["program"] == "main" && operation["mlir_op"] != "ttcore.load_cached" {
                for (input, shape) in inputs.iter().zip(shapes) {
                    let number =
                        input.as_str().unwrap().strip_prefix("%arg").map(|n| n.parse::<u64>().unwrap());
                    let named = weights
                        .iter()
                        .find(|weight| weight["registry_index"].as_u64() == number && number.is_some());
                    if let Some(named) = named {
                        assert_eq!(named["shape"], *shape);
                        seen += 1;
                    }
                }
            }
            if operation["const_eval_graph"].is_string() {
                assert!(!weights.is_empty(), "{operation}");
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}

/// The text between a stage's header and its end, as a plain log has it.
fn module_texts<'a>(log: &'a str, stage: &str) -> Vec<&'a str> {
    let header = format!("MLIR Module {stage}:\n");
    let behind = log.split(&header).skip(1);
    behind.map(|rest| rest.split("------------------ END").next().unwrap()).collect()
}

#[test]
fn ir_texts_are_the_logs() {
    for scenario in [Scenario::Vae, Scenario::TwoGraphs, Scenario::Llm, Scenario::Random] {
        let plain = Options { seed: 11, color: false, ..Options::default() };
        let (_keep, path, _) = made(scenario, &plain);
        let log = fs::read_to_string(&path).unwrap();
        let folder = tempdir().unwrap();
        let (_, ranks) = reported(&path, folder.path());
        let ir = &ranks[0].0.ir;
        for stage in ["ttir", "ttnn"] {
            let texts = module_texts(&log, stage);
            assert_eq!(ir[stage]["text"], *texts[0]);
            if let Some(graphs) = ir["graphs"].as_array() {
                assert_eq!(graphs.len(), texts.len());
                assert!(graphs.iter().zip(&texts).all(|(graph, text)| graph[stage]["text"] == **text));
            }
        }
        // However the same run was captured, its graphs have the same texts.
        for options in [
            Options { color: true, noise: 50, ..plain.clone() },
            Options { crlf: true, ..plain.clone() },
            Options { ranks: 2, noise: 20, ..plain.clone() },
            Options { ranks: 2, split_streams: true, noise: 20, ..plain.clone() },
        ] {
            let (_keep, path, _) = made(scenario, &options);
            let folder = tempdir().unwrap();
            let (_, ranks) = reported(&path, folder.path());
            for (files, ..) in ranks {
                assert!(files.ir == *ir, "{scenario:?} {options:?}");
            }
        }
    }
}

#[test]
fn every_operation_is_found_in_the_text_by_its_location() {
    let mut found = 0;
    for_every_report(|_, _, _, files| {
        let text = &files.ir["ttnn"]["text"];
        let several = files.ir.get("graphs").is_some();
        let (Some(text), false) = (text.as_str(), several) else { return };
        let lines: Vec<&str> = text.lines().collect();
        for (_, operation) in files.rows() {
            let (Some(loc), Some(op)) = (operation["loc"].as_str(), operation["mlir_op"].as_str()) else {
                continue;
            };
            let at = list(&files.ir["ttnn"]["lines"][loc]);
            assert_eq!(files.ir["ttnn"]["loc_index"][loc], at[0]);
            let line = |number: &Value| lines[usize::try_from(number.as_u64().unwrap()).unwrap() - 1];
            assert!(at.iter().any(|number| line(number).contains(op)), "{op} at {loc}");
        }
    });
    let (_keep, path, _) = made(Scenario::Vae, &Options::default());
    let folder = tempdir().unwrap();
    let (_, ranks) = reported(&path, folder.path());
    found += ranks[0].0.ir["ttnn"]["loc_index"].as_object().unwrap().len();
    assert!(found > 20);
}

#[test]
fn the_profile_reads_back_equal_and_needs_its_log_no_more() {
    let made = all_made();
    for path in corpus().iter().chain(made.iter().map(|(_, path, _)| path)) {
        let folder = tempdir().unwrap();
        let mut profile = open(path);
        write_report(&mut profile, None, folder.path(), "x").unwrap();
        let mut back = open(&folder.path().join("x.ttmem"));
        assert_eq!(back, profile, "{}", path.display());
        let stages = profile.ranks.iter().flat_map(|rank| &rank.modules).flat_map(|module| &module.stages);
        assert!(stages.clone().all(|stage| profile.source_text(stage.source).is_some()));
        // A report made from it is the same, to the byte.
        back.source.file = "gone.log".into();
        let again = tempdir().unwrap();
        write_report(&mut back, None, again.path(), "x").unwrap();
        assert!(back.warnings == profile.warnings);
        let ir = "x_ir.json";
        assert_eq!(fs::read(again.path().join(ir)).unwrap(), fs::read(folder.path().join(ir)).unwrap());
    }
}

#[test]
fn a_packed_log_takes_the_same_texts_along() {
    for options in [
        Options { noise: 30, ..Options::default() },
        Options { ranks: 2, split_streams: true, noise: 30, ..Options::default() },
    ] {
        let (folder, path, _) = made(Scenario::TwoGraphs, &options);
        let packed = folder.path().join("packed.log.gz");
        let mut out =
            flate2::write::GzEncoder::new(fs::File::create(&packed).unwrap(), flate2::Compression::fast());
        out.write_all(&fs::read(&path).unwrap()).unwrap();
        out.finish().unwrap();
        let mut plain = open(&path);
        read::embed_texts(&mut plain);
        assert!(!plain.texts.is_empty());
        assert_eq!(plain.texts, open(&packed).texts);
    }
}

#[test]
fn a_log_that_is_gone_or_changed_gives_a_report_without_texts_and_a_warning() {
    let (_keep, path, _) = made(Scenario::Vae, &Options::default());
    let whole = fs::read(&path).unwrap();
    let profile = open(&path);
    let folder = tempdir().unwrap();
    let check = |what: &str| {
        let mut profile = profile.clone();
        write_report(&mut profile, None, folder.path(), "x").unwrap();
        assert_eq!(profile.warnings.len(), 1, "{what}");
        let ir = json(folder.path().join("x_ir.json"));
        assert_eq!(ir["ttnn"], serde_json::json!({}), "{what}");
        write_report(&mut profile, None, folder.path(), "x").unwrap();
        assert_eq!(profile.warnings.len(), 1, "said once");
    };
    fs::write(&path, &whole[..200]).unwrap();
    check("cut");
    fs::write(&path, vec![b'x'; whole.len()]).unwrap();
    check("another file");
    fs::remove_file(&path).unwrap();
    check("gone");
}

#[test]
fn no_file_is_copied_just_because_a_profile_names_it() {
    let (folder, path, _) = made(Scenario::Vae, &Options::default());
    let secret = folder.path().join("secret");
    fs::write(&secret, "first line\nsecret\n".repeat(100_000)).unwrap();
    let mut profile = open(&path);
    profile.source.file = secret.to_str().unwrap().to_owned();
    profile.ranks[0].modules[0].stages[0].source = ByteRange { start: 11, end: 18 };
    read::embed_texts(&mut profile);
    assert!(profile.texts.is_empty());
    profile.ranks[0].modules[0].stages[0].source = ByteRange { start: 5, end: u64::MAX };
    read::embed_texts(&mut profile);
    assert!(profile.texts.is_empty());
}

#[test]
fn several_ranks_have_files_of_their_own() {
    let (_keep, path, _) = made(Scenario::Vae, &Options { ranks: 2, ..Options::default() });
    let folder = tempdir().unwrap();
    let mut profile = open(&path);
    write_report(&mut profile, None, folder.path(), "x").unwrap();
    for end in ["memory.json", "operations.json", "inputs_registry.json", "ir.json"] {
        let read = |base: &str| fs::read(folder.path().join(format!("{base}_{end}"))).unwrap();
        assert!(read("x") == read("x_rank1-0"), "{end}: both ranks do the same, so the first is taken");
        assert!(folder.path().join(format!("x_rank1-1_{end}")).is_file());
    }
    assert_eq!(json(folder.path().join("x_memory.json"))["metadata"]["rank"], "1,0");
    // The second rank needs more.
    let label = |rank: &Rank| profile.text(rank.label.unwrap()).to_owned();
    let second = profile.ranks.iter().position(|rank| label(rank) == "1,1").unwrap();
    let (id, _) = profile.ranks[second].pool_named(&profile, "DRAM").unwrap();
    let mut more = profile.clone();
    let reading = ttmem::model::Reading { allocated: Some(1 << 40), ..Default::default() };
    more.ranks[second].pools[id.index()].observe(Moment::late(profile.ranks[second].end()), &reading);
    write_report(&mut more, None, folder.path(), "x").unwrap();
    assert_eq!(json(folder.path().join("x_memory.json"))["metadata"]["rank"], "1,1");
    // A report of one rank leaves none of them.
    more.ranks.truncate(1);
    write_report(&mut more, None, folder.path(), "x").unwrap();
    assert!(!folder.path().join("x_rank1-0_memory.json").exists());
}

/// All files of a folder with their content.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

#[test]
fn a_write_that_fails_or_is_killed_leaves_the_old_report() {
    let (_keep, path, _) = made(Scenario::Vae, &Options::default());
    let home = tempdir().unwrap();
    let folder = home.path().join("report");
    let mut profile = open(&path);
    write_report(&mut profile, None, &folder, "x").unwrap();
    fs::write(folder.join("x_profile.log"), "raw").unwrap();
    let before = content(&folder);

    // Half a report, then an error.
    let half = |staged: &Path| fs::write(staged.join("x_memory.json"), "half").unwrap();
    let failed = replace_files(&folder, |staged| {
        half(staged);
        Err(Error::NotFound("the disk is full".into()))
    });
    assert!(failed.is_err());
    assert_eq!(content(&folder), before);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), before.len(), "nothing is left over");

    // Half a report, then death.
    let killed = std::panic::catch_unwind(|| {
        replace_files(&folder, |staged| {
            half(staged);
            panic!("killed");
        })
    });
    assert!(killed.is_err());
    assert_eq!(content(&folder), before);

    // Death when the new report counts already, but not all of it is in its place.
    fs::create_dir(folder.join(".ttmem-commit")).unwrap();
    fs::write(folder.join(".ttmem-commit/x_memory.json"), "new").unwrap();
    let newer = |staged: &Path| {
        fs::write(staged.join("x_ir.json"), "newer").unwrap();
        Ok(())
    };
    replace_files(&folder, newer).unwrap();
    assert_eq!(fs::read(folder.join("x_memory.json")).unwrap(), b"new");
    assert_eq!(fs::read(folder.join("x_ir.json")).unwrap(), b"newer");
    assert_eq!(fs::read(folder.join("x_profile.log")).unwrap(), b"raw");
    write_report(&mut profile, None, &folder, "x").unwrap();
    assert_eq!(content(&folder), before);

    // Where there was nothing, nothing is left.
    let fresh = home.path().join("fresh");
    assert!(replace_files(&fresh, |_| Err(Error::NotFound("no".into()))).is_err());
    assert!(!fresh.exists());
    // A folder that cannot be made says so.
    fs::write(home.path().join("file"), "").unwrap();
    let error = write_report(&mut profile, None, &home.path().join("file/report"), "x").unwrap_err();
    assert_eq!(error.exit_code(), 2);
}

#[test]
fn files_of_an_older_report_do_not_stay_and_those_of_others_do() {
    let folder = tempdir().unwrap();
    let there = |file: &str| folder.path().join(file).exists();
    let (_keep, ranks, _) = made(Scenario::Vae, &Options { ranks: 2, ..Options::default() });
    write_report(&mut open(&ranks), None, folder.path(), "x").unwrap();
    assert!(there("x_rank1-0_ir.json"));
    // Files of a report that is called nearly so: who would know that `x_rank8` is no rank of `x`?
    for file in ["x_rank8_ir.json", "x_rank8_memory.json", "y_memory.json", "x_profile.log"] {
        fs::write(folder.path().join(file), "old").unwrap();
    }
    let (_keep, path, _) = made(Scenario::Vae, &Options::default());
    write_report(&mut open(&path), None, folder.path(), "x").unwrap();
    assert!(!there("x_rank1-0_ir.json") && !there("x_rank1-1_memory.json"));
    for file in ["x_rank8_ir.json", "x_rank8_memory.json", "y_memory.json", "x_profile.log"] {
        assert!(there(file), "{file} is not ours");
    }
}

#[test]
fn the_same_source_replaces_its_report_and_another_gets_a_number() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path());
    assert_eq!(store.list().unwrap(), []);
    let (_first, a, _) = made(Scenario::Vae, &Options::default());
    let (_second, b, _) = made(Scenario::Llm, &Options::default());
    let save = |path: &Path| store.save(&mut open(path), path.to_str().unwrap(), None).unwrap();
    let saved = save(&a);
    assert_eq!(
        (saved.name.as_str(), saved.folder.as_path()),
        ("made", home.path().join("reports/made").as_path())
    );
    assert_eq!(saved.source, SourceId::of(a.to_str().unwrap()));
    assert_eq!(save(&a).name, "made");
    assert_eq!(save(&b).name, "made-2");
    assert_eq!((save(&b).name.as_str(), save(&a).name.as_str()), ("made-2", "made"));
    assert!(saved.folder.join("made_memory.json").is_file());
    assert!(home.path().join("reports/made-2/made-2.ttmem").is_file());
    // The same file with another content is another source.
    let mut longer = fs::read(&a).unwrap();
    longer.extend_from_slice(b"one more line\n");
    fs::write(&a, longer).unwrap();
    assert_eq!(save(&a).name, "made-3");
    // What has no file is never the same again.
    assert_eq!(store.save(&mut open(&a), "-", None).unwrap().name, "stdin");
    assert_eq!(store.save(&mut open(&a), "-", None).unwrap().name, "stdin-2");

    // Nor is what others have put there ours.
    fs::create_dir(home.path().join("reports/theirs")).unwrap();
    fs::write(home.path().join("reports/theirs/notes.txt"), "").unwrap();
    assert_eq!(store.save(&mut open(&a), a.to_str().unwrap(), Some("theirs")).unwrap().name, "theirs-2");
    // A report of the seeds' tool is listed.
    fs::create_dir(home.path().join("reports/old")).unwrap();
    fs::write(home.path().join("reports/old/old_memory.json"), "{}").unwrap();

    let mut names: Vec<String> = store.list().unwrap().into_iter().map(|report| report.name).collect();
    names.sort();
    assert_eq!(names, ["made", "made-2", "made-3", "old", "stdin", "stdin-2", "theirs-2"]);
    assert_eq!(store.find("old").unwrap().profile(), None);
    let found = store.find("made-2").unwrap();
    assert_eq!(open(&found.profile().unwrap()).source.file, b.to_str().unwrap());
    store.remove("made-2").unwrap();
    assert!(store.find("made-2").unwrap_err().to_string().contains("made-3"));
}

#[test]
fn names_do_not_lead_out_of_the_folder() {
    let home = tempdir().unwrap();
    let store = Store::at(home.path().join("home"));
    let (_keep, path, _) = made(Scenario::OomCapacity, &Options::default());
    let mut profile = open(&path);
    let endless = "n".repeat(5000);
    for name in
        ["../../escape", "/escape", "..", ".", "", "a/../../../escape", "nul\0l", "\u{1b}[2J", &endless, "-"]
    {
        let saved = store.save(&mut profile, "-", Some(name)).unwrap();
        assert_eq!(saved.folder.parent(), Some(store.folder()), "{name:?}");
        assert!(!saved.name.contains(['/', '\0', '\u{1b}']) && saved.name.len() < 200);
        assert!(saved.name.starts_with(&clean_name(name)));
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    for name in ["../home", "..", "/", "", "."] {
        assert!(store.find(name).is_err(), "{name:?}");
        assert!(store.remove(name).is_err(), "{name:?}");
    }
    // Nor do the labels of ranks.
    let (_keep, path, _) = made(Scenario::OomCapacity, &Options { ranks: 2, ..Options::default() });
    let log = fs::read_to_string(&path).unwrap().replace("[1,0]<", "[../../../escape/1,0]<");
    fs::write(&path, log).unwrap();
    let saved = store.save(&mut open(&path), path.to_str().unwrap(), None).unwrap();
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    assert_eq!(fs::read_dir(saved.folder).unwrap().count(), 6 + 3 * 4);
}
