//! Bad logs: each is refused with a message that helps, or answered up to the corruption. None makes us panic.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use ttmem::query::{Request, Summary, summary};
use ttmem::{Error, read};
use ttmem_testkit::privileges::where_permissions_count;
use ttmem_testkit::random::Random;
use ttmem_testkit::sweep;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log")
}

fn malformed(name: &str) -> String {
    corpus().join("malformed").join(name).to_str().unwrap().to_owned()
}

fn answer(file: &str) -> Result<Summary, Error> {
    summary(&[read::open(file)?], &Request::default())
}

/// Refuses the file with this exit code, in words that name it and have all of these in them.
#[track_caller]
fn refused(file: &str, code: u8, words: &[&str]) -> Error {
    let error = answer(file).unwrap_err();
    assert_eq!(error.exit_code(), code, "{error}");
    let message = error.to_string();
    assert!(message.contains(file), "{message:?} does not name {file}");
    for word in words {
        assert!(message.contains(word), "{message:?} does not say {word:?}");
    }
    error
}

/// Answers, with just these warnings: their lines, and words that are in them.
#[track_caller]
fn answered(file: &str, warnings: &[(Option<u64>, &str)]) -> Summary {
    let answer = answer(file).unwrap();
    let found: Vec<(Option<u64>, &str)> =
        answer.source.warnings.iter().map(|warning| (warning.line, warning.message.as_str())).collect();
    assert_eq!(found.len(), warnings.len(), "{found:?}");
    for ((line, message), (wanted_line, words)) in found.iter().zip(warnings) {
        assert!(
            line == wanted_line && message.contains(words),
            "{line:?} {message}, not {wanted_line:?} {words}"
        );
    }
    answer
}

/// The peak of DRAM, and where it is.
fn dram_peak(answer: &Summary) -> (Option<u64>, Option<u32>) {
    let dram = answer.ranks[0].pools.get("DRAM").unwrap();
    (dram.peak_per_bank, dram.peak_step)
}

/// What 0.016 and 0.012 MiB are in bytes: the highest state of the logs here, and the one before.
const PEAK: u64 = 16_777;
const BEFORE: u64 = 12_583;

/// What is said of a log that ends too early, with the line that it ends on.
const CRASHED: &str =
    "the log ends while program main is running, in step 3; the program crashed or the log is truncated";

#[test]
fn an_empty_file_holds_nothing() {
    let error = refused(&malformed("empty.log"), 2, &["empty file", "capture the output again"]);
    assert!(matches!(error, Error::Empty { .. }));
}

#[test]
fn binary_data_is_no_log() {
    let error = refused(&malformed("binary.log"), 2, &["unknown format", "00 30 55", "ttmem formats"]);
    assert!(matches!(error, Error::UnknownFormat { .. }));
}

#[test]
fn text_without_a_line_of_the_runtime_is_no_log() {
    let error = refused(&malformed("not-a-log.txt"), 2, &["unknown format", "text", "ttmem formats"]);
    assert!(matches!(error, Error::UnknownFormat { .. }));
}

#[test]
fn a_missing_file_is_named() {
    let error = refused(&malformed("there-is-no-such.log"), 2, &["cannot read"]);
    assert!(matches!(error, Error::Read { .. }));
}

#[test]
fn a_directory_is_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let error = refused(folder.path().to_str().unwrap(), 2, &["folder without a report", "pass a file"]);
    assert!(matches!(error, Error::Directory { .. }));
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("secret.log");
    fs::copy(corpus().join("memory-snapshot.log"), &path).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    let path = path.to_str().unwrap();
    let error = where_permissions_count(|| refused(path, 2, &["cannot read", "denied"]));
    assert!(matches!(error, Error::Read { .. }));
}

#[test]
fn without_memory_lines_the_missing_setting_is_named() {
    let error = refused(
        &malformed("no-memory-operations.log"),
        4,
        &["has operations", "TT_RUNTIME_MEMORY_LOG_LEVEL=operation", "setMemoryLogLevel"],
    );
    assert!(matches!(error, Error::NoMemoryData { .. }));
    refused(
        &malformed("no-memory-runtime-lines.log"),
        4,
        &[
            "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG",
            "TT_RUNTIME_MEMORY_LOG_LEVEL=operation",
            "TT_RUNTIME_DEBUG=ON",
        ],
    );
    refused(
        &malformed("no-memory-modules.log"),
        4,
        &["has compiled modules", "2>&1", "TT_RUNTIME_DEBUG=ON", "TTMLIR_RUNTIME_LOGGER_LEVEL=DEBUG"],
    );
}

