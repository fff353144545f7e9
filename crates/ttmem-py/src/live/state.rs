//! The state of a tracker: live storages, and the ids of known operations, types and pools.
//!
//! Nothing here calls into Python: the state is in a `GilCell`, which only the GIL protects.

use pyo3::prelude::*;
use rustc_hash::FxHashMap;
use ttmem::history::snapshot::Line;
use ttmem::model::{
    Change, Class, DramUsage, Frame, OpId, PoolId, ScopeKind, Segment, StackId, StrId, TypeId,
};
use ttmem::record::live::{Allocation, CallRef, Place, Recorder, TypeOf};

/// Beyond this number, all known stacks are removed, with their code objects: programs may generate code.
const MAX_SITES: usize = 1 << 17;

/// CUDA's and XPU's allocators round sizes up to a multiple of this.
const GRANULE: u64 = 512;

/// A Python object by its address, which is unique while the object is alive.
pub(super) type Address = usize;

/// The address of an object.
pub(super) fn address(object: &Bound<'_, PyAny>) -> Address {
    object.as_ptr() as Address
}

/// A live storage.
struct Storage {
    place: Place,
    bytes: u64,
    /// The weak reference whose callback reports that the storage was freed.
    weak: Py<PyAny>,
}

/// A PyTorch operation.
#[derive(Debug)]
pub(super) struct KnownOp {
    pub name: StrId,
    /// Whether the operation may resize existing storages.
    pub is_mutable: bool,
    /// Whether the results have new storages.
    pub makes_new: bool,
    _held: Py<PyAny>,
}

/// A PyTorch element type, whose object is never freed.
#[derive(Clone, Copy, Debug)]
struct Element {
    name: StrId,
    bytes: u64,
}

/// How the tensors of a device are tracked.
#[derive(Clone, Copy, Debug)]
pub(super) enum Memory {
    /// One by one, in a pool.
    In(PoolId),
    /// By the history of the pool's allocator.
    ByHistory(PoolId),
    /// Not at all: `meta` tensors have no memory.
    None,
}

/// A storage that is not known yet.
pub(super) struct Seen {
    pub storage: Address,
    pub bytes: u64,
    pub pool: PoolId,
    pub weak: Py<PyAny>,
    pub op: OpId,
    pub ty: Option<TypeId>,
    pub class: Option<Class>,
    /// Whether the storage was allocated just now; otherwise, its allocation was not tracked.
    pub is_new: bool,
}

/// The current phase of a pool. Sizes are rounded like those of the device's allocator.
#[derive(Debug, Default)]
struct Phase {
    segment: Segment,
    is_rounded: bool,
}

impl Phase {
    fn bytes(&self, asked: u64) -> u64 {
        if self.is_rounded { asked.checked_next_multiple_of(GRANULE).unwrap_or(asked) } else { asked }
    }

    fn allocated(&mut self, asked: u64) {
        self.segment.apply(Change::DramAllocated(self.bytes(asked)));
    }

    fn freed(&mut self, asked: u64) {
        self.segment.apply(Change::DramFreed(self.bytes(asked)));
    }
}

/// The state of a tracker.
pub(super) struct State {
    pub recorder: Recorder,
    storages: FxHashMap<Address, Storage>,
    /// The storage of each weak reference.
    weak: FxHashMap<Address, Address>,
    ops: FxHashMap<Address, KnownOp>,
    /// The operation, by its name and the hash of the stack.
    sites: FxHashMap<(StrId, u64), OpId>,
    /// The code objects of those stacks, kept alive so that their addresses stay unique.
    codes: Vec<Py<PyAny>>,
    elements: FxHashMap<Address, Element>,
    /// By the hash of the device.
    pools: FxHashMap<isize, Memory>,
    /// The current phase of each pool.
    phases: Vec<Phase>,
    /// Path prefixes of library code.
    libraries: Vec<String>,
    /// The kinds of devices whose allocators have a history.
    histories: Vec<String>,
    /// Whether any call was entered; until then, the context variable need not be read.
    pub has_calls: bool,
    /// The message of the last failed allocation.
    pub failed_allocation: Option<String>,
    /// Number of internal errors.
    pub errors: u64,
}

impl State {
    pub fn new(recorder: Recorder, libraries: Vec<String>) -> Self {
        Self {
            recorder,
            storages: FxHashMap::default(),
            weak: FxHashMap::default(),
            ops: FxHashMap::default(),
            sites: FxHashMap::default(),
            codes: Vec::new(),
            elements: FxHashMap::default(),
            pools: FxHashMap::default(),
            phases: Vec::new(),
            libraries,
            histories: Vec::new(),
            has_calls: false,
            failed_allocation: None,
            errors: 0,
        }
    }

