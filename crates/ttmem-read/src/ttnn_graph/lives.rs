//! The pools of a capture and their buffers.
//!
//! The usage of a pool is only known at the end: a buffer that is freed without having been allocated existed from the
//! start, and a report lists the buffers that existed before it after its nodes.

use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use rustc_hash::{FxHashMap, FxHashSet};
#[cfg(feature = "sqlite")]
use ttmem_model::Block;
use ttmem_model::{
    Alias, BankLayout, Class, Layout, Moment, Placement, PoolId, RankEvent, RankId, Reading, Result, Segment,
    Step, StepNumber, StrId, Tensor, TensorId, TensorType, Totals, TypeId, Usage,
};

use super::node::padded;
use super::report::{Bank, Device, Lowest, Report};
use crate::free_space::FreeSpace;
use crate::tt_log::tables::Tables;
use crate::ttnn_arch::Arch;

/// The pool of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Dram,
    L1,
    L1Small,
    Trace,
}

/// Information on the device's allocator, from the nodes and the report.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allocator {
    pub arch: Option<Arch>,
    pub lowest: Lowest,
}

impl Place {
    const ALL: [Self; 4] = [Self::Dram, Self::L1, Self::L1Small, Self::Trace];

    /// The place with ttnn's number for it; `None` if it is not on the device.
    pub fn numbered(number: u64) -> Option<Self> {
        match number {
            0 => Some(Self::Dram),
            1 => Some(Self::L1),
            3 => Some(Self::L1Small),
            4 => Some(Self::Trace),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Dram => "DRAM",
            Self::L1 => "L1",
            Self::L1Small => "L1_SMALL",
            Self::Trace => "TRACE",
        }
    }

    fn layout(self) -> &'static str {
        match self {
            Self::Dram => "dram",
            Self::L1 => "l1",
            Self::L1Small => "l1_small",
            Self::Trace => "trace",
        }
    }

    /// The number of banks on a device.
    fn banks(self, device: &Device) -> Option<u32> {
        let banks = match self {
            Self::Dram | Self::Trace => device.num_dram_channels,
            Self::L1 | Self::L1Small => device.l1_num_banks,
        };
        u32::try_from(banks.get()?).ok().filter(|banks| *banks > 0)
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

    #[cfg(feature = "sqlite")]
    fn subtract(&mut self, other: Self) {
        self.wormhole = self.wormhole.saturating_sub(other.wormhole);
        self.blackhole = self.blackhole.saturating_sub(other.blackhole);
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
    /// The size on the device, if known.
    pub size: Option<u64>,
    /// The size per bank, if known.
    pub share: Option<Share>,
    /// The address in each bank; `None` if nothing ran.
    pub address: Option<u64>,
    pub spread: Option<&'static str>,
    pub born: Moment,
    pub step: Option<StepNumber>,
    /// The name, for a buffer without a named tensor.
    pub name: Option<StrId>,
    /// The number of buffers that were allocated before it.
    pub order: u32,
    /// Its last use, if the capture lists the tensors that functions use.
    pub last_use: Option<LastUse>,
}

/// The last step that used a buffer; `None`: no step after the one that made it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastUse(pub Option<StepNumber>);

/// A tensor node, which describes the content of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TensorNode {
    pub name: StrId,
    pub shape: Vec<u64>,
    pub dtype: StrId,
    pub is_tiled: bool,
    pub logical: Option<u64>,
    /// The size with padding, computed from the shape.
    pub padded: Option<u64>,
    /// The cores of a sharded tensor.
    pub cores: Option<StrId>,
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
    /// The buffers with an address.
    placed: Vec<Placed>,
    /// The number of buffers without an address.
    unplaced: u64,
}

/// A buffer with an address: a part of each bank for some time.
#[derive(Clone, Copy, Debug)]
struct Placed {
    address: u64,
    share: Share,
    born: Moment,
    dies: Moment,
}

