//! A program whose buffers overlap tensors in L1: the parts of both sides.

use serde::Serialize;
use ttmem_model::words::{by_count, counted};
use ttmem_model::{FaultDetail, FaultKind, Moment, Step, StepMarks, StepNumber, TensorId};

use super::faults::buffer_kind;
use super::summary::View;
use super::ways_out::TensorFacts;
use super::words::{brief_line, shape, size};
use crate::analyze::l1::L1;
use crate::analyze::oom::Verdict;
use crate::analyze::ways_out::lowest_of_clash;

/// The maximum number of characters of a name or location.
const MAX_LOCATION: usize = 60;

/// A program's buffers and the tensors that are in their way, on a core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct Clash {
    /// The address where the program's buffers begin; null if the input does not have the layout of L1.
    pub region_start: Option<u64>,
    /// The address where they end.
    pub region_end: Option<u64>,
    /// Their size.
    pub region_bytes: Option<u64>,
    /// The buffers, the largest first; equal ones share a row.
    pub parts: Vec<ClashPart>,
    /// Whether the parts add up to the region; null if none is known.
    pub parts_are_complete: Option<bool>,
    /// Why parts are missing.
    pub parts_note: Option<String>,
    /// The tensor with the lowest address.
    pub lowest_tensor: Option<TensorFacts>,
    /// The number of L1 tensors that are live.
    pub live_tensors: Option<usize>,
    /// The number of them that begin below the end of the program's buffers.
    pub tensors_in_the_way: Option<usize>,
    /// The last step that ran the same operation without an error.
    pub ran_before: Option<Step>,
    /// What was allocated in L1 since then, as a sentence.
    pub since_then: Option<String>,
    /// The same facts as lines of text.
    pub lines: Vec<ClashLine>,
}

/// A line of text about a clash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ClashLine {
    /// `program buffers`, `lowest tensor` or `overlap`.
    pub label: &'static str,
    /// The facts.
    pub text: String,
}

/// Buffers of the same kind and size.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ClashPart {
    /// `circular`, `dataflow` or `scratchpad`.
    pub kind: &'static str,
    /// The size of one of them.
    pub bytes: u64,
    /// Their number.
    pub count: usize,
}

impl View<'_> {
    /// The two sides of a clash; `None` if the failure is another one.
    pub(super) fn clash(&self, verdict: &Verdict<'_>) -> Option<Clash> {
        let fault = verdict.fault;
        if fault.kind != FaultKind::CircularBuffersClash {
            return None;
        }
        let start = self.rank.core_memory.map(|memory| memory.reserved);
        let end = fault.region_end;
        let (parts, parts_are_complete) = self.parts_of_region(fault.step, end);
        // Only a capture could have them.
        let is_capture = self.rank.core_memory.is_some();
        let parts_note = match (is_capture, parts_are_complete) {
            (false, _) | (_, Some(true)) => None,
            (true, None) => Some(
                "The parts are not in the input: a capture of a real run does not contain dataflow buffers, nor the \
                 buffers of a program that failed. Capture the program once more with RunMode.NO_DISPATCH and pass both \
                 files."
                    .to_owned(),
            ),
            (true, Some(false)) => {
                Some("The known parts do not add up to the region, so they are a lower bound.".to_owned())
            }
        };
        let at = fault.step.map(Moment::after);
        let l1 = self.rank.pool_named(self.profile, "L1").map(|(id, _)| id);
        let mut live: Vec<(Option<u64>, TensorId)> = at
            .zip(l1)
            .into_iter()
            .flat_map(|(at, pool)| self.rank.live(pool, at))
            .filter_map(TensorId::new)
            .map(|id| (self.rank.placements.of(id).map(|placement| placement.address), id))
            .collect();
        live.sort_unstable();
        let have_addresses = !live.is_empty() && live.iter().all(|(address, _)| address.is_some());
        // Without the address of the message, another tensor is the lowest one.
        let lowest = live.first().filter(|(address, _)| have_addresses && *address == fault.limit);
        let simulated = lowest_of_clash(self.profile, self.rank, fault).filter(|_| lowest.is_none());
        let in_the_way = live.iter().filter(|(address, _)| *address < end).count();
        let ran_before = fault.step.and_then(|step| self.ran_before(step, &verdict.detail));
        let mut clash = Clash {
            region_start: start,
            region_end: end,
            region_bytes: start.zip(end).and_then(|(start, end)| end.checked_sub(start)),
            parts,
            parts_are_complete,
            parts_note,
            lowest_tensor: lowest
                .map(|(_, id)| *id)
                .or(simulated.map(|(id, _)| id))
                .and_then(|id| self.tensor_facts(id))
                .map(|facts| TensorFacts { address: fault.limit, ..facts }),
            live_tensors: (!live.is_empty()).then_some(live.len()),
            tensors_in_the_way: (have_addresses && end.is_some()).then_some(in_the_way),
            since_then: ran_before.and_then(|step| self.allocated_since(step, &live)),
            ran_before,
            lines: Vec::new(),
        };
        clash.lines = lines(&clash, fault.limit, verdict.overlap);
        Some(clash)
    }

    /// The buffers of a step's program on the core where they end highest, and whether they end where the message says.
    fn parts_of_region(&self, step: Option<Step>, end: Option<u64>) -> (Vec<ClashPart>, Option<bool>) {
        let (Some(step), Some(l1)) = (step, L1::of(self.profile, self.rank)) else {
            return (Vec::new(), None);
        };
        let mut parts: Vec<ClashPart> = Vec::new();
        let buffers = l1.on_fullest_core(step);
        for placed in &buffers {
            let (kind, bytes) = (buffer_kind(placed.buffer.kind), placed.buffer.bytes);
            match parts.iter_mut().find(|part| part.kind == kind && part.bytes == bytes) {
                Some(part) => part.count += 1,
                None => parts.push(ClashPart { kind, bytes, count: 1 }),
            }
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        let highest = buffers.iter().map(crate::analyze::l1::PlacedBuffer::end).max();
        (parts, highest.map(|highest| Some(highest) == end))
    }

    /// The last step before this one that ran the same operation without an error.
    fn ran_before(&self, step: Step, detail: &FaultDetail) -> Option<Step> {
        let name = self.profile.op_name(self.rank, step)?;
        let first = detail.first_step.map_or(step, StepNumber::get).min(step);
        let has_failed = |step: Step| {
            let marks = self.rank.steps.marks.get(step as usize).copied().unwrap_or_default();
            marks.has(StepMarks::FAILED)
        };
        (0..first)
            .rev()
            .find(|earlier| self.profile.op_name(self.rank, *earlier) == Some(name) && !has_failed(*earlier))
    }

    /// What was allocated since a step and is still there.
    fn allocated_since(&self, step: Step, live: &[(Option<u64>, TensorId)]) -> Option<String> {
        let tensors = &self.rank.tensors;
        let since = live.iter().filter(|(_, id)| tensors.born[id.index()] > Moment::after(step));
        let (count, bytes) = since.fold((0_usize, 0_u64), |(count, bytes), (_, id)| {
            (count + 1, bytes.saturating_add(tensors.per_bank[id.index()].get().unwrap_or(0)))
        });
        (count > 0).then(|| {
            format!(
                "The operation ran before, at step {step}. Since then, {} ({} per core) {} allocated in L1.",
                counted(count, "tensor"),
                size(bytes),
                by_count(count, "was", "were")
            )
        })
    }
}

