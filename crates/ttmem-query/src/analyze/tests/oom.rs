use super::*;
use crate::analyze::oom::{Cause, Owner, Part, fatal, verdict};
use ttmem_model::FaultDetail;

#[test]
fn causes_parse_from_their_names() {
    let names = [
        (Cause::Fragmentation, "fragmentation"),
        (Cause::Capacity, "capacity"),
        (Cause::NeverFits, "never_fits"),
        (Cause::CircularBuffers, "circular_buffers"),
        (Cause::TraceRegion, "trace_region"),
        (Cause::AddressLimit, "address_limit"),
        (Cause::Unknown, "unknown"),
    ];
    for (cause, name) in names {
        assert_eq!((cause.as_str(), Cause::parse(name)), (name, cause));
    }
    assert_eq!(Cause::parse("bad luck"), Cause::Unknown);
}

#[test]
fn the_last_memory_error_that_ended_the_program_is_fatal() {
    let mut evidence = Evidence::new();
    let ended = |fault| Fault { ended_program: true, ..fault };
    let faults = [
        ended(evidence.fault(FaultKind::OutOfMemory)),
        Fault { line: 2, ..ended(evidence.fault(FaultKind::AddressLimit)) },
        Fault { line: 3, ..ended(evidence.fault(FaultKind::Exception)) },
        Fault { line: 4, ..evidence.fault(FaultKind::OutOfMemory) },
    ];
    for fault in faults {
        evidence.say(RankEvent::Fault(fault));
    }
    assert_eq!(fatal(first(&evidence.finish())).map(|fault| fault.line), Some(2));
    assert_eq!(fatal(first(&Evidence::new().finish())), None);
}

#[test]
fn the_last_error_counts_if_nothing_else_is_known() {
    let mut evidence = Evidence::new();
    for line in 1..=2 {
        let fault = Fault { line, ..evidence.fault(FaultKind::OutOfMemory) };
        evidence.say(RankEvent::Fault(fault));
    }
    evidence.say(RankEvent::FaultDetail(1, FaultDetail::default()));
    assert_eq!(fatal(first(&evidence.finish())).map(|fault| fault.line), Some(2));
}

#[test]
fn details_decide_which_numbers_are_compared() {
    let verdict_on = |fault: Fault, detail: FaultDetail, mut evidence: Evidence| {
        evidence.say(RankEvent::Fault(fault));
        evidence.say(RankEvent::FaultDetail(0, detail));
        let profile = evidence.finish();
        let rank = first(&profile);
        let verdict = verdict(&profile, rank, &rank.faults[0]);
        (verdict.cause, verdict.lacks(), verdict.from_message)
    };
    let mut evidence = Evidence::new();
    let plain = evidence.fault(FaultKind::OutOfMemory);
    let fault = Fault { requested_per_bank: Some(100), free: Some(500), largest_free: Some(400), ..plain };
    // The largest free block is large enough, but the allocation may not use it.
    let windows = FaultDetail { largest_placeable: Some(70), ..FaultDetail::default() };
    assert_eq!(verdict_on(fault, windows, evidence), (Cause::Fragmentation, Some(30), true));
    // An operation's check has its own limit, whatever the pool's state is.
    let mut evidence = Evidence::new();
    let plain = evidence.fault(FaultKind::OutOfMemory);
    let fault = Fault { requested_per_bank: Some(100), free: Some(60), ..plain };
    let refusal = FaultDetail { is_refusal: true, ..FaultDetail::default() };
    assert_eq!(verdict_on(fault, refusal, evidence), (Cause::Capacity, Some(40), true));
}

/// The cause of a failed request for 100 bytes per bank, and the bytes that were missing.
fn cause(free: Option<u64>, largest_free: Option<u64>, bank_size: Option<u64>) -> (Cause, Option<u64>) {
    let mut evidence = Evidence::new();
    let fault = evidence.fault(FaultKind::OutOfMemory);
    let fault = Fault { requested_per_bank: Some(100), free, largest_free, bank_size, ..fault };
    let profile = evidence.finish();
    let verdict = verdict(&profile, first(&profile), &fault);
    (verdict.cause, verdict.lacks())
}

#[test]
fn out_of_memory_is_fragmentation_only_if_enough_was_free() {
    assert_eq!(cause(Some(99), Some(99), Some(1000)), (Cause::Capacity, Some(1)));
    assert_eq!(cause(Some(100), Some(60), Some(1000)), (Cause::Fragmentation, Some(40)));
    assert_eq!(cause(Some(50), Some(40), Some(99)), (Cause::NeverFits, Some(1)));
    assert_eq!(cause(Some(50), Some(40), Some(100)), (Cause::Capacity, Some(50)));
    // The request would have fit, so the cause is something else.
    assert_eq!(cause(Some(100), Some(100), Some(100)), (Cause::Unknown, None));
    // Unknown figures decide nothing.
    assert_eq!(cause(Some(50), None, None), (Cause::Capacity, Some(50)));
    assert_eq!(cause(Some(200), None, None), (Cause::Unknown, None));
    assert_eq!(cause(None, Some(40), None), (Cause::Unknown, None));
    assert_eq!(cause(None, None, None), (Cause::Unknown, None));
}

