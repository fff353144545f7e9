//! The classes of a snapshot's allocations.
//!
//! A snapshot has no classes, but its stacks show what most memory is for: the code of PyTorch that creates parameters,
//! optimizer states and workspaces is known, a tensor that `zero_grad` frees was a gradient, and one that a forward
//! pass allocates and the autograd engine frees was kept for the backward pass. Everything else remains unknown.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use ttmem_model::{Class, Frame, OpId, Profile, Rank, StackId, StepNumber, StrId, TensorId};

use crate::history::snapshot::{ALLOCATION, OTHER};
use crate::python_stack::is_python;

/// What the code of a stack does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Parameters,
    OptimizerState,
    OptimizerStep,
    KvCache,
    ZeroGrad,
    AccumulatesGradients,
    Forward,
    Workspace(Library),
    /// Not from Python: the autograd engine, or a thread of a library.
    NoPython,
    Other,
}

/// A library that allocates workspaces through PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Library {
    Blas,
    BlasLt,
    Dnn,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Self::Blas => "cuBLAS workspace",
            Self::BlasLt => "cuBLASLt workspace",
            Self::Dnn => "cuDNN workspace",
        }
    }
}

/// The default sizes of cuBLAS workspaces: on Hopper and later, on other NVIDIA devices, and on AMD's MI300.
const BLAS_SIZES: [u64; 3] = [32 << 20, 8_519_680, 76 << 20];
/// The default sizes of cuBLASLt workspaces.
const BLAS_LT_SIZES: [u64; 2] = [1 << 20, 32 << 20];

/// Sets the classes of all allocations.
pub(crate) fn classify(profile: &mut Profile) {
    let roles = roles(profile);
    let role = |op: Option<OpId>| op.and_then(|op| roles.get(op.index()).copied()).unwrap_or(Role::NoPython);
    let mut names: FxHashMap<Library, Option<StrId>> = FxHashMap::default();
    let mut ranks = std::mem::take(&mut profile.ranks);
    for rank in &mut ranks {
        for tensor in 0..rank.tensors.len() {
            let (made, freed) = (role(made_by(rank, tensor)), role(freed_by(rank, tensor)));
            let is_freed = freed_by(rank, tensor).is_some();
            rank.tensors.class[tensor] = class(made, is_freed.then_some(freed));
            if let Role::Workspace(library) = made {
                name(profile, rank, tensor, library, &mut names);
            }
        }
        for (tensor, library) in workspaces(rank, &roles) {
            rank.tensors.class[tensor] = Class::Workspace;
            name(profile, rank, tensor, library, &mut names);
        }
    }
    profile.ranks = ranks;
}

fn name(
    profile: &mut Profile,
    rank: &mut Rank,
    tensor: usize,
    library: Library,
    names: &mut FxHashMap<Library, Option<StrId>>,
) {
    let name = *names.entry(library).or_insert_with(|| profile.strings.push(library.name()));
    rank.tensors.name[tensor] = rank.tensors.name[tensor].or(name);
}

/// The operation that made an allocation.
fn made_by(rank: &Rank, tensor: usize) -> Option<OpId> {
    TensorId::new(tensor).and_then(|tensor| rank.made_by(tensor))
}

/// The operation that freed an allocation.
fn freed_by(rank: &Rank, tensor: usize) -> Option<OpId> {
    let step = rank.tensors.dies[tensor].position().checked_sub(1)?;
    rank.op_id(step)
}

fn class(made: Role, freed: Option<Role>) -> Class {
    match (made, freed) {
        (Role::Parameters, _) => Class::Parameter,
        (Role::OptimizerState, _) => Class::Optimizer,
        (Role::KvCache, _) => Class::KvCache,
        (Role::Workspace(_), _) => Class::Workspace,
        (Role::AccumulatesGradients, _) | (Role::NoPython, Some(Role::ZeroGrad)) => Class::Gradient,
        (Role::OptimizerStep, _)
        | (Role::Forward, Some(Role::Forward))
        | (Role::NoPython, Some(Role::NoPython)) => Class::Temporary,
        (Role::Forward, _) => Class::Activation,
        (Role::NoPython | Role::ZeroGrad | Role::Other, _) => Class::Unknown,
    }
}

/// The roles of operations.
fn roles(profile: &Profile) -> Vec<Role> {
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
        has_python = true;
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
        _ if is_in("torch/optim/") => Role::OptimizerStep,
        _ if is_in("cache_utils.py") || function.contains("kv_cache") => Role::KvCache,
        _ if TO_DEVICE.contains(&function) && is_in("nn/modules/module.py") => Role::Parameters,
        "__init__" if is_in("torch/nn/modules/") => Role::Parameters,
        _ if LOADS.contains(&function) => Role::Parameters,
        "_call_impl" if is_in("nn/modules/module.py") => Role::Forward,
        _ => return None,
    })
}

/// Workspaces that only their size shows, because stacks have no C++ lines. cuBLAS gets one workspace per thread and
/// stream the first time it is used, and keeps it: the only allocation of this size by that code, and never freed.
fn workspaces(rank: &Rank, roles: &[Role]) -> Vec<(usize, Library)> {
    let mut candidates: BTreeMap<(OpId, u64), Vec<usize>> = BTreeMap::new();
    for tensor in 0..rank.tensors.len() {
        let bytes = rank.tensors.per_bank[tensor].or_zero();
        if !BLAS_SIZES.contains(&bytes) && !BLAS_LT_SIZES.contains(&bytes) {
            continue;
        }
        let Some(op) = made_by(rank, tensor) else { continue };
        if matches!(roles.get(op.index()), Some(Role::Forward | Role::NoPython | Role::Other)) {
            candidates.entry((op, bytes)).or_default().push(tensor);
        }
    }
    let is_kept = |tensor: usize| rank.tensors.dies[tensor] == ttmem_model::Moment::NEVER;
    let mut found = Vec::new();
    for ((op, bytes), tensors) in &candidates {
        let [tensor] = tensors.as_slice() else { continue };
        if !BLAS_SIZES.contains(bytes) || !is_kept(*tensor) || !follows_another(rank, *tensor, *op) {
            continue;
        }
        found.push((*tensor, Library::Blas));
        let small = BLAS_LT_SIZES.iter().filter_map(|bytes| candidates.get(&(*op, *bytes)));
        for tensors in small {
            if let [lt] = tensors.as_slice()
                && lt != tensor
                && is_kept(*lt)
            {
                found.push((*lt, Library::BlasLt));
            }
        }
    }
    found.sort_unstable_by_key(|(tensor, _)| *tensor);
    found
}

/// Whether the step before an allocation is of the same operation: a matrix product allocates its result, then the
/// workspace.
fn follows_another(rank: &Rank, tensor: usize, op: OpId) -> bool {
    let before = rank.tensors.step[tensor].map(StepNumber::get).and_then(|step| step.checked_sub(1));
    before.and_then(|step| rank.op_id(step)) == Some(op)
}
