//! The classes of allocations that the tracker knows nothing about, in recordings with an allocator's history.

use std::path::Path;

use ttmem::model::*;
use ttmem::read;
use ttmem::record::live::{CallRef, Recorder};

const MIB: u64 = 1 << 20;
const USERS: (&str, &str) = ("train", "/home/me/train.py");
const CALLS_MODULE: (&str, &str) = ("_call_impl", "/lib/torch/nn/modules/module.py");
const IN_CACHE: (&str, &str) = ("update", "/lib/transformers/cache_utils.py");
const CONVERTS: [(&str, &str); 3] =
    [("<lambda>", "/lib/torch/nn/modules/module.py"), ("_apply", "/lib/torch/nn/modules/module.py"), USERS];
const STEPS: [(&str, &str); 2] = [("_multi_tensor_adamw", "/lib/torch/optim/adamw.py"), USERS];

const RESUMES: [(&str, &str); 2] = [("load_state_dict", "/lib/torch/optim/optimizer.py"), USERS];

/// A program that is recorded.
struct Program {
    recorder: Recorder,
    pool: PoolId,
    lane: LaneId,
    rows: Vec<(HistoryRow, Option<u64>)>,
    open: Option<CallRef>,
    next: u64,
}

impl Program {
    fn new(path: &Path) -> Self {
        let mut recorder = Recorder::recording_to(path).unwrap();
        let (pool, lane) = (recorder.pool("cuda:0", true), recorder.lane("main"));
        // The first operation is that of rows without one.
        let name = recorder.text("free");
        recorder.op(name, None, None);
        Self { recorder, pool, lane, rows: Vec::new(), open: None, next: 0 }
    }

    /// Runs a pass of the program.
    fn pass<T>(&mut self, kind: ScopeKind, inside: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.recorder.scope(None, "pass", kind);
        let call = self.recorder.enter(scope, self.lane, None, None).unwrap();
        self.open = Some(call);
        let result = inside(self);
        self.open = None;
        self.recorder.exit(call);
        self.recorder.release(call);
        result
    }

    /// The operation of a stack, the innermost function first.
    fn op(&mut self, lines: &[(&str, &str)]) -> OpId {
        let mut outer = None;
        for (function, file) in lines.iter().rev() {
            let (function, file) = (self.recorder.text(function), self.recorder.text(file));
            let frame = self.recorder.frame(Frame { function, file, line: 7 });
            outer = Some(self.recorder.stack(frame, outer));
        }
        let name = self.recorder.text(if lines.is_empty() { "alloc" } else { lines[0].0 });
        self.recorder.op(name, outer, None)
    }

    /// Allocates; the address is the number of the allocation, from 1.
    fn allocate(&mut self, lines: &[(&str, &str)], bytes: u64) -> u64 {
        self.next += 1;
        let op = self.op(lines);
        self.row(HistoryAction::Allocated, self.next, bytes, op);
        self.next
    }

    fn free(&mut self, address: u64) {
        self.row(HistoryAction::Freed, address, 0, OpId::new(0).unwrap());
    }

    fn row(&mut self, action: HistoryAction, address: u64, bytes: u64, op: OpId) {
        let call = self.open.and_then(|call| self.recorder.call_number(call));
        let (address, time) = (address << 32, self.recorder.now());
        let (block, during) = (Bytes::known(bytes), During::ByTime);
        self.rows
            .push((HistoryRow { pool: self.pool, action, address, bytes, block, op, during, time }, call));
    }

    /// The classes and names of all allocations, in order.
    fn classes(mut self, path: &Path) -> Vec<(Class, Option<String>)> {
        for (row, call) in std::mem::take(&mut self.rows) {
            self.recorder.history(row, call);
        }
        self.recorder.finish().unwrap();
        let profile = read::open(path.to_str().unwrap()).unwrap();
        assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
        let tensors = &profile.ranks[0].tensors;
        let name = |tensor: usize| tensors.name[tensor].map(|name| profile.text(name).to_owned());
        (0..tensors.len()).map(|tensor| (tensors.class[tensor], name(tensor))).collect()
    }
}

/// The classes of a program's allocations, in order.
fn classes(run: impl FnOnce(&mut Program)) -> Vec<Class> {
    named(run).into_iter().map(|(class, _)| class).collect()
}

fn named(run: impl FnOnce(&mut Program)) -> Vec<(Class, Option<String>)> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.ttmem");
    let mut program = Program::new(&path);
    run(&mut program);
    program.classes(&path)
}

