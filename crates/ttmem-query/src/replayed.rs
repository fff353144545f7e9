//! How well the model of tt-metal's allocator reproduces a program's addresses.

use serde::Serialize;
use ttmem_model::{Error, Profile, Result};

use crate::analyze::replay::Replay;

/// The result of replaying all allocations of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Replayed {
    /// The number of allocations whose address is known.
    pub allocations: usize,
    /// The number of them that get the same address when they are replayed.
    pub reproduced: usize,
    /// The first allocation that gets another address.
    pub first_difference: Option<Difference>,
}

/// An allocation whose address the replay does not reproduce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The name of its tensor.
    pub name: Option<String>,
    /// The step that made it.
    pub step: Option<u32>,
    /// Its pool.
    pub pool: String,
    /// The address that it had.
    pub address: Option<u64>,
    /// The address that it gets; `None` if it does not fit.
    pub replayed_address: Option<u64>,
}

/// Replays all allocations of a rank, and compares their addresses.
pub fn replayed(profile: &Profile, rank: usize) -> Result<Replayed> {
    let count = profile.ranks.len();
    let Some(rank) = profile.ranks.get(rank) else {
        return Err(Error::NotFound(format!("no rank {rank}: the input has {count}")));
    };
    let Some(mut replay) = Replay::of(profile, rank) else { return Ok(Replayed::default()) };
    let found = replay.reproduce();
    let difference = found.first_difference.and_then(|(id, instead)| {
        let tensor = rank.tensors.get(id.index())?;
        let pool = rank.pools.get(tensor.pool.index())?;
        Some(Difference {
            name: tensor.name.or(tensor.ssa).map(|name| profile.text(name).to_owned()),
            step: tensor.step.map(ttmem_model::StepNumber::get),
            pool: profile.text(pool.name).to_owned(),
            address: rank.placements.of(id).map(|placement| placement.address),
            replayed_address: instead,
        })
    });
    Ok(Replayed {
        allocations: found.allocations,
        reproduced: found.reproduced,
        first_difference: difference,
    })
}
