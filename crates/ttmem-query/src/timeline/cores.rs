//! The columns of the L1 of cores: what is in it while each step runs, and where.

use serde::Serialize;
use ttmem_model::{Profile, Rank, TensorId};

use super::{Column, Pattern, Texts, ascending, index, maybe, numbers, signed, sizes};
use crate::analyze::l1::{L1, PlacedBuffer, StepUse};

/// The layout of a core's L1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct L1Outline {
    /// The size.
    pub size: u64,
    /// The size of the reserved part, which is also the address of a program's first buffer.
    pub reserved: u64,
    /// The size of the region for small buffers at the top.
    pub small: u64,
    /// The number of cores that run programs, in x and y direction.
    pub grid: Option<(u32, u32)>,
    /// The number of the pool of the tensors.
    pub pool: Option<usize>,
    /// The number of the pool of small buffers.
    pub small_pool: Option<usize>,
    /// Whether nothing ran: tensors have no addresses.
    pub is_estimate: bool,
}

/// The layout of L1; `None` if the input does not have it.
pub(super) fn outline(profile: &Profile, rank: &Rank) -> Option<L1Outline> {
    let l1 = L1::of(profile, rank)?;
    let memory = l1.memory?;
    Some(L1Outline {
        size: memory.size,
        reserved: memory.reserved,
        small: memory.small,
        grid: memory.grid,
        pool: l1.pool.map(ttmem_model::PoolId::index),
        small_pool: rank.pool_named(profile, "L1_SMALL").map(|(id, _)| id.index()),
        is_estimate: l1.is_estimate,
    })
}

/// The tables `l1` (a row per step) and `programs` (a row per program buffer), and the addresses of tensors.
pub(super) fn columns<'a>(
    profile: &'a Profile,
    rank: &'a Rank,
    texts: &mut Texts<'a>,
    emit: &mut impl FnMut(Column),
) {
    // Only the map of a core uses addresses, and those of a caching allocator would take much room.
    let Some(l1) = L1::of(profile, rank) else { return };
    let placements =
        (0..rank.tensors.len()).map(|row| TensorId::new(row).and_then(|id| rank.placements.of(id)));
    let addresses = placements.clone().map(|placement| placement.map(|placement| placement.address));
    emit(sizes("tensors.address", Pattern::Scattered, addresses));
    let mut text = |id| index(texts.number(id));
    let cores = placements.map(|placement| placement.and_then(|placement| placement.cores).map(&mut text));
    emit(maybe("tensors.cores", cores));
    let uses = l1.steps();
    emit(signed("l1.headroom", uses.iter().map(StepUse::headroom)));
    emit(sizes("l1.lowest", Pattern::Repeating, uses.iter().map(|found| found.lowest_tensor)));
    emit(sizes("l1.end", Pattern::Repeating, uses.iter().map(|found| found.program.end)));
    let flags = |found: &StepUse| {
        let program = &found.program;
        let flags = [
            program.runs,
            program.runs && !program.is_known,
            found.is_open() || l1.is_estimate,
            program.failed,
        ];
        flags.iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(*flag))
    };
    emit(numbers("l1.flags", uses.iter().map(flags)));
    let is_shown = |step: &u32| uses.get(*step as usize).is_some_and(|found| found.program.is_known);
    let placed: Vec<PlacedBuffer> =
        (0..rank.end()).filter(is_shown).flat_map(|step| l1.placed(step)).collect();
    emit(ascending("programs.step", placed.iter().map(|placed| placed.buffer.step.into())));
    emit(numbers("programs.kind", placed.iter().map(|placed| placed.buffer.kind as u64)));
    emit(sizes("programs.start", Pattern::Repeating, placed.iter().map(|placed| Some(placed.start))));
    emit(sizes("programs.bytes", Pattern::Repeating, placed.iter().map(|placed| Some(placed.buffer.bytes))));
    emit(numbers("programs.cores", placed.iter().map(|placed| texts.number(placed.buffer.cores))));
    emit(numbers("programs.borrowed", placed.iter().map(|placed| placed.buffer.borrowed.into())));
}
