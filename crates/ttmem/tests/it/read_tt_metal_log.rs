//! Memory errors of tt-metal in logs of any program: `corpus/tt_metal_log`, errors in every form and behind every prefix,
//! and texts that are only about errors.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::model::{Fault, FaultDetail, FaultKind, Profile, ProgramBufferKind};
use ttmem::query::{self, Request};
use ttmem::read::{self, Options};
use ttmem::record::frame::Writer;
use ttmem::report::{MarkdownSize, Screen};
use ttmem::{Error, Result, report};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn corpus(name: &str) -> Vec<u8> {
    fs::read(root().join("corpus/tt_metal_log").join(name)).unwrap()
}

fn opened_as(log: &[u8], format: Option<&str>) -> Result<Profile> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(log).unwrap();
    let options = Options { format: format.map(str::to_owned), ..Options::default() };
    read::open_with(file.path().to_str().unwrap(), &options)
}

fn opened(log: &[u8]) -> Result<Profile> {
    opened_as(log, None)
}

/// The error of a log, as it is compared: everything except its position.
#[derive(Clone, Debug, PartialEq)]
struct Found {
    fault: Fault,
    detail: FaultDetail,
    message: String,
    pool: Option<String>,
    op: Option<String>,
    loc: Option<String>,
    cores: Option<String>,
}

fn found(profile: &Profile) -> Vec<Found> {
    let rank = &profile.ranks[0];
    let text = |id: Option<ttmem::model::StrId>| id.map(|id| profile.text(id).to_owned());
    let of = |fault: &Fault| {
        let detail = rank.fault_detail(fault);
        Found {
            message: profile.text(fault.message).to_owned(),
            pool: text(fault.pool),
            op: text(detail.op),
            loc: text(detail.loc),
            cores: text(detail.cores),
            // The ids of texts depend on their order.
            fault: Fault { line: 0, pool: None, message: rank.faults[0].message, ..*fault },
            detail: FaultDetail { op: None, loc: None, cores: None, ..detail },
        }
    };
    rank.faults.iter().map(of).collect()
}

fn only(log: &[u8]) -> Found {
    let profile = opened(log).unwrap_or_else(|error| panic!("{error}\n{}", String::from_utf8_lossy(log)));
    assert_eq!(profile.source.format, "tt_metal_log");
    let mut all = found(&profile);
    assert_eq!(all.len(), 1, "{all:?}");
    let mut found = all.remove(0);
    // Texts are compared as texts.
    found.fault.message = profile.ranks[0].faults[0].message;
    found
}

