//! Programs that run out of memory, because there is not enough, or because it is fragmented.

use crate::random::Random;
use crate::tt::chip::{Chip, Pool};
use crate::tt::dialect::Loc;
use crate::tt::program::{Builder, GraphBuilder, Role, Value};
use crate::tt::runtime::{Runtime, Stop};
use crate::tt::tensor::{DType, Place, Tensor, TensorType};

/// The number of tile columns of every tensor here.
const COLUMNS: u64 = 32;

pub fn play_capacity(runtime: &mut Runtime<'_>, random: &mut Random, chip: Chip) -> Result<(), Stop> {
    let pool = random.pick(&[Pool::Dram, Pool::Dram, Pool::Dram, Pool::L1]);
    let block = tensor(pool, chip, chip.capacity(pool) / random.between(10, 40));
    let mut main = start();
    // One more than fits.
    for number in 0..=chip.capacity(pool) / block.per_bank(chip) {
        full(&mut main, &block, number);
    }
    finish(runtime, main)
}

/// Small blocks, every other one freed, then large ones: at the end, the holes are together larger than a large block,
/// but none is on its own.
pub fn play_fragmentation(runtime: &mut Runtime<'_>, random: &mut Random, chip: Chip) -> Result<(), Stop> {
    let pool = Pool::Dram;
    let large = tensor(pool, chip, chip.capacity(pool) / random.between(20, 40));
    let parts = random.between(8, 20);
    let small = tensor(pool, chip, large.per_bank(chip) / parts);
    // Rounding to whole rows of tiles may make a small block smaller than its share.
    let holes = large.per_bank(chip).div_ceil(small.per_bank(chip)) + random.between(0, 4);

    let mut main = start();
    let device = main.device();
    let mut slabs: Vec<Value> = Vec::new();
    for number in 0..holes * 2 {
        let attributes = format!("layout = #ttnn.layout<tile>, shape = #ttnn.shape<{}>", small.shape_text());
        let loc = Loc::name(format!("slab.{number}"));
        slabs.push(main.step("ttnn.empty", &[device]).attributes(attributes).at(loc).gives(&small));
    }
    for slab in slabs.into_iter().step_by(2) {
        main.deallocate(slab);
    }
    for number in 0..chip.capacity(pool) / large.per_bank(chip) {
        full(&mut main, &large, number);
    }
    finish(runtime, main)
}

/// A tensor of about this many bytes per bank.
fn tensor(pool: Pool, chip: Chip, per_bank: u64) -> Tensor {
    let row = TensorType::dram(&[32, COLUMNS * 32], DType::F32).padded_bytes();
    let rows = (per_bank * chip.banks(pool) / row).max(1);
    let tensor = TensorType::dram(&[rows * 32, COLUMNS * 32], DType::F32);
    if pool == Pool::L1 { tensor.placed(Place::L1) } else { tensor }
}

fn start() -> Builder {
    let mut main = Builder::new("main");
    main.argument(Role::Input, "input", &TensorType::dram(&[1, 32], DType::Bf16));
    main
}

fn full(main: &mut Builder, tensor: &Tensor, number: u64) {
    let device = main.device();
    let attributes = format!(
        "fill_value = 0.000000e+00 : f32, layout = #ttnn.layout<tile>, shape = #ttnn.shape<{}>",
        tensor.shape_text()
    );
    main.step("ttnn.full", &[device])
        .attributes(attributes)
        .at(Loc::name(format!("cache.{number}")))
        .gives(tensor);
}

fn finish(runtime: &mut Runtime<'_>, main: Builder) -> Result<(), Stop> {
    let last = main.last_value();
    let graph = GraphBuilder::new(main).returns("SyncTensorsGraph.1", &[last]);
    let mut program = runtime.compile(graph)?;
    let outputs = runtime.submit(&mut program)?;
    runtime.release(outputs);
    Ok(())
}
