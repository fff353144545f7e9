//! The pools of a capture and their buffers.
//!
//! The usage of a pool is only known at the end: a buffer that is freed without having been allocated existed from the
//! start.

use rustc_hash::FxHashMap;
use ttmem_model::{
    Alias, Bytes, Class, Layout, Moment, PoolId, RankEvent, RankId, Reading, Result, Segment, Step,
    StepNumber, StrId, Tensor, TensorId, TensorType, Totals, TypeId,
};

use super::node::padded;
use super::{Allocator, Device, Lowest, Report};
use crate::tt_log::tables::Tables;
use crate::ttnn_arch::Arch;

/// The pool of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Dram,
    L1,
    L1Small,
    Trace,
    /// Memory that programs use on their cores: circular buffers, dataflow buffers, scratchpads.
    Program,
}

impl Place {
    const ALL: [Self; 5] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace, Self::Program];

    fn name(self) -> &'static str {
        match self {
            Self::Dram => "DRAM",
            Self::L1 => "L1",
            Self::L1Small => "L1_SMALL",
            Self::Trace => "TRACE",
            Self::Program => "CB",
        }
    }

    fn layout(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::L1 | Self::Program => "l1",
            Self::L1Small => "l1_small",
            Self::Trace => "trace",
        }
    }

    /// The number of banks on a device.
    fn banks(self, device: &Device) -> Option<u32> {
        let banks = match self {
            Self::Dram | Self::Trace => device.num_dram_channels,
            Self::L1 | Self::L1Small => device.l1_num_banks,
            Self::Program => return None,
        };
        u32::try_from(banks.get()?).ok().filter(|banks| *banks > 0)
    }

    fn capacity(self, device: &Device, lowest: Lowest) -> Option<u64> {
        match self {
            Self::Dram => device.dram_bank_size(lowest),
            Self::L1 => device.l1_bank_size.get(),
            Self::Program => device.cb_limit.get(),
            // A report does not contain the sizes of these regions.
            Self::L1Small | Self::Trace => None,
        }
        .filter(|bytes| *bytes > 0)
    }
}

/// The size of a buffer per bank, on each architecture: the allocator's alignment differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    wormhole: u64,
    blackhole: u64,
}

impl Share {
    /// The allocated size of a buffer.
    pub fn allocated(per_bank: u64) -> Self {
        Self { wormhole: Arch::Wormhole.allocated(per_bank), blackhole: Arch::Blackhole.allocated(per_bank) }
    }

    /// A size that is not aligned.
    pub fn exact(bytes: u64) -> Self {
        Self { wormhole: bytes, blackhole: bytes }
    }

    /// The bytes; `None` if they depend on an unknown architecture.
    pub fn on(self, arch: Option<Arch>) -> Option<u64> {
        match arch {
            Some(Arch::Wormhole) => Some(self.wormhole),
            Some(Arch::Blackhole) => Some(self.blackhole),
            None => (self.wormhole == self.blackhole).then_some(self.wormhole),
        }
    }

    fn add(&mut self, other: Self) {
        self.wormhole = self.wormhole.saturating_add(other.wormhole);
        self.blackhole = self.blackhole.saturating_add(other.blackhole);
    }
}

/// The usage of a pool, relative to the beginning of the capture, on each architecture.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    wormhole: i64,
    blackhole: i64,
}

impl Held {
    fn add(&mut self, share: Share) {
        self.wormhole = self.wormhole.saturating_add(signed(share.wormhole));
        self.blackhole = self.blackhole.saturating_add(signed(share.blackhole));
    }

    fn subtract(&mut self, share: Share) {
        self.wormhole = self.wormhole.saturating_sub(signed(share.wormhole));
        self.blackhole = self.blackhole.saturating_sub(signed(share.blackhole));
    }

    fn above(self, before: Share) -> Share {
        Share {
            wormhole: before.wormhole.saturating_add_signed(self.wormhole),
            blackhole: before.blackhole.saturating_add_signed(self.blackhole),
        }
    }
}

/// A buffer that was allocated during or before the capture.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub place: Place,
    /// The size on the device.
    pub size: u64,
    /// The size per bank, if known.
    pub share: Option<Share>,
    pub spread: Option<&'static str>,
    pub born: Moment,
    pub step: Option<StepNumber>,
    /// The name, for a buffer without a named tensor.
    pub name: Option<StrId>,
}

/// A tensor node, which describes the content of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TensorNode {
    pub name: StrId,
    pub shape: Vec<u64>,
    pub dtype: StrId,
    pub is_tiled: bool,
    pub logical: Option<u64>,
}

struct PoolAccount {
    id: PoolId,
    /// The buffers' size per bank, relative to the beginning of the capture.
    held: Held,
    /// The size per bank of buffers that were allocated before the capture.
    before: Share,
    /// `held` after the steps that changed it.
    changes: Vec<(Step, Held)>,
    is_changed: bool,
    /// The buffers' size on the device, as the totals of a phase. Only the DRAM totals are used.
    whole: Segment,
    /// Whether the first buffer had a size per bank; if not, sizes are counted for the whole device.
    has_banks: Option<bool>,
    /// The number of buffers with an unknown size per bank.
    unknown: u64,
}

