//! Workspaces of libraries, which they allocate through PyTorch and keep.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Class, Frame, Moment, OpId, PoolId, Profile, Rank, StepNumber, StrId, TensorId};

use super::roles::Role;
use super::{freed_at, made_by};

/// A library that allocates workspaces through PyTorch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Library {
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
/// Steps that the call that allocates a workspace may still have.
const SAME_CALL: u32 = 4;

/// Names the workspaces of a rank, and sets their class.
pub(super) fn name(profile: &mut Profile, rank: &mut Rank, roles: &[Role]) {
    let mut names: FxHashMap<Library, Option<StrId>> = FxHashMap::default();
    let lines = innermost_lines(profile);
    let mut found = by_size(rank, roles, &lines);
    found.extend(of_convolutions(profile, rank, roles, &lines));
    let has_workspaces = roles.iter().any(|role| matches!(role, Role::Workspace(_)));
    let all = if has_workspaces { 0..rank.tensors.len() } else { 0..0 };
    found.extend(all.filter_map(|tensor| {
        let role = made_by(rank, tensor).and_then(|op| roles.get(op.index()));
        if let Some(Role::Workspace(library)) = role { Some((tensor, *library)) } else { None }
    }));
    for (tensor, library) in found {
        if is_on_host(profile, rank, tensor) {
            continue;
        }
        let name = *names.entry(library).or_insert_with(|| profile.strings.push(library.name()));
        rank.tensors.name[tensor] = rank.tensors.name[tensor].or(name);
        rank.tensors.class[tensor] = Class::Workspace;
    }
}

/// Whether a tensor is in the host's memory, where the libraries of devices have no workspaces.
fn is_on_host(profile: &Profile, rank: &Rank, tensor: usize) -> bool {
    let pool = rank.pools.get(rank.tensors.pool[tensor].index());
    pool.is_some_and(|pool| profile.text(pool.name) == "cpu")
}

/// The innermost line of each operation's stack. Callers are irrelevant here: a program may call the same line from
/// different places.
fn innermost_lines(profile: &Profile) -> Vec<Option<Frame>> {
    let line = |op| profile.stacks.of_op(op).and_then(|stack| profile.stacks.lines(stack).next());
    (0..profile.ops.len()).filter_map(OpId::new).map(line).collect()
}

/// The workspaces of cuDNN, which only their short life shows: they are allocated for one kernel. In a forward pass they
/// follow the output of the same convolution, in a backward pass they are not allocated by Python code.
fn of_convolutions(
    profile: &Profile,
    rank: &Rank,
    roles: &[Role],
    lines: &[Option<Frame>],
) -> Vec<(usize, Library)> {
    let is_convolution = |op: OpId| {
        let line = lines.get(op.index()).copied().flatten();
        line.is_some_and(|line| profile.text(line.function) == "_conv_forward")
    };
    if !(0..lines.len()).filter_map(OpId::new).any(is_convolution) {
        return Vec::new();
    }
    let module = |tensor: usize| {
        let scope = rank.made_in(TensorId::new(tensor)?)?.index();
        rank.scopes.name.get(scope).copied()
    };
    let of_convolution = |tensor: usize| made_by(rank, tensor).is_some_and(is_convolution);
    let modules: FxHashSet<StrId> =
        (0..rank.tensors.len()).filter(|tensor| of_convolution(*tensor)).filter_map(module).collect();
    let is_workspace = |tensor: &usize| {
        let tensor = *tensor;
        let Some(made) = rank.tensors.step[tensor].map(StepNumber::get) else { return false };
        let is_short = freed_at(rank, tensor) == Some(made + 1) && rank.tensors.name[tensor].is_none();
        if !is_short || !may_be_a_workspace(rank.tensors.class[tensor]) {
            return false;
        }
        match made_by(rank, tensor) {
            Some(op) if is_convolution(op) => {
                made.checked_sub(1).and_then(|step| rank.op_id(step)) == Some(op)
            }
            op => {
                let is_python = op.is_some_and(|op| roles.get(op.index()) != Some(&Role::NoPython));
                !is_python && module(tensor).is_some_and(|module| modules.contains(&module))
            }
        }
    };
    (0..rank.tensors.len()).filter(is_workspace).map(|tensor| (tensor, Library::Dnn)).collect()
}

/// Workspaces that only their size shows, because stacks have no C++ lines. cuBLAS gets one workspace per thread and
/// stream the first time it is used, and keeps it: the only allocation of this size by that code that is never freed.
fn by_size(rank: &Rank, roles: &[Role], lines: &[Option<Frame>]) -> Vec<(usize, Library)> {
    let mut pools: BTreeMap<PoolId, Candidates> = BTreeMap::new();
    for tensor in 0..rank.tensors.len() {
        let bytes = rank.tensors.per_bank[tensor].or_zero();
        let is_of_a_size = BLAS_SIZES.contains(&bytes) || BLAS_LT_SIZES.contains(&bytes);
        if !is_of_a_size || !may_be_a_workspace(rank.tensors.class[tensor]) {
            continue;
        }
        let op = made_by(rank, tensor);
        let role = op.map_or(Some(&Role::NoPython), |op| roles.get(op.index()));
        if matches!(role, Some(Role::Forward | Role::NoPython | Role::Other)) {
            let candidates = pools.entry(rank.tensors.pool[tensor]).or_default();
            candidates.0.entry((op, bytes)).or_default().push(tensor);
        }
    }
    pools.values().flat_map(|candidates| candidates.workspaces(rank, roles, lines)).collect()
}