    /// The place of a live storage, and its last known size.
    #[inline]
    pub fn storage(&self, storage: Address) -> Option<(Place, u64)> {
        self.storages.get(&storage).map(|storage| (storage.place, storage.bytes))
    }

    pub fn op(&self, op: Address) -> Option<&KnownOp> {
        self.ops.get(&op)
    }

    pub fn learn_op(
        &mut self,
        op: &Bound<'_, PyAny>,
        name: &str,
        is_mutable: bool,
        makes_new: bool,
    ) -> StrId {
        let name = self.recorder.text(name);
        let known = KnownOp { name, is_mutable, makes_new, _held: op.clone().unbind() };
        self.ops.insert(address(op), known);
        name
    }

    /// The operation of that name, called from a known stack.
    #[inline]
    pub fn site(&self, name: StrId, number: u64) -> Option<OpId> {
        self.sites.get(&(name, number)).copied()
    }

    /// Adds an operation that is called from a new stack, innermost line first. Returns code objects for the caller to
    /// drop, because dropping them calls into Python.
    pub fn learn_site(
        &mut self,
        name: StrId,
        number: u64,
        lines: &[Line],
        codes: Vec<Py<PyAny>>,
    ) -> (OpId, Vec<Py<PyAny>>) {
        let mut dropped = Vec::new();
        if self.sites.len() >= MAX_SITES {
            self.sites.clear();
            dropped = std::mem::take(&mut self.codes);
        }
        let op = self.op_at(name, lines);
        self.sites.insert((name, number), op);
        self.codes.extend(codes);
        (op, dropped)
    }

    /// The operation of that name and stack, innermost line first.
    pub fn op_at(&mut self, name: StrId, lines: &[Line]) -> OpId {
        let stack = self.stack(lines);
        let loc = lines.iter().find(|line| self.is_users(line)).or_else(|| lines.first());
        let loc = loc.map(|line| format!("{}:{}", line.file, line.number));
        let loc = loc.map(|loc| self.recorder.text(&loc));
        self.recorder.op(name, stack, loc)
    }

    fn stack(&mut self, lines: &[Line]) -> Option<StackId> {
        let mut stack = None;
        for line in lines.iter().rev() {
            let (function, file) = (self.recorder.text(&line.function), self.recorder.text(&line.file));
            let frame = self.recorder.frame(Frame { function, file, line: line.number });
            stack = Some(self.recorder.stack(frame, stack));
        }
        stack
    }

    fn is_users(&self, line: &Line) -> bool {
        !line.file.starts_with('<') && !self.libraries.iter().any(|library| line.file.starts_with(library))
    }

    pub fn knows_element(&self, element: Address) -> bool {
        self.elements.contains_key(&element)
    }

    pub fn learn_element(&mut self, element: Address, name: &str, bytes: u64) {
        let name = self.recorder.text(name);
        self.elements.insert(element, Element { name, bytes });
    }

    /// The type of a tensor that covers its whole storage; `None` for a view of a part.
    pub fn whole_type(&mut self, element: Address, shape: &[u64], storage: u64) -> Option<TypeId> {
        let bytes =
            shape.iter().try_fold(self.elements.get(&element)?.bytes, |bytes, side| bytes.checked_mul(*side));
        if bytes == Some(storage) { self.tensor_type(element, shape) } else { None }
    }

    pub fn tensor_type(&mut self, element: Address, shape: &[u64]) -> Option<TypeId> {
        let element = *self.elements.get(&element)?;
        let count = shape.iter().try_fold(1_u64, |count, side| count.checked_mul(*side))?;
        let bytes = count.checked_mul(element.bytes)?;
        self.recorder.tensor_type(TypeOf { shape, dtype: element.name, bytes })
    }

    /// How a device is tracked, by its hash; `None` if it is unknown.
    pub fn memory(&self, device: isize) -> Option<Memory> {
        self.pools.get(&device).copied()
    }

    pub fn learn_memory(&mut self, device: isize, name: &str) -> Memory {
        let memory = match name {
            "meta" => Memory::None,
            name if self.has_history(name) => Memory::ByHistory(self.recorder.pool(name, true)),
            _ => Memory::In(self.recorder.pool(name, false)),
        };
        if let Memory::In(pool) = memory {
            self.phase(pool).is_rounded = name.starts_with("cuda") || name.starts_with("xpu");
        }
        self.pools.insert(device, memory);
        memory
    }