fn answer(profile: &Profile) -> Value {
    let summary = query::summary(std::slice::from_ref(profile), &Request::default()).unwrap();
    let mut json = Vec::new();
    report::json(&summary, &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

// ---------------------------------------------------------------------------------------------- real logs

#[test]
fn the_corpus_is_read() {
    for (name, op, loc, ended) in [
        ("clash", Some("ttnn.softmax"), Some("/home/user/model/attention.py:14"), true),
        ("vllm", Some("ttnn.softmax"), Some("/home/user/model/attention.py:14"), true),
        ("caught", None, None, false),
        ("layer-norm", Some("ttnn.layer_norm"), Some("/home/user/model/attention.py:17"), true),
        ("fragmented", Some("ttnn.empty"), None, true),
        ("l1-small", Some("ttnn.empty"), None, true),
        ("dram", Some("ttnn.empty"), None, true),
    ] {
        let found = only(&corpus(&format!("{name}.log")));
        assert_eq!((found.op.as_deref(), found.loc.as_deref()), (op, loc), "{name}");
        assert_eq!(found.fault.ended_program, ended, "{name}");
        let Fault { kind, requested_per_bank, free, largest_free, bank_size, allocated, .. } = found.fault;
        let Fault { region_end, limit, banks, .. } = found.fault;
        let pool = found.pool.as_deref();
        match name {
            "clash" | "vllm" | "caught" => {
                assert_eq!((kind, pool), (FaultKind::CircularBuffersClash, Some("L1")));
                assert_eq!((region_end, limit), (Some(1_185_120), Some(434_176)));
                assert_eq!(found.cores.as_deref(), Some("[0-0 - 7-7]"));
                let of_program = (found.detail.program, found.detail.buffers);
                assert_eq!(of_program, (Some(0), Some(ProgramBufferKind::Dataflow)));
            }
            "layer-norm" => {
                assert_eq!((requested_per_bank, free), (Some(118_784), Some(62_897)));
                assert!(found.detail.is_refusal && kind == FaultKind::OutOfMemory && pool == Some("L1"));
                // A message without these numbers does not make them zero.
                assert_eq!((bank_size, allocated, largest_free, banks), (None, None, None, None));
            }
            "fragmented" => {
                assert_eq!((requested_per_bank, bank_size), (Some(393_216), Some(1_376_928)));
                assert_eq!((allocated, free, largest_free), (Some(655_360), Some(721_568), Some(131_072)));
                assert_eq!((banks, pool), (Some(64), Some("L1")));
            }
            "l1-small" => {
                assert_eq!((requested_per_bank, bank_size), (Some(8192), Some(16384)));
                assert_eq!((free, pool, banks), (Some(0), Some("L1_SMALL"), Some(4)));
            }
            _ => {
                assert_eq!((requested_per_bank, bank_size), (Some(89_479_168), Some(1_072_693_184)));
                assert_eq!((free, pool, banks), (Some(88_422_336), Some("DRAM"), Some(12)));
            }
        }
    }
}

#[test]
fn pytest_prints_every_error_three_times() {
    for name in ["pytest.log", "pytest-short.log"] {
        let profile = opened(&corpus(name)).unwrap();
        let all = found(&profile);
        let seen: Vec<_> =
            all.iter().map(|one| (one.op.as_deref(), one.loc.as_deref(), one.fault.ended_program)).collect();
        assert_eq!(
            seen,
            [
                (Some("ttnn.softmax"), Some("attention.py:14"), false),
                (Some("ttnn.empty"), Some("test_model.py:21"), true)
            ],
            "{name}"
        );
    }
}

#[test]
fn every_front_end_shows_a_log_that_has_only_errors() {
    for entry in fs::read_dir(root().join("corpus/tt_metal_log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let profile = read::open(path.to_str().unwrap()).unwrap();
        let summary = query::summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
        let oom = summary.ranks[0].oom.clone().unwrap();
        let screen = report::text(&summary, Screen { width: 100, ..Screen::default() }).to_string();
        let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        let (mut markdown, mut page) = (Vec::new(), Vec::new());
        report::markdown(&summary, "x", MarkdownSize::default(), &mut markdown).unwrap();
        report::page(&profile, &summary, "x", &mut page).unwrap();
        let markdown = String::from_utf8(markdown).unwrap();
        for part in
            [Some(&oom.statement.headline), oom.statement.detail.as_ref(), oom.statement.advice.as_ref()]
        {
            let part = part.unwrap();
            assert!(screen.contains(part.as_str()), "{part} is not in {screen}");
            assert!(markdown.contains(part.as_str()), "{part} is not in {markdown}");
        }
        // Nothing is known about steps, the end, or what the peak was.
        for word in ["step 0", "at the end", "TTMLIR_RUNTIME_LOGGER_LEVEL"] {
            assert!(!screen.contains(word), "{word}: {screen}");
        }
        // A profile that was stored and read again is the same.
        let mut writer = Writer::create(Vec::new(), "x.ttmem").unwrap();
        profile.replay(&mut writer).unwrap();
        let again = opened(&writer.finish().unwrap()).unwrap();
        assert_eq!(found(&again), found(&profile));
        assert_eq!(again.source.format, "tt_metal_log");
        // ttmem's own output is not a log.
        let error = opened(markdown.as_bytes()).unwrap_err();
        assert!(matches!(error, Error::NoMemoryData { .. } | Error::UnknownFormat { .. }), "{error}");
    }
}

#[test]
fn verdicts_name_what_the_message_has() {
    let verdict = |name: &str| {
        let answer = answer(&opened(&corpus(name)).unwrap());
        let oom = answer["ranks"][0]["oom"].clone();
        (oom["headline"].as_str().unwrap().to_owned(), oom["detail"].as_str().unwrap().to_owned(), oom)
    };
    let (headline, detail, oom) = verdict("clash.log");
    assert_eq!(headline, "Out of L1: a kernel's dataflow buffers do not fit.");
    assert_eq!(
        detail,
        "ttnn.softmax at /home/user/model/attention.py:14 needs dataflow buffers up to address 1185120 on cores \
         [0-0 - 7-7] (program 0), but the lowest L1 buffer is at address 434176: they overlap by 733.3 KiB."
    );
    assert_eq!((&oom["region_end"], &oom["buffer_address"]), (&1_185_120.into(), &434_176.into()));
    assert_eq!(
        (&oom["buffers"], &oom["program"], &oom["cores"]),
        (&"dataflow".into(), &0.into(), &"[0-0 - 7-7]".into())
    );
    assert_eq!((&oom["overlap_bytes"], &oom["limit"]), (&750_944.into(), &Value::Null));
    assert!(oom["advice"].as_str().unwrap().starts_with("Move the L1 tensors"), "{oom}");
    let (headline, detail, oom) = verdict("layer-norm.log");
    assert_eq!(headline, "Out of L1: an operation needs more than is available.");
    assert!(
        detail.ends_with("needs 116.0 KiB of L1 per core, but only 61.4 KiB is available, 54.6 KiB short."),
        "{detail}"
    );
    assert_eq!((&oom["refused"], &oom["lacks_per_bank"]), (&true.into(), &55_887.into()));
    assert_eq!((&oom["capacity_per_bank"], &oom["allocated_per_bank"]), (&Value::Null, &Value::Null));
    let (_, _, oom) = verdict("l1-small.log");
    assert!(oom["advice"].as_str().unwrap().contains("l1_small_size: at least 24576 bytes"), "{oom}");
    let (_, detail, oom) = verdict("fragmented.log");
    assert!(detail.starts_with("ttnn.empty requested 384.0 KiB in each of 64 banks"), "{detail}");
    assert_eq!((&oom["cause"], &oom["allocated_per_bank"]), (&"fragmentation".into(), &655_360.into()));
    let (_, detail, _) = verdict("caught.log");
    // Lines that follow do not prove that the program continued.
    assert!(!detail.contains("continued"), "{detail}");
}

#[test]
fn buffers_that_exceed_an_empty_l1_need_other_advice() {
    let log = exception(
        "Statically allocated circular buffers on core range [(x=6,y=7) - (x=6,y=7)] grow to 3092736 B which is beyond max L1 size of 1499136 B",
    );
    let oom = answer(&opened(log.as_bytes()).unwrap())["ranks"][0]["oom"].clone();
    let detail = oom["detail"].as_str().unwrap();
    assert!(detail.contains("but L1 ends at address 1499136, 1.5 MiB too much"), "{detail}");
    let advice = oom["advice"].as_str().unwrap();
    assert!(advice.contains("does not help") && advice.contains("smaller blocks"), "{advice}");
    assert_eq!((&oom["limit"], &oom["buffer_address"]), (&1_499_136.into(), &Value::Null));
}

#[test]
fn a_request_is_compared_with_the_windows_where_it_was_allowed() {
    let log = exception(
        "Out of Memory: Not enough space after considering dependencies to allocate 1048576 B DRAM across 8 banks (131072 B per bank), bank size is 1000000 B (allocated: 100000 B, free: 900000 B, largest free block: 900000 B). After subtracting 2 dependency range(s) and 1 additional occupied range(s), 150000 B remained placeable across 3 window(s), largest 100000 B.",
    );
    let oom = answer(&opened(log.as_bytes()).unwrap())["ranks"][0]["oom"].clone();
    assert_eq!((&oom["cause"], &oom["lacks_per_bank"]), (&"fragmentation".into(), &31_072.into()));
    assert_eq!(oom["largest_placeable_per_bank"], 100_000);
    let detail = oom["detail"].as_str().unwrap();
    assert!(
        detail.ends_with(
            "878.9 KiB per bank was free, but other allocations leave only 146.5 KiB of it in 3 windows for this one, and \
             the largest window was 97.7 KiB, 30.3 KiB short."
        ),
        "{detail}"
    );
}

// ---------------------------------------------------------------------------------------------- any form and prefix

const MESSAGES: [&str; 7] = [
    "Out of Memory: Not enough space to allocate 58720256 B DRAM buffer across 12 banks, where each bank needs to store 4894720 B, but bank size is 1071821792 B (allocated: 888424448 B, free: 183397344 B, largest free block: 3382944 B)",
    "Out of Memory: Not enough space to allocate 52760576 B L1 buffer across 64 banks, where each bank needs to store 824384 B",
    "Statically allocated circular buffers in program 4825 clash with L1 buffers on core range [(x=0,y=0) - (x=6,y=6)]. L1 buffer allocated at 1336960 and static circular buffer region ends at 1392928",
    "Statically allocated dataflow buffers on core range [0-0 - 7-7] grow to 1600000 B which is beyond max L1 size of 1499136 B",
    "Creating trace buffers of size 30000000B on MeshDevice 1, but only 20000000B is allocated for trace region.",
    "LayerNorm streaming circular buffers require 118784 bytes, but only 62897 bytes of the allocator's L1 span are available",
    "ttnn.pad: padded row of 2000000 B does not fit in the per-core L1 budget (1393312 B)",
];

/// What other programs print in front of every line.
const PREFIXES: [&str; 12] = [
    "",
    "E       ",
    "(EngineCore_DP0 pid=123) ERROR 10-10 12:00:00 [core.py:710] ",
    "ERROR 05-05 15:48:14 engine.py:159] ",
    "(EngineCore_DP0 pid=7) ",
    "2026-01-01 12:00:00,123 - file.py:12 - ERROR: ",
    "2026-01-01T12:00:00.123456789Z ",
    "[pod/server-0/main] 2026-01-01T12:00:00.1Z ",
    "vllm-1  | ",
    "[1,0]<stdout>:",
    "[1,0]<stderr>: (Worker pid=4) ",
    "\u{1b}[31m",
];

fn logged(message: &str) -> String {
    format!("2026-06-04 20:40:34.148 | critical |          Always | TT_FATAL: {message} (assert.hpp:104)\n")
}

fn exception(message: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"/home/user/model.py\", line 12, in forward\n    y = block(x)\nRuntimeError: TT_FATAL @ /project/tt_metal/x.cpp:514: false\ninfo:\n{message}\nbacktrace:\n --- /lib/libtt_metal.so(+0xabae05) [0x7f34752bae05]\n --- ttnn::prim::softmax(ttnn::Tensor const&)\n --- ttnn::softmax(ttnn::Tensor const&, int)\n --- /lib/libc.so.6(+0x2724a) [0x7f347ac4524a]\n\n"
    )
}

fn behind(prefix: &str, log: &str) -> String {
    let is_colored = prefix.starts_with('\u{1b}');
    let end = if is_colored { "\u{1b}[0m" } else { "" };
    let lines: Vec<String> = log.lines().map(|line| format!("{prefix}{line}{end}\n")).collect();
    lines.concat()
}

#[test]
fn the_logger_and_the_exception_have_the_same_numbers() {
    for message in MESSAGES {
        let (logger, exception) = (logged(message), exception(message));
        let old = format!("                 Always | FATAL    | {message}\n");
        let one_line = format!(
            "ERROR 05-09 15:23:00 engine.py:159] RuntimeError('TT_THROW @ /x/program.cpp:876: tt::exception\\ninfo:\\n{message}\\nbacktrace:\\n --- /lib/libtt_metal.so(+0x22ac1b) [0x7f730c6a8c1b]\\n --- ttnn::softmax(int)')\n"
        );
        let expected = only(format!("{logger}{exception}").as_bytes());
        assert_eq!(expected.message, message);
        for log in [&logger, &exception, &old, &one_line, &format!("{exception}{logger}{exception}")] {
            let found = only(log.as_bytes());
            let same = (found.fault, found.detail, found.message, found.pool, found.cores);
            let (fault, detail, message, pool, cores) = (
                expected.fault,
                expected.detail,
                expected.message.clone(),
                expected.pool.clone(),
                expected.cores.clone(),
            );
            let fault = Fault { message: same.0.message, ..fault };
            assert_eq!(same, (fault, detail, message, pool, cores), "{log}");
        }
    }
}

#[test]
fn prefixes_of_lines_do_not_matter() {
    for message in MESSAGES {
        let log = format!("loading\n{}{}", logged(message), exception(message));
        let expected = only(log.as_bytes());
        assert_eq!(expected.loc.as_deref(), Some("/home/user/model.py:12"));
        for prefix in PREFIXES {
            let wrapped = behind(prefix, &log);
            let mut found = only(wrapped.as_bytes());
            found.fault.message = expected.fault.message;
            if prefix.starts_with("E ") {
                // pytest has no tracebacks.
                found.loc.clone_from(&expected.loc);
            }
            assert_eq!(found, expected, "{wrapped}");
            let crlf = wrapped.replace('\n', "\r\n");
            let mut found = only(crlf.as_bytes());
            found.fault.message = expected.fault.message;
            found.loc.clone_from(&expected.loc);
            assert_eq!(found, expected, "{crlf}");
        }
    }
}

/// A log as Docker stores it. Long lines are in several parts.
fn in_docker(log: &str) -> String {
    let entry =
        |part: &str| format!("{}\n", serde_json::json!({"log": part, "stream": "stderr", "time": "x"}));
    log.split_inclusive('\n')
        .flat_map(|line| match line.char_indices().nth(100) {
            Some((middle, _)) => vec![&line[..middle], &line[middle..]],
            None => vec![line],
        })
        .map(entry)
        .collect()
}

#[test]
fn a_log_that_docker_stored_is_its_text() {
    for message in MESSAGES {
        let log = format!("loading\n{}{}", logged(message), exception(message));
        assert_eq!(only(in_docker(&log).as_bytes()), only(log.as_bytes()));
    }
    let runtime = fs::read_to_string(root().join("corpus/tt_log/oom-capacity.log")).unwrap();
    let (plain, stored) =
        (opened(runtime.as_bytes()).unwrap(), opened(in_docker(&runtime).as_bytes()).unwrap());
    let (mut plain, mut stored) = (answer(&plain), answer(&stored));
    for answer in [&mut plain, &mut stored] {
        answer["source"]["files"].take();
        answer["ranks"][0]["file"].take();
    }
    assert_eq!(plain, stored);
}

#[test]
fn lines_of_other_writers_may_be_anywhere() {
    let message = MESSAGES[2];
    let expected = only(format!("{}{}", logged(message), exception(message)).as_bytes());
    let lines: Vec<String> =
        format!("{}{}", logged(message), exception(message)).lines().map(str::to_owned).collect();
    let long = "y".repeat(1 << 20);
    for stranger in ["50%|#####     | 5/10 [00:01<00:01]", "\u{0}\u{1}\u{2}", long.as_str(), "\u{fffd}"] {
        for at in 0..lines.len() {
            let mut mixed: Vec<&str> = lines.iter().map(String::as_str).collect();
            mixed.insert(at, stranger);
            let mixed = mixed.join("\n");
            // A NUL byte within the first bytes makes a file binary; the format must be named then.
            let profile = opened_as(mixed.as_bytes(), Some("tt_metal_log")).unwrap();
            let all = found(&profile);
            assert_eq!(all.len(), 1);
            assert_eq!(all[0].fault.region_end, expected.fault.region_end, "{at}");
        }
    }
}

#[test]
fn a_missing_line_or_a_cut_end_never_panics_and_never_invents_numbers() {
    for message in MESSAGES {
        let log = format!("{}{}", logged(message), exception(message));
        let expected = only(log.as_bytes());
        let lines: Vec<&str> = log.lines().collect();
        for missing in 0..lines.len() {
            let rest: Vec<&str> =
                lines.iter().enumerate().filter(|(at, _)| *at != missing).map(|(_, line)| *line).collect();
            let found = only(rest.join("\n").as_bytes());
            assert_eq!(found.fault.requested_per_bank, expected.fault.requested_per_bank);
            assert_eq!(found.fault.region_end, expected.fault.region_end);
        }
        for end in 0..log.len() {
            let cut = &log.as_bytes()[..end];
            let Ok(profile) = opened(cut) else { continue };
            for one in found(&profile) {
                // Without its end, a message may be one of an older version, which has fewer numbers.
                let is_known =
                    |number: Option<u64>, expected: Option<u64>| number.is_none() || number == expected;
                assert_eq!(one.fault.requested_per_bank, expected.fault.requested_per_bank, "{end}");
                assert_eq!(one.fault.region_end, expected.fault.region_end, "{end}");
                assert_eq!(one.fault.limit, expected.fault.limit, "{end}");
                assert!(is_known(one.fault.free, expected.fault.free), "{end}");
                assert!(is_known(one.fault.bank_size, expected.fault.bank_size), "{end}");
            }
        }
    }
}

#[test]
fn corrupt_bytes_never_panic() {
    let mut random = ttmem_testkit::random::Random::new(7);
    let log = corpus("pytest-short.log");
    for _ in 0..200 {
        let mut corrupt = log.clone();
        for _ in 0..random.between(1, 50) {
            let at = usize::try_from(random.between(0, corrupt.len() as u64 - 1)).unwrap();
            corrupt[at] = u8::try_from(random.between(0, 255)).unwrap();
        }
        if let Ok(profile) = opened(&corrupt) {
            answer(&profile);
        }
    }
}

#[test]
fn only_the_message_is_read_if_nothing_else_is_there() {
    for message in &MESSAGES[..5] {
        for name in ["", "TT_FATAL: ", "RuntimeError: ", "\n\n"] {
            for end in ["\n", ""] {
                assert_eq!(only(format!("{name}{message}{end}").as_bytes()).message, *message);
            }
        }
        let quoted = format!("Somebody saw this:\n{message}\n");
        assert!(matches!(opened(quoted.as_bytes()), Err(Error::NoMemoryData { .. })), "{quoted}");
    }
}

#[test]
fn several_errors_are_all_reported_and_the_last_one_is_explained() {
    let log = format!("{}retrying\n{}done\n", exception(MESSAGES[0]), exception(MESSAGES[2]));
    let profile = opened(log.as_bytes()).unwrap();
    let all = found(&profile);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|one| !one.fault.ended_program));
    let answer = answer(&profile);
    assert_eq!(answer["ranks"][0]["oom"]["cause"], "circular_buffers");
    assert_eq!(answer["ranks"][0]["faults"][0]["requested_per_bank"], 4_894_720);
    // The pool of the first error has its state.
    assert_eq!(answer["ranks"][0]["pools"]["DRAM"]["capacity_per_bank"], 1_071_821_792);
}

