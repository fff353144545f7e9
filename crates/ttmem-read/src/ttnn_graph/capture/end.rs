//! What is known at the end of a capture: buffers that are left, pools, phases and errors.

use ttmem_model::{
    Cumulative, FaultDetail, Moment, RankEvent, RankId, Result, Session, SessionId, StepNumber, StrId, Totals,
};

use super::super::lives::{Allocator, Buffer, Place, Share};
use super::super::notes::Context;
use super::super::report::{Device, Report};
use super::buffers::Life;
use super::calls::FailedCall;
use super::{Capture, FROM_BEFORE};
use crate::json::Corruption;
use crate::tt_metal::Failure;

/// The only phase of a capture.
const PHASE: &[u8] = b"CAPTURE";

impl Capture<'_> {
    /// Emits what is known at the end. `corruption` is where and why the file could not be read any further.
    pub fn finish(mut self, report: &Report, corruption: Option<&Corruption>) -> Result<()> {
        let rank = self.end_steps(report)?;
        self.say_earlier_buffers(report, rank)?;
        let totals = self.say_phase(report, rank, corruption.is_none())?;
        self.say_pools(report, Some(totals), rank, corruption)?;
        if corruption.is_none() { self.tables.end() } else { Ok(()) }
    }

    /// Ends the running calls, and emits the buffers that are left.
    pub(super) fn end_steps(&mut self, report: &Report) -> Result<RankId> {
        self.end_calls()?;
        let rank = self.rank()?;
        self.say_what_is_left()?;
        // The devices may follow the nodes in the file.
        self.named = self.named.or_else(|| report.device.as_ref()?.arch());
        self.notes.undecided = self.lives.say_undecided(self.arch(), rank, &mut self.tables)?;
        Ok(rank)
    }

    /// Emits the pools, the errors, and the warnings. `totals` are those of a capture's phase.
    pub(super) fn say_pools(
        &mut self,
        report: &Report,
        totals: Option<Totals>,
        rank: RankId,
        corruption: Option<&Corruption>,
    ) -> Result<()> {
        let allocator = Allocator { arch: self.arch(), lowest: self.lowest };
        self.lives.finish(report, allocator, totals, self.steps, rank, &mut self.tables)?;
        if self.has_earlier_l1 && report.first_buffers.is_none() && !report.lists_earlier_buffers {
            self.lives.lacks_earlier_l1(rank, &mut self.tables)?;
        }
        if let Some(memory) = report.device.as_ref().and_then(Device::core_memory) {
            self.tables.say(rank, RankEvent::CoreMemory(memory))?;
        }
        if self.notes.out_of_order.is_none() && self.notes.no_share.count == 0 {
            self.tables.say(rank, RankEvent::TtnnPeaks(self.usage.peaks()))?;
        }
        self.say_failures(rank)?;
        let context = Context {
            nodes: self.nodes,
            without_banks: self.lives.unknown(),
            lists_earlier_buffers: report.lists_earlier_buffers,
            rank: report.rank,
            corruption,
        };
        std::mem::take(&mut self.notes).warn(&context, &mut self.tables)
    }

    /// Emits the buffers that existed before the capture and were not freed: the report lists them after its first
    /// operation, and the capture did not allocate them.
    fn say_earlier_buffers(&mut self, report: &Report, rank: RankId) -> Result<()> {
        let Some(snapshot) = &report.first_buffers else { return Ok(()) };
        let Ok(first) = self.ends.binary_search_by_key(&snapshot.node, |(node, _)| *node) else {
            return Ok(());
        };
        let live = self.lives.addresses_at(Moment::early(self.ends[first].1));
        let arch = self.arch();
        let name = self.tables.text(FROM_BEFORE)?;
        let device = snapshot.buffers.first().map(|buffer| buffer.device_id);
        for listed in snapshot.buffers.iter().filter(|buffer| Some(buffer.device_id) == device) {
            let place = listed.buffer_type.get().and_then(Place::numbered);
            let (Some(place), Some(address), Some(per_bank)) =
                (place, listed.address.get(), listed.max_size_per_bank.get())
            else {
                continue;
            };
            self.lowest.see(place, listed.address);
            if live.contains(&(place, address)) {
                continue;
            }
            self.notes.unpadded += 1;
            let mut buffer = Buffer {
                place,
                size: None,
                share: Some(Share::allocated(per_bank)),
                address: Some(address),
                spread: None,
                born: Moment::START,
                step: None,
                name: Some(name),
                order: 0,
                last_use: None,
            };
            self.lives.stays_from_before(&mut buffer, arch, rank, &mut self.tables)?;
        }
        Ok(())
    }

    /// Emits the errors that ended calls from Python.
    fn say_failures(&mut self, rank: RankId) -> Result<()> {
        let mut failures = std::mem::take(&mut self.failures);
        // A call that failed before its function began is only in the list of calls.
        failures.extend(self.sidecar.rest().filter_map(|call| {
            let message = call.error.clone()?;
            let (name, line) = (call.name.clone(), call.line.clone());
            Some(FailedCall { name, step: None, first: None, line, message, is_last: call.is_last })
        }));
        let mut count = 0;
        for FailedCall { name, step, first, line, message, is_last } in failures {
            let Some(failure) = Failure::of_exception(&message) else {
                let first = message.lines().find(|line| !line.trim().is_empty()).unwrap_or("no message");
                let step = step.map_or_else(String::new, |step| format!("step {step}, "));
                self.tables.warn(None, format!("{step}{name}, failed ({first})"))?;
                continue;
            };
            let mut fault = failure.fault(step, 0, &mut self.tables)?;
            fault.ended_program = is_last;
            self.tables.say(rank, RankEvent::Fault(fault))?;
            let op = Some(self.tables.text(name.as_bytes())?);
            let loc = line.map(|line| self.tables.text(line.as_bytes())).transpose()?;
            let first_step = first.and_then(StepNumber::new);
            let detail = FaultDetail { op, loc, first_step, ..failure.detail(&mut self.tables)? };
            self.tables.say(rank, RankEvent::FaultDetail(count, detail))?;
            count += 1;
        }
        Ok(())
    }

    fn say_what_is_left(&mut self) -> Result<()> {
        let buffers = std::mem::take(&mut self.buffers).into_iter();
        let mut left: Vec<(u64, Buffer, Vec<u64>)> = Vec::new();
        for (index, node) in buffers {
            match node.life {
                Life::Allocated(buffer) => {
                    let last_use = self.last_use(&node.tensors, node.last_use);
                    left.push((index, Buffer { last_use, ..buffer }, node.tensors));
                }
                // An operation used it, but it was neither allocated nor freed here.
                Life::NotAllocated => self.has_earlier_l1 |= !node.is_dram,
                Life::Freed => {}
            }
        }
        left.sort_unstable_by_key(|(index, ..)| *index);
        for (_, buffer, tensors) in left {
            self.say_life(&buffer, &tensors, Moment::NEVER)?;
        }
        Ok(())
    }

    /// Emits the capture as a session with one phase.
    fn say_phase(&mut self, report: &Report, rank: RankId, is_whole: bool) -> Result<Totals> {
        let device_memory = report.device.as_ref().and_then(|device| {
            let bank = device.bank(Place::Dram, self.lowest)?;
            device.num_dram_channels.get()?.checked_mul(bank.size)
        });
        let session = Session {
            name: Some(self.tables.text(b"Capture")?),
            device_memory,
            estimated: self.notes.is_estimate(),
            ..Session::default()
        };
        self.tables.say(rank, RankEvent::Session(session))?;
        let mut all = Cumulative::default();
        let name: StrId = self.tables.text(PHASE)?;
        let Some(id) = SessionId::new(0) else { return Ok(all.into()) };
        let mut phase = self.segment.phase(id, name, Some((0, self.steps)), &mut all);
        if self.notes.out_of_order.is_some() || self.notes.no_share.count > 0 {
            (phase.l1_peak_buffer, phase.l1_peak_total) = (None, None);
        }
        if self.notes.out_of_order.is_some() {
            phase.l1_peak_cb = None;
        }
        self.tables.say(rank, RankEvent::Phase(phase))?;
        if is_whole {
            self.tables.say(rank, RankEvent::SessionEnded(id, all.into()))?;
        }
        Ok(all.into())
    }
}
