//! A model of PyTorch's caching allocator: best fit in segments, which are split and merged.

use std::collections::BTreeMap;

const MIB: u64 = 1 << 20;
const MIN_BLOCK: u64 = 512;
/// Allocations up to this size have segments of their own.
const SMALL: u64 = MIB;
const SMALL_SEGMENT: u64 = 2 * MIB;
const LARGE_SEGMENT: u64 = 20 * MIB;
/// Larger allocations get a segment of about their size.
const MIN_OWN_SEGMENT: u64 = 10 * MIB;
/// The distance between the address ranges of expandable segments.
const RANGE: u64 = 1 << 40;

/// The settings of an allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// `max_split_size_mb`, in bytes.
    pub max_split: Option<u64>,
    /// `roundup_power2_divisions`, the same for all sizes.
    pub divisions: u64,
    /// `expandable_segments`.
    pub is_expandable: bool,
}

/// A counter after every event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// `allocated_bytes`.
    pub allocated: u64,
    /// `active_bytes`.
    pub active: u64,
    /// `reserved_bytes`.
    pub reserved: u64,
    /// `requested_bytes`.
    pub requested: u64,
}

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of PyTorch")]
pub enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    SegmentMap,
    SegmentUnmap,
    Oom,
}

impl Action {
    /// The word in a trace.
    pub fn word(self) -> &'static str {
        match self {
            Self::Alloc => "alloc",
            Self::FreeRequested => "free_requested",
            Self::FreeCompleted => "free_completed",
            Self::SegmentAlloc => "segment_alloc",
            Self::SegmentFree => "segment_free",
            Self::SegmentMap => "segment_map",
            Self::SegmentUnmap => "segment_unmap",
            Self::Oom => "oom",
        }
    }
}

/// An event of a trace, with the counters after it.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// The kind.
    pub action: Action,
    /// The address; the free memory of the device for an out-of-memory event.
    pub address: u64,
    /// The requested size.
    pub size: u64,
    /// The stream.
    pub stream: u64,
    /// Where the program did it, by a number of the caller.
    pub origin: usize,
    /// The counters after it.
    pub levels: Levels,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Free,
    Allocated,
    Pending,
}

/// A block of a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    pub size: u64,
    pub requested: u64,
    pub state: State,
    pub origin: usize,
}

/// A segment: its blocks by address.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub size: u64,
    pub stream: u64,
    pub is_small: bool,
    pub is_expandable: bool,
    pub blocks: BTreeMap<u64, Block>,
}

/// The allocator of a device.
#[derive(Clone, Debug, Default)]
pub struct Allocator {
    settings: Settings,
    pub(super) segments: BTreeMap<u64, Segment>,
    next_segment: u64,
    levels: Levels,
    /// All events so far.
    pub events: Vec<Event>,
}

impl Allocator {
    /// An allocator without memory.
    pub fn new(settings: Settings) -> Self {
        Self { settings, next_segment: 0x7f00_0000_0000, ..Self::default() }
    }

    /// The settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The counters.
    pub fn levels(&self) -> Levels {
        self.levels
    }

    /// The addresses of allocated blocks.
    pub fn allocated(&self) -> Vec<u64> {
        self.blocks(State::Allocated)
    }

    /// The addresses of blocks that wait for a stream.
    pub fn pending(&self) -> Vec<u64> {
        self.blocks(State::Pending)
    }

    fn blocks(&self, state: State) -> Vec<u64> {
        let all = self.segments.values().flat_map(|segment| &segment.blocks);
        all.filter(|(_, block)| block.state == state).map(|(address, _)| *address).collect()
    }

    fn record(&mut self, action: Action, address: u64, size: u64, stream: u64, origin: usize) {
        self.events.push(Event { action, address, size, stream, origin, levels: self.levels });
    }

    /// Allocates, and returns the address.
    pub fn allocate(&mut self, requested: u64, stream: u64, origin: usize) -> u64 {
        let size = self.rounded(requested);
        let is_small = size <= SMALL;
        let found = self.best_fit(size, is_small, stream);
        let (start, address) = found.unwrap_or_else(|| self.reserve(size, is_small, stream, origin));
        let settings = self.settings;
        let Some(segment) = self.segments.get_mut(&start) else { unreachable!("the segment exists") };
        let Some(block) = segment.blocks.get_mut(&address) else { unreachable!("the block exists") };
        let left = block.size - size;
        let is_split = if is_small || settings.is_expandable {
            left >= MIN_BLOCK
        } else {
            left > SMALL && settings.max_split.is_none_or(|max| size < max)
        };
        if is_split {
            block.size = size;
        }
        (block.requested, block.state, block.origin) = (requested, State::Allocated, origin);
        let taken = block.size;
        if is_split {
            let rest = Block { size: left, requested: 0, state: State::Free, origin: 0 };
            segment.blocks.insert(address + size, rest);
        }
        self.levels.allocated += taken;
        self.levels.active += taken;
        self.levels.requested += requested;
        self.record(Action::Alloc, address, requested, stream, origin);
        address
    }