#[test]
fn missing_figures_come_from_the_state_before_the_step() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    let reading = |free, largest| Reading {
        free: Some(free),
        largest_free: Some(largest),
        capacity: Some(500),
        ..Reading::default()
    };
    evidence.step("ttnn.add");
    evidence.step("ttnn.matmul");
    evidence.reading(dram, before(1), reading(120, 80));
    evidence.reading(dram, after(1), reading(20, 10));
    let fault = evidence.fault(FaultKind::OutOfMemory);
    let pool = Some(evidence.text("DRAM"));
    let of_step = Fault { pool, step: Some(1), requested_per_bank: Some(100), ..fault };
    let nowhere = Some(evidence.text("L1"));
    let profile = evidence.finish();
    let asked = |fault: &Fault| {
        let found = verdict(&profile, first(&profile), fault);
        (found.cause, found.from_message, [found.free, found.largest_free, found.capacity])
    };
    assert_eq!(asked(&of_step), (Cause::Fragmentation, false, [Some(120), Some(80), Some(500)]));
    // Outside programs, the last state counts.
    let outside = Fault { step: None, ..of_step };
    assert_eq!(asked(&outside), (Cause::Capacity, false, [Some(20), Some(10), Some(500)]));
    // Figures of the message take precedence.
    let says = Fault { free: Some(110), bank_size: Some(90), ..of_step };
    assert_eq!(asked(&says), (Cause::NeverFits, false, [Some(110), Some(80), Some(90)]));
    let says_all = Fault { free: Some(110), largest_free: Some(105), ..of_step };
    assert_eq!(asked(&says_all), (Cause::Unknown, true, [Some(110), Some(105), None]));
    // An unknown pool, no pool, and a step before the first state.
    let unknown = (Cause::Unknown, false, [None; 3]);
    assert_eq!(asked(&Fault { pool: nowhere, ..of_step }), unknown);
    assert_eq!(asked(&Fault { pool: None, ..of_step }), unknown);
    assert_eq!(asked(&Fault { step: Some(0), ..of_step }), unknown);
}

#[test]
fn other_errors_are_not_judged_by_free_memory() {
    let mut evidence = Evidence::new();
    let kinds = [
        (FaultKind::CircularBuffersClash, Cause::CircularBuffers, Some(30)),
        (FaultKind::CircularBuffersTooLarge, Cause::CircularBuffers, Some(30)),
        (FaultKind::TraceRegion, Cause::TraceRegion, None),
        (FaultKind::AddressLimit, Cause::AddressLimit, None),
        (FaultKind::Exception, Cause::Unknown, None),
    ];
    let faults = kinds.map(|(kind, ..)| Fault {
        region_end: Some(130),
        limit: Some(100),
        requested_per_bank: Some(9),
        ..evidence.fault(kind)
    });
    let profile = evidence.finish();
    for (fault, (_, cause, lacks)) in faults.iter().zip(kinds) {
        let found = verdict(&profile, first(&profile), fault);
        assert_eq!((found.cause, found.lacks(), found.from_message), (cause, lacks, true));
    }
    // A region that ends below the limit overlaps nothing.
    let fits = Fault { region_end: Some(90), ..faults[0] };
    assert_eq!(verdict(&profile, first(&profile), &fits).lacks(), None);
}

#[test]
fn the_owner_of_a_request_is_a_tensor_of_exactly_its_size() {
    let mut evidence = Evidence::new();
    let exact = evidence.sized(None, Some(900), Some(1000));
    let padded = evidence.sized(None, Some(1000), Some(1500));
    let half = evidence.sized(None, Some(500), Some(700));
    let unknown = evidence.sized(None, None, None);
    let name = "weight";
    evidence.module(&[
        ("%arg0", Some(name), ArgumentKind::Parameter, Some(exact)),
        ("%arg1", None, ArgumentKind::Input, Some(half)),
        ("%arg2", None, ArgumentKind::Input, None),
        ("%arg3", None, ArgumentKind::Input, Some(unknown)),
    ]);
    let both = evidence.op(
        OpKind::Compute,
        "ttnn.add",
        &[("%1", Some(padded)), ("%2", Some(half)), ("%3", None)],
        &[("%4", Some(exact))],
    );
    let halves =
        evidence.op(OpKind::Compute, "ttnn.typecast", &[("%2", Some(half))], &[("%5", Some(unknown))]);
    let neither = evidence.op(OpKind::Compute, "ttnn.neg", &[("%3", None)], &[("%6", Some(unknown))]);
    let fault = Fault { requested_total: Some(1000), ..evidence.fault(FaultKind::OutOfMemory) };
    let id = |evidence: &mut Evidence, text: &str| evidence.text(text);
    let [arg0, one, two, four] = ["%arg0", "%1", "%2", "%4"].map(|text| id(&mut evidence, text));
    let name = Some(id(&mut evidence, name));
    let profile = evidence.finish();
    let owners = |step, requested_total| {
        verdict(&profile, first(&profile), &Fault { step, requested_total, ..fault }).belongs_to
    };
    let owner = |part, ssa, ty, widened| Owner { part, ssa, name: None, ty, widened };
    // The size may be the padded or the logical one. A tensor of half the size counts only if none fits exactly.
    let of_step = [owner(Part::Result, four, exact, false), owner(Part::Operand, one, padded, false)];
    assert_eq!(owners(Some(both), Some(1000)), of_step);
    assert_eq!(owners(Some(halves), Some(1000)), [owner(Part::Operand, two, half, true)]);
    // Arguments, if nothing of the step fits.
    let argument = Owner { name, ..owner(Part::Argument, arg0, exact, false) };
    assert_eq!(owners(Some(neither), Some(1000)), [argument]);
    assert_eq!(owners(None, Some(1000)), [argument]);
    assert_eq!(owners(Some(both), Some(999)), []);
    assert_eq!(owners(Some(both), None), []);
}
