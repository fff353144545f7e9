//! Random tensors that are guaranteed to fit, and random locations.

use crate::random::Random;
use crate::tt::chip::{Chip, Pool};
use crate::tt::dialect::Loc;
use crate::tt::tensor::{Cut, DType, Place, Tensor, TensorType};

/// The maximum bytes per bank of a random tensor in L1.
const L1_SHARE: u64 = 64 * 1024;

/// The maximum number of random tensors in L1. Each may split the free space once, so the largest of nine holes fits
/// the next one, whatever the order of allocations.
pub const MOST_IN_L1: usize = 8;

/// A tensor of a few kilobytes to a few megabytes, usually in DRAM.
pub fn tensor(random: &mut Random, chip: Chip) -> Tensor {
    let shape = shape(random);
    let dtype =
        random.pick(&[DType::Bf16, DType::Bf16, DType::F32, DType::BfpBf8, DType::BfpBf4, DType::U16]);
    match random.between(0, 9) {
        0 => TensorType::dram_rows(&shape, random.pick(&[DType::Si32, DType::U32, DType::Bf16, DType::F32])),
        1 => TensorType::dram(&shape, DType::Bf16).stored_as(DType::BfpBf8),
        2..=5 => TensorType::dram(&shape, dtype),
        _ => moved(random, chip, &TensorType::dram(&shape, dtype)),
    }
}

/// One to four dimensions; the last two are often not multiples of a tile.
fn shape(random: &mut Random) -> Vec<u64> {
    let columns = if random.chance(60) { random.between(1, 32) * 32 } else { random.between(1, 1000) };
    let rows = if random.chance(60) { random.between(1, 12) * 32 } else { random.between(1, 300) };
    match random.between(0, 9) {
        0 => vec![columns],
        1..=4 => vec![rows, columns],
        5..=6 => vec![random.between(1, 4), rows, columns],
        _ => vec![random.between(1, 2), random.between(1, 4), rows, columns],
    }
}

/// The same tensor in tiles, elsewhere on the device.
pub fn moved(random: &mut Random, chip: Chip, tensor: &TensorType) -> Tensor {
    let tiled = TensorType { tiled: true, ..tensor.clone() };
    let ((rows, columns), (down, across)) = (tiled.units(), chip.cores());
    let cores = chip.banks(Pool::L1);
    let place = match random.between(0, 4) {
        0 => Place::Dram,
        1 => Place::L1,
        2 => Place::L1Sharded(Cut::Height(random.between(1, rows.min(cores)))),
        3 => Place::L1Sharded(Cut::Width(random.between(1, columns.min(cores)))),
        _ => Place::L1Sharded(Cut::Block(
            random.between(1, rows.min(down)),
            random.between(1, columns.min(across)),
        )),
    };
    let there = tiled.placed(place);
    if place == Place::Dram || there.per_bank(chip) <= L1_SHARE { there } else { tiled.placed(Place::Dram) }
}

/// A location of any kind, with `number` in its name.
pub fn location(random: &mut Random, number: u64) -> Loc {
    let layer = random.between(0, 79);
    let name = format!("model.layers.{layer}.block.{number}");
    match random.between(0, 7) {
        0 => Loc::Unknown,
        1 => Loc::file(format!("/srv/model/layer_{layer}.py"), number + 1, random.between(1, 80)),
        2 => Loc::derived(&name, random.pick(&["typecast", "mm", "to_layout", "in_0"])),
        3 => Loc::call(Loc::name(name), Loc::file("/srv/model/run.py", layer + 10, 5)),
        4 => Loc::Fused(vec![Loc::name(name), Loc::derived(&format!("fused.{layer}"), "tail")]),
        // Valid in a name, but easily mistaken for its end.
        5 => Loc::name(format!("aten::add[\"x\"] {{n>{number}}} : tensor<1xf32> -> (loc)")),
        _ => Loc::name(name),
    }
}