#[test]
fn two_ranks_without_tags_are_not_mixed() {
    for (name, line) in [("two-ranks-untagged-debug.log", 32), ("two-ranks-untagged-info.log", 24)] {
        let place = format!("line {line}:");
        let error =
            refused(&malformed(name), 2, &[&place, "two processes", "--tag-output", "--allow-interleaved"]);
        assert!(matches!(error, Error::MixedRanks { .. }));
    }
}

#[test]
fn a_log_cut_in_mid_line_is_answered_up_to_there() {
    let cut = [(Some(22), "ends inside this line"), (Some(22), CRASHED)];
    let answer = answered(&malformed("cut-in-line.log"), &cut);
    assert_eq!((answer.ranks[0].operations.total, dram_peak(&answer)), (4, (Some(BEFORE), Some(2))));
}

#[test]
fn a_log_cut_in_mid_group_is_answered_up_to_there() {
    let answer = answered(&malformed("cut-in-group.log"), &[(Some(23), CRASHED)]);
    assert_eq!((answer.ranks[0].operations.total, dram_peak(&answer)), (4, (Some(PEAK), Some(3))));
}

#[test]
fn bytes_that_are_no_utf8_stay_in_their_place() {
    let answer = answered(&malformed("invalid-utf8.log"), &[(Some(9), "is not UTF-8")]);
    assert_eq!((answer.ranks[0].operations.total, dram_peak(&answer)), (4, (Some(PEAK), Some(3))));
    let live = answer.ranks[0].peak.as_ref().unwrap().live.as_ref().unwrap();
    let made_there = live.iter().find(|tensor| tensor.ssa.as_deref() == Some("%1")).unwrap();
    assert_eq!(made_there.loc.as_deref(), Some("\"add\u{fffd}\u{fffd}.1\""));
}

#[test]
fn numbers_that_overflow_are_not_known() {
    let file = malformed("overflowing-numbers.log");
    let answer = answered(&file, &[(Some(10), "could not be parsed")]);
    assert_eq!(answer.source.skipped_lines, 1);
    assert_eq!((answer.ranks[0].operations.total, dram_peak(&answer)), (4, (Some(PEAK), Some(3))));
    // The tensor is there at the end; how many bytes it has nobody can say, nor what all add up to.
    let request = Request { at: Some(4), ..Request::default() };
    let at_end = summary(&[read::open(&file).unwrap()], &request).unwrap();
    let dram = at_end.ranks[0].at.as_ref().unwrap().pools.get("DRAM").unwrap();
    let live = dram.live.as_ref().unwrap();
    let huge = live.iter().find(|tensor| tensor.ssa.as_deref() == Some("%2")).unwrap();
    assert_eq!((huge.logical_bytes, huge.per_bank, dram.explained_per_bank), (None, None, None));
}

#[test]
fn a_device_with_more_free_than_there_is_is_not_believed_in_silence() {
    let file = malformed("free-larger-than-total.log");
    let answer = answered(&file, &[(Some(16), "a DRAM state with more free memory than the total")]);
    assert_eq!((answer.ranks[0].operations.total, dram_peak(&answer)), (4, (Some(PEAK), Some(3))));
}

#[test]
fn programs_need_not_balance() {
    let file = malformed("finished-without-start.log");
    let answer = answered(&file, &[(Some(25), "program main ends here, but its start is not in the log")]);
    assert_eq!((answer.ranks[0].runs, answer.ranks[0].operations.total), (0, 4));
    assert_eq!(dram_peak(&answer), (Some(PEAK), Some(3)));

    let file = malformed("start-without-finish.log");
    let answer = answered(&file, &[(Some(25), CRASHED)]);
    assert!(!read::open(&file).unwrap().ranks[0].runs[0].finished);
    assert_eq!((answer.ranks[0].runs, answer.ranks[0].operations.total), (1, 4));
    assert_eq!(dram_peak(&answer), (Some(PEAK), Some(3)));
}

