//! Runs programs on the device, prints the runtime's output, and updates the ledger.

use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use super::chip::Pool;
use super::device::{BufferId, Device, Origin, Release};
use super::dialect::{Dialect, LayoutEra};
use super::dump::dump;
use super::ledger::{Ledger, Snapshot};
use super::log::{Log, Severity, Source};
use super::memory_view::MemoryViews;
use super::oom::Failure;
use super::options::{Level, MemoryLevel, Options};
use super::print::op_text;
use super::program::{Effect, Function, Graph, Op, Role, Value, op_type};
use super::residue::ProgramCache;
use super::tensor::TensorType;
use super::truth::{Alias, Truth};

/// A compiled graph. Like in the runtime, the text of every operation is created once.
#[derive(Debug)]
pub struct Compiled {
    pub graph: Graph,
    number: usize,
    /// By function, then by operation.
    texts: Vec<Vec<String>>,
}

/// A program that can be submitted, and its arguments on the device.
#[derive(Debug)]
pub struct Program {
    compiled: Rc<Compiled>,
    arguments: Vec<Option<BufferId>>,
}

/// The binding of a value while its function runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Not bound yet, or freed.
    Empty,
    /// Not on the device.
    Host,
    Buffer(BufferId),
}

/// Results that a program left on the device.
#[derive(Debug)]
#[must_use = "outputs are released or left on the device"]
pub struct Outputs(Vec<Slot>);

/// A function that is running.
#[derive(Debug)]
struct Frame {
    number: u32,
    program: Rc<Compiled>,
    function: usize,
    slots: Vec<Slot>,
}

impl Frame {
    /// The results of a const-eval function so far, and its operands.
    fn constants(&self) -> Option<(Vec<Slot>, &[Slot])> {
        let function = &self.program.graph.functions[self.function];
        let results = || function.results.iter().map(|value| self.slots[value.0]).collect();
        function.const_eval.then(|| (results(), &self.slots[..function.arguments.len()]))
    }
}

/// Kept results of a const-eval function.
#[derive(Debug)]
struct Cached {
    results: Vec<Slot>,
    operands: Vec<Slot>,
}

/// Why a log ends early.
#[derive(Debug)]
pub enum Stop {
    /// A buffer did not fit. The log contains the error.
    OutOfMemory,
    /// The log could not be written.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The runtime.
pub struct Runtime<'w> {
    log: Log<'w>,
    device: Device,
    ledger: Ledger,
    views: MemoryViews,
    options: Options,
    frames: Vec<Frame>,
    frames_so_far: u32,
    graphs_so_far: usize,
    /// By graph and function.
    cache: BTreeMap<(usize, usize), Cached>,
    program_cache: ProgramCache,
}

impl<'w> Runtime<'w> {
    pub fn new(log: Log<'w>, options: &Options) -> Self {
        Self {
            log,
            device: Device::new(options.chip),
            ledger: Ledger::new(options.exact_states),
            views: MemoryViews::default(),
            options: options.clone(),
            frames: Vec::new(),
            frames_so_far: 0,
            graphs_so_far: 0,
            cache: BTreeMap::new(),
            program_cache: ProgramCache::default(),
        }
    }

    /// Ends the log.
    pub fn finish(mut self, scenario: &'static str) -> io::Result<Truth> {
        self.log.finish()?;
        Ok(self.ledger.finish(scenario, &self.device, self.options.ranks))
    }

    /// The number of operations so far.
    pub fn ops(&self) -> u64 {
        self.ledger.ops()
    }

    /// Compiles a graph.
    pub fn compile(&mut self, graph: Graph) -> io::Result<Program> {
        let dialect = Dialect { era: self.options.era, chip: self.options.chip };
        dump(&mut self.log, &graph, dialect, self.options.modules)?;
        self.ledger.register(&graph);
        let text = |function: &Function| {
            function.ops.iter().map(|op| op_text(&graph, function, op, dialect)).collect::<Vec<_>>()
        };
        let texts = graph.functions.iter().map(text).collect();
        let arguments = vec![None; graph.entry().arguments.len()];
        let compiled = Rc::new(Compiled { graph, number: self.graphs_so_far, texts });
        self.graphs_so_far += 1;
        Ok(Program { compiled, arguments })
    }

