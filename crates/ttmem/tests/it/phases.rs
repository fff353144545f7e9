//! The phases of training sessions: what is expected, what was measured, whether it fits, and what the peak is made of.

use proptest::prelude::*;
use ttmem::Error;
use ttmem::query::phases::{Comparison, Origin, PartKind, PartSource, SessionPhases};
use ttmem::query::{Phases, PhasesRequest, Request, phases, summary};

use crate::training::{Said, Summary, corpus, log_of, opened};

const MIB: i64 = 1 << 20;

fn asked(log: &str, request: &PhasesRequest) -> Phases {
    phases(&[opened(log)], request).unwrap()
}

fn only(log: &str) -> SessionPhases {
    let mut answer = asked(log, &PhasesRequest::default());
    assert_eq!(answer.sessions.len(), 1);
    answer.sessions.remove(0)
}

fn parts(session: &SessionPhases) -> Vec<(&str, Option<i64>)> {
    session.parts.iter().map(|part| (part.name.as_str(), part.bytes.map(|bytes| bytes / MIB))).collect()
}

const USUAL: [Said<'_>; 5] = [
    ("MODEL_CREATION", 1010, 1010),
    ("OPTIMIZER_CREATION", 2020, 2020),
    ("FORWARD_PASS", 3000, 3200),
    ("BACKWARD_PASS", -2000, 700),
    ("FIRST_ITERATION_COMPLETE", 0, 10),
];

const ORDER: [PartKind; 5] = [
    PartKind::Other,
    PartKind::Model,
    PartKind::GradientsOverhead,
    PartKind::Optimizer,
    PartKind::Activations,
];

#[test]
fn tinyllama_fits_with_recomputation_and_does_not_without() {
    let answer = phases(&[corpus("tt_train/tinyllama.log")], &PhasesRequest::default()).unwrap();
    assert!(answer.source.warnings.is_empty(), "{:?}", answer.source.warnings);
    let [efficient, default] = &answer.sessions[..] else { panic!("{answer:?}") };
    for (session, peak, fits) in [(efficient, 8278.65, true), (default, 15666.65, false)] {
        #[allow(clippy::cast_precision_loss, reason = "megabytes")]
        let found = session.peak_bytes.unwrap() as f64 / MIB as f64;
        assert!((found - peak).abs() <= 0.02, "{found}");
        assert_eq!(session.fits, Some(fits));
        assert_eq!(session.device_memory_bytes, Some(12 << 30));
        assert_eq!(session.device_memory_source, Some(Origin::Header));
        assert_eq!(session.peak_phase.as_deref(), Some("BACKWARD_PASS"));
        assert_eq!(session.model.expected_bytes, Some(969_369_600 * 2));
        assert_eq!(session.optimizer.expected_bytes, Some(969_369_600 * 4));
        assert_eq!(session.gradients.expected_bytes, Some(969_369_600 * 2));
        assert_eq!(session.model.difference_pct, Some(0.77));
        let kinds: Vec<PartKind> = session.parts.iter().map(|part| part.kind).collect();
        assert_eq!(kinds, ORDER);
    }
    assert_eq!((efficient.device_usage_pct, default.device_usage_pct), (Some(67.37), Some(127.5)));
    assert!(efficient.advice.is_empty());
    let advice: Vec<_> = default.advice.iter().map(|one| (one.kind, one.can_suffice)).collect();
    assert_eq!(
        advice,
        [("recomputation", Some(true)), ("smaller_batch", Some(true)), ("gradient_accumulation", Some(true))]
    );
    assert_eq!(default.advice[2].micro_batches, Some(3));
    let [compared] = &answer.comparisons[..] else { panic!("{:?}", answer.comparisons) };
    assert_eq!(compared.saves_bytes, default.peak_bytes.unwrap() - efficient.peak_bytes.unwrap());
    assert_eq!(compared.saves_pct, Some(47.16));
    assert!(compared.message.contains("needs 7.21 GiB (47.2%) less"), "{}", compared.message);
}

