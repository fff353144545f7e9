//! The sentences of the verdict on an error with a ledger. Advice is given only if the numbers support it.

use ttmem_model::words::counted;
use ttmem_model::{Amount, Rank, StrId};

use crate::analyze::ledger::{Breakdown, Part, PartKind};
use crate::analyze::oom::{Cause, Verdict};
use crate::ranks::failed_at;
use crate::statement::Statement;
use crate::summary::View;
use crate::verdict::{EXPANDABLE_SEGMENTS, SMALLER_TENSORS, continued, headline};
use crate::words::{brief_line, size};

/// The maximum number of ranks that a sentence names.
const MAX_RANKS: usize = 8;
/// The maximum number of characters of a rank's label.
const MAX_LABEL: usize = 24;

/// What the text of a verdict depends on.
struct Facts<'a> {
    breakdown: &'a Breakdown,
    cause: Cause,
    source: &'a str,
    platform: &'a str,
    /// The value of the allocator's settings.
    allocator: Option<&'a str>,
    /// The share of the device that a server may use: the name of the setting and its value.
    fraction: Option<(&'a str, &'a str)>,
    /// The KV cache that the server reported.
    kv_cache: Option<Amount>,
}

impl View<'_> {
    fn facts_of<'a>(&'a self, verdict: &'a Verdict<'_>, breakdown: &'a Breakdown) -> Option<Facts<'a>> {
        let fault = self.rank.ledger(verdict.fault)?;
        let text = |id: Option<StrId>| id.map_or("", |id| self.profile.text(id));
        let setting = |is_it: fn(&str) -> bool| {
            let found = fault.settings.iter().find(|setting| is_it(self.profile.text(setting.name)));
            found.map(|setting| (self.profile.text(setting.name), self.profile.text(setting.value)))
        };
        let kv_cache = fault.reported.iter().find(|part| self.profile.text(part.name) == "kv_cache");
        Some(Facts {
            breakdown,
            cause: verdict.cause,
            source: text(breakdown.ledger.source),
            platform: text(breakdown.ledger.platform),
            allocator: setting(|name| name.ends_with("_ALLOC_CONF")).map(|(_, value)| value),
            fraction: setting(|name| matches!(name, "gpu_memory_utilization" | "mem_fraction_static")),
            kv_cache: kv_cache.map(|part| part.amount),
        })
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
        let continued = continued(self.rank, verdict).map(str::to_owned);
        let parts = [Some(facts.request(&who)), reason, held, continued, self.later_failures()];
        let detail = parts.into_iter().flatten().collect::<Vec<_>>().join(" ");
        Statement::new(headline(pool, verdict.cause)).detail(detail).advice(facts.advice())
    }

    /// The sentence about ranks that failed after this one.
    fn later_failures(&self) -> Option<String> {
        let later = self.failed_later();
        let is_first = |rank: &Rank| failed_at(rank).is_none_or(|line| Some(line) >= failed_at(self.rank));
        if later.is_empty() || !self.profile.ranks.iter().all(is_first) {
            return None;
        }
        let names: Vec<String> =
            later.iter().take(MAX_RANKS).map(|label| brief_line(label, MAX_LABEL)).collect();
        let more = if later.len() > MAX_RANKS { ", …" } else { "" };
        let who =
            self.rank.label.map_or_else(String::new, |label| brief_line(self.profile.text(label), MAX_LABEL));
        Some(format!(
            "Rank {who} failed first; {} ran out of memory after it ({}{more}).",
            counted(later.len(), "other rank"),
            names.join(", ")
        ))
    }
}