#[test]
fn ranks_of_tagged_logs_stay_apart() {
    let log = format!(
        "{}{}",
        behind("[1,0]<stderr>:", &exception(MESSAGES[0])),
        behind("[1,1]<stderr>:", &exception(MESSAGES[2]))
    );
    let profile = opened(log.as_bytes()).unwrap();
    assert_eq!(profile.ranks.len(), 2);
    assert!(profile.ranks.iter().all(|rank| rank.faults.len() == 1 && rank.has_content()));
}

#[test]
fn a_large_log_may_end_with_the_error() {
    let mut log = b"step 1 of many: everything is fine\n".repeat(1 << 20);
    assert!(matches!(opened(&log), Err(Error::UnknownFormat { .. })));
    log.extend_from_slice(exception(MESSAGES[2]).as_bytes());
    assert_eq!(only(&log).op.as_deref(), Some("ttnn.softmax"));
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&log).unwrap();
    assert_eq!(only(&packed.finish().unwrap()).message, MESSAGES[2]);
}

// ---------------------------------------------------------------------------------------------- other formats

#[test]
fn logs_of_the_runtime_stay_what_they_are() {
    let folder = root().join("corpus/tt_log");
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let profile = read::open(path.to_str().unwrap()).unwrap();
            assert_eq!(profile.source.format, "tt_log", "{}", path.display());
        }
    }
    // An error before the first line of the runtime does not change the format, even if it is far away.
    let mut log = exception(MESSAGES[0]).into_bytes();
    log.extend(b"waiting\n".repeat(100_000));
    log.extend(fs::read(folder.join("vae-decoder.log")).unwrap());
    let profile = opened(&log).unwrap();
    assert_eq!(profile.source.format, "tt_log");
    assert!(!profile.ranks[0].steps.is_empty());
    // With the format named, only errors are read.
    let log = fs::read(folder.join("oom-capacity.log")).unwrap();
    let profile = opened_as(&log, Some("tt_metal_log")).unwrap();
    assert_eq!((profile.source.format.as_str(), profile.ranks[0].steps.len()), ("tt_metal_log", 0));
    assert_eq!(profile.ranks[0].faults.len(), 1);
}

