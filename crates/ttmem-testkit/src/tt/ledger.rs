//! Records the truth while a log is generated.
//!
//! The ledger observes the device itself, never the printed output.

use std::collections::BTreeMap;

use super::chip::{Chip, Pool};
use super::device::{Buffer, BufferId, Device, Origin};
use super::oom::Failure;
use super::program::{Effect, Function, Graph, Role, Value};
use super::truth::{Alias, Gap, LiveTensor, OutOfMemory, PoolTruth, RegisteredArgument, Truth, View};

/// The contents of the device at the DRAM peak.
#[derive(Debug, Default)]
pub struct Snapshot {
    pub buffers: Vec<(BufferId, Buffer)>,
    /// The names of buffers in running programs.
    pub names: Vec<(BufferId, Alias)>,
    pub kept_twice: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct PoolRecord {
    peak: u64,
    peak_at: Option<u64>,
    caused_by: Option<u64>,
    printed_peak: u64,
    last_printed: u64,
}

/// Bytes at every position, by pool.
type States = [Vec<u64>; 4];

/// The truth so far.
#[derive(Debug)]
pub struct Ledger {
    ops: u64,
    reported: u64,
    runs: u64,
    pools: [PoolRecord; 4],
    fullest: Snapshot,
    registry: Vec<RegisteredArgument>,
    views: Vec<View>,
    gaps: Vec<Gap>,
    oom: Option<OutOfMemory>,
    /// The allocated bytes at the end of the last program.
    after_run: [u64; 4],
    states: Option<States>,
    tensors: Option<States>,
}

impl Ledger {
    pub fn new(exact_states: bool) -> Self {
        Self {
            ops: 0,
            reported: 0,
            runs: 0,
            pools: [PoolRecord::default(); 4],
            fullest: Snapshot::default(),
            registry: Vec::new(),
            views: Vec::new(),
            gaps: Vec::new(),
            oom: None,
            after_run: [0; 4],
            states: exact_states.then(States::default),
            tensors: exact_states.then(States::default),
        }
    }

    /// The number of operations so far, which is the number of the next one.
    pub fn ops(&self) -> u64 {
        self.ops
    }

    /// A graph was compiled.
    pub fn register(&mut self, graph: &Graph) {
        for (index, argument) in graph.entry().arguments.iter().enumerate() {
            self.registry.push(RegisteredArgument {
                index,
                name: argument.name.clone(),
                role: argument.role.name(),
                shape: argument.tensor.shape_text(),
                dtype: argument.tensor.element.element_name(),
                bytes: argument.tensor.declared_bytes(),
            });
        }
    }

    /// A program is submitted.
    pub fn run_starts(&mut self, device: &Device) {
        let now = device.allocated();
        for pool in Pool::ALL {
            let effect = now[pool.index()].cast_signed() - self.after_run[pool.index()].cast_signed();
            // Memory allocated before the first program is not a change.
            if effect != 0 && self.runs > 0 {
                self.gaps.push(Gap { position: self.ops, pool: pool.name(), effect });
            }
        }
        self.runs += 1;
    }

    /// A submitted program ends.
    pub fn run_ends(&mut self, device: &Device) {
        self.after_run = device.allocated();
    }

    /// Called before an operation runs. Returns whether DRAM has never been this full.
    pub fn before_op(&mut self, device: &Device) -> bool {
        let position = self.ops;
        let now = device.allocated();
        let uploaded = |pool: Pool| {
            self.gaps
                .iter()
                .rev()
                .take_while(|gap| gap.position == position)
                .any(|gap| gap.pool == pool.name() && gap.effect > 0)
        };
        let mut dram_is_fullest = false;
        for pool in Pool::ALL {
            let allocated = now[pool.index()];
            if allocated > self.pools[pool.index()].peak {
                let caused_by = if uploaded(pool) { None } else { position.checked_sub(1) };
                let record = &mut self.pools[pool.index()];
                (record.peak, record.peak_at, record.caused_by) = (allocated, Some(position), caused_by);
                dram_is_fullest |= pool == Pool::Dram;
            }
        }
        self.write_states(device);
        dram_is_fullest
    }

    /// Called when the operation runs. Returns its number.
    pub fn op(&mut self, is_reported: bool) -> u64 {
        self.ops += 1;
        self.reported += u64::from(is_reported);
        self.ops - 1
    }

    /// Records the contents of the device at the DRAM peak so far.
    pub fn fullest(&mut self, snapshot: Snapshot) {
        self.fullest = snapshot;
    }

    /// A state was printed.
    pub fn printed(&mut self, device: &Device) {
        for (record, allocated) in self.pools.iter_mut().zip(device.allocated()) {
            record.last_printed = allocated;
            record.printed_peak = record.printed_peak.max(allocated);
        }
    }

    pub fn view(&mut self, seq: u64, ssa: &str) {
        self.views.push(View { seq, ssa: ssa.to_owned() });
    }

    pub fn out_of_memory(&mut self, failure: &Failure) {
        let cause = if failure.per_bank <= failure.free() { "fragmentation" } else { "capacity" };
        self.oom = Some(OutOfMemory {
            pool: failure.pool,
            requested: failure.requested,
            per_bank: failure.per_bank,
            banks: failure.banks,
            free: failure.free(),
            largest: failure.largest,
            cause,
        });
    }

