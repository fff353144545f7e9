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
        let outer = self.open;
        let call = self.enter(kind, self.lane, outer);
        let result = inside(self);
        self.leave(call);
        self.open = outer;
        result
    }

    /// Begins a pass in a thread.
    fn enter(&mut self, kind: ScopeKind, lane: LaneId, outer: Option<CallRef>) -> CallRef {
        let outer_scope = self.recorder.scope_of(outer);
        let scope = self.recorder.scope(outer_scope, "pass", kind);
        let call = self.recorder.enter(scope, lane, outer, None).unwrap();
        self.open = Some(call);
        call
    }

    fn leave(&mut self, call: CallRef) {
        self.open = None;
        self.recorder.exit(call);
        self.recorder.release(call);
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
    // The last two are held by variables of the program until after the backward pass.
    let wanted = [
        Class::Unknown,
        Class::Activation,
        Class::Temporary,
        Class::Activation,
        Class::Activation,
        Class::Activation,
    ];
    assert_eq!(found, wanted);
}

#[test]
fn what_follows_a_pass_without_a_backward_pass_is_unknown_if_it_stays() {
    let found = classes(|program| {
        program.pass(ScopeKind::Forward, |_| ());
        program.allocate(&[USERS], 512);
        program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
        program.pass(ScopeKind::Backward, |_| ());
    });
    assert_eq!(found[0], Class::Unknown);
}

const DDP: &str = "/lib/torch/nn/parallel/distributed.py";
const FSDP: &str = "/lib/torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py";
const FSDP_PARAMETERS: &str = "/lib/torch/distributed/fsdp/_fully_shard/_fsdp_param.py";

#[test]
fn buffers_of_data_parallel_training_have_names() {
    let found = named(|program| {
        program.allocate(&[("_ddp_init_helper", DDP), USERS], 512);
        // Inputs that are moved to the device.
        program
            .allocate(&[("_to_map", "/lib/torch/distributed/utils.py"), ("_pre_forward", DDP), USERS], 512);
        program.allocate(&[("alloc_storage", FSDP_PARAMETERS), USERS], 512);
        program.allocate(&[("allocate", FSDP), ("foreach_all_gather", FSDP), USERS], 512);
        program.pass(ScopeKind::Backward, |program| {
            let buffer = program.allocate(&[("allocate", FSDP), ("foreach_reduce", FSDP)], 512);
            program.allocate(&[("allocate", FSDP), ("foreach_reduce", FSDP)], 512);
            program.free(buffer);
        });
    });
    let wanted = [
        (Class::Gradient, Some("DDP gradient bucket")),
        (Class::Unknown, None),
        (Class::Parameter, Some("FSDP unsharded parameter")),
        (Class::Workspace, Some("FSDP all-gather buffer")),
        (Class::Workspace, Some("FSDP reduce-scatter buffer")),
        (Class::Gradient, Some("FSDP sharded gradients")),
    ];
    assert_eq!(found, wanted.map(|(class, name)| (class, name.map(str::to_owned))));
}

#[test]
fn what_modules_allocate_in_a_backward_pass_is_recomputed() {
    let found = named(|program| {
        let kept = program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
        program.pass(ScopeKind::Backward, |program| {
            let again =
                program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
            program.free(again);
            program.free(kept);
        });
    });
    let wanted = [(Class::Activation, None), (Class::Activation, Some("recomputed activation".to_owned()))];
    assert_eq!(found, wanted);
}

#[test]
fn recomputation_with_a_backward_pass_for_each_block_is_recomputation() {
    // `torch.utils.checkpoint` with `use_reentrant=True`.
    let found = named(|program| {
        let kept = program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
        let backward = program.enter(ScopeKind::Backward, program.lane, None);
        // The engine's thread does not know what it is part of.
        let (main, engine) = (program.lane, program.recorder.lane("engine"));
        (program.lane, program.open) = (engine, None);
        for _ in 0..2 {
            let again =
                program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
            program.pass(ScopeKind::Backward, |program| program.free(again));
        }
        program.lane = main;
        program.free(kept);
        program.leave(backward);
    });
    let again = (Class::Activation, Some("recomputed activation".to_owned()));
    assert_eq!(found, [(Class::Activation, None), again.clone(), again]);
}

