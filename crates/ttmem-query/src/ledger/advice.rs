//! What to do about an out-of-memory error of a GPU. Advice is given only if the input supports it.

use super::sentences::Facts;
use crate::analyze::ledger::PartKind;
use crate::analyze::oom::Cause;
use crate::verdict::{EXPANDABLE_SEGMENTS, FEWER_SIZES_WHEN_EXPANDABLE, SMALLER_TENSORS};
use crate::words::size;

/// How to make room if the tensors are not known, and how to find them.
const FIND_TENSORS: &str = "Use a smaller batch, bf16, activation checkpointing, an optimizer with less state, or more devices. The \
     message does not say which tensors hold the memory: to find them, record a snapshot \
     (torch.cuda.memory._record_memory_history(), then torch.cuda.memory._dump_snapshot(\"snapshot.pickle\")) and run `ttmem \
     snapshot.pickle`, or run the program with `ttmem track`.";

/// The same on platforms without such snapshots.
const TRACK_TENSORS: &str = "Use a smaller batch, bf16, activation checkpointing, an optimizer with less state, or more devices. The \
     message does not say which tensors hold the memory: to find them, run the program with `ttmem track`.";

/// The advice on fragmentation on platforms without expandable segments.
const FEWER_SIZES: &str = "Use tensors of fewer different sizes (pad inputs to a few lengths) or a smaller batch, or set \
     PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:512, so that large blocks are not split.";