/// The pools of the capture.
#[derive(Default)]
pub(super) struct Lives {
    pools: [Option<PoolAccount>; Place::ALL.len()],
    types: FxHashMap<(TensorNode, u64, u8, Option<&'static str>), TypeId>,
    count: usize,
    tensors: usize,
    /// Freed buffers whose size depends on the architecture, which was unknown when they were freed.
    undecided: Vec<(Buffer, Vec<TensorNode>, Moment)>,
}

impl Lives {
    /// The pool of a place; defined when its first buffer appears.
    fn account(&mut self, place: Place, rank: RankId, tables: &mut Tables<'_>) -> Result<&mut PoolAccount> {
        let pool = &mut self.pools[place as usize];
        if pool.is_none() {
            let name = tables.text(place.name().as_bytes())?;
            tables.say(rank, RankEvent::Pool { name, banks: None, quantum: 0 })?;
            let id =
                PoolId::new(self.count).ok_or_else(|| ttmem_model::Error::Bug("too many pools".into()))?;
            self.count += 1;
            let (changes, whole) = (Vec::new(), Segment::default());
            let account = PoolAccount {
                id,
                held: Held::default(),
                before: Share::default(),
                changes,
                is_changed: false,
                whole,
                has_banks: None,
                unknown: 0,
            };
            *pool = Some(account);
        }
        pool.as_mut().ok_or_else(|| ttmem_model::Error::Bug("a pool is missing".into()))
    }

    /// Adds a buffer to its pool and sets its size per bank.
    pub fn taken(&mut self, buffer: &mut Buffer, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let account = self.account(buffer.place, rank, tables)?;
        account.settle(buffer);
        account.held.add(buffer.share.unwrap_or_default());
        account.is_changed = true;
        account.whole.apply(ttmem_model::Change::DramAllocated(buffer.size));
        Ok(())
    }

    /// Removes a buffer from its pool.
    pub fn freed(&mut self, buffer: &Buffer) {
        if let Some(account) = &mut self.pools[buffer.place as usize] {
            account.held.subtract(buffer.share.unwrap_or_default());
            account.is_changed = true;
            account.whole.apply(ttmem_model::Change::DramFreed(buffer.size));
        }
    }

    /// Removes a buffer that was allocated before the capture began from its pool.
    pub fn freed_from_before(
        &mut self,
        buffer: &mut Buffer,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let account = self.account(buffer.place, rank, tables)?;
        account.settle(buffer);
        account.before.add(buffer.share.unwrap_or_default());
        self.freed(buffer);
        Ok(())
    }

    /// Ends a step.
    pub fn step_done(&mut self, step: Step) {
        for account in self.pools.iter_mut().flatten() {
            if std::mem::take(&mut account.is_changed) {
                account.changes.push((step, account.held));
            }
        }
    }

    /// Emits the life of a buffer, or defers it if its size depends on an architecture that is not known yet. `tensors`
    /// are the tensors in it.
    pub fn say(
        &mut self,
        buffer: &Buffer,
        tensors: &[&TensorNode],
        dies: Moment,
        arch: Option<Arch>,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if buffer.share.is_some_and(|share| share.on(arch).is_none()) {
            self.undecided.push((buffer.clone(), tensors.iter().copied().cloned().collect(), dies));
            return Ok(());
        }
        self.say_now(buffer, tensors, dies, arch, rank, tables)
    }

