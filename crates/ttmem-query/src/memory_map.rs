//! The buffers of every pool at a position, with their addresses.

use serde::Serialize;
use ttmem_model::{CurveKind, Error, Moment, PoolId, Position, Profile, Rank, Result, TensorId};

use super::named::Named;

/// The memory of a rank at a position.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MemoryMap {
    /// The position: before the step with this number.
    pub at: Position,
    /// The pools.
    pub pools: Named<MappedPool>,
}

/// A pool at a position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MappedPool {
    /// The allocated bytes of a bank.
    pub allocated_per_bank: Option<u64>,
    /// The free bytes of a bank.
    pub free_per_bank: Option<u64>,
    /// The largest free block of a bank.
    pub largest_free_per_bank: Option<u64>,
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The buffers, by address.
    pub buffers: Vec<MappedBuffer>,
}

/// A buffer of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct MappedBuffer {
    /// The address in each bank.
    pub address: Option<u64>,
    /// The size per bank.
    pub bytes_per_bank: Option<u64>,
    /// The name of its tensor.
    pub name: Option<String>,
    /// The shape of its tensor.
    pub shape: Option<Vec<u64>>,
    /// The element type of its tensor.
    pub dtype: Option<String>,
    /// The cores that have a part of it; `None`: all of them, or unknown.
    pub cores: Option<String>,
    /// The operation that allocated it.
    pub op: Option<String>,
    /// The location of the operation.
    pub loc: Option<String>,
}

/// The memory of a rank at a position.
pub fn memory_map(profile: &Profile, rank: usize, at: Option<Position>) -> Result<MemoryMap> {
    let count = profile.ranks.len();
    let Some(rank) = profile.ranks.get(rank) else {
        return Err(Error::NotFound(format!("no rank {rank}: the input has {count}")));
    };
    let at = at.unwrap_or(rank.end());
    if at > rank.end() {
        return Err(Error::NotFound(format!(
            "no step {at}: the steps are numbered from 0 to {}",
            rank.end()
        )));
    }
    let moment = Moment::late(at);
    let pools = rank.pools.iter().enumerate().filter_map(|(index, pool)| {
        let value = |kind| pool.curve(kind).and_then(|curve| curve.value_at(moment));
        let mapped = MappedPool {
            allocated_per_bank: value(CurveKind::Allocated),
            free_per_bank: value(CurveKind::Free),
            largest_free_per_bank: value(CurveKind::LargestFree),
            capacity_per_bank: value(CurveKind::Capacity),
            buffers: buffers(profile, rank, PoolId::new(index)?, moment),
        };
        Some((profile.text(pool.name).to_owned(), mapped))
    });
    Ok(MemoryMap { at, pools: Named(pools.collect()) })
}

fn buffers(profile: &Profile, rank: &Rank, pool: PoolId, at: Moment) -> Vec<MappedBuffer> {
    let text = |id| profile.text(id).to_owned();
    let buffer = |row: usize| {
        let id = TensorId::new(row)?;
        let (tensor, placement) = (rank.tensors.get(row)?, rank.placements.of(id));
        let (made, ty) = (profile.made(rank, id), tensor.ty.and_then(|ty| profile.tensor_type(ty)));
        Some(MappedBuffer {
            address: placement.map(|placement| placement.address),
            bytes_per_bank: tensor.per_bank.get(),
            name: tensor.name.or(tensor.ssa).map(text),
            shape: ty.map(|ty| ty.shape.clone()),
            dtype: ty.map(|ty| text(ty.dtype)),
            cores: placement.and_then(|placement| placement.cores).map(text),
            op: made.op.map(str::to_owned),
            loc: made.loc.map(str::to_owned),
        })
    };
    let mut buffers: Vec<MappedBuffer> = rank.live(pool, at).filter_map(buffer).collect();
    buffers.sort_by_key(|buffer| buffer.address);
    buffers
}
