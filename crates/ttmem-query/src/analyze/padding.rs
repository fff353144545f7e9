//! Padding: the size of tensors beyond their elements.

use ttmem_model::{Moment, PoolId, Profile, Rank, TensorId};

/// The padding of the tensors that are live at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// The size on one device, including padding.
    pub padded: u64,
    /// The size of the elements.
    pub logical: u64,
    /// The tensors with the most padding, and the size of that padding.
    pub worst: Vec<(TensorId, u64)>,
}

/// The padding of the live tensors of a pool; `None` if the input has no tensor types.
pub fn padding(profile: &Profile, rank: &Rank, pool: PoolId, at: Moment, most: usize) -> Option<Padding> {
    if !rank.has_tensors() {
        return None;
    }
    let mut found = Padding::default();
    let mut typed = false;
    for index in rank.live(pool, at) {
        let Some(ty) = rank.tensors.ty[index].and_then(|ty| profile.tensor_type(ty)) else { continue };
        let (Some(padded), Some(logical)) = (ty.padded.get(), ty.logical.get()) else { continue };
        typed = true;
        found.padded = found.padded.saturating_add(padded);
        found.logical = found.logical.saturating_add(logical);
        let wasted = padded.saturating_sub(logical);
        if wasted > 0 {
            found.worst.extend(TensorId::new(index).map(|tensor| (tensor, wasted)));
        }
    }
    let born = |tensor: TensorId| rank.tensors.born[tensor.index()];
    found.worst.sort_by_key(|&(tensor, wasted)| (std::cmp::Reverse(wasted), born(tensor), tensor));
    found.worst.truncate(most);
    // The padding of tensors without types (blocks of a CUDA allocator) is unknown.
    (typed || rank.live(pool, at).next().is_none()).then_some(found)
}