#[test]
fn a_session_is_answered_from_its_own_header() {
    let header = |name, parameters, device_mb| {
        Summary { name: Some(name), parameters, device_mb, phases: &USUAL }.print()
    };
    let log = header("small", Some(1000), Some(8192))
        + &header("large", Some(9_000_000_000), None)
        + &header("silent", None, Some(4096));
    let answer = asked(&log, &PhasesRequest::default());
    let expected: Vec<_> = answer.sessions.iter().map(|session| session.model.expected_bytes).collect();
    assert_eq!(expected, [Some(2000), Some(18_000_000_000), None]);
    let devices: Vec<_> = answer
        .sessions
        .iter()
        .map(|session| (session.device_memory_bytes.unwrap() >> 20, session.device_memory_source.unwrap()))
        .collect();
    assert_eq!(devices, [(8192, Origin::Header), (12_288, Origin::Default), (4096, Origin::Header)]);
    let silent = &answer.sessions[2];
    assert_eq!((silent.optimizer.expected_bytes, silent.model.difference_pct), (None, None));
    // Nothing is expected: the parts are what was measured, and it is said.
    assert!(silent.parts.iter().all(|part| part.source != PartSource::Expected), "{:?}", silent.parts);
    assert!(silent.notes.iter().any(|note| note.contains("parameters is unknown")), "{:?}", silent.notes);
    assert!(answer.sessions[1].notes.iter().any(|note| note.contains("assuming 12 GiB")));
    assert!(answer.sessions[0].notes.iter().any(|note| note.contains("assuming bf16")));
}

#[test]
fn options_stand_above_the_log() {
    let log = log_of(&USUAL);
    let request = PhasesRequest {
        device_memory: Some(5 << 30),
        model: Some(1 << 30),
        gradients: Some(7),
        ..PhasesRequest::default()
    };
    let answer = asked(&log, &request);
    let session = &answer.sessions[0];
    assert_eq!((session.device_memory_source, session.fits), (Some(Origin::Option), Some(false)));
    let expected = [session.model, session.optimizer, session.gradients]
        .map(|figure| (figure.expected_bytes, figure.expected_source));
    let option = Some(Origin::Option);
    // What follows from a size that was given is told apart from one that was given itself.
    assert_eq!(expected, [(Some(1 << 30), option), (Some(2 << 30), Some(Origin::Model)), (Some(7), option)]);
    assert!(!session.notes.iter().any(|note| note.contains("assuming")), "{:?}", session.notes);
    // An optimizer without state is a size, too.
    let answer = asked(&log, &PhasesRequest { optimizer: Some(0), ..PhasesRequest::default() });
    assert_eq!(answer.sessions[0].optimizer.expected_bytes, Some(0));
    assert_eq!(answer.sessions[0].optimizer.difference_pct, None);
}

#[test]
fn parts_are_expected_sizes_unless_measured_ones_are_asked_for() {
    let log = log_of(&USUAL);
    assert_eq!(
        parts(&only(&log)),
        [
            ("Other", Some(30)),
            ("Model Parameters", Some(1000)),
            ("Gradients Overhead", Some(700)),
            ("Optimizer State", Some(2000)),
            ("Activations", Some(3000))
        ]
    );
    let actual = asked(&log, &PhasesRequest { use_actual_sizes: true, ..PhasesRequest::default() });
    let actual = parts(&actual.sessions[0]);
    assert_eq!((actual[0], actual[1]), (("Other", Some(0)), ("Model Parameters", Some(1010))));
    assert_eq!(actual[3], ("Optimizer State", Some(2020)));
}

#[test]
fn another_phase_that_holds_the_peak_has_its_own_name() {
    let forward = only(&log_of(&[
        ("MODEL_CREATION", 1000, 1000),
        ("OPTIMIZER_CREATION", 2000, 2000),
        ("FORWARD_PASS", 9000, 11_000),
        ("BACKWARD_PASS", -8000, 700),
    ]));
    assert_eq!(
        parts(&forward),
        [
            ("Other", Some(0)),
            ("Model Parameters", Some(1000)),
            ("FORWARD_PASS", Some(11_000)),
            ("Optimizer State", Some(2000))
        ]
    );
    assert_eq!(forward.advice[0].activations_bytes, Some(9000 * MIB));
    let optimizer = only(&log_of(&[
        ("MODEL_CREATION", 1000, 1000),
        ("OPTIMIZER_CREATION", 2000, 13_000),
        ("FORWARD_PASS", 10, 10),
    ]));
    assert_eq!(
        parts(&optimizer),
        [("Other", Some(0)), ("Model Parameters", Some(1000)), ("OPTIMIZER_CREATION", Some(13_000))]
    );
    let [advice] = &optimizer.advice[..] else { panic!("{:?}", optimizer.advice) };
    assert!(advice.kind == "smaller_model" && advice.message.contains("OPTIMIZER_CREATION"));
    let model = only(&log_of(&[("MODEL_CREATION", 1000, 1700)]));
    assert_eq!(parts(&model), [("Other", Some(0)), ("MODEL_CREATION", Some(1700))]);
}

