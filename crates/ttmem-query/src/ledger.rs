//! The parts of a device's memory at an out-of-memory error, in the response of `ttmem summary`.

use serde::Serialize;
use ttmem_model::{Amount, FaultLedger, Rank, ReportedPart};

use super::ranks::failed_at;
use super::summary::View;
use crate::analyze::ledger::{Breakdown, Part, PartKind};
use crate::analyze::oom::Verdict;

mod advice;
mod sentences;

/// The parts of a device's memory when an allocation failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LedgerSummary {
    /// What failed to allocate: `pytorch`, `cuda`, `cublas`, `cudnn`, `cusolver`, `cusparse`, `nccl`, `xla`; `vllm` if the
    /// server refused to start, and `kv_cache` if a server has no room for its KV cache.
    pub source: Option<String>,
    /// The platform: `cuda`, `hip`, `xpu`, `npu`, `mps`.
    pub platform: Option<String>,
    /// The memory of the device.
    pub capacity_bytes: Option<u64>,
    /// The free memory of the device.
    pub free_bytes: Option<u64>,
    /// The limit of the process.
    pub allowed_bytes: Option<u64>,
    /// The memory of the process that failed, as stated.
    pub process_bytes: Option<u64>,
    /// The parts of the device's memory, without overlaps.
    pub parts: Vec<LedgerPart>,
    /// Whether the parts are the whole device, within the rounding; null if the error does not state all of them.
    pub adds_up: Option<bool>,
    /// What the program reported about its memory before the error.
    pub reported: Vec<ReportedSummary>,
    /// Settings of the program that affect its memory.
    pub settings: Vec<LedgerSetting>,
    /// The ranks that ran out of memory after this one.
    pub failed_later: Vec<String>,
    /// The inference server that failed: `vllm` or `sglang`; null if there is none, or it is unknown.
    pub server: Option<String>,
    /// What the server did: `cuda_graphs` if it captured CUDA graphs; null if that is unknown.
    pub activity: Option<String>,
    /// How often Ray counted the error after its first occurrence; 0 if Ray did not print it.
    pub repeated: u32,
    /// Whether the log proves that the program went on.
    pub has_continued: bool,
    /// The number of tokens that the KV cache must hold for one request.
    pub needed_tokens: Option<u64>,
    /// The number of tokens that the KV cache can hold.
    pub possible_tokens: Option<u64>,
    /// The memory that is available for the KV cache, if the error states it.
    pub available_cache_bytes: Option<u64>,
    /// The parts of the executable that failed, as XLA states them; empty if it does not.
    pub executable: Vec<ExecutablePart>,
    /// Remarks on the numbers.
    pub notes: Vec<String>,
}

/// A part of a device's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LedgerPart {
    /// `allocated`, `private_pools`, `unallocated`, `non_pytorch`, `outside`, `process`, `unattributed` or `free`.
    pub kind: &'static str,
    /// A description for people.
    pub label: String,
    /// The process ID; only for `process`.
    pub pid: Option<u64>,
    /// The size.
    pub bytes: u64,
    /// The exact size differs by at most this.
    pub rounding_bytes: u64,
}

/// A part of its memory that the program reported.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ReportedSummary {
    /// `weights`, `kv_cache`, `cuda_graphs`, `activations`, `non_torch`, `budget` or `device_used`.
    pub name: String,
    /// A description for people.
    pub label: String,
    /// The size.
    pub bytes: u64,
    /// The exact size differs by at most this.
    pub rounding_bytes: u64,
    /// The line, from 1.
    pub line: u64,
}

/// A part of the memory that an executable of XLA needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct ExecutablePart {
    /// `xla_parameters`, `xla_outputs`, `xla_temporary` or `xla_total`.
    pub name: String,
    /// The size.
    pub bytes: u64,
    /// The exact size differs by at most this.
    pub rounding_bytes: u64,
}

/// A setting of the program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
pub struct LedgerSetting {
    /// The name, such as `PYTORCH_CUDA_ALLOC_CONF`.
    pub name: String,
    /// The value.
    pub value: String,
}