impl Facts<'_> {
    /// What to do; `None` if the input supports no advice.
    pub fn advice(&self) -> Option<String> {
        match self.cause {
            Cause::OtherProcess => Some(match self.others()[..] {
                [pid] => {
                    format!("Stop process {pid} (`{}` shows its name), or use another GPU.", self.monitor())
                }
                _ => {
                    let monitor = self.monitor();
                    format!("Stop the other processes (`{monitor}` shows their names), or use another GPU.")
                }
            }),
            Cause::MemoryLimit => self.limit_advice(),
            Cause::Fragmentation => self.fragmentation_advice(),
            Cause::NonPytorch => Some(self.outside_advice()),
            Cause::NeverFits if self.source == "xla" => Some(
                "Use a smaller batch or a narrower dtype, recompute activations (jax.checkpoint), or shard the program over \
                 more devices."
                    .to_owned(),
            ),
            Cause::NeverFits => {
                Some("Split the tensor, shard it over more devices, or use a narrower dtype.".to_owned())
            }
            Cause::KvCache => Some(self.cache_advice()),
            Cause::Capacity if self.source == "vllm" => self.startup_advice(),
            Cause::PrivatePools | Cause::Capacity => {
                Some(self.server_advice().unwrap_or_else(|| self.usual_advice().to_owned()))
            }
            Cause::Unknown if self.breakdown.ledger.capacity.is_none() => self.advice_without_numbers(),
            _ => None,
        }
    }

    fn usual_advice(&self) -> &'static str {
        match (self.cause, self.platform) {
            (Cause::PrivatePools, _) => {
                "Capture fewer CUDA graphs or smaller batch sizes, or release unused graphs."
            }
            _ if self.has_tensors => SMALLER_TENSORS,
            (_, "cuda" | "hip") => FIND_TENSORS,
            _ => TRACK_TENSORS,
        }
    }

    fn outside_advice(&self) -> String {
        if self.breakdown.part(PartKind::NonPytorch).is_none() {
            return format!("Check with `{}` whether other processes use the device.", self.monitor());
        }
        "Reduce what else this process allocates: JAX and TensorFlow reserve most of a device by default \
         (XLA_PYTHON_CLIENT_PREALLOCATE=false, TF_FORCE_GPU_ALLOW_GROWTH=true), and every communicator of NCCL has its own \
         buffers."
            .to_owned()
    }

    /// The command that lists the processes of a device.
    fn monitor(&self) -> &'static str {
        match self.platform {
            "hip" => "rocm-smi",
            "xpu" => "xpu-smi",
            "npu" => "npu-smi",
            _ => "nvidia-smi",
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
        if self.platform == "mps" {
            return Some(
                "Use a smaller batch, or close other programs: they share this memory. PYTORCH_MPS_HIGH_WATERMARK_RATIO \
                 changes the limit, but a higher one may make the system fail."
                    .to_owned(),
            );
        }
        let (requested, free) = (ledger.requested?, ledger.free?);
        let unused = self.breakdown.unused_for_request().and_then(|_| self.fragmentation_advice());
        if requested.bytes > free.bytes {
            return Some(unused.unwrap_or_else(|| {
                format!(
                    "A higher limit is not enough, because the device itself had only {} free. {}",
                    size(free.bytes),
                    self.usual_advice()
                )
            }));
        }
        let more = self.breakdown.lacks(self.cause).filter(|bytes| *bytes > 0);
        let more = more.map_or_else(String::new, |bytes| format!(" by at least {}", size(bytes)));
        let raise = format!(
            "{} the limit{more} (torch.cuda.set_per_process_memory_fraction, or per_process_memory_fraction in \
             PYTORCH_ALLOC_CONF): the device had enough free memory.",
            if unused.is_some() { "Or raise" } else { "Raise" }
        );
        Some(unused.map_or_else(|| raise.clone(), |unused| format!("{unused} {raise}")))
    }

    fn fragmentation_advice(&self) -> Option<String> {
        // Only CUDA's virtual memory has expandable segments in all of these versions.
        let advice = match (self.source, self.platform) {
            ("pytorch", _) if self.has_expandable_segments() => FEWER_SIZES_WHEN_EXPANDABLE,
            ("pytorch", "cuda") => EXPANDABLE_SEGMENTS,
            ("pytorch", "hip") => FEWER_SIZES,
            _ => return None,
        };
        Some(advice.to_owned())
    }

    /// Whether the allocator's settings enable expandable segments.
    pub fn has_expandable_segments(&self) -> bool {
        self.allocator.is_some_and(|value| value.contains("expandable_segments:True"))
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

    /// The options of an inference server that free memory.
    fn server_advice(&self) -> Option<String> {
        let while_capturing = format!("{} was capturing CUDA graphs", self.server_name());
        let options = match (self.server, self.is_capture) {
            ("vllm", true) => {
                format!(
                    "Or set --enforce-eager, or lower --max-num-seqs or --max-model-len: {while_capturing}."
                )
            }
            ("vllm", false) => "Or lower --max-model-len or --max-num-seqs.".to_owned(),
            ("sglang", true) => format!("Or lower --cuda-graph-max-bs: {while_capturing}."),
            ("sglang", false) => "Or lower --max-running-requests or --chunked-prefill-size.".to_owned(),
            _ => return self.smaller_cache(),
        };
        let option = if self.server == "vllm" { "--gpu-memory-utilization" } else { "--mem-fraction-static" };
        let cache = self.smaller_cache().unwrap_or_else(|| {
            let value = self.fraction.map_or_else(String::new, |(_, value)| format!(" ({value})"));
            format!("Lower {option}{value}, so that the KV cache leaves more memory.")
        });
        Some(format!("{cache} {options}"))
    }

    /// A smaller KV cache, if it is large enough to make room.
    fn smaller_cache(&self) -> Option<String> {
        let ledger = &self.breakdown.ledger;
        let ((name, value), capacity) = (self.fraction?, ledger.capacity?);
        let missing = ledger.requested?.bytes.checked_sub(ledger.free?.bytes)?;
        self.reported("kv_cache").filter(|cache| cache.bytes / 2 >= missing)?;
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

    /// How to start a server whose KV cache does not fit.
    fn cache_advice(&self) -> String {
        let value = self.fraction.map_or_else(String::new, |(_, value)| format!(" ({value})"));
        let (option, devices) = match self.server {
            "sglang" => ("--mem-fraction-static", "--tp-size"),
            _ => ("--gpu-memory-utilization", "--tensor-parallel-size"),
        };
        let more = format!("raise {option}{value}");
        match self.tokens {
            [_, Some(possible)] => format!("Lower --max-model-len to {possible} or less, or {more}."),
            [Some(_), None] => format!("Lower --max-model-len, or {more}."),
            _ => format!(
                "{}{}, use a quantized model, or use more GPUs ({devices}).",
                more[..1].to_ascii_uppercase(),
                &more[1..]
            ),
        }
    }

    /// The next step after an error without numbers.
    fn advice_without_numbers(&self) -> Option<String> {
        if let Some(advice) = self.server_advice() {
            return Some(advice);
        }
        let advice = match self.source {
            "cublas" | "hipblas" | "cudnn" | "cusolver" | "cusparse" => {
                "Libraries allocate outside PyTorch's allocator. Print torch.cuda.mem_get_info() before this line to see how \
                 much memory is left for them; torch.cuda.empty_cache() returns what PyTorch does not use."
            }
            "nccl" => {
                "NCCL allocates outside PyTorch's allocator. Leave memory for its buffers: use a smaller batch, or limit \
                 PyTorch with torch.cuda.set_per_process_memory_fraction."
            }
            "xla" => {
                "Save a profile of the device's memory before this line to see which arrays hold it: \
                 jax.profiler.save_device_memory_profile(\"memory.prof\")."
            }
            "cuda" => {
                return Some(format!(
                    "The driver itself had no memory, such as for the context of this process. Check with `{}` whether other \
                     processes use the device.",
                    self.monitor()
                ));
            }
            "pytorch" if self.platform == "xpu" => {
                return Some(format!(
                    "Check with `{}` whether other processes use the device; if none does, use a smaller batch.",
                    self.monitor()
                ));
            }
            _ => return None,
        };
        Some(advice.to_owned())
    }
}
