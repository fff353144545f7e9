//! Random programs: every kind of step, in any order, with deallocations in any order.
//!
//! The result makes no sense as a computation, but is well formed: values are only used while they are live, and
//! everything except the results is freed at the end.

use super::shapes::{MOST_IN_L1, location, moved, tensor};
use crate::random::Random;
use crate::tt::chip::{Chip, Pool};
use crate::tt::dialect::Loc;
use crate::tt::program::{Builder, Function, Graph, GraphBuilder, Role, Value, shape_attribute};
use crate::tt::runtime::{Program, Runtime, Stop};
use crate::tt::tensor::{DType, Place, Tensor, TensorType};

/// The maximum number of live tensors in a function before it frees one.
const MOST_LIVE: usize = 10;

pub fn play(runtime: &mut Runtime<'_>, random: &mut Random, chip: Chip) -> Result<(), Stop> {
    let graphs = random.index(3) + 1;
    let mut programs = Vec::new();
    let mut kept = Vec::new();
    for run in 0..random.index(5) + 2 {
        // Outputs are freed between the programs, some later than others.
        for outputs in std::mem::take(&mut kept) {
            if random.chance(70) {
                runtime.release(outputs);
            } else {
                kept.push(outputs);
            }
        }
        if programs.len() < graphs && (run == 0 || random.chance(50)) {
            let graph = graph(random, chip, programs.len());
            programs.push(runtime.compile(graph)?);
        }
        let program = random.index(programs.len());
        kept.push(runtime.submit(&mut programs[program])?);
    }
    Ok(())
}

/// Programs in the same order, pass after pass; their results are freed at once, later, or never.
pub fn play_passes(
    runtime: &mut Runtime<'_>,
    random: &mut Random,
    chip: Chip,
    passes: u64,
) -> Result<(), Stop> {
    let graphs = random.index(3) + 1;
    let order: Vec<usize> = (0..graphs).chain((0..random.index(3)).map(|_| random.index(graphs))).collect();
    let mut programs: Vec<Option<Program>> = (0..graphs).map(|_| None).collect();
    let mut kept = Vec::new();
    for pass in 0..passes {
        for &number in &order {
            for outputs in std::mem::take(&mut kept) {
                if random.chance(70) {
                    runtime.release(outputs);
                } else {
                    kept.push(outputs);
                }
            }
            let program = match &mut programs[number] {
                Some(program) => program,
                unknown => unknown.insert(runtime.compile(graph(random, chip, number))?),
            };
            kept.push(runtime.submit(program)?);
        }
        runtime.python(&format!("Got output shape: torch.Size([{pass}])"))?;
    }
    Ok(())
}

/// The main function of a graph under construction, and the functions it calls.
struct Draft<'r> {
    random: &'r mut Random,
    chip: Chip,
    graph: GraphBuilder,
    /// Values that the function has to free.
    live: Vec<Value>,
    /// Other values that it may use.
    borrowed: Vec<Value>,
    /// Values in host memory, which are never freed.
    on_host: Vec<Value>,
    /// The number of steps so far, for names.
    steps: u64,
}

fn graph(random: &mut Random, chip: Chip, number: usize) -> Graph {
    let mut draft = Draft::new(random, chip, Builder::new("main"));
    let weights = draft.arguments(Role::Parameter, "weight", 2, 5);
    let inputs = draft.arguments(Role::Input, "args", 1, 3);
    draft.graph.main.device();
    let mut groups: Vec<&[Value]> = weights.chunks(2).collect();
    groups.truncate(draft.random.index(groups.len() + 1));
    let mut groups = groups.into_iter();
    for _ in 0..draft.random.between(8, 40) {
        if draft.random.chance(20)
            && let Some(group) = groups.next()
        {
            draft.load_cached(group);
        }
        draft.step();
        draft.give_some_up();
    }
    draft.give_arguments_up(&inputs);
    let results = draft.results();
    draft.give_all_up(&results);
    draft.graph.returns(format!("SyncTensorsGraph.{number}"), &results)
}

impl<'r> Draft<'r> {
    fn new(random: &'r mut Random, chip: Chip, function: Builder) -> Self {
        let (live, borrowed, on_host) = (Vec::new(), Vec::new(), Vec::new());
        Self { random, chip, graph: GraphBuilder::new(function), live, borrowed, on_host, steps: 0 }
    }

    fn arguments(&mut self, role: Role, name: &str, least: u64, most: u64) -> Vec<Value> {
        let count = self.random.between(least, most);
        (0..count).map(|number| self.argument(role, format!("{name}_{number}"))).collect()
    }

    fn argument(&mut self, role: Role, name: String) -> Value {
        // Arguments may be large: they are not in L1, and they stay.
        let drawn = tensor(self.random, self.chip);
        let place = if self.random.chance(50) { Place::Host } else { Place::Dram };
        let role = if role == Role::Parameter && self.random.chance(20) { Role::Constant } else { role };
        let value = self.graph.main.argument(role, name, &drawn.placed(place));
        let kind = if place == Place::Host { &mut self.on_host } else { &mut self.borrowed };
        kind.push(value);
        value
    }