/// The identity of a type: the tensor without its name, the size of its buffer, the pool, and how it is distributed.
type TypeKey = (TensorNode, Option<u64>, u8, Option<&'static str>);

/// The pools of the capture.
#[derive(Default)]
pub(super) struct Lives {
    pools: [Option<PoolAccount>; Place::ALL.len()],
    types: FxHashMap<TypeKey, TypeId>,
    count: usize,
    tensors: usize,
    /// The number of allocated buffers.
    taken: u32,
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
                placed: Vec::new(),
                unplaced: 0,
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
        account.whole.apply(ttmem_model::Change::DramAllocated(buffer.size.unwrap_or(0)));
        buffer.order = self.taken;
        self.taken = self.taken.saturating_add(1);
        Ok(())
    }

    /// Removes a buffer from its pool.
    pub fn freed(&mut self, buffer: &Buffer) {
        if let Some(account) = &mut self.pools[buffer.place as usize] {
            account.held.subtract(buffer.share.unwrap_or_default());
            account.is_changed = true;
            account.whole.apply(ttmem_model::Change::DramFreed(buffer.size.unwrap_or(0)));
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

    /// Adds a buffer that was allocated before the first step to its pool.
    #[cfg(feature = "sqlite")]
    pub fn existed(&mut self, buffer: &mut Buffer, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let account = self.account(buffer.place, rank, tables)?;
        account.settle(buffer);
        account.before.add(buffer.share.unwrap_or_default());
        Ok(())
    }

    /// Corrects the size of a buffer that was allocated before the first step.
    #[cfg(feature = "sqlite")]
    pub fn resize_existed(&mut self, buffer: &mut Buffer, share: Share) {
        if let (Some(account), Some(old)) = (&mut self.pools[buffer.place as usize], buffer.share) {
            account.before.subtract(old);
            account.before.add(share);
            buffer.share = Some(share);
        }
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
        let Some(account) = self.pools[buffer.place as usize].as_mut() else { return Ok(()) };
        let pool = account.id;
        if let (Some(address), Some(share)) = (buffer.address, buffer.share) {
            account.placed.push(Placed { address, share, born: buffer.born, dies });
        }
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
        let Some(tensor) = id else { return Ok(()) };
        if let Some(address) = buffer.address {
            let cores = tensors.iter().find_map(|tensor| tensor.cores);
            let order = buffer.order;
            tables.say(rank, RankEvent::Placed(Placement { tensor, address, order, cores }))?;
        }
        if let Some(LastUse(last_use)) = buffer.last_use {
            tables.say(rank, RankEvent::Used(Usage { tensor, last_use }))?;
        }
        for further in tensors.iter().skip(1) {
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
            padded: buffer.size.or(tensor.padded).into(),
        };
        let id = tables.plain_type(ty)?;
        self.types.insert(key, id);
        Ok(id)
    }

    /// Emits the pools and their usage. `dram` is the DRAM usage by ttnn's own rule, for a capture.
    pub fn finish(
        &mut self,
        report: &Report,
        allocator: Allocator,
        dram: Option<Totals>,
        steps: Step,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        for place in Place::ALL {
            let Some(account) = &self.pools[place as usize] else { continue };
            let has_banks = account.has_banks == Some(true);
            let device = report.device.as_ref().filter(|_| has_banks);
            // Treated as one bank if the capture counts whole devices.
            let whole = (!has_banks && matches!(place, Place::Dram | Place::Trace)).then_some(1);
            if let Some(banks) = device.and_then(|device| place.banks(device)).or(whole) {
                tables.say(rank, RankEvent::Banks(account.id, banks))?;
            }
            let bank = device.and_then(|device| device.bank(place, allocator.lowest));
            let start = bank.as_ref().and_then(|bank| Some(bank.addresses.as_ref()?.start));
            if let (Some(start), Some(arch)) = (start, allocator.arch) {
                let layout = BankLayout { start, alignment: arch.alignment() };
                tables.say(rank, RankEvent::BankLayout(account.id, layout))?;
            }
            account.say(bank, allocator.arch, steps, rank, tables)?;
            let Some(dram) = dram else { continue };
            let totals = match place {
                Place::Dram => dram,
                Place::L1 | Place::L1Small | Place::Trace => {
                    let whole = account.whole.dram();
                    Totals { peak: Some(whole.peak), current: Some(whole.change()) }
                }
            };
            tables.say(rank, RankEvent::PoolTotals(account.id, totals))?;
        }
        Ok(())
    }

    /// The addresses of the buffers that are live at a moment.
    pub fn addresses_at(&self, at: Moment) -> FxHashSet<(Place, u64)> {
        let accounts = Place::ALL.into_iter().zip(&self.pools);
        let placed =
            accounts.flat_map(|(place, account)| account.iter().map(move |account| (place, account)));
        let rows = placed.flat_map(|(place, account)| account.placed.iter().map(move |row| (place, row)));
        let is_live = |row: &Placed| row.born <= at && at < row.dies;
        rows.filter(|(_, row)| is_live(row)).map(|(place, row)| (place, row.address)).collect()
    }

    /// Adds a buffer that existed before the capture and was never freed.
    pub fn stays_from_before(
        &mut self,
        buffer: &mut Buffer,
        arch: Option<Arch>,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let account = self.account(buffer.place, rank, tables)?;
        account.settle(buffer);
        account.before.add(buffer.share.unwrap_or_default());
        self.say_now(buffer, &[], Moment::NEVER, arch, rank, tables)
    }

    /// Emits the block maps of the banks at their highest usage: the blocks between the lowest and the highest buffer.
    #[cfg(feature = "sqlite")]
    pub fn say_blocks(&self, arch: Option<Arch>, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        for account in self.pools.iter().flatten() {
            let Some((at, buffers)) = account.fullest(arch) else { continue };
            let mut end: Option<u64> = None;
            for (address, size) in buffers {
                if let Some(free) = end.and_then(|end| address.checked_sub(end)).filter(|free| *free > 0) {
                    let block = Block { address: address - free, size: free, allocated: false };
                    tables.say(rank, RankEvent::Block(account.id, at, block))?;
                }
                let block = Block { address, size, allocated: true };
                tables.say(rank, RankEvent::Block(account.id, at, block))?;
                end = end.max(address.checked_add(size));
            }
        }
        Ok(())
    }

    /// Notes that buffers from before the capture are missing from L1.
    pub fn lacks_earlier_l1(&mut self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let id = self.account(Place::L1, rank, tables)?.id;
        let what = tables.text(b"buffers that existed before the capture")?;
        tables.say(rank, RankEvent::NotWatched(id, what))
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
            buffer.share = buffer.size.map(Share::exact);
        }
        self.unknown += u64::from(buffer.share.is_none());
        self.unplaced += u64::from(buffer.address.is_none());
    }

    /// Emits the usage over time.
    fn say(
        &self,
        bank: Option<Bank>,
        arch: Option<Arch>,
        steps: Step,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let held_on = |held: Held| held.above(self.before).on(arch);
        // If the usage is unknown at one moment, the peak is unknown too, so no usage is reported.
        let is_known = self.unknown == 0 && self.changes.iter().all(|(_, held)| held_on(*held).is_some());
        let capacity = bank.as_ref().map(|bank| bank.size);
        let addresses = bank.and_then(|bank| bank.addresses).filter(|_| is_known);
        let mut gaps = addresses.and_then(|addresses| self.gaps(addresses, arch));
        let mut say = |at: Moment, held: Held| {
            let allocated = held_on(held).filter(|_| is_known);
            let free =
                capacity.zip(allocated).and_then(|(capacity, allocated)| capacity.checked_sub(allocated));
            let largest_free = gaps.as_mut().and_then(|gaps| gaps.largest_at(at));
            let reading = Reading { allocated, free, largest_free, capacity, ..Reading::default() };
            tables.say(rank, RankEvent::State(self.id, at, reading))
        };
        say(Moment::START, Held::default())?;
        for &(step, held) in &self.changes {
            say(Moment::after(step), held)?;
        }
        // The usage does not change between the recorded changes, nor after the last one.
        tables.say(rank, RankEvent::Unchanged(self.id, Moment::early(steps)))
    }

    /// The moment with the highest usage, and the addresses and sizes of the buffers at that moment, in order.
    #[cfg(feature = "sqlite")]
    fn fullest(&self, arch: Option<Arch>) -> Option<(Moment, Vec<(u64, u64)>)> {
        let start = (Moment::START, Held::default());
        let changes = self.changes.iter().map(|(step, held)| (Moment::after(*step), *held));
        let mut highest: Option<(Moment, u64)> = None;
        for (at, held) in std::iter::once(start).chain(changes) {
            let bytes = held.above(self.before).on(arch)?;
            if highest.is_none_or(|(_, highest)| bytes > highest) {
                highest = Some((at, bytes));
            }
        }
        let at = highest?.0;
        let live = self.placed.iter().filter(|row| row.born <= at && at < row.dies);
        let mut buffers: Vec<(u64, u64)> =
            live.map(|row| Some((row.address, row.share.on(arch)?))).collect::<Option<_>>()?;
        buffers.sort_unstable();
        Some((at, buffers))
    }

    /// The gaps between the buffers; `None` without addresses.
    fn gaps(&self, bank: Range<u64>, arch: Option<Arch>) -> Option<Gaps> {
        let mut changes = Vec::with_capacity(2 * self.placed.len());
        for placed in &self.placed {
            let size = placed.share.on(arch)?;
            changes.push((placed.born, true, placed.address, size));
            changes.push((placed.dies, false, placed.address, size));
        }
        // A step first frees, then allocates.
        changes.sort_unstable();
        let has_all = self.unplaced == 0;
        has_all.then(|| Gaps { space: FreeSpace::new(bank), changes: changes.into_iter().peekable() })
    }
}

/// The gaps between the buffers of a bank over time.
struct Gaps {
    space: FreeSpace,
    /// When a buffer is allocated (`true`) or freed, its address and its size, in order.
    changes: Peekable<IntoIter<(Moment, bool, u64, u64)>>,
}

impl Gaps {
    /// The largest gap at a moment, which must not be earlier than the previous one.
    fn largest_at(&mut self, at: Moment) -> Option<u64> {
        while let Some((_, is_allocated, address, size)) = self.changes.next_if(|(moment, ..)| *moment <= at)
        {
            if is_allocated { self.space.add(address, size) } else { self.space.remove(address, size) }
        }
        self.space.largest()
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
