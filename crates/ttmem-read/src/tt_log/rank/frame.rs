//! A running program: its names, its arguments, and its current step.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Moment, RunId, Step, StepMarks, StrId};

use super::super::graphs::RunTraits;
use super::super::life::{AllocRef, Lives};
use super::super::module;
use super::super::tables::{OpRef, TypeRef};

/// A running program.
#[derive(Debug)]
pub(super) struct Frame {
    /// Its run; `None` for operations outside all programs.
    run: Option<RunId>,
    program: StrId,
    program_text: String,
    const_eval: bool,
    /// The line that started it.
    line: u64,
    first: Step,
    operations: u32,
    fingerprint: u64,
    /// Operations of it are missing from the log, or could not be parsed.
    has_gaps: bool,
    current: Option<Current>,
    /// The allocation of each name; `None` for values that are not, or no longer, on the device.
    names: FxHashMap<StrId, Option<AllocRef>>,
    /// Names of results in order, for programs with an unknown return.
    order: Vec<StrId>,
    /// The operands of the last compute operation.
    used: Vec<AllocRef>,
    /// In a const-eval program: the numbers of the caller's arguments that each name was computed from.
    sources: FxHashMap<StrId, Vec<u32>>,
    /// In a top-level program: the arguments that were used, with their types.
    arguments: Vec<(u32, Option<TypeRef>)>,
    /// In a top-level program: the allocations of these arguments.
    slots: FxHashMap<u32, AllocRef>,
    /// In a top-level program: the results of its const-eval programs, with the numbers of the arguments they were
    /// computed from.
    constants: Vec<(AllocRef, Vec<u32>)>,
}

/// The value of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    OnDevice(AllocRef),
    NotOnDevice,
}

impl Frame {
    pub fn new(
        run: Option<RunId>,
        (program, program_text): (StrId, String),
        const_eval: bool,
        first: Step,
        line: u64,
    ) -> Self {
        Self {
            run,
            program,
            program_text,
            const_eval,
            line,
            first,
            operations: 0,
            fingerprint: 0,
            has_gaps: false,
            current: None,
            names: FxHashMap::default(),
            order: Vec::new(),
            used: Vec::new(),
            sources: FxHashMap::default(),
            arguments: Vec::new(),
            slots: FxHashMap::default(),
            constants: Vec::new(),
        }
    }

    pub fn run(&self) -> Option<RunId> {
        self.run
    }

    /// Whether its start is missing from the log.
    pub fn is_nameless(&self) -> bool {
        self.run.is_none()
    }

    pub fn program(&self) -> StrId {
        self.program
    }

    pub fn program_text(&self) -> &str {
        &self.program_text
    }

    pub fn is_const_eval(&self) -> bool {
        self.const_eval
    }

    /// Its first step.
    pub fn first(&self) -> Step {
        self.first
    }

    pub fn has_operations(&self) -> bool {
        self.operations > 0
    }

    /// Whether a line that starts a program of this name repeats the line that started this one.
    pub fn repeats_start(&self, name: &[u8], line: u64) -> bool {
        self.operations == 0 && self.program_text.as_bytes() == name && self.line + 1 == line
    }

    /// Records that the line that started it was repeated.
    pub fn started_again(&mut self, line: u64) {
        self.line = line;
    }

    /// The observed properties of the run.
    pub fn traits(&self, finished: bool) -> RunTraits<'_> {
        RunTraits {
            program: &self.program_text,
            operations: self.operations,
            fingerprint: self.fingerprint,
            finished,
            has_gaps: self.has_gaps,
            arguments: &self.arguments,
        }
    }
}

/// Steps.
impl Frame {
    /// Begins a step. The previous one must be settled.
    pub fn begin(&mut self, step: Step, op: OpRef, fingerprint: u64, line: u64) {
        self.operations += 1;
        self.fingerprint = module::extend(self.fingerprint, fingerprint);
        self.current = Some(Current {
            step,
            line,
            op,
            has_state: false,
            marks: StepMarks::default(),
            key: None,
            returned: None,
        });
    }

