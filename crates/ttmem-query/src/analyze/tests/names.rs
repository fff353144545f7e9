use rustc_hash::FxHashSet;
use ttmem_model::{Alias, Carried, Origin, StepNumber};

use super::*;
use crate::analyze::names::Names;

/// A tensor with a name in a run. Without a step it is an argument.
fn named(evidence: &mut Evidence, name: &str, run: RunId, step: Option<Step>) -> TensorId {
    let (ssa, pool) = (Some(evidence.text(name)), PoolId::new(0).unwrap());
    let born = step.map_or(START, after);
    let step = step.and_then(StepNumber::new);
    evidence.tensor(Tensor { ssa, run: Some(run), step, ..tensor(pool, 8, born, NEVER) })
}

fn evidence() -> Evidence {
    let mut evidence = Evidence::new();
    evidence.pool("DRAM");
    evidence
}

/// The tensor that a name refers to at each step.
fn meant(profile: &Profile, name: &str) -> Vec<Option<TensorId>> {
    let texts: FxHashSet<StrId> = (0..profile.strings.len()).filter_map(StrId::new).collect();
    let name = texts.iter().find(|id| profile.text(**id) == name).copied().unwrap();
    let names = Names::of(profile, first(profile), &texts);
    (0..first(profile).end()).map(|step| names.meant(step, name)).collect()
}

#[test]
fn each_run_has_its_own_values() {
    let mut evidence = evidence();
    let [a, b] = [(); 2].map(|()| {
        let run = evidence.run("main");
        let made = evidence.step("ttnn.add");
        evidence.step("ttnn.add");
        evidence.end_run();
        named(&mut evidence, "%0", run, Some(made))
    });
    evidence.say(RankEvent::Dies(b, before(3)));
    let profile = evidence.finish();
    // A name has no meaning before its allocation, after its deallocation, and in another run.
    assert_eq!(meant(&profile, "%0"), [None, Some(a), None, None]);
    // Names that were not requested are not kept.
    let names = Names::of(&profile, first(&profile), &FxHashSet::default());
    assert_eq!(names.meant(1, first(&profile).tensors.ssa[0].unwrap()), None);
}

#[test]
fn the_last_allocation_of_a_name_wins_within_a_run() {
    let mut evidence = evidence();
    let run = evidence.run("main");
    evidence.steps(2, "ttnn.add");
    named(&mut evidence, "%0", run, Some(0));
    let last = named(&mut evidence, "%0", run, Some(0));
    assert_eq!(meant(&evidence.finish(), "%0"), [None, Some(last)]);
}

#[test]
fn arguments_are_kept_for_all_runs_of_their_program() {
    let mut evidence = evidence();
    let runs = ["main", "other", "main"].map(|program| {
        let run = evidence.run(program);
        evidence.step("ttnn.add");
        evidence.end_run();
        run
    });
    evidence.step("ttnn.add");
    let argument = named(&mut evidence, "%arg0", runs[0], None);
    let view = evidence.text("%view");
    evidence.say(RankEvent::Alias(Alias { tensor: argument, run: Some(runs[0]), ssa: view }));
    let profile = evidence.finish();
    let kept = [Some(argument), None, Some(argument), None];
    assert_eq!((meant(&profile, "%arg0"), meant(&profile, "%view")), (kept.to_vec(), kept.to_vec()));
}

#[test]
fn tensors_carried_over_without_a_program_match_every_program() {
    let mut evidence = evidence();
    for program in ["main", "other"] {
        evidence.run(program);
        evidence.step("ttnn.add");
        evidence.end_run();
    }
    let run = RunId::new(0).unwrap();
    let tensor = named(&mut evidence, "%arg0", run, None);
    let program = evidence.text("");
    evidence.say(RankEvent::Carried(Carried { tensor, program, op: None, loc: None }));
    assert_eq!(meant(&evidence.finish(), "%arg0"), [Some(tensor); 2]);
}

#[test]
fn equal_argument_names_are_resolved_by_the_graph_of_the_run() {
    let mut evidence = evidence();
    let graphs = [evidence.module(&[]), evidence.module(&[])];
    for module in [None, Some(graphs[0]), Some(graphs[1])] {
        evidence.run_of("main", module, false);
        evidence.step("ttnn.add");
        evidence.run("main");
        evidence.step("ttnn.add");
        evidence.end_run();
        evidence.end_run();
    }
    let [a, b] = graphs.map(|module| {
        let ssa = Some(evidence.text("%arg0"));
        let of = tensor(PoolId::new(0).unwrap(), 8, START, NEVER);
        let tensor = evidence.tensor(Tensor { ssa, ..of });
        evidence.say(RankEvent::Origin(Origin { tensor, module, argument: 0 }));
        tensor
    });
    // Nested programs belong to the graph of their parent. Without a graph, the last allocation is meant.
    assert_eq!(meant(&evidence.finish(), "%arg0"), [b, b, a, a, b, b].map(Some));
}
