//! What code does that allocates or frees, according to its stack.

use rustc_hash::FxHashMap;
use ttmem_model::rules::is_python;
use ttmem_model::{Class, Frame, OpId, Profile, StackId};

use super::workspaces::Library;
use crate::history::snapshot::{ALLOCATION, OTHER};

/// What the code of a stack does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Parameters,
    OptimizerState,
    OptimizerStep,
    KvCache,
    /// Buffers of `DistributedDataParallel` for the reduction of gradients.
    GradientBuckets,
    /// FSDP's parameters while they are complete.
    UnshardedParameters,
    AllGather,
    ReduceScatter,
    ZeroGrad,
    AccumulatesGradients,
    Forward,
    Workspace(Library),
    /// Not from Python: the autograd engine, or a thread of a library.
    NoPython,
    Other,
}

impl Role {
    /// Whether allocations with this role may get a name.
    pub fn has_names(self) -> bool {
        Class::ALL.into_iter().any(|class| self.name(class).is_some())
    }

    /// The name of an allocation with this role and class, unless it has its own.
    pub fn name(self, class: Class) -> Option<&'static str> {
        Some(match (self, class) {
            (Self::GradientBuckets, _) => "DDP gradient bucket",
            (Self::UnshardedParameters, _) => "FSDP unsharded parameter",
            (Self::AllGather, _) => "FSDP all-gather buffer",
            (Self::ReduceScatter, Class::Workspace) => "FSDP reduce-scatter buffer",
            (Self::ReduceScatter, _) => "FSDP sharded gradients",
            _ => return None,
        })
    }
}

/// The roles of operations.
pub(super) fn roles(profile: &Profile) -> Vec<Role> {
    let mut by_stack: FxHashMap<StackId, Role> = FxHashMap::default();
    (0..profile.ops.len())
        .filter_map(OpId::new)
        .map(|op| match profile.stacks.of_op(op) {
            Some(stack) => *by_stack.entry(stack).or_insert_with(|| role_of(profile, stack)),
            None => {
                let name = profile.ops.name(op).map(|name| profile.text(name));
                if matches!(name, Some(ALLOCATION | OTHER)) { Role::NoPython } else { Role::Other }
            }
        })
        .collect()
}

fn role_of(profile: &Profile, stack: StackId) -> Role {
    let mut has_python = false;
    let (mut is_dnn, mut is_tensor) = (false, false);
    for Frame { function, file, .. } in profile.stacks.lines(stack) {
        let (function, file) = (profile.text(function), profile.text(file));
        if !is_python(file) {
            if function.contains("setWorkspaceForHandle") {
                return Role::Workspace(Library::Blas);
            }
            if function.contains("getCUDABlasLtWorkspace") {
                return Role::Workspace(Library::BlasLt);
            }
            if function.contains("AccumulateGrad") {
                return Role::AccumulatesGradients;
            }
            is_dnn |= function.contains("cudnn") || function.contains("miopen");
            is_tensor |= function.contains("at::empty") || function.contains("detail::empty");
            continue;
        }
        if is_dnn && !is_tensor {
            return Role::Workspace(Library::Dnn);
        }
        let is_innermost = !std::mem::replace(&mut has_python, true);
        if is_innermost && function.contains("kv_cache") {
            return Role::KvCache;
        }
        let is_of_ddp = file.ends_with("torch/nn/parallel/distributed.py");
        if is_innermost && is_of_ddp && ["_ddp_init_helper", "_pre_forward"].contains(&function) {
            return Role::GradientBuckets;
        }
        if let Some(role) = role_of_line(function, file) {
            return role;
        }
    }
    match (is_dnn && !is_tensor, has_python) {
        (true, _) => Role::Workspace(Library::Dnn),
        (false, true) => Role::Other,
        (false, false) => Role::NoPython,
    }
}

/// The role that a line of Python code proves, from the inside out.
fn role_of_line(function: &str, file: &str) -> Option<Role> {
    const TO_DEVICE: [&str; 3] = ["_apply", "_load_from_state_dict", "load_state_dict"];
    const LOADS: [&str; 4] = [
        "load_weights",
        "_load_state_dict_into_meta_model",
        "set_module_tensor_to_device",
        "reset_parameters",
    ];
    let is_in = |part: &str| file.contains(part);
    Some(match function {
        "zero_grad" => Role::ZeroGrad,
        "_init_group" if is_in("/optim/") => Role::OptimizerState,
        // Copies of weights, such as averages.
        _ if is_in("torch/optim/swa_utils.py") => return None,
        "load_state_dict" | "__init__" if is_in("torch/optim/") => Role::OptimizerState,
        "_process_value_according_to_param_policy" => Role::OptimizerState,
        _ if is_in("torch/optim/") => Role::OptimizerStep,
        _ if is_in("cache_utils.py") => Role::KvCache,
        "alloc_storage" if is_in("_fsdp_param.py") => Role::UnshardedParameters,
        "foreach_all_gather" if is_in("_fsdp_collectives.py") => Role::AllGather,
        "foreach_reduce" if is_in("_fsdp_collectives.py") => Role::ReduceScatter,
        _ if TO_DEVICE.contains(&function) && is_in("nn/modules/module.py") => Role::Parameters,
        "__init__" if is_in("torch/nn/modules/") => Role::Parameters,
        _ if LOADS.contains(&function) => Role::Parameters,
        "_call_impl" if is_in("nn/modules/module.py") => Role::Forward,
        _ => return None,
    })
}