impl View<'_> {
    /// The parts of the device's memory at an error. A history has the levels of the allocator anyway, and nothing about
    /// the rest of the device.
    pub(super) fn ledger(&self, verdict: &Verdict<'_>) -> Option<LedgerSummary> {
        let fault = self.rank.ledger(verdict.fault)?;
        let breakdown = verdict.breakdown.as_ref().filter(|_| !verdict.is_from_history())?;
        let ledger = &breakdown.ledger;
        let bytes = |amount: Option<Amount>| amount.map(|amount| amount.bytes);
        let source = ledger.source.map(|source| self.text(source));
        Some(LedgerSummary {
            platform: ledger.platform.map(|platform| self.text(platform)),
            capacity_bytes: bytes(ledger.capacity),
            free_bytes: bytes(ledger.free),
            allowed_bytes: bytes(ledger.allowed),
            process_bytes: bytes(ledger.process),
            parts: breakdown
                .parts
                .iter()
                .map(|part| ledger_part(part, breakdown, source.as_deref()))
                .collect(),
            adds_up: breakdown.adds_up,
            reported: self.reported(fault, verdict.fault.line),
            settings: fault
                .settings
                .iter()
                .map(|setting| LedgerSetting {
                    name: self.text(setting.name),
                    value: self.text(setting.value),
                })
                .collect(),
            failed_later: self.failed_later(),
            server: fault.context.server.map(|server| self.text(server)),
            activity: fault.context.activity.map(|activity| self.text(activity)),
            repeated: fault.context.repeated,
            has_continued: fault.context.has_continued,
            needed_tokens: fault.context.needed_tokens,
            possible_tokens: fault.context.possible_tokens,
            available_cache_bytes: self.available_cache(fault, verdict.fault.line),
            executable: self.executable(fault),
            notes: notes(breakdown),
            source,
        })
    }

    /// What the program reported before the line of the error. The error's own numbers are in its sentences.
    fn reported(&self, fault: &FaultLedger, line: u64) -> Vec<ReportedSummary> {
        let of = |part: &ReportedPart| {
            let name = self.text(part.name);
            let when = part.label.map(|label| format!(" ({})", self.text(label)));
            ReportedSummary {
                label: format!("{}{}", reported_label(&name), when.unwrap_or_default()),
                name,
                bytes: part.amount.bytes,
                rounding_bytes: part.amount.quantum,
                line: part.line,
            }
        };
        fault.reported.iter().filter(|part| part.line < line).map(of).collect()
    }

    fn available_cache(&self, fault: &FaultLedger, line: u64) -> Option<u64> {
        let is_it = |part: &&ReportedPart| part.line == line && self.profile.text(part.name) == "kv_cache";
        fault.reported.iter().find(is_it).map(|part| part.amount.bytes)
    }

    fn executable(&self, fault: &FaultLedger) -> Vec<ExecutablePart> {
        let parts = fault.reported.iter().map(|part| (self.text(part.name), part.amount));
        let of_xla = parts.filter(|(name, _)| name.starts_with("xla_"));
        of_xla
            .map(|(name, amount)| ExecutablePart {
                name,
                bytes: amount.bytes,
                rounding_bytes: amount.quantum,
            })
            .collect()
    }

    /// The labels of the ranks that failed after this one.
    fn failed_later(&self) -> Vec<String> {
        let Some(line) = failed_at(self.rank) else { return Vec::new() };
        let is_later = |rank: &&Rank| failed_at(rank).is_some_and(|other| other > line);
        let mut later: Vec<&Rank> = self.profile.ranks.iter().filter(is_later).collect();
        later.sort_by_key(|rank| failed_at(rank));
        let label =
            |rank: &&Rank| rank.label.map_or_else(|| "without a label".to_owned(), |label| self.text(label));
        later.iter().map(label).collect()
    }
}

fn ledger_part(part: &Part, breakdown: &Breakdown, source: Option<&str>) -> LedgerPart {
    let pid = match part.kind {
        PartKind::Process(pid) => Some(pid),
        _ => None,
    };
    LedgerPart {
        kind: part.kind.as_str(),
        label: part_label(part.kind, breakdown, source),
        pid,
        bytes: part.amount.bytes,
        rounding_bytes: part.amount.quantum,
    }
}

fn part_label(kind: PartKind, breakdown: &Breakdown, source: Option<&str>) -> String {
    let allocator = if source == Some("xla") { "XLA" } else { "PyTorch" };
    match kind {
        // The message's own number includes private pools.
        PartKind::Allocated if breakdown.ledger.private_pools.is_some() => {
            format!("allocated by {allocator}, outside private pools")
        }
        PartKind::Allocated => format!("allocated by {allocator}"),
        PartKind::PrivatePools => "in private pools (CUDA graphs)".to_owned(),
        PartKind::Unallocated => format!("reserved by {allocator}, not allocated"),
        PartKind::NonPytorch => "this process, outside PyTorch".to_owned(),
        PartKind::Outside => "outside PyTorch (context, libraries, other processes)".to_owned(),
        PartKind::Process(pid) => format!("process {pid}"),
        PartKind::Unattributed => "in use, not attributed".to_owned(),
        PartKind::Free => "free".to_owned(),
    }
}

fn reported_label(name: &str) -> &str {
    match name {
        "weights" => "weights",
        "kv_cache" => "KV cache",
        "cuda_graphs" => "CUDA graphs",
        "activations" => "activations at their peak",
        "non_torch" => "outside PyTorch",
        "budget" => "memory budget",
        "device_used" => "device memory in use",
        other => other,
    }
}

fn notes(breakdown: &Breakdown) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(pid) = breakdown.own_pid {
        notes.push(format!(
            "The message does not say which process failed. It must be process {pid}: no other one is large enough."
        ));
    }
    if breakdown.adds_up == Some(false) {
        notes.push(
            "The numbers of the message contradict each other: the parts exceed the memory in use."
                .to_owned(),
        );
    }
    notes
}