    fn loc(&mut self) -> Loc {
        self.steps += 1;
        location(self.random, self.steps)
    }

    fn tensor(&self, value: Value) -> Tensor {
        self.graph.main.tensor(value).clone()
    }

    /// A value on the device to use as an operand.
    fn operand(&mut self) -> Value {
        let all: Vec<Value> = self.live.iter().chain(&self.borrowed).copied().collect();
        if all.is_empty() { self.full() } else { self.random.pick(&all) }
    }

    /// A tensor for a result, not in L1 if that is already full.
    fn fitting(&mut self, wanted: &Tensor) -> Tensor {
        let in_l1 = |value: &&Value| self.graph.main.tensor(**value).pool() == Some(Pool::L1);
        // Two results, and a called function, may add to the live tensors.
        if self.live.iter().filter(in_l1).count() + 4 > MOST_IN_L1 {
            wanted.placed(Place::Dram)
        } else {
            wanted.clone()
        }
    }

    fn any(&mut self) -> Tensor {
        let drawn = tensor(self.random, self.chip);
        self.fitting(&drawn)
    }

    /// One step of any kind.
    fn step(&mut self) {
        match self.random.between(0, 13) {
            0 | 1 => self.compute(&["ttnn.relu", "ttnn.gelu", "ttnn.exp", "ttnn.softmax"], 1),
            2 | 3 => self.compute(&["ttnn.add", "ttnn.multiply", "ttnn.subtract"], 2),
            4 => self.compute(&["ttnn.matmul", "ttnn.linear"], 2),
            5 | 6 => self.move_within_device(),
            7 => {
                self.full();
            }
            8 => self.split(),
            9 | 10 => self.view(),
            11 => self.through_host(),
            12 => self.write_in_place(),
            _ => self.call(),
        }
    }