#[test]
fn a_model_in_another_thread_is_not_recomputed() {
    let found = named(|program| {
        let other = program.recorder.lane("server");
        let serve = |program: &mut Program| {
            let lane = std::mem::replace(&mut program.lane, other);
            let outer = program.open.take();
            program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
            (program.lane, program.open) = (lane, outer);
        };
        serve(program);
        program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
        program.pass(ScopeKind::Backward, serve);
    });
    assert_eq!(found, [(Class::Activation, None), (Class::Activation, None), (Class::Activation, None)]);
}

#[test]
fn what_outlives_an_iteration_is_no_activation_of_a_loss() {
    let found = classes(|program| {
        let mut logits = None;
        for iteration in 0..4 {
            program.pass(ScopeKind::Forward, |program| program.allocate(&[CALLS_MODULE, USERS], 512));
            let next = program.allocate(&[USERS], 1024);
            if let Some(before) = logits.replace(next) {
                program.free(before);
            }
            if iteration == 0 {
                // A copy of weights.
                program.allocate(&[USERS], 2048);
            }
            program.pass(ScopeKind::Backward, |program| {
                let gradient = program.allocate(&[], 512);
                program.free(gradient);
            });
        }
    });
    let (kept, gradient) = (Class::Activation, Class::Temporary);
    let usual = [kept, kept, gradient];
    assert_eq!(found, [&[kept, kept, Class::Unknown, gradient][..], &usual, &usual, &usual].concat());
}

const CONVOLVES: [(&str, &str); 3] =
    [("_conv_forward", "/lib/torch/nn/modules/conv.py"), CALLS_MODULE, USERS];

#[test]
fn workspaces_of_cudnn_live_for_one_kernel() {
    let found = named(|program| {
        let padded = program.pass(ScopeKind::Forward, |program| {
            // A copy of the input, the output, and a workspace.
            let padded = program.allocate(&CONVOLVES, 512);
            program.allocate(&CONVOLVES, 512);
            let workspace = program.allocate(&CONVOLVES, 4096);
            program.free(workspace);
            padded
        });
        program.free(padded);
        program.pass(ScopeKind::Backward, |program| {
            program.allocate(&[], 512);
            let workspace = program.allocate(&[], 4096);
            program.free(workspace);
        });
    });
    let names: Vec<Option<&str>> = found.iter().map(|(_, name)| name.as_deref()).collect();
    let cudnn = Some("cuDNN workspace");
    assert_eq!(names, [None, None, cudnn, None, cudnn]);
    assert!(found.iter().all(|(class, name)| name.is_none() || *class == Class::Workspace), "{found:?}");
}

#[test]
fn a_workspace_of_cublas_is_recognized_if_its_line_runs_from_several_places() {
    let multiplies = ("forward", "/lib/transformers/models/llama/modeling_llama.py");
    for other_caller in [("generate", "/lib/transformers/generation/utils.py"), USERS] {
        let found = named(|program| {
            let first = [multiplies, CALLS_MODULE, USERS];
            program.pass(ScopeKind::Forward, |program| {
                let result = program.allocate(&first, 512);
                program.allocate(&first, 32 << 20);
                program.allocate(&[CALLS_MODULE, USERS], 512);
                program.free(result);
            });
            program.pass(ScopeKind::Forward, |program| {
                program.allocate(&[multiplies, CALLS_MODULE, other_caller], 512);
            });
        });
        assert_eq!(found[1], (Class::Workspace, Some("cuBLAS workspace".to_owned())));
    }
}

#[test]
fn a_result_that_is_kept_is_not_a_workspace_of_cublas() {
    let found = classes(|program| {
        // A temporary tensor that is freed at the end of its line, and the result.
        program.pass(ScopeKind::Forward, |program| {
            let lines = [("forward", "/home/me/model.py"), CALLS_MODULE, USERS];
            let temporary = program.allocate(&lines, 512);
            program.allocate(&lines, 32 << 20);
            program.free(temporary);
            program.allocate(&[CALLS_MODULE, USERS], 512);
        });
    });
    assert!(!found.contains(&Class::Workspace), "{found:?}");
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