/// Accumulated gradients are there when the next micro-batch runs: they are a part of their own, not of the rest.
#[test]
fn micro_batches_are_matched_by_their_base_names() {
    let mut said = vec![("ENTRY", 0, 0), ("MODEL_CREATION", 1000, 1000), ("OPTIMIZER_CREATION", 2000, 2000)];
    said.extend([("FORWARD_PASS_micro_0", 3000, 3200), ("BACKWARD_PASS_micro_0", -2000, 700)]);
    said.extend([("FORWARD_PASS_micro_1", 3100, 3200), ("BACKWARD_PASS_micro_1", -3090, 650)]);
    let session = only(&log_of(&said));
    assert_eq!(session.peak_phase.as_deref(), Some("BACKWARD_PASS_micro_1"));
    assert_eq!(session.activations.measured_bytes, Some(3100 * MIB));
    assert_eq!(session.gradients.measured_bytes, Some(1010 * MIB));
    assert_eq!(
        parts(&session),
        [
            ("Other", Some(0)),
            ("Model Parameters", Some(1000)),
            ("Gradients Kept", Some(1000)),
            ("Gradients Overhead", Some(650)),
            ("Optimizer State", Some(2000)),
            ("Activations", Some(3100))
        ]
    );
    assert_eq!(session.phases.len(), said.len());
}

#[test]
fn parts_beyond_the_peak_are_said_and_not_hidden() {
    let answer = asked(
        &log_of(&[
            ("MODEL_CREATION", 900, 900),
            ("OPTIMIZER_CREATION", 500, 500),
            ("FORWARD_PASS", 300, 350),
            ("BACKWARD_PASS", 600, 800),
        ]),
        &PhasesRequest::default(),
    );
    assert_eq!(parts(&answer.sessions[0])[0], ("Other", Some(-1600)));
    let [warning] = &answer.source.warnings[..] else { panic!("{:?}", answer.source.warnings) };
    assert!(warning.message.contains("1.56 GiB more than the peak") && warning.line.is_some());
}

#[test]
fn a_peak_as_large_as_the_device_does_not_fit() {
    let with = |memory: u64| {
        let request = PhasesRequest { device_memory: Some(memory << 20), ..PhasesRequest::default() };
        asked(&log_of(&USUAL), &request).sessions.remove(0)
    };
    assert_eq!((with(6730).fits, with(6730).left_bytes), (Some(false), Some(0)));
    assert_eq!((with(6731).fits, with(6731).left_bytes), (Some(true), Some(MIB)));
    assert_eq!(with(6730).advice[0].must_save_bytes, 0);
}

#[test]
fn what_is_torn_or_cut_off_is_said() {
    let whole = log_of(&USUAL);
    let cut = whole.split("--- FIRST_ITERATION").next().unwrap();
    let session = only(cut);
    assert!(!session.finished && session.peak_bytes == Some(6730 * MIB));
    assert!(
        session.notes.iter().any(|note| note.starts_with("Incomplete: the log ends")),
        "{:?}",
        session.notes
    );

    let torn = whole.replace("Segment Change +3000.00 MB", "Segment Cha");
    let session = only(&torn);
    assert_eq!(session.torn_phases, ["FORWARD_PASS"]);
    assert_eq!(session.activations.measured_bytes, None);
    // What is not known is in the rest, and it is said.
    assert_eq!(parts(&session)[4], ("Activations", None));
    assert_eq!(parts(&session)[0], ("Other", Some(3030)));
    assert!(session.notes.iter().any(|note| note.contains("Activations") && note.contains("in Other")));

    let without_peaks = whole.lines().filter(|line| !line.contains("DRAM")).collect::<Vec<_>>().join("\n");
    let session = only(&without_peaks);
    assert_eq!((session.peak_bytes, session.fits, session.device_usage_pct), (None, None, None));
    assert!(session.parts.is_empty() && session.advice.is_empty());
    assert_eq!(session.torn_phases.len(), 5);
}

#[test]
fn an_estimate_is_said() {
    let mut profile = opened(&log_of(&USUAL));
    profile.ranks[0].sessions[0].estimated = true;
    let answer = phases(&[profile], &PhasesRequest::default()).unwrap();
    assert!(answer.sessions[0].estimated);
    assert!(answer.sessions[0].notes[0].contains("NO_DISPATCH"), "{:?}", answer.sessions[0].notes);
}

