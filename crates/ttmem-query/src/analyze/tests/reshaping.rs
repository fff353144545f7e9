use ttmem_model::{CutOut, StepNumber};

use super::*;
use crate::analyze::reshaping::{Freedom, Reshaping};

/// A program over tensors of shape 1024x1, which need no padding as 32x32.
struct Program {
    evidence: Evidence,
    run: RunId,
    thin: TypeId,
    made: Vec<TensorId>,
}

impl Program {
    fn new() -> Self {
        let mut evidence = Evidence::new();
        evidence.pool("DRAM");
        let thin = evidence.tiled(&[1024, 1]);
        let run = evidence.run("main");
        Self { evidence, run, thin, made: Vec::new() }
    }

    fn allocate(&mut self, name: &str, ty: TypeId, step: Option<Step>) -> TensorId {
        let (ssa, born) = (Some(self.evidence.text(name)), step.map_or(START, after));
        let of = tensor(PoolId::new(0).unwrap(), 8, born, NEVER);
        let step = step.and_then(StepNumber::new);
        self.evidence.tensor(Tensor { ty: Some(ty), ssa, run: Some(self.run), step, ..of })
    }

    fn argument(&mut self, name: &str) -> TensorId {
        self.allocate(name, self.thin, None)
    }

    /// Allocates a thin tensor as the result of an operation. It is freed before the program ends.
    fn make(&mut self, op: &str, operands: &[&str], name: &str) -> TensorId {
        let thin = Some(self.thin);
        let operands: Vec<Value<'_>> = operands.iter().map(|name| (*name, thin)).collect();
        let step = self.evidence.op(OpKind::Compute, op, &operands, &[(name, thin)]);
        let made = self.allocate(name, self.thin, Some(step));
        self.made.push(made);
        made
    }

    /// Uses a thin tensor in an operation without results.
    fn use_as(&mut self, kind: OpKind, op: &str, name: &str) {
        self.evidence.op(kind, op, &[(name, Some(self.thin))], &[]);
    }

    fn end(mut self) -> Profile {
        let last = self.evidence.rows.steps - 1;
        for made in self.made {
            self.evidence.say(RankEvent::Dies(made, after(last)));
        }
        self.evidence.end_run();
        self.evidence.finish()
    }
}

fn freedom(profile: &Profile, tensor: TensorId) -> Freedom {
    Reshaping::new(profile, first(profile)).freedom(tensor)
}