#[test]
fn a_line_of_a_hundred_megabytes_is_passed_over() {
    const LENGTH: usize = 100 << 20;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("long.log");
    let good = fs::read(corpus().join("malformed/start-without-finish.log")).unwrap();
    let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
    file.write_all(b"Executing operation: ").unwrap();
    for _ in 0..LENGTH / 1024 {
        file.write_all(&[b'x'; 1024]).unwrap();
    }
    file.write_all(b"\n").unwrap();
    file.write_all(&good).unwrap();
    file.into_inner().unwrap().sync_all().unwrap();
    let answer = answered(path.to_str().unwrap(), &[(Some(1), "this line exceeds"), (Some(26), CRASHED)]);
    assert_eq!((answer.ranks[0].operations.total, dram_peak(&answer)), (4, (Some(PEAK), Some(3))));
}

/// A log of one program, with DRAM states of the given thousandths of a MiB before each operation.
fn small_log(operations: &[(&str, u32)]) -> String {
    let mut log = String::from("            RuntimeTTNN |    DEBUG | Starting execution of program: main\n");
    for (text, state) in operations {
        let (mib, rest) = (state / 1000, state % 1000);
        let free = 1_024_000 - state;
        let (free_mib, free_rest) = (free / 1000, free % 1000);
        log += &[
            format!("            RuntimeTTNN |    DEBUG | Executing operation: {text}\n"),
            "                 Always |     INFO | Device memory state before operation XOp\n".to_owned(),
            format!(
                "                 Always |     INFO | Device DRAM memory state: MemoryView{{numBanks: 1, totalBytesPerBank: 1024.000 MB, totalBytesAllocatedPerBank: {mib}.{rest:03} MB, totalBytesFreePerBank: {free_mib}.{free_rest:03} MB, largestContiguousBytesFreePerBank: {free_mib}.{free_rest:03} MB}}\n"
            ),
        ]
        .concat();
    }
    log
}

#[test]
fn sizes_that_add_up_to_more_than_fits_do_not_panic() {
    let layout = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<144115188075855872x4xf32, #ttnn.buffer_type<dram>>, <interleaved>>";
    let full = |n: u32| {
        format!("%{n} = \"ttnn.full\"() : () -> tensor<144115188075855872x4xf32, {layout}> loc(\"full.{n}\")")
    };
    let texts: Vec<String> = (0..8).map(full).collect();
    let operations: Vec<(&str, u32)> = texts.iter().map(|text| (text.as_str(), 5)).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("huge.log");
    fs::write(&path, small_log(&operations)).unwrap();
    let answer = answer(path.to_str().unwrap()).unwrap();
    assert_eq!(answer.ranks[0].operations.total, 8);
}

#[test]
fn a_program_that_is_given_up_is_said() {
    let text = "%0 = \"ttnn.full\"() : () -> tensor<4xf32> loc(\"x\")";
    let log = [small_log(&[(text, 5)]), small_log(&[(text, 5)])].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("twice.log");
    fs::write(&path, log).unwrap();
    let answer = answered(
        path.to_str().unwrap(),
        &[(Some(5), "had not finished"), (Some(8), "the log ends while program main is running")],
    );
    assert_eq!((answer.ranks[0].runs, answer.ranks[0].operations.total), (2, 2));
}

#[test]
fn graphs_that_fit_equally_give_their_names_to_none() {
    let layout = "#ttnn.ttnn_layout<(d0, d1) -> (d0, d1), <1x1>, memref<2x4x!ttcore.tile<32x32, f32>, #ttnn.buffer_type<dram>>, <interleaved>>";
    let op = format!(
        "%0 = \"ttnn.neg\"(%arg0) : (tensor<64x128xf32, {layout}>) -> tensor<64x128xf32, {layout}> loc(\"x\")"
    );
    let module = |name: &str| {
        format!(
            "MLIR Module ttnn:\nmodule @g {{\n  func.func @main(%arg0: tensor<64x128xf32, {layout}> {{ttcore.argument_type = #ttcore.argument_type<parameter>, ttir.name = \"{name}\"}}) -> (tensor<64x128xf32, {layout}>) {{\n    {op}\n    return %0 : tensor<64x128xf32, {layout}>\n  }}\n}}\n------------------ END OF MLIR MODULE ------------------\n"
        )
    };
    let log = [module("first"), module("second"), small_log(&[(&op, 32)])].concat();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ambiguous.log");
    fs::write(&path, log).unwrap();
    let answer = answer(path.to_str().unwrap()).unwrap();
    let said =
        answer.source.warnings.iter().any(|warning| warning.message.contains("lines 2 and 10 equally"));
    assert!(said, "{:?}", answer.source.warnings);
    let live = answer.ranks[0].peak.as_ref().unwrap().live.as_ref().unwrap();
    assert!(live.iter().all(|tensor| tensor.name.as_deref() == tensor.ssa.as_deref()), "{live:?}");
}