impl Facts<'_> {
    /// What was requested and how much was free.
    fn request(&self, who: &str) -> String {
        let ledger = &self.breakdown.ledger;
        let Some(requested) = ledger.requested else {
            return format!("{who} ran out of memory{}; the error has no numbers.", self.in_library());
        };
        let what = if self.source == "vllm" { "wants to use" } else { "requested" };
        let request = format!("{who} {what} {}", size(requested.bytes));
        match (ledger.free, ledger.capacity) {
            (Some(free), Some(capacity)) => {
                format!("{request}; {} of {} was free.", size(free.bytes), size(capacity.bytes))
            }
            (Some(free), None) => format!("{request}; {} was free.", size(free.bytes)),
            _ => format!("{request}."),
        }
    }

    /// Where an error without numbers occurred.
    fn in_library(&self) -> String {
        let name = match self.source {
            "cublas" => "cuBLAS",
            "cudnn" => "cuDNN",
            "cusolver" => "cuSOLVER",
            "cusparse" => "cuSPARSE",
            "nccl" => "NCCL",
            "xla" => "XLA",
            _ => return String::new(),
        };
        format!(" in {name}")
    }

    /// The sentence about the cause.
    fn reason(&self) -> Option<String> {
        let breakdown = self.breakdown;
        let ledger = &breakdown.ledger;
        let of = |kind| breakdown.part(kind).map(|amount| size(amount.bytes));
        match self.cause {
            Cause::OtherProcess => Some(format!(
                "{} {}; without that, the request would fit.",
                self.other_processes(),
                size(breakdown.other_processes()?.bytes)
            )),
            Cause::MemoryLimit => Some(match ledger.allowed {
                Some(allowed) => format!(
                    "The limit is {}, and {} of it was in use.",
                    size(allowed.bytes),
                    size(breakdown.limited()?.bytes)
                ),
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
            Cause::PrivatePools => Some(format!(
                "Private pools, such as those of CUDA graphs, hold {}.",
                of(PartKind::PrivatePools)?
            )),
            Cause::NonPytorch => Some(match of(PartKind::NonPytorch) {
                Some(bytes) => format!(
                    "{bytes} of this process is not managed by PyTorch: the CUDA context, NCCL and other libraries."
                ),
                None => format!(
                    "{} is in use outside PyTorch's allocator: by the CUDA context, libraries or other processes.",
                    of(PartKind::Outside)?
                ),
            }),
            Cause::Capacity => Some(format!("PyTorch allocated {}.", size(ledger.allocated?.bytes))),
            Cause::Unknown if self.has_room() => {
                Some("That would have been enough; the memory in use changed in the meantime.".to_owned())
            }
            _ => None,
        }
    }

    /// Whether the free memory would have been enough.
    fn has_room(&self) -> bool {
        let ledger = &self.breakdown.ledger;
        ledger.requested.zip(ledger.free).is_some_and(|(requested, free)| requested.bytes < free.bytes)
    }

    /// `Process 4242 uses` or `2 other processes use`.
    fn other_processes(&self) -> String {
        match self.others()[..] {
            [pid] => format!("Process {pid} uses"),
            ref pids => format!("{} other processes use", pids.len()),
        }
    }

    /// The IDs of other processes.
    fn others(&self) -> Vec<u64> {
        let pid = |part: &Part| match part.kind {
            PartKind::Process(pid) => Some(pid),
            _ => None,
        };
        self.breakdown.parts.iter().filter_map(pid).collect()
    }

    /// What to do; `None` if the numbers support no advice.
    fn advice(&self) -> Option<String> {
        match self.cause {
            Cause::OtherProcess => Some(match self.others()[..] {
                [pid] => format!("Stop process {pid} (`nvidia-smi` shows its name), or use another device."),
                _ => "Stop the other processes (`nvidia-smi` lists them), or use another device.".to_owned(),
            }),
            Cause::MemoryLimit => self.limit_advice(),
            Cause::Fragmentation => self.fragmentation_advice(),
            Cause::PrivatePools => Some(
                "Capture fewer CUDA graphs or smaller batch sizes, or release graphs that are no longer used."
                    .to_owned(),
            ),
            Cause::NonPytorch if self.breakdown.part(PartKind::NonPytorch).is_some() => Some(
                "Reduce what libraries allocate, such as the number of NCCL communicators and the size of their buffers."
                    .to_owned(),
            ),
            Cause::NonPytorch => {
                Some("Check with `nvidia-smi` whether other processes use the device.".to_owned())
            }
            Cause::NeverFits => Some("Split the tensor, shard it over more devices, or use a narrower dtype.".to_owned()),
            Cause::Capacity if self.source == "vllm" => self.startup_advice(),
            Cause::Capacity => Some(self.server_advice().unwrap_or_else(|| SMALLER_TENSORS.to_owned())),
            _ => None,
        }
    }

    fn limit_advice(&self) -> Option<String> {
        let ledger = &self.breakdown.ledger;
        if self.source == "xla" {
            return Some(
                "Raise XLA_PYTHON_CLIENT_MEM_FRACTION if the device has more memory, or use smaller arrays."
                    .to_owned(),
            );
        }
        let (requested, free) = (ledger.requested?, ledger.free?);
        if requested.bytes > free.bytes {
            return Some(format!(
                "A higher limit is not enough, because the device itself had only {} free. {SMALLER_TENSORS}",
                size(free.bytes)
            ));
        }
        let more = self.breakdown.lacks(self.cause).filter(|bytes| *bytes > 0);
        let more = more.map_or_else(String::new, |bytes| format!(" by at least {}", size(bytes)));
        Some(format!(
            "Raise the limit{more} (torch.cuda.set_per_process_memory_fraction, or per_process_memory_fraction in \
             PYTORCH_ALLOC_CONF): the device had enough free memory."
        ))
    }

    fn fragmentation_advice(&self) -> Option<String> {
        let is_set = self.allocator.is_some_and(|value| value.contains("expandable_segments:True"));
        // Only CUDA's virtual memory has expandable segments in all of these versions.
        (self.source == "pytorch" && self.platform == "cuda" && !is_set)
            .then(|| EXPANDABLE_SEGMENTS.to_owned())
    }

    /// What vLLM can use at most when it starts.
    fn startup_advice(&self) -> Option<String> {
        let ledger = &self.breakdown.ledger;
        let (free, capacity) = (ledger.free?, ledger.capacity?);
        let hundredths = free.bytes.checked_mul(100)?.checked_div(capacity.bytes)?;
        let lower = format!("set gpu_memory_utilization to at most 0.{hundredths:02}");
        Some(if hundredths == 0 {
            "Free memory of the device before starting the server: see `nvidia-smi`.".to_owned()
        } else {
            format!("Free memory of the device before starting the server, or {lower}.")
        })
    }

    /// A smaller KV cache, if it is large enough to make room.
    fn server_advice(&self) -> Option<String> {
        let ledger = &self.breakdown.ledger;
        let ((name, value), capacity) = (self.fraction?, ledger.capacity?);
        let missing = ledger.requested?.bytes.checked_sub(ledger.free?.bytes)?;
        self.kv_cache.filter(|cache| cache.bytes / 2 >= missing)?;
        let hundredths = missing.checked_mul(100)?.div_ceil(capacity.bytes.max(1));
        let set: f64 = value.parse().ok()?;
        let lower = set - f64::from(u32::try_from(hundredths).ok()?) / 100.0;
        (lower > 0.0).then(|| {
            format!(
                "Lower {name} from {value} to {lower:.2} or less: the KV cache then leaves {} more for activations.",
                size(missing)
            )
        })
    }
}
