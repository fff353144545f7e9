//! Workspaces of libraries, which they allocate through PyTorch and keep.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use ttmem_model::{Class, Moment, OpId, PoolId, Profile, Rank, StepNumber, StrId};

use super::made_by;
use super::roles::Role;

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
    let mut found = by_size(rank, roles);
    found.extend((0..rank.tensors.len()).filter_map(|tensor| {
        let role = made_by(rank, tensor).and_then(|op| roles.get(op.index()));
        if let Some(Role::Workspace(library)) = role { Some((tensor, *library)) } else { None }
    }));
    for (tensor, library) in found {
        let name = *names.entry(library).or_insert_with(|| profile.strings.push(library.name()));
        rank.tensors.name[tensor] = rank.tensors.name[tensor].or(name);
        rank.tensors.class[tensor] = Class::Workspace;
    }
}

/// Workspaces that only their size shows, because stacks have no C++ lines. cuBLAS gets one workspace per thread and
/// stream the first time it is used, and keeps it: the only allocation of this size by that code that is never freed.
fn by_size(rank: &Rank, roles: &[Role]) -> Vec<(usize, Library)> {
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
    pools.values().flat_map(|candidates| candidates.workspaces(rank, roles)).collect()
}

/// The allocations of a pool with the size of a workspace, by the code that made them.
#[derive(Debug, Default)]
struct Candidates(BTreeMap<(Option<OpId>, u64), Vec<usize>>);

impl Candidates {
    fn workspaces(&self, rank: &Rank, roles: &[Role]) -> Vec<(usize, Library)> {
        let mut found = Vec::new();
        let only = |op: Option<OpId>, bytes: u64| self.only_kept(rank, op, bytes);
        for &(op, bytes) in self.0.keys().filter(|(_, bytes)| BLAS_SIZES.contains(bytes)) {
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

/// Whether the step before an allocation is of the same operation: a matrix product allocates its result, then the
/// workspace. A tensor that nothing has freed yet, at the end of the first call, would look the same, so the operation must
/// have run again.
fn follows_another(rank: &Rank, tensor: usize, op: Option<OpId>) -> bool {
    let before = rank.tensors.step[tensor].map(StepNumber::get).and_then(|step| step.checked_sub(1));
    let follows = op.is_some() && before.and_then(|step| rank.op_id(step)) == op;
    let result = rank.tensors.step[tensor].map_or(0, |step| step.get() + SAME_CALL) as usize;
    follows && rank.steps.op.get(result..).is_some_and(|later| later.iter().any(|later| Some(*later) == op))
}