    pub fn current(&self) -> Option<&Current> {
        self.current.as_ref()
    }

    pub fn current_mut(&mut self) -> Option<&mut Current> {
        self.current.as_mut()
    }

    /// Ends the step.
    pub fn take_current(&mut self) -> Option<Current> {
        self.current.take()
    }

    /// Records that the line of an operation is missing or could not be parsed.
    pub fn miss_operation(&mut self) {
        self.has_gaps = true;
    }

    /// Whether the log contains its start and all of its operations.
    pub fn is_complete(&self) -> bool {
        self.run.is_some() && !self.has_gaps
    }
}

/// Names.
impl Frame {
    /// The value of a name, if the program or its caller has defined it.
    pub fn find(&self, name: StrId) -> Option<Named> {
        self.names.get(&name).map(|alloc| alloc.map_or(Named::NotOnDevice, Named::OnDevice))
    }

    /// The allocation of a name that is on the device.
    pub fn named(&self, name: StrId) -> Option<AllocRef> {
        self.names.get(&name).copied().flatten()
    }

    /// Names a result and takes over its hold. Releases the previous value of the name.
    pub fn name(&mut self, name: StrId, alloc: Option<AllocRef>, lives: &mut Lives, at: Moment) {
        self.order.push(name);
        if let Some(before) = self.names.insert(name, alloc).flatten() {
            lives.release(before, at, false);
        }
    }

    /// Records that the value of a name is not on the device. The name stays known, so that a second deallocation is
    /// not mistaken for that of an argument.
    pub fn forget(&mut self, name: StrId) {
        self.names.insert(name, None);
    }

    /// The results that are on the device, in the order they were named.
    pub fn results(&self) -> impl Iterator<Item = AllocRef> {
        self.order.iter().filter_map(|name| self.named(*name))
    }

    /// The program's values on the device, the most recently used first.
    pub fn recently_named(&self) -> Vec<AllocRef> {
        /// The number of candidates: programs free values soon after their last use, and beyond that a size proves
        /// little.
        const FAR: usize = 256;
        let results = self.order.iter().rev().take(FAR).filter_map(|name| self.named(*name));
        self.used.iter().rev().copied().chain(results).collect()
    }

    /// Records the operands of a compute operation.
    pub fn use_operands(&mut self, operands: &[AllocRef]) {
        operands.clone_into(&mut self.used);
    }

    /// Releases everything that its names hold when it has ended.
    pub fn release_names(&self, lives: &mut Lives, at: Moment) {
        self.held().into_iter().for_each(|alloc| lives.release(alloc, at, false));
    }

    /// Releases everything that its names hold, except its arguments, when it has ended.
    pub fn release_results(&self, lives: &mut Lives, at: Moment) {
        let slots: FxHashSet<AllocRef> = self.slots.values().copied().collect();
        let results = self.held().into_iter().filter(|alloc| !slots.contains(alloc));
        results.for_each(|alloc| lives.release(alloc, at, false));
    }

    /// Everything that its names hold, in a fixed order.
    fn held(&self) -> Vec<AllocRef> {
        let mut held: Vec<AllocRef> = self.names.values().flatten().copied().collect();
        held.sort_unstable();
        held
    }
}

/// Arguments.
impl Frame {
    /// Adds an argument of a nested program: an operand of its caller, with its argument number in the caller. The name
    /// is another holder.
    pub fn pass_argument(
        &mut self,
        name: StrId,
        operand: Option<AllocRef>,
        number: Option<u32>,
        lives: &mut Lives,
    ) {
        if let Some(operand) = operand {
            lives.hold(operand);
        }
        self.names.insert(name, operand);
        self.sources.extend(number.map(|number| (name, vec![number])));
    }

