//! The classes of a snapshot's allocations.
//!
//! A snapshot has no classes, but its stacks show what most memory is for: the code of PyTorch that creates parameters,
//! optimizer states and workspaces is known, a tensor that `zero_grad` frees was a gradient, and one that Python code
//! allocates and the autograd engine frees was kept for the backward pass. Everything else remains unknown.

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
        let freed = |rank: &Rank, tensor: usize| freed_by(rank, tensor).map(|op| role(Some(op)));
        // Without stacks of frees, nothing is known about the code that frees.
        let frees_have_stacks = (0..rank.tensors.len())
            .any(|tensor| freed(rank, tensor).is_some_and(|role| role != Role::NoPython));
        for tensor in 0..rank.tensors.len() {
            let made = role(made_by(rank, tensor));
            rank.tensors.class[tensor] = class(made, freed(rank, tensor), frees_have_stacks);
            if let Role::Workspace(library) = made {
                name(profile, rank, tensor, library, &mut names);
            }
        }
        for tensor in gradients(rank, |tensor| role(made_by(rank, tensor)) == Role::NoPython) {
            rank.tensors.class[tensor] = Class::Gradient;
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

fn class(made: Role, freed: Option<Role>, frees_have_stacks: bool) -> Class {
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
        // A loss outside all modules, for example.
        (Role::Other, Some(Role::NoPython)) if frees_have_stacks => Class::Activation,
        (Role::NoPython | Role::ZeroGrad | Role::Other, _) => Class::Unknown,
    }
}

/// The allocations of the autograd engine that outlive their backward pass and have the size of a parameter: gradients
/// that nothing has freed yet. There are at most as many of them as parameters.
fn gradients(rank: &Rank, is_by_autograd: impl Fn(usize) -> bool) -> Vec<usize> {
    /// A block may keep this much of a larger free one.
    const REMAINDER: u64 = 1 << 20;
    let size = |tensor: usize| rank.tensors.per_bank[tensor].or_zero();
    let all = 0..rank.tensors.len();
    let mut parameters: Vec<u64> =
        all.clone().filter(|&tensor| rank.tensors.class[tensor] == Class::Parameter).map(size).collect();
    parameters.sort_unstable();
    let is_like_a_parameter = |bytes: u64| {
        let least = if bytes > REMAINDER { bytes - REMAINDER } else { bytes };
        let most = if bytes > REMAINDER { bytes.saturating_add(REMAINDER) } else { bytes };
        let first = parameters.partition_point(|parameter| *parameter < least);
        parameters.get(first).is_some_and(|parameter| *parameter <= most)
    };
    let found: Vec<usize> = all
        .filter(|&tensor| rank.tensors.class[tensor] == Class::Unknown)
        .filter(|&tensor| rank.tensors.dies[tensor] == ttmem_model::Moment::NEVER)
        .filter(|&tensor| is_by_autograd(tensor) && is_like_a_parameter(size(tensor)))
        .collect();
    if found.len() <= parameters.len() { found } else { Vec::new() }
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
    let mut candidates: BTreeMap<(Option<OpId>, u64), Vec<usize>> = BTreeMap::new();
    for tensor in 0..rank.tensors.len() {
        let bytes = rank.tensors.per_bank[tensor].or_zero();
        if !BLAS_SIZES.contains(&bytes) && !BLAS_LT_SIZES.contains(&bytes) {
            continue;
        }
        let op = made_by(rank, tensor);
        let role = op.map_or(Some(&Role::NoPython), |op| roles.get(op.index()));
        if matches!(role, Some(Role::Forward | Role::NoPython | Role::Other)) {
            candidates.entry((op, bytes)).or_default().push(tensor);
        }
    }
    let is_kept = |tensor: usize| rank.tensors.dies[tensor] == ttmem_model::Moment::NEVER;
    // The only one of its size by that code, and kept.
    let only = |op: Option<OpId>, bytes: u64| match candidates.get(&(op, bytes)).map(Vec::as_slice) {
        Some(&[tensor]) if is_kept(tensor) => Some(tensor),
        _ => None,
    };
    let mut found = Vec::new();
    for &(op, bytes) in candidates.keys().filter(|(_, bytes)| BLAS_SIZES.contains(bytes)) {
        let Some(tensor) = only(op, bytes) else { continue };
        let small = BLAS_LT_SIZES.iter().filter_map(|bytes| only(op, *bytes)).filter(|lt| *lt != tensor);
        let small: Vec<usize> = small.collect();
        // What came before an allocation from before the history is unknown, but both workspaces prove each other.
        let is_old = rank.tensors.step[tensor].is_none();
        if follows_another(rank, tensor, op) || is_old && !small.is_empty() {
            found.push((tensor, Library::Blas));
            found.extend(small.into_iter().map(|lt| (lt, Library::BlasLt)));
        }
    }
    if !found.is_empty() {
        // That of the autograd engine's thread, which has no stack.
        let is_of_autograd =
            |op: &Option<OpId>| op.is_none_or(|op| roles.get(op.index()) == Some(&Role::NoPython));
        let old = candidates.keys().filter(|(op, bytes)| is_of_autograd(op) && BLAS_SIZES.contains(bytes));
        let old = old.filter_map(|&(op, bytes)| only(op, bytes));
        let old = old.filter(|tensor| rank.tensors.step[*tensor].is_none());
        found.extend(old.map(|tensor| (tensor, Library::Blas)).collect::<Vec<_>>());
    }
    found.sort_unstable_by_key(|(tensor, _)| *tensor);
    found.dedup();
    found
}

/// Whether the step before an allocation is of the same operation: a matrix product allocates its result, then the
/// workspace.
fn follows_another(rank: &Rank, tensor: usize, op: Option<OpId>) -> bool {
    let before = rank.tensors.step[tensor].map(StepNumber::get).and_then(|step| step.checked_sub(1));
    op.is_some() && before.and_then(|step| rank.op_id(step)) == op
}