    /// Tracks a kind of device by its allocator's history from now on, not storage by storage.
    pub fn trust_history(&mut self, kind: &str) {
        self.histories.push(kind.to_owned());
        self.recorder.readings_are_steps();
        // Devices of this kind may be registered already.
        self.pools.clear();
    }

    /// Whether any allocator has a history.
    pub fn has_histories(&self) -> bool {
        !self.histories.is_empty()
    }

    fn has_history(&self, device: &str) -> bool {
        let kind = device.split(':').next();
        self.histories.iter().any(|with| Some(with.as_str()) == kind)
    }

    fn phase(&mut self, pool: PoolId) -> &mut Phase {
        if self.phases.len() <= pool.index() {
            self.phases.resize_with(pool.index() + 1, Phase::default);
        }
        &mut self.phases[pool.index()]
    }

    /// Ends the current phase and begins the next; returns the usage of each pool.
    pub fn next_phase(&mut self) -> Vec<(String, DramUsage)> {
        let names = self.recorder.pools().map(|(name, _)| name.to_owned());
        let phases = self.phases.iter_mut().map(|phase| std::mem::take(&mut phase.segment).dram());
        names.zip(phases).collect()
    }

    /// Records a storage. If another thread has already recorded it, returns the weak reference for the caller to drop,
    /// because dropping it calls into Python.
    pub fn allocated(&mut self, seen: Seen, within: Option<CallRef>) -> (Option<Place>, Option<Py<PyAny>>) {
        let Seen { storage, bytes, pool, weak, op, ty, class, is_new } = seen;
        if let Some(known) = self.storages.get(&storage) {
            return (Some(known.place), Some(weak));
        }
        let class = class.unwrap_or_else(|| self.class_in(within));
        let allocation = Allocation { pool, bytes, op, ty, class, within };
        let Some(place) = self.recorder.allocated(allocation) else { return (None, Some(weak)) };
        if is_new {
            self.phase(pool).allocated(bytes);
        }
        self.weak.insert(weak.as_ptr() as Address, storage);
        self.storages.insert(storage, Storage { place, bytes, weak });
        (Some(place), None)
    }

    /// Records that the storage of a weak reference was freed. Returns the reference for the caller to drop, because
    /// dropping it calls into Python.
    pub fn freed(&mut self, weak: Address, within: Option<CallRef>) -> Option<Py<PyAny>> {
        let storage = self.weak.remove(&weak)?;
        let storage = self.storages.remove(&storage)?;
        if let Some(pool) = self.recorder.held_at(storage.place).map(|held| held.pool) {
            self.phase(pool).freed(storage.bytes);
        }
        self.recorder.freed(storage.place, within);
        Some(storage.weak)
    }

    /// Tracks the storage `to`, with its weak reference, in place of `from`. Returns the unused reference for the
    /// caller to drop, because dropping it calls into Python.
    pub fn moved(&mut self, from: Address, to: Address, weak: Py<PyAny>) -> Py<PyAny> {
        if self.storages.contains_key(&to) {
            return weak;
        }
        let Some(storage) = self.storages.remove(&from) else { return weak };
        self.weak.remove(&(storage.weak.as_ptr() as Address));
        self.weak.insert(weak.as_ptr() as Address, to);
        let Storage { place, bytes, weak: old } = storage;
        self.storages.insert(to, Storage { place, bytes, weak });
        old
    }

    /// Records that a storage was resized, as a free and an allocation.
    pub fn resized(&mut self, storage: Address, bytes: u64, op: OpId, within: Option<CallRef>) {
        let Some(known) = self.storages.get_mut(&storage) else { return };
        let Some(held) = self.recorder.held_at(known.place).copied() else { return };
        self.recorder.freed(known.place, within);
        let allocation = Allocation { pool: held.pool, bytes, op, ty: held.ty, class: held.class, within };
        let before = known.bytes;
        if let Some(place) = self.recorder.allocated(allocation) {
            (known.place, known.bytes) = (place, bytes);
        }
        let phase = self.phase(held.pool);
        phase.freed(before);
        phase.allocated(bytes);
    }

    /// The default class of a tensor that is allocated in a call.
    fn class_in(&self, within: Option<CallRef>) -> Class {
        match self.recorder.kind_of(within) {
            Some(ScopeKind::Forward) => Class::Activation,
            Some(ScopeKind::Backward | ScopeKind::Optimizer) => Class::Temporary,
            Some(ScopeKind::Operation | ScopeKind::Framework) | None => Class::Unknown,
        }
    }
}