    /// Adds an argument of a top-level program.
    pub fn add_argument(&mut self, name: StrId, number: u32, ty: Option<TypeRef>, alloc: Option<AllocRef>) {
        self.arguments.push((number, ty));
        self.slots.extend(alloc.map(|alloc| (number, alloc)));
        self.names.insert(name, alloc);
    }

    /// The arguments that are on the device, by their numbers.
    pub fn slots(&self) -> impl Iterator<Item = (u32, AllocRef)> {
        self.slots.iter().map(|(number, slot)| (*number, *slot))
    }

    /// In a const-eval program: records that results have the same sources as the operands.
    pub fn trace_sources(
        &mut self,
        operands: impl Iterator<Item = StrId>,
        results: impl Iterator<Item = StrId>,
    ) {
        if !self.const_eval {
            return;
        }
        let mut sources: Vec<u32> =
            operands.filter_map(|name| self.sources.get(&name)).flatten().copied().collect();
        sources.sort_unstable();
        sources.dedup();
        self.sources.extend(results.map(|name| (name, sources.clone())));
    }

    /// The caller's arguments that an allocation was computed from.
    pub fn sources_of(&self, alloc: AllocRef) -> Vec<u32> {
        let names = self.names.iter().filter(|(_, held)| **held == Some(alloc)).map(|(name, _)| name);
        names.min().and_then(|name| self.sources.get(name)).cloned().unwrap_or_default()
    }

    /// Records the result of a const-eval program and the arguments it was computed from.
    pub fn add_constant(&mut self, alloc: AllocRef, arguments: Vec<u32>) {
        self.constants.push((alloc, arguments));
    }

    /// The results of const-eval programs in this run, each with the numbers of the arguments it was computed from.
    pub fn constants(&self) -> &[(AllocRef, Vec<u32>)] {
        &self.constants
    }
}

/// A step that has begun.
#[derive(Debug)]
pub(super) struct Current {
    step: Step,
    /// The line that began it.
    line: u64,
    op: OpRef,
    has_state: bool,
    marks: StepMarks,
    /// The hash of the cached result that it loads.
    key: Option<StrId>,
    /// The results of a program that ran inside it.
    returned: Option<Vec<Option<AllocRef>>>,
}

impl Current {
    pub fn step(&self) -> Step {
        self.step
    }

    pub fn op(&self) -> OpRef {
        self.op
    }

    /// Whether the line of an operation repeats the line that began this step; if so, records it.
    pub fn repeats(&mut self, op: OpRef, line: u64) -> bool {
        let repeats = self.op == op && !self.has_state && self.line + 1 == line;
        if repeats {
            self.line = line;
        }
        repeats
    }

    pub fn has_state(&self) -> bool {
        self.has_state
    }

    /// Records that its state was printed. `None` if it already had one.
    pub fn take_state(&mut self) -> Option<Step> {
        (!std::mem::replace(&mut self.has_state, true)).then_some(self.step)
    }

    pub fn mark(&mut self, mark: StepMarks) {
        self.marks.add(mark);
    }

    pub fn is(&self, mark: StepMarks) -> bool {
        self.marks.has(mark)
    }

    /// Its marks, one by one.
    pub fn marks(&self) -> impl Iterator<Item = StepMarks> {
        let all = [StepMarks::CACHE_HIT, StepMarks::CACHE_MISS, StepMarks::RETAINED, StepMarks::FAILED];
        all.into_iter().filter(|mark| self.marks.has(*mark))
    }

    pub fn key(&self) -> Option<StrId> {
        self.key
    }

    pub fn set_key(&mut self, key: StrId) {
        self.key = Some(key);
    }

    /// The results of a program that ran inside it.
    pub fn returned(&self) -> Option<&[Option<AllocRef>]> {
        self.returned.as_deref()
    }

    pub fn set_returned(&mut self, returned: Vec<Option<AllocRef>>) {
        self.returned = Some(returned);
    }
}