    /// The truth, after the last program has ended.
    pub fn finish(mut self, scenario: &'static str, device: &Device, ranks: u32) -> Truth {
        self.write_states(device);
        let chip = device.chip();
        let mut pools = BTreeMap::new();
        for pool in Pool::ALL {
            let record = self.pools[pool.index()];
            let truth = PoolTruth {
                peak_per_bank: record.peak,
                peak_at_seq: record.peak_at,
                caused_by_seq: record.caused_by,
                printed_peak_per_bank: record.printed_peak,
                last_printed: record.last_printed,
                capacity_per_bank: chip.capacity(pool),
                banks: chip.banks(pool),
                last: device.bank(pool).allocated(),
            };
            pools.insert(pool.name(), truth);
        }
        let (live, residue) = self.fullest.settle(chip);
        let mut live_by_class = BTreeMap::new();
        for tensor in &live {
            *live_by_class.entry(tensor.cls).or_insert(0) += tensor.per_bank;
        }
        Truth {
            scenario,
            chip: chip.name(),
            ranks: ranks.max(1),
            runs: self.runs,
            total_ops: self.ops,
            reported_ops: self.reported,
            oom: self.oom,
            registry: self.registry,
            pools,
            live_sum_per_bank: live.iter().map(|tensor| tensor.per_bank).sum(),
            live_at_dram_peak: live,
            live_by_class,
            residue,
            kept_twice_bytes: self.fullest.kept_twice,
            views: self.views,
            gaps: self.gaps,
            states: self.states.map(by_name),
            tensors: self.tensors.map(by_name),
        }
    }

    fn write_states(&mut self, device: &Device) {
        let (Some(states), Some(tensors)) = (&mut self.states, &mut self.tensors) else { return };
        let mut sums = [0; 4];
        for (_, buffer) in device.buffers() {
            if let Some(tensor) = buffer.origin.tensor() {
                sums[buffer.pool.index()] += tensor.per_bank(device.chip());
            }
        }
        for (index, allocated) in device.allocated().into_iter().enumerate() {
            states[index].push(allocated);
            tensors[index].push(sums[index]);
        }
    }
}

fn by_name(states: States) -> BTreeMap<&'static str, Vec<u64>> {
    Pool::ALL.into_iter().map(Pool::name).zip(states).collect()
}

impl Snapshot {
    /// The tensors in DRAM, and the memory that operations left behind there.
    fn settle(&self, chip: Chip) -> (Vec<LiveTensor>, BTreeMap<&'static str, u64>) {
        let mut live = Vec::new();
        let mut residue = BTreeMap::new();
        for (id, buffer) in self.buffers.iter().filter(|(_, buffer)| buffer.pool == Pool::Dram) {
            if let Origin::Residue { op } = buffer.origin {
                *residue.entry(op).or_insert(0) += buffer.per_bank;
            } else {
                live.push(self.live_tensor(*id, buffer, chip));
            }
        }
        (live, residue)
    }

    fn live_tensor(&self, id: BufferId, buffer: &Buffer, chip: Chip) -> LiveTensor {
        let tensor = buffer.origin.tensor().expect("no residue");
        let birth = Birth::of(&buffer.origin);
        // An argument has a separate name in every run.
        let is_other =
            |alias: &Alias| alias.ssa != birth.ssa || (!birth.is_argument && alias.frame != birth.frame);
        let names = self.names.iter().filter(|(named, _)| *named == id).map(|(_, alias)| alias);
        LiveTensor {
            id: id.0,
            pool: buffer.pool.name(),
            per_bank: tensor.per_bank(chip),
            padded: tensor.padded_bytes(),
            logical: tensor.logical_bytes(),
            shape: tensor.shape_text(),
            dtype: tensor.element.element_name(),
            aliases: names.filter(|alias| is_other(alias)).cloned().collect(),
            ssa: birth.ssa,
            program: birth.program,
            frame: birth.frame,
            op: birth.op,
            op_seq: birth.seq,
            loc: birth.loc,
            cls: birth.class,
        }
    }
}

/// The origin of a tensor, as text.
struct Birth {
    is_argument: bool,
    ssa: String,
    program: String,
    frame: u32,
    op: &'static str,
    seq: i64,
    loc: String,
    class: &'static str,
}

impl Birth {
    fn of(origin: &Origin) -> Self {
        match origin {
            Origin::Argument { program, index } => {
                let argument = &program.graph.entry().arguments[*index];
                Self {
                    is_argument: true,
                    ssa: format!("%arg{index}"),
                    program: program.graph.entry().name.clone(),
                    frame: 0,
                    op: "argument",
                    seq: -1,
                    loc: argument.name.clone(),
                    class: if argument.role == Role::Input { "input" } else { "weight" },
                }
            }
            Origin::Result { program, function, op, result, frame, seq } => {
                let function = &program.graph.functions[*function];
                let op = &function.ops[*op];
                let value = op.results[*result];
                Self {
                    is_argument: false,
                    ssa: function.ssa(value).to_owned(),
                    program: function.name.clone(),
                    frame: *frame,
                    op: op.name,
                    seq: seq.cast_signed(),
                    loc: op.loc.to_string(),
                    class: if is_constant(function, value) { "weight" } else { "activation" },
                }
            }
            Origin::Residue { .. } => unreachable!("residue is no tensor"),
        }
    }
}

/// Whether a value is computed once and kept: a result of a const-eval function, by that name or as a view of it.
/// Intermediate values of such a function are ordinary activations.
fn is_constant(function: &Function, value: Value) -> bool {
    let mut names = vec![value];
    for op in function.ops.iter().filter(|op| op.effect == Effect::View) {
        if names.contains(&op.operands[0]) {
            names.extend(&op.results);
        }
    }
    function.const_eval && function.results.iter().any(|result| names.contains(result))
}
