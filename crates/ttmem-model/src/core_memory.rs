//! The L1 memory of a Tenstorrent core: its layout, the addresses of allocations, and the buffers of programs.
//!
//! A core's L1 has, from the lowest address: a reserved part, the buffers of the running program, free memory, the
//! tensors (allocated from the top), and a region for small buffers. The allocator gives a tensor the same addresses on
//! all cores, even if only some of them have a part of it. The buffers of programs may differ between cores.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{Step, StepNumber, StrId, TensorId};

/// The layout of a core's L1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreMemory {
    /// The size.
    pub size: u64,
    /// The size of the reserved part, which is also the address of a program's first buffer.
    pub reserved: u64,
    /// The size of the region for small buffers (`L1_SMALL`) at the top.
    pub small: u64,
    /// The number of cores that run programs, in x and y direction.
    pub grid: Option<(u32, u32)>,
}

columns! {
    /// The address of an allocation.
    row Placement;
    /// The addresses of a rank's allocations, in the order of the allocations.
    table Placements;
    /// The allocation.
    tensor: TensorId,
    /// Its address in each bank.
    address: u64,
    /// The number of allocations before it. (An allocation may get its id only when it is freed.)
    order: u32,
    /// The cores that have a part of it, as in the input (`{[0-0 - 7-7]}`); `None`: all of them, or unknown.
    cores: Option<StrId>,
}

impl Placements {
    /// The row of an allocation, if its address is known.
    pub fn of(&self, tensor: TensorId) -> Option<Placement> {
        self.get(self.tensor.binary_search(&tensor).ok()?)
    }
}

/// The kind of a program's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProgramBufferKind {
    /// A circular buffer.
    Circular,
    /// A dataflow buffer, which replaces circular buffers in newer operations.
    Dataflow,
    /// A scratchpad.
    Scratchpad,
}

columns! {
    /// A buffer of the program that a step runs. It exists only while the program runs.
    row ProgramBuffer;
    /// The buffers of programs, by step.
    table ProgramBuffers;
    /// The step.
    step: Step,
    /// The kind.
    kind: ProgramBufferKind,
    /// The size on each of its cores.
    bytes: u64,
    /// The address; `None` if nothing ran.
    address: Option<u64>,
    /// The cores that have it, as in the input (`{[0-0 - 7-7]}`).
    cores: StrId,
    /// Whether it uses the memory of a tensor.
    borrowed: bool,
}

impl ProgramBuffers {
    /// The rows of a step.
    pub fn of(&self, step: Step) -> impl Iterator<Item = ProgramBuffer> + '_ {
        let first = self.step.partition_point(|have| *have < step);
        (first..self.len()).map_while(move |row| self.get(row).filter(|row| row.step == step))
    }
}

/// The peaks of L1 that ttnn's own functions compute from a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TtnnPeaks {
    /// Per core: circular buffers.
    pub circular: u64,
    /// Per core: dataflow buffers.
    pub dataflow: u64,
    /// Per core: scratchpads.
    pub scratchpads: u64,
    /// Per core: tensors and other buffers.
    pub buffers: u64,
    /// Per core: all of them at the same time (`extract_resource_usage_per_core`).
    pub total: u64,
    /// The buffers of all cores plus the program buffers of one core (`extract_peak_L1_memory_usage`).
    pub device: u64,
}

/// Details of a [`Fault`](super::Fault) that only some messages have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultDetail {
    /// The operation that failed, for a fault without a step.
    pub op: Option<StrId>,
    /// The line of the user's program that called it.
    pub loc: Option<StrId>,
    /// The first step of the call that failed.
    pub first_step: Option<StepNumber>,
    /// The number of the program whose buffers do not fit.
    pub program: Option<u64>,
    /// The kind of these buffers.
    pub buffers: Option<ProgramBufferKind>,
    /// The cores, as in the message.
    pub cores: Option<StrId>,
    /// The bytes per bank where the allocation was allowed, if dependencies restrict it.
    pub placeable: Option<u64>,
    /// The number of windows that these bytes are in.
    pub windows: Option<u64>,
    /// The largest of these windows.
    pub largest_placeable: Option<u64>,
    /// Whether a check of the operation failed, before the allocator was asked. The fault's `requested_per_bank` is the
    /// need of the operation, and its `free` the memory that it may use.
    pub is_refusal: bool,
}

