//! Programs that run out of memory, because there is not enough, or because it is fragmented.

use crate::random::Random;
use crate::tt::chip::{Chip, Pool};
use crate::tt::dialect::Loc;
use crate::tt::options::{Change, Options};
use crate::tt::program::{Builder, GraphBuilder, Role, Value};
use crate::tt::runtime::{Runtime, Stop};
use crate::tt::tensor::{DType, Place, Tensor, TensorType};

/// The number of tile columns of every tensor here.
const COLUMNS: u64 = 32;

/// A part of a program.
enum Action {
    Make { name: String, op: &'static str, tensor: Tensor },
    Free { name: String },
}

pub fn play_capacity(runtime: &mut Runtime<'_>, random: &mut Random, options: &Options) -> Result<(), Stop> {
    let chip = options.chip;
    let pool = random.pick(&[Pool::Dram, Pool::Dram, Pool::Dram, Pool::L1]);
    let block = tensor(pool, chip, chip.capacity(pool) / random.between(10, 40));
    // One more than fits.
    let actions =
        (0..=chip.capacity(pool) / block.per_bank(chip)).map(|number| full(&block, number)).collect();
    play(runtime, actions, &options.change)
}

/// Small blocks, every other one freed, then large ones: at the end, the holes are together larger than a large block,
/// but none is on its own.
pub fn play_fragmentation(
    runtime: &mut Runtime<'_>,
    random: &mut Random,
    options: &Options,
) -> Result<(), Stop> {
    let (pool, chip) = (Pool::Dram, options.chip);
    let large = tensor(pool, chip, chip.capacity(pool) / random.between(20, 40));
    let parts = random.between(8, 20);
    let small = tensor(pool, chip, large.per_bank(chip) / parts);
    // Rounding to whole rows of tiles may make a small block smaller than its share.
    let holes = large.per_bank(chip).div_ceil(small.per_bank(chip)) + random.between(0, 4);
    let slab = |number: u64| format!("slab.{number}");
    let mut actions: Vec<Action> = Vec::new();
    actions.extend((0..holes * 2).map(|number| Action::Make {
        name: slab(number),
        op: "ttnn.empty",
        tensor: small.clone(),
    }));
    actions.extend((0..holes * 2).step_by(2).map(|number| Action::Free { name: slab(number) }));
    actions.extend((0..chip.capacity(pool) / large.per_bank(chip)).map(|number| full(&large, number)));
    play(runtime, actions, &options.change)
}

/// Runs a program, with a change.
fn play(runtime: &mut Runtime<'_>, actions: Vec<Action>, change: &Change) -> Result<(), Stop> {
    let is_first =
        |action: &Action| matches!(action, Action::Make { name, .. } if change.first.contains(name));
    let (first, rest): (Vec<Action>, Vec<Action>) = actions.into_iter().partition(is_first);
    let mut main = start();
    let device = main.device();
    let mut made: Vec<(String, Value)> = Vec::new();
    for action in first.into_iter().chain(rest) {
        match action {
            Action::Make { name, op, tensor } => {
                let tensor = changed(&tensor, &name, change);
                let attributes = attributes(op, &tensor);
                let value = main
                    .step(op, &[device])
                    .attributes(attributes)
                    .at(Loc::name(name.clone()))
                    .gives(&tensor);
                let is_last = change.last.as_ref() == Some(&name);
                made.push((name, value));
                if is_last {
                    break;
                }
            }
            Action::Free { name } => {
                if let Some(at) = made.iter().position(|(other, _)| *other == name) {
                    main.deallocate(made.remove(at).1);
                }
            }
        }
    }
    finish(runtime, main)
}

fn changed(tensor: &Tensor, name: &String, change: &Change) -> Tensor {
    let mut tensor = tensor.clone();
    if change.narrower.contains(name) {
        tensor = tensor.stored_as(DType::BfpBf8);
    }
    if change.in_dram.contains(name) {
        tensor = tensor.placed(Place::Dram);
    }
    tensor
}

fn attributes(op: &str, tensor: &Tensor) -> String {
    let fill = if op == "ttnn.full" { "fill_value = 0.000000e+00 : f32, " } else { "" };
    format!("{fill}layout = #ttnn.layout<tile>, shape = #ttnn.shape<{}>", tensor.shape_text())
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

fn full(tensor: &Tensor, number: u64) -> Action {
    Action::Make { name: format!("cache.{number}"), op: "ttnn.full", tensor: tensor.clone() }
}

fn finish(runtime: &mut Runtime<'_>, main: Builder) -> Result<(), Stop> {
    let last = main.last_value();
    let graph = GraphBuilder::new(main).returns("SyncTensorsGraph.1", &[last]);
    let mut program = runtime.compile(graph)?;
    let outputs = runtime.submit(&mut program)?;
    runtime.release(outputs);
    Ok(())
}