/// The lines about both sides, as far as they are known.
fn lines(clash: &Clash, lowest: Option<u64>, overlap: Option<u64>) -> Vec<ClashLine> {
    let mut lines = Vec::new();
    let mut line = |label, text| lines.push(ClashLine { label, text });
    if let Some(end) = clash.region_end {
        let start =
            clash.region_start.map_or_else(|| "up".to_owned(), |start| format!("address {}", grouped(start)));
        let bytes = clash.region_bytes.map_or_else(String::new, |bytes| format!(", {} B", grouped(bytes)));
        line("program buffers", format!("{start} to address {}{bytes}{}", grouped(end), parts(clash)));
    }
    if let Some(lowest) = lowest {
        let tensor = clash
            .lowest_tensor
            .as_ref()
            .map_or_else(String::new, |tensor| format!(": {}", described(tensor)));
        line("lowest tensor", format!("address {}{tensor}", grouped(lowest)));
    }
    if let Some(overlap) = overlap {
        let tensors =
            clash.tensors_in_the_way.zip(clash.live_tensors).map_or_else(String::new, |(few, all)| {
                format!("; {few} of {} {} in the way", counted(all, "L1 tensor"), by_count(few, "is", "are"))
            });
        line("overlap", format!("{} B per core{tensors}", grouped(overlap)));
    }
    lines
}

/// `: 2 × 524,288, 16,384`, or `; known parts: 2 × 2,048`.
fn parts(clash: &Clash) -> String {
    let part = |part: &ClashPart| match part.count {
        1 => grouped(part.bytes),
        count => format!("{count} × {}", grouped(part.bytes)),
    };
    let parts: Vec<String> = clash.parts.iter().map(part).collect();
    match clash.parts_are_complete {
        _ if parts.is_empty() => String::new(),
        Some(true) => format!(": {}", parts.join(", ")),
        _ => format!("; known parts: {}", parts.join(", ")),
    }
}

/// `tensor 23, 1x1x2048x2048 bf16, 128.0 KiB per core, allocated by step 7 (model.py:28)`.
fn described(tensor: &TensorFacts) -> String {
    let ty = tensor.shape.as_ref().zip(tensor.dtype.as_ref());
    let ty = ty.map(|(dims, dtype)| format!("{} {dtype}", shape(dims)));
    let bytes = tensor.bytes_per_bank.map(|bytes| format!("{} per core", size(bytes)));
    let step = tensor.step.map(|step| {
        let loc = tensor.loc.as_ref().or(tensor.op.as_ref());
        let loc = loc.map_or_else(String::new, |loc| format!(" ({})", brief_line(loc, MAX_LOCATION)));
        format!("allocated by step {step}{loc}")
    });
    let name = tensor.name.as_ref().map(|name| brief_line(name, MAX_LOCATION));
    [name, ty, bytes, step].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// A number with separators between thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let (head, tail) = digits.split_at(first);
    let groups = tail.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let head = (!head.is_empty()).then(|| head.to_owned());
    head.into_iter().chain(groups).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_separated() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_185_120, "1,185,120")] {
            assert_eq!(grouped(number), text);
        }
    }
}