    fn compute(&mut self, names: &[&'static str], operands: usize) {
        let name = self.random.pick(names);
        let operands: Vec<Value> = (0..operands).map(|_| self.operand()).collect();
        let result = self.any();
        let attributes = format!("dtype = #ttcore.supportedDataTypes<{}>", result.storage.name());
        let loc = self.loc();
        let value = self.graph.main.step(name, &operands).attributes(attributes).at(loc).gives(&result);
        self.live.push(value);
    }

    fn full(&mut self) -> Value {
        let result = self.any();
        let loc = self.loc();
        let device = self.graph.main.device();
        let attributes =
            format!("fill_value = 1.250000e-01 : f32, shape = #ttnn.shape<{}>", result.shape_text());
        let value =
            self.graph.main.step("ttnn.full", &[device]).attributes(attributes).at(loc).gives(&result);
        self.live.push(value);
        value
    }

    fn move_within_device(&mut self) {
        let operand = self.operand();
        let from = self.tensor(operand);
        let wanted = moved(self.random, self.chip, &from);
        let result = self.fitting(&wanted);
        let name = if from.tiled { "ttnn.to_memory_config" } else { "ttnn.to_layout" };
        let loc = self.loc();
        let value = self.graph.main.step(name, &[operand]).at(loc).gives(&result);
        self.live.push(value);
    }

    /// Two results of one operation.
    fn split(&mut self) {
        let operand = self.operand();
        let (first, second) = (self.any(), self.any());
        let loc = self.loc();
        let step = self.graph.main.step("ttnn.split", &[operand]).attributes("dim = 1 : i32").at(loc);
        self.live.extend(step.gives_all(&[&first, &second]));
    }

    /// A reshape: a view if only a dimension of one is added or removed, otherwise a copy.
    fn view(&mut self) {
        let operand = self.operand();
        let from = self.tensor(operand);
        let is_view = from.place == Place::Dram && from.shape.len() > 1 && self.random.chance(70);
        let shape = match (is_view, from.shape.as_slice()) {
            (true, [1, rest @ ..]) if rest.len() > 1 => rest.to_vec(),
            (true, all) => [&[1], all].concat(),
            (false, all) => vec![all[all.len() - 1], all[..all.len() - 1].iter().product()],
        };
        let attributes = shape_attribute(&shape);
        let loc = self.loc();
        let step = self.graph.main.step("ttnn.reshape", &[operand]).attributes(attributes).at(loc);
        let value = if is_view {
            step.gives_view(&from.shaped(&shape))
        } else {
            step.gives(&TensorType::dram(&shape, from.element).stored_as(from.storage))
        };
        self.live.push(value);
    }

    /// Moves a value to the host, or from there.
    fn through_host(&mut self) {
        let loc = self.loc();
        if self.on_host.is_empty() || self.random.chance(40) {
            let operand = self.operand();
            let host = self.tensor(operand).placed(Place::Host);
            let value = self.graph.main.step("ttnn.from_device", &[operand]).at(loc).gives(&host);
            self.on_host.push(value);
        } else {
            let operand = self.random.pick(&self.on_host);
            let there = self.tensor(operand).placed(Place::Dram);
            let device = self.graph.main.device();
            let value = self.graph.main.step("ttnn.to_device", &[operand, device]).at(loc).gives(&there);
            self.live.push(value);
        }
    }

    fn write_in_place(&mut self) {
        let operands = [self.operand(), self.operand()];
        let loc = self.loc();
        let step = self.graph.main.step("ttnn.update_cache", &operands).attributes("batch_offset = 0 : i32");
        step.at(loc).in_place();
    }

    /// Const-evaluates a group of weights, on the host or on the device.
    fn load_cached(&mut self, weights: &[Value]) {
        let function = self.nested(self.graph.const_eval(), weights);
        let values = self.graph.load_cached(function, weights);
        self.borrowed.extend(values);
    }

    /// Calls a function whose name only looks like that of a const-eval one.
    fn call(&mut self) {
        let operands = [self.operand()];
        let loc = self.loc();
        let function = Builder::new(format!("apply_const_eval_mask_{}", self.steps));
        let function = self.nested(function, &operands);
        let values = self.graph.call(function, &operands, loc);
        self.live.extend(values);
    }

    /// Writes a function of a few steps with arguments of these types, and one or two results.
    fn nested(&mut self, mut function: Builder, operands: &[Value]) -> Function {
        let (mut borrowed, mut on_host) = (Vec::new(), Vec::new());
        for (number, &operand) in operands.iter().enumerate() {
            let tensor = self.tensor(operand);
            let value = function.argument(Role::Parameter, format!("operand_{number}"), &tensor);
            if tensor.place == Place::Host { on_host.push(value) } else { borrowed.push(value) }
        }
        let mut inner = Draft::new(self.random, self.chip, function);
        (inner.borrowed, inner.on_host, inner.steps) = (borrowed, on_host, self.steps);
        for _ in 0..inner.random.between(1, 3) {
            inner.through_host_or_compute();
        }
        let results = inner.device_results();
        inner.give_all_up(&results);
        self.steps = inner.steps;
        inner.graph.main.returns(&results)
    }

    /// A step that avoids L1, because the caller may have filled it.
    fn through_host_or_compute(&mut self) {
        let loc = self.loc();
        let result = tensor(self.random, self.chip).placed(Place::Dram);
        let value = if let Some(host) = self.on_host.pop() {
            let device = self.graph.main.device();
            let there = self.tensor(host).placed(Place::Dram);
            self.graph.main.step("ttnn.to_device", &[host, device]).at(loc).gives(&there)
        } else {
            let operand = self.operand();
            self.graph.main.step("ttnn.typecast", &[operand]).at(loc).gives(&result)
        };
        self.live.push(value);
    }

    /// One or two of the live values in DRAM that do not share a buffer.
    fn device_results(&mut self) -> Vec<Value> {
        let made: Vec<Value> = (0..self.random.between(1, 2))
            .map(|_| {
                let result = TensorType::dram(&tensor(self.random, self.chip).shape, DType::Bf16);
                let (operand, loc) = (self.operand(), self.loc());
                self.graph.main.step("ttnn.silu", &[operand]).at(loc).gives(&result)
            })
            .collect();
        self.live.extend(&made);
        made
    }

    /// The results of the main function: on the device, or on the host.
    fn results(&mut self) -> Vec<Value> {
        if self.random.chance(50) {
            return self.device_results();
        }
        let (operand, loc) = (self.operand(), self.loc());
        let host = self.tensor(operand).placed(Place::Host);
        vec![self.graph.main.step("ttnn.from_device", &[operand]).at(loc).gives(&host)]
    }

    /// Frees values at random, and more if there are many.
    fn give_some_up(&mut self) {
        while self.live.len() > MOST_LIVE || (self.live.len() > 2 && self.random.chance(35)) {
            let value = self.live.swap_remove(self.random.index(self.live.len()));
            self.give_up(value);
        }
    }

    /// Frees some of the inputs, and some of the const-evaluated weights, which has no effect on the latter.
    fn give_arguments_up(&mut self, inputs: &[Value]) {
        let arguments = self.graph.main.arguments();
        for value in std::mem::take(&mut self.borrowed) {
            let is_weight_argument = value.0 < arguments && !inputs.contains(&value);
            if !is_weight_argument && self.random.chance(60) {
                self.give_up(value);
            } else {
                self.borrowed.push(value);
            }
        }
    }

    /// Frees everything except `results`, in random order.
    fn give_all_up(&mut self, results: &[Value]) {
        self.live.retain(|value| !results.contains(value));
        while !self.live.is_empty() {
            let value = self.live.swap_remove(self.random.index(self.live.len()));
            self.give_up(value);
        }
    }

    fn give_up(&mut self, value: Value) {
        if self.random.chance(50) {
            self.graph.main.deallocate(value);
        } else {
            let loc = self.loc();
            self.graph.main.deallocate_at(value, loc);
        }
    }
}
