//! A stack of equal layers, in variants that differ in one known way.

use crate::tt::dialect::Loc;
use crate::tt::program::{Builder, GraphBuilder, Role, Value};
use crate::tt::runtime::{Runtime, Stop};
use crate::tt::tensor::{DType, Tensor, TensorType};

/// The columns of every tensor.
const WIDTH: u64 = 512;

/// A variant of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    /// The rows of every activation.
    pub rows: u64,
    /// The number of layers.
    pub count: u64,
    /// Whether all tensors are f32 instead of bf16.
    pub is_wide: bool,
    /// Whether the sum of the first layer is never deallocated.
    pub keeps: bool,
    /// Whether two operations of every layer are in the other order.
    pub swaps: bool,
}

impl Default for Layers {
    fn default() -> Self {
        Self { rows: 256, count: 3, is_wide: false, keeps: false, swaps: false }
    }
}

impl Layers {
    fn dtype(self) -> DType {
        if self.is_wide { DType::F32 } else { DType::Bf16 }
    }

    fn hidden(self) -> Tensor {
        TensorType::dram(&[1, self.rows, WIDTH], self.dtype())
    }

    fn layer(self, main: &mut Builder, number: u64, hidden: Value, weight: Value) -> Value {
        let tensor = self.hidden();
        let op = |main: &mut Builder, name: &'static str, operands: &[Value]| {
            let loc = Loc::name(format!("layers.{number}.{}", name.trim_start_matches("ttnn.")));
            main.step(name, operands).at(loc).gives(&tensor)
        };
        let product = op(main, "ttnn.matmul", &[hidden, weight]);
        let names = if self.swaps { ["ttnn.relu", "ttnn.exp"] } else { ["ttnn.exp", "ttnn.relu"] };
        let active = names.map(|name| op(main, name, &[product]));
        let sum = op(main, "ttnn.add", &active);
        for value in active.into_iter().chain([product]) {
            main.deallocate(value);
        }
        let out = op(main, "ttnn.multiply", &[sum, hidden]);
        if !(self.keeps && number == 0) {
            main.deallocate(sum);
        }
        main.deallocate(hidden);
        out
    }
}

pub fn play(runtime: &mut Runtime<'_>, layers: Layers) -> Result<(), Stop> {
    let mut graph = GraphBuilder::new(Builder::new("main"));
    let main = &mut graph.main;
    let host = TensorType::host_tiles(&layers.hidden().shape, layers.dtype());
    let input = main.argument(Role::Input, "args_0", &host);
    let weight = TensorType::dram(&[WIDTH, WIDTH], layers.dtype());
    let weights: Vec<Value> = (0..layers.count)
        .map(|number| main.argument(Role::Parameter, format!("layers.{number}.weight"), &weight))
        .collect();
    let device = main.device();
    let moved = main.step("ttnn.to_device", &[input, device]).at(Loc::name("input"));
    let mut hidden = moved.gives(&layers.hidden());
    for (number, weight) in (0..).zip(weights) {
        hidden = layers.layer(main, number, hidden, weight);
    }
    let output = main.step("ttnn.from_device", &[hidden]).at(Loc::name("output")).gives(&host);
    main.deallocate(hidden);
    let mut program = runtime.compile(graph.returns("SyncTensorsGraph.1", &[output]))?;
    let outputs = runtime.submit(&mut program)?;
    runtime.release(outputs);
    Ok(())
}