#[test]
fn a_file_without_phases_says_what_to_call() {
    let error = phases(&[corpus("tt_log/vae-decoder.log")], &PhasesRequest::default()).unwrap_err();
    assert!(matches!(&error, Error::NoMemoryData { .. }));
    assert_eq!(error.exit_code(), 4);
    assert!(error.to_string().contains("begin_capture, snapshot(NAME)"), "{error}");
}

#[test]
fn ranks_can_be_chosen_and_have_different_labels() {
    let tagged = |rank: &str| -> String {
        let tag = format!("[1,{rank}]<stdout>:");
        log_of(&USUAL).lines().flat_map(|line| [&tag, line, "\n"]).map(str::to_owned).collect()
    };
    let log = tagged("0") + &tagged("1");
    let answer = asked(&log, &PhasesRequest::default());
    let labels: Vec<&str> = answer.sessions.iter().map(|session| session.label.as_str()).collect();
    assert_eq!(labels, ["made, rank 1,0", "made, rank 1,1"]);
    // Ranks of one run are no configurations to choose from.
    assert!(answer.comparisons.is_empty());
    let one = asked(&log, &PhasesRequest { rank: Some("1".into()), ..PhasesRequest::default() });
    assert_eq!((one.sessions.len(), one.sessions[0].rank.as_deref()), (1, Some("1,1")));
    let none = phases(&[opened(&log)], &PhasesRequest { rank: Some("7".into()), ..PhasesRequest::default() });
    assert!(none.unwrap_err().to_string().contains("available ranks are 1,0; 1,1"));
}

#[test]
fn sessions_of_one_name_are_told_apart() {
    let log = log_of(&USUAL) + &log_of(&USUAL) + &log_of(&USUAL);
    let answer = asked(&log, &PhasesRequest::default());
    let labels: Vec<&str> = answer.sessions.iter().map(|session| session.label.as_str()).collect();
    assert_eq!(labels, ["made, summary 1", "made, summary 2", "made, summary 3"]);
    let same = |comparison: &Comparison| {
        comparison.saves_bytes == 0 && comparison.message.contains("have the same peak")
    };
    assert!(answer.comparisons.len() == 2 && answer.comparisons.iter().all(same));
    let mut other = opened(&log_of(&USUAL));
    other.source.file = "other.log".into();
    let answer = phases(&[opened(&log_of(&USUAL)), other], &PhasesRequest::default()).unwrap();
    let labels: Vec<&str> = answer.sessions.iter().map(|session| session.label.as_str()).collect();
    assert_eq!(labels, ["made, train.log", "made, other.log"]);
}

const LABELS: [&str; 8] = [
    "MODEL_CREATION",
    "OPTIMIZER_CREATION",
    "FORWARD_PASS",
    "FORWARD_PASS_micro_1",
    "BACKWARD_PASS",
    "BACKWARD_PASS__000042",
    "ENTRY",
    "my own phase",
];

fn any_phase() -> impl Strategy<Value = Said<'static>> {
    (0..LABELS.len(), -4000i64..4000, 0i64..4000)
        .prop_map(|(label, change, above)| (LABELS[label], change, change.max(0) + above))
}

proptest! {
    /// Whatever the phases are: parts add up to the peak, it fits if it is below the device, and the summary says the
    /// same peak.
    #[test]
    fn parts_add_up_to_the_peak(
        said in prop::collection::vec(any_phase(), 1..12),
        parameters in prop::option::of(0u64..4_000_000_000),
        device_mb in 1u64..20_000,
        use_actual_sizes: bool,
    ) {
        let log = Summary { name: None, parameters, device_mb: Some(device_mb), phases: &said }.print();
        let profile = opened(&log);
        let request = PhasesRequest { use_actual_sizes, ..PhasesRequest::default() };
        let answer = phases(std::slice::from_ref(&profile), &request).unwrap();
        let session = &answer.sessions[0];
        let peak = session.peak_bytes.unwrap();
        let sum: i64 = session.parts.iter().filter_map(|part| part.bytes).sum();
        prop_assert_eq!(sum, peak);
        prop_assert_eq!(session.fits, Some(peak < i64::try_from(device_mb << 20).unwrap()));
        prop_assert_eq!(session.advice.is_empty(), session.fits == Some(true));
        let screen = summary(&[profile], &Request::default()).unwrap();
        prop_assert_eq!(screen.ranks[0].sessions[0].peak_bytes, session.peak_bytes);
        // The phase that holds the peak is the first to reach it.
        let reached = session.phases.iter().find(|phase| phase.cumulative_peak_bytes == Some(peak)).unwrap();
        prop_assert_eq!(session.peak_phase.as_ref(), Some(&reached.name));
    }
}
