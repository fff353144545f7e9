//! The pools of a capture, and what lies in them.
//!
//! What a pool holds is known at the end: a buffer that is given back and was never taken was there all the time.

use rustc_hash::FxHashMap;
use ttmem_model::{
    Alias, Bytes, Class, Layout, Moment, PoolId, RankEvent, RankId, Reading, Result, Segment, Step,
    StepNumber, StrId, Tensor, TensorId, TensorType, Totals, TypeId,
};

use super::node::padded;
use super::{Allocator, Device, Lowest, Report};
use crate::tt_log::tables::Tables;
use crate::ttnn_arch::Arch;

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Dram,
    L1,
    L1Small,
    Trace,
    /// What programs have on their cores: circular buffers, dataflow buffers, scratchpads.
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

    /// How many banks a device has there.
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
            // How their regions were cut out is not in a report.
            Self::L1Small | Self::Trace => None,
        }
        .filter(|bytes| *bytes > 0)
    }
}

/// What a buffer takes of a bank, on each architecture: the allocator's alignment differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    wormhole: u64,
    blackhole: u64,
}

impl Share {
    /// What the allocator takes for a buffer of that size.
    pub fn allocated(per_bank: u64) -> Self {
        Self { wormhole: Arch::Wormhole.allocated(per_bank), blackhole: Arch::Blackhole.allocated(per_bank) }
    }

    /// What no allocator aligns.
    pub fn exact(bytes: u64) -> Self {
        Self { wormhole: bytes, blackhole: bytes }
    }

    /// The bytes; `None` where they depend on an architecture that is not known.
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

/// What a pool holds above what was there before, on each architecture.
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

/// A buffer that was taken, or was there.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub place: Place,
    /// What it takes of the device.
    pub size: u64,
    /// What it takes of a bank, where that is known.
    pub share: Option<Share>,
    pub spread: Option<&'static str>,
    pub born: Moment,
    pub step: Option<StepNumber>,
    /// What it is called, where no tensor names it.
    pub name: Option<StrId>,
}

/// A tensor node: what a buffer is to the program.
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
    /// What its buffers take of a bank, above what was there before.
    held: Held,
    /// What buffers took that were there before.
    before: Share,
    /// `held` after the steps that changed it.
    changes: Vec<(Step, Held)>,
    is_changed: bool,
    /// What its buffers take of the device: the account of a phase, of which only the sums of DRAM are used.
    whole: Segment,
    /// Whether its buffers say what they take of a bank, as the first one did; if not, all is counted for the device.
    has_banks: Option<bool>,
    /// Buffers of which nobody knows what they take of a bank.
    unknown: u64,
}

/// The pools of the capture.
#[derive(Default)]
pub(super) struct Lives {
    pools: [Option<PoolAccount>; Place::ALL.len()],
    types: FxHashMap<(TensorNode, u64, u8, Option<&'static str>), TypeId>,
    count: usize,
    tensors: usize,
    /// Buffers whose size depends on the architecture, which was not known when they were given back.
    undecided: Vec<(Buffer, Vec<TensorNode>, Moment)>,
}

impl Lives {
    /// The pool of a place, which is defined when something lies there.
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

    /// Takes a buffer into its pool; says what it takes of a bank there.
    pub fn taken(&mut self, buffer: &mut Buffer, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let account = self.account(buffer.place, rank, tables)?;
        account.settle(buffer);
        account.held.add(buffer.share.unwrap_or_default());
        account.is_changed = true;
        account.whole.apply(ttmem_model::Change::DramAllocated(buffer.size));
        Ok(())
    }

    /// Takes a buffer out of its pool.
    pub fn given_back(&mut self, buffer: &Buffer) {
        if let Some(account) = &mut self.pools[buffer.place as usize] {
            account.held.subtract(buffer.share.unwrap_or_default());
            account.is_changed = true;
            account.whole.apply(ttmem_model::Change::DramFreed(buffer.size));
        }
    }

    /// Takes a buffer out of its pool that was there before the capture began.
    pub fn given_back_from_before(
        &mut self,
        buffer: &mut Buffer,
        rank: RankId,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        let account = self.account(buffer.place, rank, tables)?;
        account.settle(buffer);
        account.before.add(buffer.share.unwrap_or_default());
        self.given_back(buffer);
        Ok(())
    }

    /// A step is over.
    pub fn step_done(&mut self, step: Step) {
        for account in self.pools.iter_mut().flatten() {
            if std::mem::take(&mut account.is_changed) {
                account.changes.push((step, account.held));
            }
        }
    }

    /// Says the life of a buffer, or waits with it until the architecture is known that its size depends on; `tensors` are
    /// those that lie in it.
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

    /// Says the lives that waited; how many of them have no known size.
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
        // Tensors of one type have many names.
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

    /// Says what the pools held, and what they are. `dram` is what ttnn's own rule says of DRAM.
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
            // One bank, where the evidence counts whole devices.
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

    /// DRAM is there even if nothing lies in it.
    pub fn ensure_dram(&mut self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        self.account(Place::Dram, rank, tables).map(drop)
    }

    /// How many buffers have no size that a bank could be asked for.
    pub fn unknown(&self) -> u64 {
        let have_banks = |account: &&PoolAccount| account.has_banks == Some(true);
        self.pools.iter().flatten().filter(have_banks).map(|account| account.unknown).sum()
    }
}

impl PoolAccount {
    /// Where the first buffer said nothing of banks, the sizes are those of the device.
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
        // Where the pool is not known at one moment, its peak is not known: so nothing is said of any.
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
        // Nothing happens to a pool between its changes, and so neither up to the end.
        tables.say(rank, RankEvent::Unchanged(self.id, Moment::early(steps)))
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
