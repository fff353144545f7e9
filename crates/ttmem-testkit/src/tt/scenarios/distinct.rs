//! An endless sequence of operations with distinct texts: small graphs, each compiled, run once and dropped.

use super::shapes::{moved, tensor};
use crate::random::Random;
use crate::tt::chip::Chip;
use crate::tt::dialect::Loc;
use crate::tt::program::{Builder, Graph, GraphBuilder, Role, Value};
use crate::tt::runtime::{Runtime, Stop};
use crate::tt::tensor::Place;

/// The operations of a graph, without deallocations.
const STEPS: u64 = 48;
/// The number of live tensors, so that states differ and blocks are freed out of order.
const MOST_LIVE: usize = 4;

pub fn play(runtime: &mut Runtime<'_>, random: &mut Random, chip: Chip, ops: u64) -> Result<(), Stop> {
    let mut draft = Draft { random, chip, labels: 0 };
    while runtime.ops() < ops {
        let mut program = runtime.compile(draft.graph())?;
        let outputs = runtime.submit(&mut program)?;
        runtime.release(outputs);
    }
    Ok(())
}

struct Draft<'r> {
    random: &'r mut Random,
    chip: Chip,
    /// The number of locations so far.
    labels: u64,
}

impl Draft<'_> {
    /// A unique location.
    fn loc(&mut self) -> Loc {
        self.labels += 1;
        let number = self.labels;
        let layer = self.random.between(0, 79);
        let name = format!("model.layers.{layer}.block.{number}");
        match number % 5 {
            0 => Loc::file(format!("/srv/model/layer_{layer}.py"), number, 9),
            1 => Loc::derived(&name, self.random.pick(&["typecast", "mm", "to_layout", "in_0"])),
            2 => Loc::call(Loc::name(name), Loc::file("/srv/model/run.py", layer + 10, 5)),
            3 => Loc::Fused(vec![Loc::name(name), Loc::name(format!("fused.{layer}"))]),
            _ => Loc::name(name),
        }
    }

    fn graph(&mut self) -> Graph {
        let mut graph = GraphBuilder::new(Builder::new("main"));
        let main = &mut graph.main;
        let first = tensor(self.random, self.chip);
        let input = main.argument(Role::Input, "args_0", &first.placed(Place::Host));
        let device = main.device_at(self.loc());
        let there = first.placed(Place::Dram);
        let mut live = vec![main.step("ttnn.to_device", &[input, device]).at(self.loc()).gives(&there)];
        for _ in 0..STEPS {
            live.push(self.step(main, &live));
            while live.len() > MOST_LIVE || (live.len() > 2 && self.random.chance(40)) {
                let old = live.remove(self.random.index(live.len() - 1));
                main.deallocate_at(old, self.loc());
            }
        }
        let last = live[live.len() - 1];
        let host = main.tensor(last).placed(Place::Host);
        let output = main.step("ttnn.from_device", &[last]).at(self.loc()).gives(&host);
        for value in live {
            main.deallocate_at(value, self.loc());
        }
        graph.returns(format!("SyncTensorsGraph.{}", self.labels), &[output])
    }

    fn step(&mut self, main: &mut Builder, live: &[Value]) -> Value {
        let (operand, other) = (self.random.pick(live), self.random.pick(live));
        let drawn = tensor(self.random, self.chip);
        let loc = self.loc();
        match self.random.between(0, 4) {
            0 => {
                let name = self.random.pick(&["ttnn.relu", "ttnn.gelu", "ttnn.exp", "ttnn.silu"]);
                let same = main.tensor(operand).clone();
                main.step(name, &[operand]).at(loc).gives(&same)
            }
            1 => {
                let name = self.random.pick(&["ttnn.add", "ttnn.multiply", "ttnn.subtract"]);
                let attributes = format!("dtype = #ttcore.supportedDataTypes<{}>", drawn.storage.name());
                main.step(name, &[operand, other]).attributes(attributes).at(loc).gives(&drawn)
            }
            2 => {
                let value = self.random.between(1_000_000, 9_999_999);
                let attributes = format!("fill_value = 0.{value} : f32, layout = #ttnn.layout<tile>");
                let device = main.device();
                main.step("ttnn.full", &[device]).attributes(attributes).at(loc).gives(&drawn)
            }
            3 => {
                let attributes = format!(
                    "compute_config = #ttnn.device_compute_kernel_config<math_fidelity = hifi{}, \
                     fp32_dest_acc_en = true>, transpose_a = false, transpose_b = {}",
                    self.random.between(2, 4),
                    self.random.chance(50)
                );
                main.step("ttnn.matmul", &[operand, other]).attributes(attributes).at(loc).gives(&drawn)
            }
            _ => {
                let there = moved(self.random, self.chip, main.tensor(operand));
                main.step("ttnn.to_memory_config", &[operand]).at(loc).gives(&there)
            }
        }
    }
}
