//! The sentences of the verdict on an error with a ledger. Advice is given only if the numbers support it.

use ttmem_model::words::counted;
use ttmem_model::{Amount, Rank, StrId};

use crate::analyze::ledger::{Breakdown, Part, PartKind};
use crate::analyze::oom::{self, Cause, Verdict};
use crate::ranks::failed_at;
use crate::statement::Statement;
use crate::summary::View;
use crate::verdict::{CONTINUED, continued, headline};
use crate::words::{brief_line, size};

/// The maximum number of ranks that a sentence names.
const MAX_RANKS: usize = 8;
/// The maximum number of characters of a rank's label.
const MAX_LABEL: usize = 40;

/// What the text of a verdict depends on.
pub(super) struct Facts<'a> {
    pub breakdown: &'a Breakdown,
    pub cause: Cause,
    pub source: &'a str,
    pub platform: &'a str,
    /// The value of the allocator's settings.
    pub allocator: Option<&'a str>,
    /// The share of the device that a server may use: the name of the setting and its value.
    pub fraction: Option<(&'a str, &'a str)>,
    /// The parts that the program reported, by their names.
    reported: Vec<(&'a str, Amount)>,
    /// The inference server, or empty.
    pub server: &'a str,
    /// Whether the server was capturing CUDA graphs.
    pub is_capture: bool,
    /// Whether the input has tensors, and not only the message.
    pub has_tensors: bool,
    /// The number of tokens that a KV cache must hold, and the number that it can hold.
    pub tokens: [Option<u64>; 2],
}