    fn rounded(&self, requested: u64) -> u64 {
        let divisions = self.settings.divisions;
        if requested < MIN_BLOCK {
            return MIN_BLOCK;
        }
        if divisions > 1 && requested > MIN_BLOCK * divisions {
            // The next multiple of the power of two below, divided.
            let mut power = 1;
            while power * 2 <= requested {
                power *= 2;
            }
            let step = power / divisions;
            return requested.div_ceil(step) * step;
        }
        requested.div_ceil(MIN_BLOCK) * MIN_BLOCK
    }

    fn best_fit(&self, size: u64, is_small: bool, stream: u64) -> Option<(u64, u64)> {
        let pool = self.segments.iter().filter(|(_, one)| one.is_small == is_small && one.stream == stream);
        let blocks =
            pool.flat_map(|(start, one)| one.blocks.iter().map(move |(at, block)| (*start, *at, block)));
        let free = blocks.filter(|(_, _, block)| block.state == State::Free && block.size >= size);
        let best = free.min_by_key(|(_, at, block)| (block.size, *at));
        let (start, at, block) = best?;
        let is_too_large = match self.settings.max_split.filter(|_| !is_small) {
            Some(max) if size < max => block.size >= max,
            Some(_) => block.size >= size + LARGE_SEGMENT,
            None => false,
        };
        (!is_too_large).then_some((start, at))
    }

    /// Gets memory from the driver: a segment, or more of an expandable one. Returns the segment and a block in it.
    fn reserve(&mut self, size: u64, is_small: bool, stream: u64, origin: usize) -> (u64, u64) {
        if self.settings.is_expandable {
            return self.map(size, is_small, stream, origin);
        }
        let bytes = if is_small {
            SMALL_SEGMENT
        } else if size < MIN_OWN_SEGMENT {
            LARGE_SEGMENT
        } else {
            size.div_ceil(SMALL_SEGMENT) * SMALL_SEGMENT
        };
        let address = self.next_segment;
        self.next_segment += bytes + LARGE_SEGMENT;
        let free = Block { size: bytes, requested: 0, state: State::Free, origin: 0 };
        let blocks = BTreeMap::from([(address, free)]);
        self.segments
            .insert(address, Segment { size: bytes, stream, is_small, is_expandable: false, blocks });
        self.levels.reserved += bytes;
        self.record(Action::SegmentAlloc, address, bytes, stream, origin);
        (address, address)
    }

    /// Extends the last expandable segment of a stream.
    fn map(&mut self, size: u64, is_small: bool, stream: u64, origin: usize) -> (u64, u64) {
        let page = if is_small { SMALL_SEGMENT } else { LARGE_SEGMENT };
        // All segments of one address range, of which the last can grow.
        let range = RANGE * (1 + 2 * stream + u64::from(is_small));
        let last =
            self.segments.range(range..range + RANGE).next_back().map(|(start, one)| (*start, one.size));
        let (start, end) = last.map_or((range, range), |(start, size)| (start, start + size));
        let free_at_end = self.segments.get(&start).and_then(|segment| {
            segment.blocks.last_key_value().filter(|(_, block)| block.state == State::Free)
        });
        let free_at_end = free_at_end.map_or(0, |(_, block)| block.size);
        let bytes = (size - free_at_end).div_ceil(page) * page;
        self.levels.reserved += bytes;
        self.record(Action::SegmentMap, end, bytes, stream, origin);
        let new = || Segment { size: 0, stream, is_small, is_expandable: true, blocks: BTreeMap::new() };
        let segment = self.segments.entry(start).or_insert_with(new);
        segment.size += bytes;
        if free_at_end > 0 {
            if let Some(mut block) = segment.blocks.last_entry() {
                block.get_mut().size += bytes;
            }
            return (start, end - free_at_end);
        }
        segment.blocks.insert(end, Block { size: bytes, requested: 0, state: State::Free, origin: 0 });
        (start, end)
    }