/// The operations that tie a tensor.
fn tied(profile: &Profile, tensor: TensorId) -> Vec<&str> {
    match freedom(profile, tensor) {
        Freedom::Tied(names) => names.into_iter().map(|name| profile.text(name)).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn tensors_with_only_element_wise_uses_are_free() {
    let mut program = Program::new();
    let argument = program.argument("%arg0");
    let made = program.make("ttnn.zeros", &[], "%0");
    let sum = program.make("ttnn.add", &["%arg0", "%0"], "%1");
    let single = program.evidence.tiled(&[1, 1]);
    let thin = Some(program.thin);
    // Operands with a single element don't matter.
    program.evidence.op(
        OpKind::Compute,
        "ttnn.multiply",
        &[("%1", thin), ("%2", Some(single))],
        &[("%3", thin)],
    );
    program.use_as(OpKind::Deallocate, "ttnn.deallocate", "%1");
    program.use_as(OpKind::LoadCached, "ttcore.load_cached", "%1");
    let profile = program.end();
    for tensor in [argument, made, sum] {
        assert_eq!(freedom(&profile, tensor), Freedom::Free);
    }
}

#[test]
fn ties_extend_to_all_tensors_that_must_have_the_same_shape() {
    let mut program = Program::new();
    let first = program.make("ttnn.zeros", &[], "%0");
    let second = program.make("ttnn.relu", &["%0"], "%1");
    let apart = program.make("ttnn.softmax", &["%0"], "%2");
    program.use_as(OpKind::Compute, "ttnn.matmul", "%1");
    program.use_as(OpKind::Compute, "ttnn.concat", "%1");
    program.use_as(OpKind::Compute, "ttnn.matmul", "%0");
    let profile = program.end();
    // By number of uses, then by name. The result of softmax may have another shape.
    for tensor in [first, second] {
        assert_eq!(tied(&profile, tensor), ["ttnn.matmul", "ttnn.concat", "ttnn.softmax"]);
    }
    assert_eq!(tied(&profile, apart), ["ttnn.softmax"]);
}

#[test]
fn ties_of_two_groups_are_added_up_when_they_join() {
    let mut program = Program::new();
    let first = program.make("ttnn.zeros", &[], "%0");
    program.make("ttnn.zeros", &[], "%1");
    program.use_as(OpKind::Compute, "ttnn.concat", "%0");
    (0..2).for_each(|_| program.use_as(OpKind::Compute, "ttnn.matmul", "%1"));
    program.make("ttnn.add", &["%0", "%1"], "%2");
    assert_eq!(tied(&program.end(), first), ["ttnn.matmul", "ttnn.concat"]);
}

#[test]
fn broadcasts_calls_and_other_dialects_are_not_element_wise() {
    let uses: [fn(&mut Program); 4] = [
        // Broadcasting.
        |program| {
            let (thin, wide) = (Some(program.thin), program.evidence.tiled(&[1024, 32]));
            program.evidence.op(
                OpKind::Compute,
                "ttnn.add",
                &[("%0", thin), ("%8", Some(wide))],
                &[("%9", Some(wide))],
            );
        },
        // No result, or one without a type.
        |program| program.use_as(OpKind::Compute, "ttnn.add", "%0"),
        // A program of that name.
        |program| {
            let thin = Some(program.thin);
            program.evidence.op(OpKind::Call, "ttnn.add", &[("%0", thin)], &[("%9", thin)]);
        },
        // An operation of another dialect.
        |program| {
            let thin = Some(program.thin);
            program.evidence.op(OpKind::Compute, "add", &[("%0", thin)], &[("%9", thin)]);
        },
    ];
    for (index, use_it) in uses.into_iter().enumerate() {
        let mut program = Program::new();
        let tensor = program.make("ttnn.zeros", &[], "%0");
        use_it(&mut program);
        assert!(tied(&program.end(), tensor)[0].ends_with("add"), "{index}");
    }
}

#[test]
fn returned_tensors_are_not_free() {
    let mut program = Program::new();
    let result = program.make("ttnn.zeros", &[], "%0");
    let kept = program.make("ttnn.relu", &["%0"], "%1");
    program.made.pop();
    let profile = program.end();
    // Both the result and the tensor that must have its shape.
    assert_eq!(freedom(&profile, kept), Freedom::Returned);
    assert_eq!(freedom(&profile, result), Freedom::Returned);
}

#[test]
fn results_of_const_eval_programs_are_not_returned() {
    let mut program = Program::new();
    program.run = program.evidence.const_eval("const_eval");
    let made = program.make("ttnn.zeros", &[], "%0");
    program.make("ttnn.relu", &["%0"], "%1");
    program.made.clear();
    assert_eq!(freedom(&program.end(), made), Freedom::Free);
}

#[test]
fn layouts_of_prepared_weights_are_fixed() {
    let mut program = Program::new();
    let bias = program.make("ttnn.zeros", &[], "%0");
    let prepared = program.make("ttnn.prepare_conv2d_bias", &["%0"], "%1");
    let profile = program.end();
    assert_eq!(freedom(&profile, prepared), Freedom::Fixed);
    assert_eq!(tied(&profile, bias), ["ttnn.prepare_conv2d_bias"]);
}

#[test]
fn freedom_is_unknown_without_uses() {
    let mut program = Program::new();
    let unused = program.make("ttnn.zeros", &[], "%0");
    let (whole, step) = (program.evidence.tiled(&[32, 32]), program.evidence.step("ttnn.relu"));
    let full = program.allocate("%1", whole, Some(step));
    let profile = program.end();
    assert_eq!(freedom(&profile, unused), Freedom::Unknown);
    // This one has no padding.
    assert_eq!(freedom(&profile, full), Freedom::Unknown);
    assert_eq!(freedom(&profile, tensor_id(9)), Freedom::Unknown);
    assert_eq!(freedom(&Evidence::new().finish(), tensor_id(0)), Freedom::Unknown);
}

#[test]
fn freedom_is_unknown_for_tensors_older_than_a_cut_out() {
    let mut program = Program::new();
    let argument = program.argument("%arg0");
    let made = program.make("ttnn.zeros", &[], "%0");
    program.make("ttnn.relu", &["%0"], "%1");
    program.make("ttnn.relu", &["%arg0"], "%2");
    program.evidence.say(RankEvent::CutOut(CutOut { pass: 2, of: 2, first: 0 }));
    let profile = program.end();
    assert_eq!(freedom(&profile, argument), Freedom::Unknown);
    assert_eq!(freedom(&profile, made), Freedom::Free);
}