/// The allocations of a pool with the size of a workspace, by the code that made them.
#[derive(Debug, Default)]
struct Candidates(BTreeMap<(Option<OpId>, u64), Vec<usize>>);

impl Candidates {
    fn workspaces(&self, rank: &Rank, roles: &[Role], lines: &[Option<Frame>]) -> Vec<(usize, Library)> {
        let mut found = Vec::new();
        let only = |op: Option<OpId>, bytes: u64| self.only_kept(rank, op, bytes);
        for &(op, bytes) in self.0.keys().filter(|(_, bytes)| BLAS_SIZES.contains(bytes)) {
            let Some(tensor) = only(op, bytes) else { continue };
            let small = BLAS_LT_SIZES.iter().filter_map(|bytes| only(op, *bytes)).filter(|lt| *lt != tensor);
            let small: Vec<usize> = small.collect();
            // What came before an allocation from before the history is unknown, but both workspaces prove each other.
            let is_old = rank.tensors.step[tensor].is_none();
            if follows_another(rank, tensor, op, lines) || is_old && !small.is_empty() {
                found.push((tensor, Library::Blas));
                found.extend(small.into_iter().map(|lt| (lt, Library::BlasLt)));
            }
        }
        // Two from before the history, of the program's thread and of the autograd engine's.
        for bytes in BLAS_SIZES {
            let kept: Vec<usize> = self.kept(rank, None, bytes).collect();
            if let (&[_, _], Some(lt)) = (kept.as_slice(), only(None, BLAS_LT_SIZES[0])) {
                found.extend(kept.into_iter().map(|tensor| (tensor, Library::Blas)));
                found.push((lt, Library::BlasLt));
            }
        }
        if !found.is_empty() {
            // That of the autograd engine's thread, which has no stack.
            let is_of_autograd =
                |op: &Option<OpId>| op.is_none_or(|op| roles.get(op.index()) == Some(&Role::NoPython));
            let its = self.0.keys().filter(|(op, bytes)| is_of_autograd(op) && BLAS_SIZES.contains(bytes));
            let its = its.filter_map(|&(op, bytes)| only(op, bytes));
            found.extend(its.map(|tensor| (tensor, Library::Blas)).collect::<Vec<_>>());
        }
        found.sort_unstable_by_key(|(tensor, _)| *tensor);
        found.dedup();
        found
    }

    /// Those of some code that are never freed.
    fn kept(&self, rank: &Rank, op: Option<OpId>, bytes: u64) -> impl Iterator<Item = usize> {
        let group = self.0.get(&(op, bytes)).into_iter().flatten().copied();
        group.filter(|tensor| rank.tensors.dies[*tensor] == Moment::NEVER)
    }

    /// The only one that is never freed, allocated by the first call, before or after its result.
    fn only_kept(&self, rank: &Rank, op: Option<OpId>, bytes: u64) -> Option<usize> {
        let group = self.0.get(&(op, bytes))?;
        let mut kept = self.kept(rank, op, bytes);
        let tensor = kept.next().filter(|tensor| group.iter().take(2).any(|first| first == tensor))?;
        kept.next().is_none().then_some(tensor)
    }
}

/// Whether a tensor with this class may still be a workspace: nothing has proved that it is something else.
fn may_be_a_workspace(class: Class) -> bool {
    matches!(class, Class::Unknown | Class::Activation | Class::Temporary | Class::Workspace)
}

/// Whether the step before an allocation is of the same line: a matrix product allocates its result, then the workspace. A
/// tensor that nothing has freed yet, at the end of the first call, would look the same. So the line must have run again, or
/// the result must be freed after other code has allocated: a temporary tensor is freed at the end of its line.
fn follows_another(rank: &Rank, tensor: usize, op: Option<OpId>, lines: &[Option<Frame>]) -> bool {
    let Some(op) = op else { return false };
    let line = |op: OpId| lines.get(op.index()).copied().flatten();
    let is_same = |other: OpId| other == op || line(op).is_some() && line(other) == line(op);
    let step = rank.tensors.step[tensor].map(StepNumber::get);
    let before = step.and_then(|step| step.checked_sub(1));
    if !before.and_then(|step| rank.op_id(step)).is_some_and(is_same) {
        return false;
    }
    let later = step.map_or(0, |step| step + SAME_CALL) as usize;
    let runs_again = rank.steps.op.get(later..).is_some_and(|later| later.iter().any(|op| is_same(*op)));
    runs_again || result_outlives_line(rank, tensor, is_same)
}

/// Whether the allocation before a workspace is freed, after one by another line.
fn result_outlives_line(rank: &Rank, workspace: usize, is_same: impl Fn(OpId) -> bool) -> bool {
    let Some(result) = workspace.checked_sub(1) else { return false };
    let (made, freed) = (rank.tensors.step[workspace].map(StepNumber::get), freed_at(rank, result));
    let Some((made, freed)) = made.zip(freed) else { return false };
    let follows = rank.tensors.step[result].map(StepNumber::get).is_some_and(|step| step + 1 == made);
    let by_others = workspace + 1..rank.tensors.len();
    let next_by_another =
        by_others.into_iter().find(|next| made_by(rank, *next).is_some_and(|op| !is_same(op)));
    let next = next_by_another.and_then(|next| rank.tensors.step[next]).map(StepNumber::get);
    follows && next.is_some_and(|next| next < freed)
}