    /// Emits the deferred lives. Returns the number of those with an unknown size.
    pub fn say_undecided(
        &mut self,
        arch: Option<Arch>,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<usize> {
        let undecided = std::mem::take(&mut self.undecided);
        for (buffer, tensors, dies) in &undecided {
            let tensors: Vec<&TensorNode> = tensors.iter().collect();
            self.say_now(buffer, &tensors, *dies, arch, rank, tables)?;
        }
        Ok(if arch.is_none() { undecided.len() } else { 0 })
    }

    fn say_now(
        &mut self,
        buffer: &Buffer,
        tensors: &[&TensorNode],
        dies: Moment,
        arch: Option<Arch>,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let Some(pool) = self.pools[buffer.place as usize].as_ref().map(|account| account.id) else {
            return Ok(());
        };
        let ty = match tensors.first() {
            Some(tensor) => Some(self.tensor_type(tensor, buffer, tables)?),
            None => None,
        };
        let tensor = Tensor {
            ty,
            pool,
            per_bank: buffer.share.and_then(|share| share.on(arch)).into(),
            born: buffer.born,
            dies,
            class: Class::Unknown,
            run: None,
            ssa: tensors.first().map(|tensor| tensor.name),
            step: buffer.step,
            name: buffer.name.filter(|_| tensors.is_empty()),
        };
        tables.say(rank, RankEvent::Tensor(tensor))?;
        let id = TensorId::new(self.tensors);
        self.tensors += 1;
        for (further, tensor) in tensors.iter().skip(1).zip(std::iter::repeat(id)) {
            let Some(tensor) = tensor else { break };
            tables.say(rank, RankEvent::Alias(Alias { tensor, run: None, ssa: further.name }))?;
        }
        Ok(())
    }

    fn tensor_type(
        &mut self,
        tensor: &TensorNode,
        buffer: &Buffer,
        tables: &mut Tables<'_>,
    ) -> Result<TypeId> {
        let key = (tensor.clone(), buffer.size, buffer.place as u8, buffer.spread);
        // Tensors of one type have different names, so the name is not part of the key.
        let key = (TensorNode { name: tensor.dtype, ..key.0 }, key.1, key.2, key.3);
        if let Some(&known) = self.types.get(&key) {
            return Ok(known);
        }
        let layout = Layout {
            buffer: tables.text(buffer.place.layout().as_bytes())?,
            spread: buffer.spread.map(|spread| tables.text(spread.as_bytes())).transpose()?,
            stored_dtype: tensor.dtype,
            tile: tensor.is_tiled.then_some((32, 32)),
            grid: Vec::new(),
            shard: Vec::new(),
            padded_shape: padded(&tensor.shape, tensor.is_tiled),
        };
        let ty = TensorType {
            text: None,
            shape: tensor.shape.clone(),
            dtype: tensor.dtype,
            layout: Some(layout),
            declared: tensor.logical.into(),
            logical: tensor.logical.into(),
            padded: Bytes::known(buffer.size),
        };
        let id = tables.plain_type(ty)?;
        self.types.insert(key, id);
        Ok(id)
    }

    /// Emits the pools and their usage. `dram` is the DRAM usage by ttnn's own rule.
    pub fn finish(
        &mut self,
        report: &Report,
        allocator: Allocator,
        dram: Totals,
        steps: Step,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        for place in Place::ALL {
            let Some(account) = &self.pools[place as usize] else { continue };
            let has_banks = account.has_banks == Some(true);
            let device = report.device.as_ref().filter(|_| has_banks || place == Place::Program);
            // Treated as one bank if the capture counts whole devices.
            let whole = (!has_banks && matches!(place, Place::Dram | Place::Trace)).then_some(1);
            if let Some(banks) = device.and_then(|device| place.banks(device)).or(whole) {
                tables.say(rank, RankEvent::Banks(account.id, banks))?;
            }
            let capacity = device.and_then(|device| place.capacity(device, allocator.lowest));
            account.say(capacity, allocator.arch, steps, rank, tables)?;
            let totals = match place {
                Place::Dram => Some(dram),
                Place::Program => None,
                Place::L1 | Place::L1Small | Place::Trace => {
                    let whole = account.whole.dram();
                    Some(Totals { peak: Some(whole.peak), current: Some(whole.change()) })
                }
            };
            if let Some(totals) = totals {
                tables.say(rank, RankEvent::PoolTotals(account.id, totals))?;
            }
        }
        Ok(())
    }

    /// Defines DRAM even if no buffer is in it.
    pub fn ensure_dram(&mut self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        self.account(Place::Dram, rank, tables).map(drop)
    }

    /// The number of buffers without a size per bank.
    pub fn unknown(&self) -> u64 {
        let have_banks = |account: &&PoolAccount| account.has_banks == Some(true);
        self.pools.iter().flatten().filter(have_banks).map(|account| account.unknown).sum()
    }
}

impl PoolAccount {
    /// If the first buffer has no size per bank, device sizes are used.
    fn settle(&mut self, buffer: &mut Buffer) {
        let counts_devices = matches!(buffer.place, Place::Dram | Place::Trace);
        let has_banks = *self.has_banks.get_or_insert(buffer.share.is_some());
        if !has_banks && counts_devices {
            buffer.share = Some(Share::exact(buffer.size));
        }
        self.unknown += u64::from(buffer.share.is_none());
    }

    fn say(
        &self,
        capacity: Option<u64>,
        arch: Option<Arch>,
        steps: Step,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let held_on = |held: Held| held.above(self.before).on(arch);
        // If the usage is unknown at one moment, the peak is unknown too, so no usage is reported.
        let is_known = self.unknown == 0 && self.changes.iter().all(|(_, held)| held_on(*held).is_some());
        let reading = |held: Held| Reading {
            allocated: held_on(held).filter(|_| is_known),
            capacity,
            ..Reading::default()
        };
        tables.say(rank, RankEvent::State(self.id, Moment::START, reading(Held::default())))?;
        for &(step, held) in &self.changes {
            tables.say(rank, RankEvent::State(self.id, Moment::after(step), reading(held)))?;
        }
        // The usage does not change between the recorded changes, nor after the last one.
        tables.say(rank, RankEvent::Unchanged(self.id, Moment::early(steps)))
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