#[test]
fn a_packed_log_that_was_cut_is_answered_up_to_there() {
    use std::io::Write as _;
    let log = fs::read(corpus().join("vae-decoder.log")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&log).unwrap();
    let gzip = packed.finish().unwrap();
    let zstd = zstd::stream::encode_all(&log[..], 1).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, packed) in [("cut.log.gz", gzip), ("cut.log.zst", zstd)] {
        let path = folder.path().join(name);
        fs::write(&path, &packed[..packed.len() * 9 / 10]).unwrap();
        let answer = answer(path.to_str().unwrap()).unwrap();
        assert!(answer.ranks[0].operations.total > 10, "{name}");
        assert!(
            answer
                .source
                .warnings
                .iter()
                .any(|warning| warning.message.contains("compressed file is corrupt"))
        );
    }
}

/// The logs of the corpus that are whole.
fn logs() -> Vec<(String, Vec<u8>)> {
    let mut logs: Vec<(String, Vec<u8>)> = fs::read_dir(corpus())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap()))
        .collect();
    logs.sort();
    assert!(logs.len() > 10, "the corpus is there");
    logs
}

/// How often each log is corrupt, in each of two ways.
fn times() -> usize {
    sweep::cases(30, 400)
}

#[test]
fn a_log_cut_anywhere_is_refused_or_answered() {
    let folder = tempfile::tempdir().unwrap();
    for (name, log) in logs() {
        let path = folder.path().join(&name);
        let file = path.to_str().unwrap();
        let mut steps_before = 0;
        for length in sweep::positions(0..log.len(), times()) {
            fs::write(&path, &log[..length]).unwrap();
            match answer(file) {
                Ok(answer) => {
                    // What was known stays known when more of the log is there, but for an operation whose
                    // text, cut at one place, may pass for a whole one and, cut at another, not.
                    let steps: u32 = answer.ranks.iter().map(|rank| rank.operations.total).sum();
                    assert!(steps + 2 > steps_before, "{name} cut at {length}");
                    steps_before = steps;
                }
                Err(error) => assert!(matches!(error.exit_code(), 2 | 4), "{name}: {error}"),
            }
        }
    }
}

#[test]
fn a_log_with_any_byte_changed_is_refused_or_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(2026);
    for (name, mut log) in logs() {
        let path = folder.path().join(&name);
        let file = path.to_str().unwrap();
        for _ in 0..times() {
            let at = random.index(log.len());
            let was = log[at];
            log[at] ^= u8::try_from(random.between(1, 255)).unwrap();
            fs::write(&path, &log).unwrap();
            if let Err(error) = answer(file) {
                assert!(matches!(error.exit_code(), 2 | 4), "{name}, byte {at}: {error}");
            }
            log[at] = was;
        }
    }
}

#[test]
fn a_log_with_many_bytes_changed_is_refused_or_answered() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Random::new(2027);
    for (name, log) in logs() {
        let path = folder.path().join(&name);
        for _ in 0..10 {
            let mut corrupt = log.clone();
            for _ in 0..200 {
                let at = random.index(corrupt.len());
                corrupt[at] ^= u8::try_from(random.between(1, 255)).unwrap();
            }
            fs::write(&path, &corrupt).unwrap();
            if let Err(error) = answer(path.to_str().unwrap()) {
                assert!(matches!(error.exit_code(), 2 | 4), "{name}: {error}");
            }
        }
    }
}