    /// A line of the Python program that uses the runtime.
    pub fn python(&mut self, line: &str) -> io::Result<()> {
        self.log.raw(Source::Runtime, line)
    }

    /// Runs a program once. Arguments that are not on the device are moved there first.
    pub fn submit(&mut self, program: &mut Program) -> Result<Outputs, Stop> {
        let compiled = Rc::clone(&program.compiled);
        let slots = self.upload(program)?;
        self.ledger.run_starts(&self.device);
        self.submit_state("Device memory state before submit")?;
        let outputs = self.run(&compiled, compiled.graph.entry, slots)?;
        self.ledger.run_ends(&self.device);
        self.submit_state("Device memory state after submit")?;
        Ok(Outputs(outputs))
    }

    /// Frees the results of a program.
    pub fn release(&mut self, outputs: Outputs) {
        for slot in outputs.0 {
            if let Slot::Buffer(id) = slot {
                self.device.release(id);
            }
        }
    }

    fn upload(&mut self, program: &mut Program) -> Result<Vec<Slot>, Stop> {
        let mut slots = Vec::with_capacity(program.arguments.len());
        for (index, argument) in program.compiled.graph.entry().arguments.iter().enumerate() {
            let there = program.arguments[index].filter(|&id| self.device.get(id).is_some());
            let slot = if let Some(id) = there {
                Slot::Buffer(id)
            } else {
                let origin = Origin::Argument { program: Rc::clone(&program.compiled), index };
                self.allocate(&argument.tensor, origin)?
            };
            program.arguments[index] = if let Slot::Buffer(id) = slot { Some(id) } else { None };
            slots.push(slot);
        }
        Ok(slots)
    }

    /// Runs a function and nested ones. Returns the bindings of its results.
    fn run(&mut self, program: &Rc<Compiled>, index: usize, arguments: Vec<Slot>) -> Result<Vec<Slot>, Stop> {
        let function = &program.graph.functions[index];
        self.log.ttnn(&["Starting execution of program: ", &function.name])?;
        self.frames_so_far += 1;
        let mut slots = arguments;
        slots.resize(function.values.len(), Slot::Empty);
        let number = self.frames_so_far;
        self.frames.push(Frame { number, program: Rc::clone(program), function: index, slots });
        for (at, op) in function.ops.iter().enumerate() {
            self.announce(op, &program.texts[index][at])?;
            let seq = self.ledger.op(op.is_reported());
            self.perform(program, index, at, seq)?;
        }
        self.log.ttnn(&["Finished execution of program: ", &function.name])?;
        let frame = self.frames.pop().expect("the frame of this function");
        Ok(function.results.iter().map(|value| frame.slots[value.0]).collect())
    }

    /// Prints an operation and the state before it.
    fn announce(&mut self, op: &Op, text: &str) -> io::Result<()> {
        self.log.ttnn(&["Executing operation: ", text])?;
        if self.ledger.before_op(&self.device) {
            let snapshot = self.snapshot();
            self.ledger.fullest(snapshot);
        }
        let is_printed = op.is_reported() || self.options.states_at_deallocations;
        if is_printed && self.options.memory != MemoryLevel::Program {
            self.state(&["Device memory state before operation ", op_type(op.name)])?;
        }
        Ok(())
    }