impl View<'_> {
    fn facts_of<'a>(&'a self, verdict: &'a Verdict<'_>, breakdown: &'a Breakdown) -> Option<Facts<'a>> {
        let fault = self.rank.ledger(verdict.fault)?;
        let text = |id: Option<StrId>| id.map_or("", |id| self.profile.text(id));
        let setting = |is_it: fn(&str) -> bool| {
            let found = fault.settings.iter().find(|setting| is_it(self.profile.text(setting.name)));
            found.map(|setting| (self.profile.text(setting.name), self.profile.text(setting.value)))
        };
        let context = &fault.context;
        let reported = fault.reported.iter().map(|part| (self.profile.text(part.name), part.amount));
        Some(Facts {
            breakdown,
            cause: verdict.cause,
            source: text(breakdown.ledger.source),
            platform: text(breakdown.ledger.platform),
            allocator: setting(|name| name.ends_with("_ALLOC_CONF")).map(|(_, value)| value),
            fraction: setting(|name| matches!(name, "gpu_memory_utilization" | "mem_fraction_static")),
            reported: reported.collect(),
            server: text(context.server),
            is_capture: context.activity.is_some(),
            has_tensors: !self.rank.has_only_faults(),
            tokens: [context.needed_tokens, context.possible_tokens],
        })
    }

    /// Whether an error with a ledger occurred with expandable segments.
    pub(crate) fn has_expandable_segments(&self, verdict: &Verdict<'_>) -> bool {
        let facts = verdict.breakdown.as_ref().and_then(|breakdown| self.facts_of(verdict, breakdown));
        facts.is_some_and(|facts| facts.has_expandable_segments())
    }

    /// The statement on an error with a ledger.
    pub(crate) fn ledger_statement(&self, verdict: &Verdict<'_>, breakdown: &Breakdown) -> Statement {
        let pool = verdict.fault.pool.map(|pool| self.profile.text(pool));
        let Some(facts) = self.facts_of(verdict, breakdown) else {
            return Statement::new(headline(pool, verdict.cause));
        };
        let step = verdict.fault.step.map(|step| self.failed_step(step));
        let who = step.unwrap_or_else(|| self.failed_operation(verdict));
        let held = self.held_then(verdict);
        // Both sentences have the allocated bytes.
        let reason = facts.reason().filter(|_| verdict.cause != Cause::Capacity || held.is_none());
        let has_continued = self.rank.ledger(verdict.fault).is_some_and(|fault| fault.context.has_continued);
        let continued = has_continued.then_some(CONTINUED).or_else(|| continued(self.rank, verdict));
        let parts = [
            Some(facts.request(&who)),
            reason,
            held,
            continued.map(str::to_owned),
            self.later_failures(verdict),
        ];
        let detail = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        Statement::new(facts.headline(pool)).detail(detail).advice(facts.advice())
    }

    /// The sentence about ranks that failed after this one.
    fn later_failures(&self, verdict: &Verdict<'_>) -> Option<String> {
        let is_first = |rank: &Rank| failed_at(rank).is_none_or(|line| Some(line) >= failed_at(self.rank));
        if !self.profile.ranks.iter().all(is_first) {
            return None;
        }
        let later = self.failed_later();
        let names: Vec<String> =
            later.iter().take(MAX_RANKS).map(|label| brief_line(label, MAX_LABEL)).collect();
        let more = if later.len() > MAX_RANKS { ", …" } else { "" };
        let names = format!("{}{more}", names.join(", "));
        let who =
            self.rank.label.map_or_else(String::new, |label| brief_line(self.profile.text(label), MAX_LABEL));
        let hidden = self.workers_in_ray(verdict);
        match (hidden, later.len()) {
            (0, 0) => None,
            (0, count) => Some(format!(
                "Rank {who} failed first; {} ran out of memory after it ({names}).",
                counted(count, "other rank")
            )),
            (count, 0) => Some(format!(
                "{} reported the same error; Ray prints it only once.",
                counted(count, "more worker")
            )),
            (count, _) => Some(format!(
                "Rank {who} failed first; {} reported the same error (Ray printed only {names}).",
                counted(count, "more worker")
            )),
        }
    }

    /// The number of other workers with an error of the same wording, if Ray counted any of them. A message that
    /// Ray printed for several workers is of one of them.
    fn workers_in_ray(&self, verdict: &Verdict<'_>) -> usize {
        let counted = |rank: &Rank| {
            oom::fatal(rank)
                .and_then(|fault| rank.ledger(fault))
                .map_or(0, |fault| fault.context.repeated as usize)
        };
        let own = self.rank.ledger(verdict.fault).map_or(0, |fault| fault.context.repeated as usize);
        let line = failed_at(self.rank);
        let later: Vec<usize> =
            self.profile.ranks.iter().filter(|rank| failed_at(rank) > line).map(counted).collect();
        let has_counts = own > 0 || later.iter().any(|count| *count > 0);
        // A rank without a count printed its own message.
        if has_counts { own + later.iter().map(|count| (*count).max(1)).sum::<usize>() } else { 0 }
    }
}