#[test]
fn a_loss_outside_the_model_is_an_activation_if_autograd_keeps_it() {
    let found = classes(|program| {
        let early = program.allocate(&[USERS], 512);
        program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
        let [copy, kept, loss, held] = [512; 4].map(|bytes| program.allocate(&[USERS], bytes));
        program.free(copy);
        program.pass(ScopeKind::Backward, |program| program.free(kept));
        program.free(loss);
        program.free(early);
        // Freed by a later backward pass, which has nothing to do with it.
        program.pass(ScopeKind::Forward, |_| ());
        program.pass(ScopeKind::Backward, |program| program.free(held));
    });
    let wanted = [
        Class::Unknown,
        Class::Activation,
        Class::Temporary,
        Class::Activation,
        Class::Unknown,
        Class::Unknown,
    ];
    assert_eq!(found, wanted);
}

#[test]
fn what_is_freed_before_the_next_pass_is_temporary() {
    let found = classes(|program| {
        // Before the first pass, anything may happen.
        let first = program.allocate(&[USERS], 512);
        program.free(first);
        program.pass(ScopeKind::Forward, |_| ());
        let logits = program.allocate(&[USERS], 512);
        program.free(logits);
        let token = program.allocate(&[USERS], 512);
        program.pass(ScopeKind::Forward, |program| program.free(token));
        // After the last pass, too.
        let last = program.allocate(&[USERS], 512);
        program.free(last);
    });
    assert_eq!(found, [Class::Unknown, Class::Temporary, Class::Unknown, Class::Unknown]);
}

#[test]
fn conversions_caches_and_optimizers_are_known_by_their_stacks() {
    let found = classes(|program| {
        program.allocate(&CONVERTS, 4096);
        program.pass(ScopeKind::Forward, |program| {
            let old = program.allocate(&[IN_CACHE, CALLS_MODULE, USERS], 2048);
            program.allocate(&[IN_CACHE, CALLS_MODULE, USERS], 4096);
            program.free(old);
        });
        let gone = program.allocate(&STEPS, 512);
        program.free(gone);
        program.allocate(&RESUMES, 512);
        // In training, autograd keeps what the cache allocated.
        let kept = program
            .pass(ScopeKind::Forward, |program| program.allocate(&[IN_CACHE, CALLS_MODULE, USERS], 4096));
        program.pass(ScopeKind::Backward, |program| program.free(kept));
        // A function of the user that only has the word in its name.
        program.allocate(&[USERS, ("test_kv_cache", "/home/me/test.py")], 512);
        // Threads without Python remain unknown.
        program.allocate(&[], 512);
    });
    let wanted = [
        Class::Parameter,
        Class::Temporary,
        Class::KvCache,
        Class::Temporary,
        Class::Optimizer,
        Class::Activation,
        Class::Unknown,
        Class::Unknown,
    ];
    assert_eq!(found, wanted);
}

#[test]
fn workspaces_are_named() {
    let linear = [("forward", "/lib/torch/nn/modules/linear.py"), CALLS_MODULE, USERS];
    let found = named(|program| {
        let kept = program.pass(ScopeKind::Forward, |program| {
            let result = program.allocate(&linear, 32 * MIB);
            program.allocate(&linear, 32 * MIB);
            program.allocate(&linear, MIB);
            result
        });
        program.pass(ScopeKind::Backward, |program| {
            let gradient = program.allocate(&[], 32 * MIB);
            program.allocate(&[], 32 * MIB);
            program.free(gradient);
            program.free(kept);
        });
        // A later call has no workspace of its own.
        program.pass(ScopeKind::Forward, |program| {
            let result = program.allocate(&linear, 32 * MIB);
            program.free(result);
        });
    });
    let [blas, lt] = ["cuBLAS workspace", "cuBLASLt workspace"].map(|name| Some(name.to_owned()));
    let wanted = [
        (Class::Activation, None),
        (Class::Workspace, blas.clone()),
        (Class::Workspace, lt),
        (Class::Temporary, None),
        (Class::Workspace, blas),
        (Class::Temporary, None),
    ];
    assert_eq!(found, wanted);
}

#[test]
fn a_tensor_of_the_size_of_a_workspace_is_not_one() {
    let linear = [("forward", "/lib/torch/nn/modules/linear.py"), CALLS_MODULE, USERS];
    let found = named(|program| {
        // Kept, but nothing of the same code comes before.
        program.allocate(&[USERS], 32 * MIB);
        program.pass(ScopeKind::Forward, |program| {
            // Two that are kept, and one after another one of the same code that has not run again.
            let cast = program.allocate(&[("cross_entropy", "/lib/torch/nn/functional.py"), USERS], 32 * MIB);
            program.allocate(&[("cross_entropy", "/lib/torch/nn/functional.py"), USERS], 32 * MIB);
            program.free(cast);
            program.allocate(&linear, 32 * MIB);
            program.allocate(&linear, 32 * MIB);
        });
        // Without cuBLAS, a thread without Python does not have its workspace either.
        program.allocate(&[], 32 * MIB);
    });
    assert!(found.iter().all(|(class, name)| *class != Class::Workspace && name.is_none()), "{found:?}");
}