    /// Applies an operation's effect on memory.
    fn perform(&mut self, program: &Rc<Compiled>, function: usize, at: usize, seq: u64) -> Result<(), Stop> {
        let op = &program.graph.functions[function].ops[at];
        match op.effect {
            Effect::GetDevice => self.bind(&op.results, &[Slot::Host]),
            Effect::InPlace => {}
            Effect::Produce => self.produce(program, function, at, seq)?,
            Effect::View => {
                let slot = self.slot(op.operands[0]);
                if let Slot::Buffer(id) = slot {
                    self.device.share(id);
                    self.ledger.view(seq, program.graph.functions[function].ssa(op.results[0]));
                }
                self.bind(&op.results, &[slot]);
            }
            Effect::Deallocate => self.deallocate(op.operands[0])?,
            Effect::LoadCached(callee) => {
                let results = self.load_cached(program, callee, &op.operands)?;
                self.bind(&op.results, &results);
            }
            Effect::Call(callee) => {
                let arguments = op.operands.iter().map(|&operand| self.slot(operand)).collect();
                let results = self.run(program, callee, arguments)?;
                self.bind(&op.results, &results);
            }
        }
        Ok(())
    }

    fn produce(&mut self, program: &Rc<Compiled>, function: usize, at: usize, seq: u64) -> Result<(), Stop> {
        let frame = self.frame().number;
        let owner = &program.graph.functions[function];
        let op = &owner.ops[at];
        for (result, &value) in op.results.iter().enumerate() {
            let origin = Origin::Result { program: Rc::clone(program), function, op: at, result, frame, seq };
            let tensor = owner.tensor(value).expect("operations produce tensors");
            let allocated = self.allocate(tensor, origin);
            if allocated.is_err() {
                // The operation fails as a whole, so its earlier results are freed.
                let slots = op.results[..result].iter().map(|&value| self.slot(value)).collect();
                self.release(Outputs(slots));
            }
            self.bind(&[value], &[allocated?]);
        }
        if self.options.keep
            && let Some(bytes) = self.program_cache.bytes_for(owner, op, self.options.chip)
        {
            // If the residue does not fit, it is dropped.
            let _ = self.device.allocate(Pool::Dram, bytes, Origin::Residue { op: op.name });
        }
        Ok(())
    }

    fn deallocate(&mut self, value: Value) -> io::Result<()> {
        if let Slot::Buffer(id) = self.slot(value)
            && self.device.release(id) == Release::Retained
        {
            let text = "Tensor is retained thus not deallocating. To deallocate, set retain to false first";
            self.log.always(Severity::Debug, &[text])?;
        }
        self.bind(&[value], &[Slot::Empty]);
        Ok(())
    }

    fn load_cached(
        &mut self,
        program: &Rc<Compiled>,
        callee: usize,
        operands: &[Value],
    ) -> Result<Vec<Slot>, Stop> {
        let name = &program.graph.functions[callee].name;
        let key = (program.number, callee);
        let hash = format!("{:012x}", hash(name, program.number) >> 24);
        let start = ["Running LoadCachedOp for function ", name, " with hash: ", &hash];
        self.log.always(Severity::Debug, &start)?;
        if let Some(cached) = self.cache.get(&key) {
            self.log.always(Severity::Debug, &["Cache hit for function: ", name])?;
            return Ok(cached.results.clone());
        }
        self.log.always(Severity::Debug, &["Cache miss or invalid cache for function: ", name])?;
        let operands: Vec<Slot> = operands.iter().map(|&operand| self.slot(operand)).collect();
        let results = self.run(program, callee, operands.clone())?;
        self.log.always(Severity::Debug, &["executed sub-func: ", name])?;
        for &slot in &results {
            if let Slot::Buffer(id) = slot {
                self.device.retain(id);
            }
        }
        self.cache.insert(key, Cached { results: results.clone(), operands });
        Ok(results)
    }