impl Facts<'_> {
    /// The headline. It names what holds most of the memory, if that is not the tensors.
    fn headline(&self, pool: Option<&str>) -> String {
        let device = pool.unwrap_or("the device");
        let of = |kind| self.breakdown.part(kind).map(|amount: Amount| size(amount.bytes));
        let found = match self.cause {
            Cause::OtherProcess => self.breakdown.other_processes().map(|amount| {
                format!("Out of memory: {} {} of {device}.", self.other_processes(), size(amount.bytes))
            }),
            Cause::NonPytorch => of(PartKind::NonPytorch)
                .map(|bytes| {
                    format!("Out of memory: this process holds {bytes} of {device} outside PyTorch.")
                })
                .or_else(|| {
                    let bytes = of(PartKind::Outside)?;
                    Some(format!("Out of memory: {bytes} of {device} is in use outside PyTorch."))
                }),
            Cause::PrivatePools => of(PartKind::PrivatePools)
                .map(|bytes| format!("Out of memory: private pools hold {bytes} of {device}.")),
            Cause::Capacity if self.source == "vllm" => {
                Some(format!("Out of memory: vLLM did not start, because too little of {device} is free."))
            }
            Cause::KvCache if self.tokens[0].is_some() => {
                Some("Out of memory: the KV cache of one request does not fit.".to_owned())
            }
            Cause::KvCache => Some("Out of memory: no memory is left for the KV cache.".to_owned()),
            _ => None,
        };
        found.unwrap_or_else(|| headline(pool, self.cause))
    }

    /// A part that the program reported.
    pub fn reported(&self, name: &str) -> Option<Amount> {
        self.reported.iter().find(|(known, _)| *known == name).map(|(_, amount)| *amount)
    }

    /// What was requested and how much was free.
    fn request(&self, who: &str) -> String {
        let ledger = &self.breakdown.ledger;
        if self.cause == Cause::KvCache {
            return self.cache_request();
        }
        let Some(requested) = ledger.requested else {
            return format!("{who} ran out of memory{}; the error has no numbers.", self.in_library());
        };
        let what = if self.source == "vllm" { "wants to use" } else { "requested" };
        let library = if self.source == "nccl" { self.in_library() } else { String::new() };
        let request = format!("{who} {what} {}{library}", size(requested.bytes));
        match (ledger.free, ledger.capacity) {
            (Some(free), Some(capacity)) => {
                format!("{request}; {} of {} was free.", size(free.bytes), size(capacity.bytes))
            }
            (Some(free), None) => format!("{request}; {} was free.", size(free.bytes)),
            (None, Some(capacity)) => format!("{request}; the device has {}.", size(capacity.bytes)),
            _ => format!("{request}."),
        }
    }

    /// The memory that a KV cache needs, and the memory that is left for it.
    fn cache_request(&self) -> String {
        let server = self.server_name();
        let available = self.reported("kv_cache").map(|amount| size(amount.bytes));
        let needed = self.breakdown.ledger.requested.map(|amount| size(amount.bytes));
        match (self.tokens, needed, available) {
            ([Some(tokens), _], Some(needed), Some(available)) => format!(
                "{server} did not start: a request of {tokens} tokens needs {needed} of KV cache, and {available} is \
                 available."
            ),
            ([Some(tokens), Some(possible)], ..) => format!(
                "{server} did not start: a request may have {tokens} tokens, and the KV cache has room for {possible}."
            ),
            _ => {
                let weights = self.reported("weights").map(|amount| size(amount.bytes));
                let weights = weights.map_or_else(String::new, |bytes| format!("; the weights take {bytes}"));
                format!("{server} did not start{weights}.")
            }
        }
    }

    /// The name of the server.
    pub fn server_name(&self) -> &'static str {
        match self.server {
            "vllm" => "vLLM",
            "sglang" => "SGLang",
            _ => "The server",
        }
    }

    /// Where an error without numbers occurred.
    fn in_library(&self) -> String {
        let name = match self.source {
            "cublas" => "cuBLAS",
            "hipblas" => "hipBLAS",
            "cudnn" => "cuDNN",
            "cusolver" => "cuSOLVER",
            "cusparse" => "cuSPARSE",
            "nccl" => "NCCL",
            "xla" => "XLA",
            _ => return String::new(),
        };
        format!(" in {name}")
    }

    /// What an executable of XLA needs.
    fn executable(&self) -> Option<String> {
        const PARTS: [(&str, &str); 3] = [
            ("xla_parameters", "parameters"),
            ("xla_outputs", "outputs"),
            ("xla_temporary", "temporary buffers"),
        ];
        let total = self.reported("xla_total")?;
        let part =
            |(name, label): &(&str, &str)| Some(format!("{label} {}", size(self.reported(name)?.bytes)));
        let parts: Vec<String> = PARTS.iter().filter_map(part).collect();
        let parts = if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) };
        Some(format!("The executable needs {} in total{parts}.", size(total.bytes)))
    }

    /// The sentence about the cause.
    fn reason(&self) -> Option<String> {
        let breakdown = self.breakdown;
        let ledger = &breakdown.ledger;
        let of = |kind| breakdown.part(kind).map(|amount| size(amount.bytes));
        if let Some(segment) = breakdown.missing_segment().filter(|_| self.source == "pytorch") {
            return Some(format!("For this size, PyTorch needs {} from the driver.", size(segment)));
        }
        if self.has_room() && breakdown.is_nearly_full() {
            return Some("Nearly all memory of the device was in use.".to_owned());
        }
        match self.cause {
            Cause::OtherProcess => {
                let them = if self.others().len() == 1 { "it" } else { "them" };
                Some(format!("Without {them}, the request would fit."))
            }
            Cause::MemoryLimit => Some(match ledger.allowed {
                Some(allowed) => {
                    let unused = breakdown.unused_for_request().map_or_else(String::new, |unused| {
                        format!("; {} of that is reserved, but no tensor uses it", size(unused.bytes))
                    });
                    format!(
                        "The limit is {}, and {} of it was in use{unused}.",
                        size(allowed.bytes),
                        size(breakdown.limited()?.bytes)
                    )
                }
                None => format!(
                    "That would have been enough, so PyTorch refused it: the limit is less than {}, and {} was reserved.",
                    size(breakdown.reserved()?.plus(ledger.requested?).bytes),
                    size(breakdown.reserved()?.bytes)
                ),
            }),
            Cause::Fragmentation => Some(format!(
                "The allocator reserves {} that no tensor uses, but no block in it is large enough.",
                of(PartKind::Unallocated)?
            )),
            Cause::PrivatePools => {
                Some("Only CUDA graphs and other users of these pools can allocate from them.".to_owned())
            }
            Cause::NonPytorch if breakdown.part(PartKind::NonPytorch).is_some() => Some(
                "Memory outside PyTorch is that of the CUDA context, NCCL, other libraries, or another framework in the same \
                 process."
                    .to_owned(),
            ),
            Cause::NonPytorch => Some(format!(
                "Memory outside PyTorch is that of the CUDA context, libraries or other processes{}.",
                self.unclear_processes()
            )),
            Cause::Capacity => Some(format!("PyTorch allocated {}.", size(ledger.allocated?.bytes))),
            Cause::Unknown if self.source == "xla" => self.executable(),
            Cause::Unknown if self.has_room() => Some(
                "That would have been enough, so the cause is unknown: the process may have its own limit, or the free \
                 memory changed before the message was written."
                    .to_owned(),
            ),
            Cause::Unknown if self.source == "pytorch" && breakdown.lacks_unallocated() => Some(
                "The message does not say how much memory PyTorch reserves without using it, so the cause is unknown."
                    .to_owned(),
            ),
            _ => None,
        }
    }

    /// The listed processes, if the message does not say which one failed.
    fn unclear_processes(&self) -> String {
        let listed: Vec<String> = (self.breakdown.unclear.iter().take(MAX_RANKS))
            .map(|process| format!("process {} ({})", process.pid, size(process.amount.bytes)))
            .collect();
        if listed.is_empty() {
            return "; the message does not say which".to_owned();
        }
        format!(". The message lists {}, and one of them is this process", listed.join(", "))
    }

    /// Whether the free memory would have been enough.
    fn has_room(&self) -> bool {
        let ledger = &self.breakdown.ledger;
        ledger.requested.zip(ledger.free).is_some_and(|(requested, free)| requested.bytes < free.bytes)
    }

    /// `process 4242 holds` or `2 other processes hold`.
    fn other_processes(&self) -> String {
        match self.others()[..] {
            [pid] => format!("process {pid} holds"),
            ref pids => format!("{} other processes hold", pids.len()),
        }
    }

    /// The IDs of other processes.
    pub fn others(&self) -> Vec<u64> {
        let pid = |part: &Part| match part.kind {
            PartKind::Process(pid) => Some(pid),
            _ => None,
        };
        self.breakdown.parts.iter().filter_map(pid).collect()
    }
}