#[test]
fn a_log_of_the_runtime_without_states_still_has_its_error() {
    let log = fs::read(root().join("corpus/tt_log/malformed/no-memory-operations.log")).unwrap();
    assert!(matches!(opened(&log), Err(Error::NoMemoryData { .. })));
    let log = [log, logged(MESSAGES[2]).into_bytes()].concat();
    let profile = opened(&log).unwrap();
    assert_eq!((profile.source.format.as_str(), profile.ranks[0].faults.len()), ("tt_log", 1));
    let warning =
        profile.warnings.iter().find(|warning| warning.message.contains("only errors are reported"));
    assert!(warning.unwrap().message.contains("TT_RUNTIME_MEMORY_LOG_LEVEL=operation"));
    answer(&profile);
}

#[test]
fn logs_with_errors_are_never_overwritten() {
    let judged = |text: &[u8]| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        read::evidence_in(file.path()).unwrap()
    };
    for entry in fs::read_dir(root().join("corpus/tt_metal_log")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "log") {
            assert_eq!(read::evidence_in(&path).unwrap(), Some("tt_metal_log"), "{}", path.display());
        }
    }
    let mut late = b"nothing yet\n".repeat(1 << 18);
    late.extend_from_slice(logged(MESSAGES[5]).as_bytes());
    assert_eq!(judged(&late), Some("tt_metal_log"));
    assert_eq!(judged(b"my notes about TT_FATAL and L1\n"), None);
}