    /// Allocates memory for a tensor, or prints the error.
    fn allocate(&mut self, tensor: &TensorType, origin: Origin) -> Result<Slot, Stop> {
        let Some(pool) = tensor.pool() else { return Ok(Slot::Host) };
        let chip = self.options.chip;
        let per_bank = tensor.per_bank(chip);
        match self.device.allocate(pool, per_bank, origin) {
            Ok(id) => Ok(Slot::Buffer(id)),
            Err(shortage) => {
                let failure = Failure {
                    pool: pool.name(),
                    requested: tensor.padded_bytes(),
                    per_bank,
                    banks: chip.banks(pool),
                    capacity: chip.capacity(pool),
                    allocated: chip.capacity(pool) - shortage.free,
                    largest: shortage.largest,
                };
                self.ledger.out_of_memory(&failure);
                self.log.raw(Source::Exception, &failure.logged(self.options.error_era))?;
                for line in failure.exception(self.options.error_era) {
                    self.log.raw(Source::Exception, &line)?;
                }
                Err(Stop::OutOfMemory)
            }
        }
    }

    fn submit_state(&mut self, header: &str) -> io::Result<()> {
        if self.options.memory == MemoryLevel::Operation { Ok(()) } else { self.state(&[header]) }
    }

    /// Prints a memory state under `header`.
    fn state(&mut self, header: &[&str]) -> io::Result<()> {
        // The first builds with memory states printed them at DEBUG.
        let at_debug = self.options.era < LayoutEra::Keywords && self.options.level == Level::Debug;
        let severity = if at_debug { Severity::Debug } else { Severity::Info };
        self.log.always(severity, header)?;
        for pool in Pool::ALL {
            self.log.always(severity, &[self.views.line(&self.device, pool)])?;
        }
        self.ledger.printed(&self.device);
        Ok(())
    }

    fn snapshot(&self) -> Snapshot {
        let buffers = self.device.buffers().map(|(id, buffer)| (id, buffer.clone())).collect();
        let mut names = Vec::new();
        for frame in &self.frames {
            let function = &frame.program.graph.functions[frame.function];
            for (slot, (ssa, _)) in frame.slots.iter().zip(&function.values) {
                if let Slot::Buffer(id) = slot {
                    names.push((*id, Alias { ssa: ssa.clone(), frame: frame.number }));
                }
            }
        }
        Snapshot { buffers, names, kept_twice: self.kept_twice() }
    }

    /// The bytes, without padding, of weights in DRAM whose const-eval result is also there.
    fn kept_twice(&self) -> u64 {
        // Results of finished const-eval functions are retained, so all of them are still live.
        let ended = self.cache.values().map(|cached| (&cached.results[..], &cached.operands[..]));
        let running: Vec<(Vec<Slot>, &[Slot])> = self.frames.iter().filter_map(Frame::constants).collect();
        let running = running.iter().map(|(results, operands)| (&results[..], *operands));
        let mut originals = BTreeMap::new();
        for (_, operands) in ended.chain(running).filter(|(results, _)| self.is_any_in_dram(results)) {
            for slot in operands {
                let Slot::Buffer(id) = slot else { continue };
                let Some(buffer) = self.device.get(*id) else { continue };
                if let Origin::Argument { program, index } = &buffer.origin
                    && buffer.pool == Pool::Dram
                {
                    let argument = &program.graph.entry().arguments[*index];
                    if argument.role != Role::Input {
                        originals.insert(*id, argument.tensor.declared_bytes());
                    }
                }
            }
        }
        originals.values().sum()
    }

    fn is_any_in_dram(&self, slots: &[Slot]) -> bool {
        slots.iter().any(|slot| match slot {
            Slot::Buffer(id) => self.device.get(*id).is_some_and(|buffer| buffer.pool == Pool::Dram),
            Slot::Empty | Slot::Host => false,
        })
    }

    fn frame(&self) -> &Frame {
        self.frames.last().expect("a function is running")
    }

    fn slot(&self, value: Value) -> Slot {
        self.frame().slots[value.0]
    }

    fn bind(&mut self, values: &[Value], slots: &[Slot]) {
        let frame = self.frames.last_mut().expect("a function is running");
        for (value, slot) in values.iter().zip(slots) {
            frame.slots[value.0] = *slot;
        }
    }
}

/// FNV-1a, in place of the runtime's hash.
fn hash(name: &str, graph: usize) -> u64 {
    name.bytes()
        .chain(graph.to_le_bytes())
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
