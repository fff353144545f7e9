use super::*;
use crate::analyze::traced::{Traced, WeightRef, number_of};

/// The arguments that each step reads as weights; `None` if its graph is unknown.
fn read(profile: &Profile) -> Vec<Option<Vec<u32>>> {
    let rank = first(profile);
    let mut traced = Traced::new(profile, rank);
    let read = |step| {
        let weights = traced.of(step, &profile.op_of(rank, step)?)?;
        Some(weights.iter().map(|weight| weight.argument).collect())
    };
    (0..rank.end()).map(read).collect()
}

/// A running graph with an input, two weights and a constant: `%arg0` to `%arg3`.
fn graph() -> (Evidence, Option<TypeId>) {
    let mut evidence = Evidence::new();
    let ty = Some(evidence.tiled(&[32, 32]));
    let module = evidence.module(&[
        ("%arg0", None, ArgumentKind::Input, ty),
        ("%arg1", None, ArgumentKind::Parameter, ty),
        ("%arg2", None, ArgumentKind::Parameter, ty),
        ("%arg3", None, ArgumentKind::Constant, ty),
    ]);
    evidence.run_of("main", Some(module), false);
    (evidence, ty)
}

#[test]
fn weights_are_listed_in_the_order_of_the_operands() {
    let (mut evidence, ty) = graph();
    let [input, one, two, constant] = ["%arg0", "%arg1", "%arg2", "%arg3"].map(|name| (name, ty));
    evidence.op(OpKind::Compute, "ttnn.linear", &[constant, input, one, constant, two], &[("%0", ty)]);
    // Computed values are activations, and operands without a type are not tensors.
    evidence.op(OpKind::Compute, "ttnn.add", &[("%0", ty), input], &[("%1", ty)]);
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg1", None), ("%arg9", ty), two], &[]);
    let read = read(&evidence.finish());
    assert_eq!(read, [Some(vec![3, 1, 2]), Some(vec![]), Some(vec![2])]);
}

#[test]
fn weights_are_unknown_without_a_graph() {
    let mut evidence = Evidence::new();
    let ty = Some(evidence.tiled(&[32, 32]));
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg0", ty)], &[]);
    evidence.run("main");
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg0", ty)], &[]);
    assert_eq!(read(&evidence.finish()), [None, None]);
}

#[test]
fn const_eval_results_carry_their_weights() {
    let (mut evidence, ty) = graph();
    evidence.op(OpKind::LoadCached, "ttcore.load_cached", &[("%arg2", ty), ("%arg1", ty)], &[("%0", ty)]);
    evidence.const_eval("main_const_eval_0");
    // Its arguments are the operands of the step that runs it.
    evidence.op(OpKind::Compute, "ttnn.transpose", &[("%arg0", ty)], &[("%0", ty)]);
    evidence.op(OpKind::Compute, "ttnn.typecast", &[("%0", ty)], &[("%1", ty)]);
    evidence.op(OpKind::Compute, "ttnn.concat", &[("%1", ty), ("%arg1", ty)], &[("%2", ty)]);
    evidence.end_run();
    evidence.op(OpKind::Compute, "ttnn.linear", &[("%arg0", ty), ("%0", ty)], &[("%1", ty)]);
    // A cached result carries its weights even if the program doesn't run.
    evidence.op(OpKind::LoadCached, "ttcore.load_cached", &[("%arg3", ty)], &[("%2", ty)]);
    evidence.op(OpKind::Compute, "ttnn.linear", &[("%2", ty), ("%0", ty)], &[]);
    let expected = [&[2, 1][..], &[2], &[2], &[2, 1], &[2, 1], &[3], &[3, 2, 1]];
    assert_eq!(read(&evidence.finish()), expected.map(|read| Some(read.to_vec())));
}

#[test]
fn arguments_of_a_nested_program_are_the_operands_of_its_call() {
    let (mut evidence, ty) = graph();
    evidence.op(OpKind::Call, "func.call", &[("%arg0", ty), ("%arg3", ty)], &[("%0", ty)]);
    evidence.run("inner");
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg0", ty), ("%arg1", ty)], &[("%7", ty)]);
    // Its results are activations because it isn't a const-eval program.
    evidence.op(OpKind::Compute, "ttnn.add", &[("%7", ty), ("%arg2", ty)], &[]);
    evidence.end_run();
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg1", ty), ("%0", ty)], &[]);
    evidence.end_run();
    // The next program has no graph.
    evidence.run("other");
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg1", ty)], &[]);
    let expected = [Some(vec![3]), Some(vec![3]), Some(vec![]), Some(vec![1]), None];
    assert_eq!(read(&evidence.finish()), expected);
}

#[test]
fn a_view_of_a_weight_is_that_weight() {
    let (mut evidence, ty) = graph();
    let view = evidence.op(OpKind::Compute, "ttnn.reshape", &[("%arg1", ty)], &[("%0", ty)]);
    evidence.op(OpKind::Compute, "ttnn.reshape", &[("%arg2", ty)], &[("%1", ty)]);
    let joined = evidence.op(OpKind::Compute, "ttnn.concat", &[("%arg1", ty), ("%arg2", ty)], &[("%2", ty)]);
    for step in [view, joined] {
        evidence.say(RankEvent::Marks(step, StepMarks::VIEW));
    }
    // A copy and a result of two operands are activations.
    evidence.op(OpKind::Compute, "ttnn.linear", &[("%0", ty), ("%1", ty), ("%2", ty)], &[]);
    assert_eq!(read(&evidence.finish())[3], Some(vec![1]));
}

#[test]
fn arguments_are_numbered_by_name_or_else_by_place() {
    let mut evidence = Evidence::new();
    let names = ["%arg7", "%weights", "%arg", "%arg1048575", "%arg1048576"];
    let ids = names.map(|name| evidence.text(name));
    let module = evidence.module(&[
        ("%arg7", None, ArgumentKind::Parameter, None),
        ("%weights", None, ArgumentKind::Parameter, None),
    ]);
    evidence.run_of("main", Some(module), false);
    let ty = Some(evidence.tiled(&[32, 32]));
    evidence.op(OpKind::Compute, "ttnn.add", &[("%arg1", ty), ("%arg7", ty)], &[]);
    let profile = evidence.finish();
    let number =
        |ssa| number_of(&profile, &Argument { ssa, name: None, kind: ArgumentKind::Parameter, ty: None }, 3);
    // Tables are sized by these numbers, so they are limited.
    assert_eq!(ids.map(number), [Some(7), Some(3), Some(3), Some(1_048_575), None]);
    let mut traced = Traced::new(&profile, first(&profile));
    let found = traced.of(0, &profile.op_of(first(&profile), 0).unwrap()).unwrap();
    assert_eq!(found, [WeightRef { module, argument: 1 }, WeightRef { module, argument: 0 }]);
}
