//! The program's errors in the response of `ttmem summary`.

use ttmem_model::{Fault, FaultDetail, FaultKind, ProgramBufferKind, Step};

use super::answer::{FaultFacts, FaultSummary, Oom, OwnerSummary};
use super::summary::View;
use super::words::{brief_sentence, one_line};
use crate::analyze::oom;

/// Maximum number of characters of an exception's message in a sentence.
const MAX_MESSAGE: usize = 300;

impl View<'_> {
    /// The out-of-memory error that ended the program.
    pub(super) fn oom(&self, verdict: &oom::Verdict<'_>) -> Oom {
        let owner = |owner: &oom::Owner| {
            let ty = self.profile.tensor_type(owner.ty)?;
            Some(OwnerSummary {
                part: match owner.part {
                    oom::Part::Result => "result",
                    oom::Part::Operand => "operand",
                    oom::Part::Argument => "argument",
                },
                ssa: self.text(owner.ssa),
                name: owner.name.map(|name| self.text(name)),
                shape: ty.shape.clone(),
                dtype: self.text(ty.dtype),
                widened: owner.widened,
            })
        };
        let fault = verdict.fault;
        let (replay, ways_out, no_way_out) = self.ways_out(verdict);
        Oom {
            statement: self.statement(verdict),
            pool: fault.pool.map(|pool| self.text(pool)),
            cause: verdict.cause.as_str(),
            evidence: match verdict.from_message {
                _ if verdict.is_from_history() => "history",
                true => "message",
                false => "state",
            },
            requested_total: fault.requested_total,
            requested_per_bank: fault.requested_per_bank,
            banks: fault.banks,
            free_per_bank: verdict.free,
            largest_free_per_bank: verdict.largest_free,
            lacks_per_bank: verdict.lacks(),
            facts: self.facts(fault, &verdict.detail),
            within: fault.step.and_then(|step| self.part_of(step)),
            overlap_bytes: verdict.overlap,
            step: fault.step,
            op: self.op_of(fault, &verdict.detail).map(str::to_owned),
            loc: self.loc_of(fault, &verdict.detail).map(str::to_owned),
            belongs_to: verdict.belongs_to.iter().filter_map(owner).collect(),
            clash: self.clash(verdict),
            ledger: self.ledger(verdict),
            replay,
            ways_out,
            no_way_out,
            message: self.text(fault.message),
        }
    }

    /// The operation that failed: that of its step, or the one that the message, the traceback or the backtrace names.
    pub(super) fn op_of(&self, fault: &Fault, detail: &FaultDetail) -> Option<&str> {
        let of_step = fault.step.and_then(|step| self.profile.op_name(self.rank, step));
        of_step.or_else(|| detail.op.map(|op| self.profile.text(op)))
    }

    /// The location of the operation that failed.
    pub(super) fn loc_of(&self, fault: &Fault, detail: &FaultDetail) -> Option<&str> {
        let of_step = fault.step.and_then(|step| self.profile.op_loc(self.rank, step));
        of_step.or_else(|| detail.loc.map(|loc| self.profile.text(loc)))
    }

    fn facts(&self, fault: &Fault, detail: &FaultDetail) -> FaultFacts {
        let is_clash = fault.kind == FaultKind::CircularBuffersClash;
        // A trace buffer that overlaps other memory has an address, one that is too large has not.
        let has_address = is_clash || fault.kind == FaultKind::TraceRegion && fault.region_end.is_some();
        FaultFacts {
            capacity_per_bank: fault.bank_size,
            allocated_per_bank: fault.allocated,
            placeable_per_bank: detail.placeable,
            placeable_windows: detail.windows,
            largest_placeable_per_bank: detail.largest_placeable,
            buffers: detail.buffers.map(buffer_kind),
            region_end: fault.region_end,
            buffer_address: fault.limit.filter(|_| has_address),
            limit: fault.limit.filter(|_| !has_address),
            cores: detail.cores.map(|cores| self.text(cores)),
            program: detail.program,
            refused: detail.is_refusal,
        }
    }

    /// The memory held by tensors when an allocation failed; `None` if the input is not a recording.
    pub(super) fn allocated_then(&self, verdict: &oom::Verdict<'_>) -> Option<u64> {
        verdict.fault.allocated.filter(|_| self.rank.began.is_some())
    }

    /// The sentence about the exception that ended the program, whether or not memory ran out.
    pub(super) fn ended_by(&self) -> Option<String> {
        let is_end = |fault: &&Fault| {
            fault.kind == FaultKind::Exception && fault.ended_program && self.is_within(fault)
        };
        let fault = self.rank.faults.iter().rfind(is_end)?;
        let message = brief_sentence(&one_line(self.profile.text(fault.message)), MAX_MESSAGE);
        Some(format!("The program ended with {message}"))
    }

    /// The named part of the program that a step ran in.
    pub(super) fn part_of(&self, step: Step) -> Option<String> {
        let call = self.rank.named_call(self.rank.within.get(step)??)?;
        let scope = self.rank.scopes.get(self.rank.calls.scope.get(call.index())?.index())?;
        Some(self.text(scope.name))
    }

    /// An error as it was recorded.
    pub(super) fn fault(&self, fault: &Fault) -> FaultSummary {
        let detail = self.rank.fault_detail(fault);
        FaultSummary {
            kind: match fault.kind {
                FaultKind::OutOfMemory => "out_of_memory",
                FaultKind::CircularBuffersClash => "circular_buffers_clash",
                FaultKind::CircularBuffersTooLarge => "circular_buffers_too_large",
                FaultKind::AddressLimit => "address_limit",
                FaultKind::TraceRegion => "trace_region",
                FaultKind::Exception => "exception",
            },
            pool: fault.pool.map(|pool| self.text(pool)),
            step: fault.step,
            op: self.op_of(fault, &detail).map(str::to_owned),
            loc: self.loc_of(fault, &detail).map(str::to_owned),
            requested_total: fault.requested_total,
            requested_per_bank: fault.requested_per_bank,
            banks: fault.banks,
            free_per_bank: fault.free,
            largest_free_per_bank: fault.largest_free,
            facts: self.facts(fault, &detail),
            line: Some(fault.line).filter(|line| *line > 0),
            ended_program: fault.ended_program,
            message: self.text(fault.message),
        }
    }
}

/// The name of the kind of a program's buffers.
pub(super) fn buffer_kind(kind: ProgramBufferKind) -> &'static str {
    match kind {
        ProgramBufferKind::Circular => "circular",
        ProgramBufferKind::Dataflow => "dataflow",
        ProgramBufferKind::Scratchpad => "scratchpad",
    }
}
