use super::*;
use crate::analyze::outside::{Gap, gaps};

#[test]
fn changes_between_programs_are_gaps() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool_of("DRAM", Some(8), 10);
    for _ in 0..5 {
        evidence.run("main");
        evidence.step("ttnn.add");
        evidence.end_run();
    }
    // Nothing precedes the first program.
    evidence.state(dram, START, 40);
    evidence.state(dram, before(0), 100);
    evidence.state(dram, after(0), 200);
    evidence.state(dram, before(1), 250);
    evidence.state(dram, after(1), 250);
    // Within the rounding.
    evidence.state(dram, before(2), 260);
    evidence.state(dram, after(2), 300);
    // There is no state before the fourth program, only a tensor.
    evidence.tensor(tensor(dram, 500, before(3), NEVER));
    evidence.state(dram, after(3), 300);
    evidence.state(dram, before(4), 120);
    let profile = evidence.finish();
    let asked = |span| gaps(&account(&profile, dram), span);
    let [arrived, dropped] = [Gap { position: 1, per_bank: 50 }, Gap { position: 4, per_bank: -180 }];
    assert_eq!(asked(whole(&profile)), [arrived, dropped]);
    // A span that ends before a program excludes the gap before it.
    assert_eq!(asked(Span { first: 0, end: 1 }), []);
    assert_eq!(asked(Span { first: 1, end: 4 }), [arrived]);
    assert_eq!(asked(Span { first: 2, end: 5 }), [dropped]);
}

#[test]
fn a_gap_needs_a_state_on_both_sides() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    for _ in 0..2 {
        evidence.run("main");
        evidence.step("ttnn.add");
        evidence.end_run();
    }
    evidence.state(dram, before(1), 100);
    let profile = evidence.finish();
    assert_eq!(gaps(&account(&profile, dram), whole(&profile)), []);
}

#[test]
fn nested_programs_have_no_gaps() {
    let mut evidence = Evidence::new();
    let dram = evidence.pool("DRAM");
    evidence.run("main");
    evidence.step("ttnn.load_cached");
    evidence.const_eval("const_eval");
    evidence.step("ttnn.add");
    evidence.state(dram, after(0), 100);
    evidence.state(dram, before(1), 900);
    let profile = evidence.finish();
    assert_eq!(gaps(&account(&profile, dram), whole(&profile)), []);
}