/// A set of cores, as rectangles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoreRanges(Vec<CoreRange>);

/// A rectangle of cores: the first and the last core, both included, as (x, y).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoreRange {
    /// The core with the lowest numbers.
    pub first: (u32, u32),
    /// The core with the highest numbers.
    pub last: (u32, u32),
}

impl CoreRanges {
    /// Parses a set of cores in any notation of tt-metal: `{[0-0 - 7-7]}`, `[(x=0,y=0) - (x=7,y=7)]`, or
    /// `[{"start":{"x":0,"y":0},"end":{"x":7,"y":7}}]`. A single core may be written as `(x=0,y=0)`.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(|other: char| !other.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let numbers: Vec<u32> = numbers.map(|digits| digits.parse().ok()).collect::<Option<_>>()?;
        let range = |corners: &[u32]| match *corners {
            [x, y, last_x, last_y] => Some(CoreRange {
                first: (x.min(last_x), y.min(last_y)),
                last: (x.max(last_x), y.max(last_y)),
            }),
            [x, y] => Some(CoreRange { first: (x, y), last: (x, y) }),
            _ => None,
        };
        let mut ranges = numbers.chunks(4).map(range).collect::<Option<Vec<_>>>()?;
        ranges.sort_unstable();
        (!ranges.is_empty()).then_some(Self(ranges))
    }

    /// The rectangles, in order.
    pub fn ranges(&self) -> &[CoreRange] {
        &self.0
    }

    /// Whether a core is in the set.
    pub fn contains(&self, (x, y): (u32, u32)) -> bool {
        let is_in = |range: &CoreRange| {
            (range.first.0..=range.last.0).contains(&x) && (range.first.1..=range.last.1).contains(&y)
        };
        self.0.iter().any(is_in)
    }

    /// Whether the set and a rectangle have a core in common.
    pub fn touches(&self, other: &CoreRange) -> bool {
        let touches = |range: &CoreRange| {
            range.first.0 <= other.last.0
                && other.first.0 <= range.last.0
                && range.first.1 <= other.last.1
                && other.first.1 <= range.last.1
        };
        self.0.iter().any(touches)
    }
}

impl fmt::Display for CoreRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, CoreRange { first, last }) in self.0.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}[{}-{} - {}-{}]", first.0, first.1, last.0, last.1)?;
        }
        f.write_str("}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_ranges_in_every_notation() {
        for text in [
            "{[0-0 - 7-5], [0-6 - 6-7]}",
            "{[(x=0,y=0) - (x=7,y=5)], [(x=0,y=6) - (x=6,y=7)]}",
            r#"[{"start":{"x":0,"y":0},"end":{"x":7,"y":5}}, {"start":{"x":0,"y":6},"end":{"x":6,"y":7}]"#,
        ] {
            let ranges = CoreRanges::parse(text).unwrap();
            assert_eq!(ranges.to_string(), "{[0-0 - 7-5], [0-6 - 6-7]}");
            assert!(ranges.contains((7, 5)) && ranges.contains((6, 7)) && !ranges.contains((7, 6)));
        }
        assert_eq!(CoreRanges::parse("(x=3,y=4)").unwrap().to_string(), "{[3-4 - 3-4]}");
        for text in ["", "{}", "1-2 - 3", "99999999999-0 - 1-1"] {
            assert_eq!(CoreRanges::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_set_touches_a_rectangle_that_shares_a_core() {
        let touch = |set, rectangle| {
            CoreRanges::parse(set).unwrap().touches(&CoreRanges::parse(rectangle).unwrap().ranges()[0])
        };
        assert!(touch("[0-0 - 3-3]", "[3-3 - 5-5]"));
        assert!(!touch("[0-0 - 3-3], [7-7 - 7-7]", "[4-0 - 5-5]"));
    }
}