// ---------------------------------------------------------------------------------------------- texts about errors

fn refused(text: &[u8], what: &str) -> Error {
    match opened(text) {
        Err(error) => error,
        Ok(profile) => panic!("{what} was read: {:?}", found(&profile)),
    }
}

#[test]
fn documentation_is_refused() {
    let mut count = 0;
    let folders = ["docs", "", "corpus/tt_log", "corpus/tt_metal_log", "crates/ttmem-read/src/tt_metal"];
    for folder in folders {
        for entry in fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md" || extension == "rs") {
                // An example of another format may be read, but not as an error.
                if let Ok(profile) = opened(&fs::read(&path).unwrap()) {
                    assert_ne!(profile.source.format, "tt_metal_log", "{}", path.display());
                }
                count += 1;
            }
        }
    }
    assert!(count > 20);
}

#[test]
fn a_document_needs_a_backtrace() {
    let (clash, refusal) = (MESSAGES[2], MESSAGES[5]);
    for (text, what) in [
        (format!("# Errors\n\nThe runtime prints\n\n```\n{}```\n", logged(clash)), "a guide"),
        (format!("# Errors\n\n```\nTT_FATAL @ x.cpp:1: false\ninfo:\n{refusal}\nbacktrace:\n --- …\n```\n"), "an abridged example"),
        (format!("Errors\n======\n\n.. code-block::\n\n  {}", logged(clash)), "reStructuredText"),
        (format!("<html>\n<pre>\n{}</pre>\n", logged(clash)), "a page"),
        (format!("assert str(error) == \"{clash}\"\n"), "a test"),
        (format!("EXPECTED = [\n    \"{}\",\n]\n", logged(clash).trim_end()), "a list of messages"),
        ("TT_FATAL(\n    false,\n    \"Out of Memory: Not enough space to allocate {} B {} buffer across {} banks, where each bank needs to store {} B\",\n    size);\nlog_fatal(tt::LogAlways, \"TT_FATAL: L1 needs {} B, but only {} B\");\n".to_owned(), "a source file"),
    ] {
        refused(text.as_bytes(), what);
    }
    let error = refused(format!("# Errors\n\n```\n{}```\n", logged(clash)).as_bytes(), "a guide");
    assert!(
        error.to_string().contains("quotes a tt-metal error, but contains no log of it; pass the output"),
        "{error}"
    );
    let error = refused(&logged(clash).as_bytes()[..150], "a truncated message");
    assert!(error.to_string().contains("lacks some of its numbers"), "{error}");
    // A log that begins with comments.
    only(format!("# python model.py\n# on n150\n{}", logged(clash)).as_bytes());
    // An issue with a log in it.
    for message in MESSAGES {
        let issue = format!(
            "### Describe the bug\n\nIt fails.\n\n```\n{}{}```\n\n### Steps\n\n1. run it\n",
            logged(message),
            exception(message)
        );
        assert!(only(issue.as_bytes()).op.is_some(), "{issue}");
    }
}

