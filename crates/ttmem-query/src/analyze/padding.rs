//! Padding: what the tensors take beyond their elements.

use ttmem_model::{Moment, PoolId, Profile, Rank, TensorId};

/// The padding of the tensors alive at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Padding {
    /// All bytes, on one device.
    pub padded: u64,
    /// The bytes of the elements alone.
    pub logical: u64,
    /// The tensors with most bytes of padding, each with those bytes.
    pub worst: Vec<(TensorId, u64)>,
}

/// The padding of what is alive in a pool; `None` where the evidence has no types.
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
    // Tensors without types (blocks of a CUDA allocator) may be padded or not; nobody knows.
    (typed || rank.live(pool, at).next().is_none()).then_some(found)
}
