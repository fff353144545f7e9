//! Hand-written encoding of the most frequent events: serde is several times slower.
//!
//! The layout is duplicated here. The tests of the codec, which read everything back through serde, check that it is
//! the same.

use crate::{RankEvent, RankId, RunId, StepMarks, StrId, TypeId};

/// Encodes the three most frequent events of a recording. The bytes are identical to those of `encode`.
pub(super) struct Small<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Small<'_> {
    /// The maximum size of these events.
    pub const MAX_SIZE: usize = 80;

    /// Encodes an event and returns its size; `None` for other events.
    #[inline]
    pub fn encode(rank: RankId, event: &RankEvent, bytes: &mut [u8]) -> Option<usize> {
        // Kind and length come first, one byte each.
        let mut small = Small { bytes, length: 2 };
        small.row(rank.index());
        let kind = match event {
            RankEvent::Step(step) if step.marks == StepMarks::default() => {
                small.row(step.op.index());
                small.maybe_row(step.run.map(RunId::index));
                small.number(step.offset);
                small.number(0);
                39
            }
            RankEvent::Tensor(tensor) => {
                small.maybe_row(tensor.ty.map(TypeId::index));
                small.row(tensor.pool.index());
                small.number(tensor.per_bank.get().unwrap_or(u64::MAX));
                small.number(tensor.born.index() as u64);
                small.number(tensor.dies.index() as u64);
                small.number(tensor.class as u64);
                small.maybe_row(tensor.run.map(RunId::index));
                small.maybe_row(tensor.ssa.map(StrId::index));
                small.maybe_row(tensor.step.map(|step| step.get() as usize));
                small.maybe_row(tensor.name.map(StrId::index));
                42
            }
            RankEvent::Dies(tensor, at) => {
                small.row(tensor.index());
                small.number(at.index() as u64);
                43
            }
            _ => return None,
        };
        let content = u8::try_from(small.length - 2).ok()?;
        small.bytes[..2].copy_from_slice(&[kind, content]);
        Some(small.length)
    }

    /// Appends a number as a varint.
    #[inline]
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.push((number & 0x7f) as u8);
    }

    /// An id; rows are counted from 1.
    #[inline]
    fn row(&mut self, index: usize) {
        self.number(index as u64 + 1);
    }

    #[inline]
    fn maybe_row(&mut self, index: Option<usize>) {
        self.push(index.is_some().into());
        if let Some(index) = index {
            self.row(index);
        }
    }

    #[inline]
    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }
}