    /// Frees a block. If a stream still uses it, it remains pending until [`Allocator::complete`].
    pub fn free(&mut self, address: u64, is_used: bool, origin: usize) {
        let Some((stream, block)) = self.block(address) else { return };
        block.state = State::Pending;
        let Block { size, requested, .. } = *block;
        self.levels.allocated -= size;
        self.levels.requested -= requested;
        self.record(Action::FreeRequested, address, requested, stream, origin);
        if !is_used {
            self.complete(address, origin);
        }
    }

    /// Completes the free of a pending block.
    pub fn complete(&mut self, address: u64, origin: usize) {
        let Some((stream, block)) = self.block(address) else { return };
        block.state = State::Free;
        let Block { size, requested, .. } = *block;
        self.levels.active -= size;
        self.record(Action::FreeCompleted, address, requested, stream, origin);
        self.merge(address);
    }

    fn block(&mut self, address: u64) -> Option<(u64, &mut Block)> {
        let (_, segment) = self.segments.range_mut(..=address).next_back()?;
        let stream = segment.stream;
        segment.blocks.get_mut(&address).map(|block| (stream, block))
    }

    fn merge(&mut self, address: u64) {
        let Some((_, segment)) = self.segments.range_mut(..=address).next_back() else { return };
        let is_free = |block: &Block| block.state == State::Free;
        let before = segment.blocks.range(..address).next_back().filter(|(_, block)| is_free(block));
        let start = before.map_or(address, |(at, _)| *at);
        if start != address {
            let gone = segment.blocks.remove(&address).map_or(0, |block| block.size);
            if let Some(block) = segment.blocks.get_mut(&start) {
                block.size += gone;
            }
        }
        let next = segment.blocks.get(&start).map(|block| start + block.size);
        let after =
            next.and_then(|next| segment.blocks.get(&next).filter(|block| is_free(block)).map(|_| next));
        if let Some(after) = after {
            let gone = segment.blocks.remove(&after).map_or(0, |block| block.size);
            if let Some(block) = segment.blocks.get_mut(&start) {
                block.size += gone;
            }
        }
    }

    /// Returns unused segments to the driver, or unused pages of expandable ones.
    pub fn empty_cache(&mut self) {
        let starts: Vec<u64> = self.segments.keys().copied().collect();
        for start in starts {
            let Some(segment) = self.segments.get(&start) else { continue };
            let (stream, is_expandable) = (segment.stream, segment.is_expandable);
            let page = if segment.is_small { SMALL_SEGMENT } else { LARGE_SEGMENT };
            let free = segment.blocks.iter().filter(|(_, block)| block.state == State::Free);
            let free: Vec<(u64, u64)> = free.map(|(at, block)| (*at, block.size)).collect();
            if !is_expandable {
                if free == [(start, segment.size)] {
                    let size = segment.size;
                    self.segments.remove(&start);
                    self.levels.reserved -= size;
                    self.record(Action::SegmentFree, start, size, stream, 0);
                }
                continue;
            }
            for (at, size) in free {
                let range = start - start % RANGE;
                let first = range + (at - range).div_ceil(page) * page;
                let last = range + (at + size - range) / page * page;
                if first < last {
                    self.unmap(first, last, stream);
                }
            }
        }
    }

    /// Releases pages of an expandable segment, which may split it.
    fn unmap(&mut self, first: u64, last: u64, stream: u64) {
        let Some((&start, _)) = self.segments.range(..=first).next_back() else { return };
        let Some(segment) = self.segments.remove(&start) else { return };
        let end = start + segment.size;
        for (from, until) in [(start, first), (last, end)] {
            if from == until {
                continue;
            }
            let mut blocks = BTreeMap::new();
            for (&at, block) in &segment.blocks {
                let (begins, ends) = (at.max(from), (at + block.size).min(until));
                if begins < ends {
                    blocks.insert(begins, Block { size: ends - begins, ..*block });
                }
            }
            self.segments.insert(from, Segment { size: until - from, blocks, ..segment.clone() });
        }
        self.levels.reserved -= last - first;
        self.record(Action::SegmentUnmap, first, last - first, stream, 0);
    }

    /// Reports that an allocation failed.
    pub fn fail(&mut self, requested: u64, free: u64, origin: usize) {
        self.record(Action::Oom, free, requested, 0, origin);
    }
}