#[test]
fn malformed_files() {
    let malformed = |name: &str| corpus(&format!("malformed/{name}"));
    // The log ends inside its only message.
    let error = refused(&malformed("cut-in-message.log"), "a truncated message");
    assert!(
        matches!(error, Error::NoMemoryData { .. }) && error.to_string().contains("lacks some"),
        "{error}"
    );
    // The logger's line is whole, the exception is not.
    let profile = opened(&malformed("cut-in-exception.log")).unwrap();
    assert_eq!(found(&profile)[0].fault.region_end, Some(1_185_120));
    let warnings: Vec<&str> = profile.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(warnings, ["the log ends inside this error message; it is not used"]);
    let profile = opened(&malformed("invalid-utf8.log")).unwrap();
    assert_eq!(found(&profile)[0].cores.as_deref(), Some("[0-0 \u{fffd} 7-7]"));
    assert!(profile.warnings.iter().any(|warning| warning.message.contains("not UTF-8")));
    let (crlf, plain) = (only(&malformed("crlf.log")), only(&corpus("layer-norm.log")));
    assert_eq!((crlf.message, crlf.op, crlf.loc), (plain.message, plain.op, plain.loc));
    let error = refused(&malformed("quoted.md"), "a document");
    assert!(error.to_string().contains("contains no log of it"), "{error}");
    refused(&malformed("template.cpp"), "a source file");
}
