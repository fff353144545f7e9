//! What could be changed, in sentences with numbers.
//!
//! The rules stand in `analyze::findings`. The sentences are part of the answer, so that the screen, the page,
//! Markdown and scripts say the same.

use super::answer::Suggestion;
use super::words::{brief, percent, shape, size};
use crate::analyze::findings::{
    Busy, Cached, Family, Finding, Full, Grown, Growth, How, Instead, Layers, PaddedShape, Shortage,
    Situation, Unexplained, What, findings,
};
use crate::analyze::fragmentation::Fragmented;
use crate::analyze::oom::Cause;
use ttmem_model::{Step, StrId, TensorId, TensorType};

/// Texts of the evidence take no more characters of a sentence than this.
const BRIEF: usize = 60;

/// What the rules say of a rank.
pub(super) fn suggestions(situation: &Situation<'_>) -> Vec<Suggestion> {
    findings(situation).iter().map(|finding| Words::new(situation, finding).suggestion()).collect()
}

/// A finding on its way into words.
struct Words<'a> {
    situation: &'a Situation<'a>,
    finding: &'a Finding,
    pool: &'a str,
    banks: Option<u32>,
    /// The peak of the pool.
    peak: u64,
}

impl<'a> Words<'a> {
    fn new(situation: &'a Situation<'a>, finding: &'a Finding) -> Self {
        let pool = situation.rank.pools.get(finding.pool.index());
        let at_peak = situation.pools.iter().find(|pool| pool.account.id == finding.pool);
        Self {
            situation,
            finding,
            pool: pool.map_or("memory", |pool| situation.profile.text(pool.name)),
            banks: pool.and_then(|pool| pool.banks),
            peak: at_peak.map_or(0, |pool| pool.peak.per_bank),
        }
    }

    fn suggestion(&self) -> Suggestion {
        let saves = self.finding.saves;
        Suggestion {
            rule: self.rule(),
            pool: self.pool.to_owned(),
            message: self.message(),
            saves_per_bank: saves,
            saves_bytes: saves.and_then(|saves| saves.checked_mul(self.banks?.into())),
            step: self.finding.step,
        }
    }

    fn rule(&self) -> &'static str {
        match &self.finding.what {
            What::OutOfMemory(_) => "out_of_memory",
            What::Full(Full { over, .. }) => match (self.pool, over) {
                ("L1", 95..) => "l1_over_95",
                ("L1", _) => "l1_over_90",
                (_, 90..) => "dram_over_90",
                _ => "dram_over_80",
            },
            What::Padding { .. } => "padding_over_50",
            What::PaddedShape(_) => "tensor_padding_over_50",
            What::KeptTwice { .. } => "weights_kept_twice",
            What::Busy(Busy { family: Family::Matmul, .. }) => "matmul_at_peak",
            What::Busy(Busy { family: Family::Reduction, .. }) => "reduction_at_peak",
            What::Cached(_) => "load_cached",
            What::Expanded { .. } => "weights_expanded",
            What::Wide { .. } => "f32_tensors",
            What::PlainWeights { .. } => "bf16_weights",
            What::Caches { .. } => "kv_cache",
            What::Recompute(_) => "activations_of_layers",
            What::OptimizerState { .. } => "optimizer_state",
            What::Grows(growth) => match growth.most.map(|most| most.how) {
                Some(How::Cache) => "kv_cache_grows",
                Some(How::Larger) => "tensors_grow",
                Some(How::More) | None => "grows",
            },
            What::Fragmented(_) => "fragmentation",
            What::Unexplained(_) => "unexplained",
        }
    }

    fn message(&self) -> String {
        match &self.finding.what {
            What::OutOfMemory(shortage) => self.out_of_memory(shortage),
            What::Full(full) => self.full(full),
            What::Padding { padded, logical } => self.padding(*padded, *logical),
            What::PaddedShape(found) => self.padded_shape(found),
            What::KeptTwice { count, per_bank } => self.kept_twice(*count, *per_bank),
            What::Busy(busy) => self.busy(busy),
            What::Cached(cached) => self.cached(cached),
            What::Expanded { largest, count, per_bank, sources } => {
                self.expanded(*largest, *count, *per_bank, *sources)
            }
            What::Wide { count, per_bank } => self.narrower(*count, *per_bank, "f32 tensor", "bf16"),
            What::PlainWeights { count, per_bank } => {
                self.narrower(*count, *per_bank, "bf16 weight", "bfp_bf8")
            }
            What::Caches { count, per_bank } => self.caches(*count, *per_bank),
            What::Recompute(layers) => self.recompute(layers),
            What::OptimizerState { per_bank } => self.optimizer_state(*per_bank),
            What::Grows(growth) => self.grows(growth),
            What::Fragmented(worst) => self.fragmented(worst),
            What::Unexplained(rest) => self.unexplained(rest),
        }
    }

    fn out_of_memory(&self, shortage: &Shortage) -> String {
        let who = self.step().unwrap_or_else(|| "A request".into());
        let pool = self.pool;
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".into(), size);
        let asked = shortage.requested.map_or_else(|| "unknown".into(), |bytes| self.each(bytes));
        let asked = format!("asked for {asked}");
        let (free, largest) = (known(shortage.free), known(shortage.largest_free));
        match (shortage.cause, shortage.lacks()) {
            (Cause::Capacity, Some(lacks)) => format!(
                "{who} lacks {} of {pool}: it {asked}, and {free} were free. Free that much before it, or ask for \
                 less: {}.",
                self.both(lacks),
                if pool.starts_with("L1") {
                    "smaller blocks, more cores, or DRAM instead"
                } else {
                    "a smaller batch, a narrower dtype, more devices"
                },
            ),
            (Cause::Fragmentation, Some(lacks)) => format!(
                "{who} lacks {} of {pool} in one piece: it {asked}, {free} were free, but the largest piece \
                 had {largest}. Allocate what lives long first, or free what lies between the pieces.",
                self.each(lacks)
            ),
            (Cause::NeverFits, Some(_)) => format!(
                "{who} {asked} of {pool}, and a bank has {}. {}",
                known(shortage.capacity),
                self.never_fits(shortage)
            ),
            (Cause::CircularBuffers, Some(lacks)) => format!(
                "{who} lacks {} of L1 on a core for its circular buffers. Move as much of what is alive in L1 to \
                 DRAM, shard over more cores, or use smaller blocks.",
                size(lacks)
            ),
            (Cause::TraceRegion, _) => {
                format!("{who} {asked} for a trace. Open the device with a larger trace_region_size.")
            }
            (Cause::Unknown, _) if shortage.requested.is_some() && shortage.largest_free.is_some() => {
                format!(
                    "{who} {asked} of {pool}, though {largest} were free in one piece. Look for a limit that the \
                 program has set itself, and for others on the device."
                )
            }
            _ => format!("{who} failed for lack of {pool}; the log does not tell how much it lacked."),
        }
    }

    fn never_fits(&self, shortage: &Shortage) -> String {
        let requested = shortage.requested.unwrap_or(0);
        if self.pool == "L1_SMALL" {
            return format!("Open the device with an l1_small_size of {requested} B or more.");
        }
        let parts = shortage.capacity.map_or(2, |capacity| requested.div_ceil(capacity.max(1)));
        format!("Split the tensor into {parts} parts or more, or shard it over as many devices.")
    }

    fn full(&self, full: &Full) -> String {
        let pool = self.pool;
        let is = format!(
            "{pool} is {} full at its peak, {} are left.",
            percent(full.peak, full.capacity),
            self.both(full.left())
        );
        let goal = format!("Taking {} off brings it to {}%", self.both(full.too_much()), full.target);
        if pool == "L1" {
            return format!(
                "{is} Kernels need room there for circular buffers, too: operations may spill to DRAM and get \
                 slower, or fail. {goal}: move tensors to DRAM, or shard them over more cores."
            );
        }
        let is_risky = full.over >= 90 && self.situation.fault.is_none();
        let risk = if is_risky { " Risk of running out of memory." } else { "" };
        format!("{is}{risk} {goal}: reduce the batch or the model.")
    }

    fn padding(&self, padded: u64, logical: u64) -> String {
        let wasted = padded.saturating_sub(logical);
        format!(
            "Padding adds {} to what is alive at the {} peak: {} of {} on the device. Tiles are 32x32: shapes whose \
             last two dimensions are multiples of 32 need none.{}",
            percent(wasted, logical),
            self.pool,
            size(wasted),
            size(padded),
            self.lowers("Reshaping to fewer tiles, with the same elements, lowers"),
        )
    }

    fn padded_shape(&self, found: &PaddedShape) -> String {
        let Some(ty) = self.situation.profile.tensor_type(found.ty) else { return String::new() };
        let (padded, logical) = (ty.padded.or_zero(), ty.logical.or_zero());
        let name = self.name(found.example);
        let (who, lower, they) = match found.count {
            1 => (format!("{name}, {}, is", self.typed(ty)), "it lowers", "it"),
            count => (format!("{count} tensors of {} ({name} …) are", self.typed(ty)), "they lower", "them"),
        };
        let is = format!("{who} padded by {}.", percent(padded.saturating_sub(logical), logical));
        match &found.instead {
            Instead::Shape(better) => {
                let shape = brief(&shape(better), BRIEF);
                let lowers = self.lowers(&format!("As {shape}, the same elements, {lower}"));
                format!("{is}{lowers} Only element-wise operations use {they}.")
            }
            Instead::Changing(ops) => {
                format!(
                    "{is} A shape with less padding needs changes in the model: {}.",
                    self.would_change(ops)
                )
            }
            Instead::Returned => format!(
                "{is} A shape with less padding needs changes in the model: the program returns {they}, so what uses the \
                 result would need to change too."
            ),
        }
    }

    /// `ttnn.mean and ttnn.reshape would need to change too`.
    fn would_change(&self, ops: &[StrId]) -> String {
        const SHOWN: usize = 4;
        let mut names: Vec<String> = ops.iter().map(|op| self.op(*op)).collect();
        if names.len() > SHOWN + 1 {
            let more = names.split_off(SHOWN).len();
            names.push(format!("{more} more operations"));
        }
        let listed = match names.split_last() {
            Some((last, [])) => last.clone(),
            Some((last, first)) => format!("{} and {last}", first.join(", ")),
            None => "other operations".into(),
        };
        format!("{listed} would need to change too")
    }

    fn kept_twice(&self, count: usize, per_bank: u64) -> String {
        let (weights, originals) = match count {
            1 => ("weight is", "the original takes"),
            _ => ("weights are", "the originals take"),
        };
        format!(
            "{count} {weights} in {} twice at its peak, as given and const-evaluated; {originals} {}.{}",
            self.pool,
            self.share(per_bank),
            self.lowers("Freeing what was given after const-eval, if nothing else reads it, lowers"),
        )
    }

    fn busy(&self, busy: &Busy) -> String {
        let who = self.step().unwrap_or_else(|| "A step".into());
        let does = if busy.caused { "brings" } else { "begins with" };
        let peak = if busy.caused { "to its peak" } else { "at its peak" };
        let result = busy.result.and_then(|result| self.situation.profile.tensor_type(self.ty(result)?));
        let takes = match result {
            Some(ty) => format!("its operands and result, {}, take", self.typed(ty)),
            None if self.situation.rank.has_tensors() => "its operands take".into(),
            None => "it adds".into(),
        };
        let inside = match busy.family {
            Family::Matmul => "",
            Family::Reduction => " It may need buffers in between, which no state shows.",
        };
        let split = match self.finding.saves {
            Some(_) => {
                self.lowers("Split in two halves, each used before the next is made, its result lowers")
            }
            None => " Split it, so that less of that is there at once.".into(),
        };
        format!("{who} {does} {} {peak}: {takes} {}.{inside}{split}", self.pool, self.share(busy.per_bank))
    }

    fn cached(&self, cached: &Cached) -> String {
        let Cached { loads, first, last, per_bank } = *cached;
        let total = self.situation.rank.steps.len();
        let who = if loads == 1 {
            format!("Step {first} of {total}, ttcore.load_cached, loads")
        } else {
            format!("{loads} ttcore.load_cached, steps {first} to {last} of {total}, load")
        };
        format!(
            "{who} weights that const-eval programs prepared once; they take {}, and stay. That is normal.",
            self.share(per_bank)
        )
    }

    fn expanded(&self, largest: TensorId, count: usize, per_bank: u64, sources: u64) -> String {
        let typed = self.ty(largest).and_then(|ty| self.situation.profile.tensor_type(ty));
        let typed = typed.map_or_else(String::new, |ty| format!(", {}", self.typed(ty)));
        let (tensors, take) = if count == 1 { ("tensor", "takes") } else { ("tensors", "take") };
        format!(
            "Const-eval programs made {count} {tensors} out of {} of weights that {take} {}; the largest is \
             {}{typed}.{}",
            size(sources),
            self.share(per_bank),
            self.name(largest),
            self.lowers("Broadcasting where they are used, instead of keeping them expanded, lowers"),
        )
    }

    fn narrower(&self, count: usize, per_bank: u64, what: &str, to: &str) -> String {
        let (s, take, lower) =
            if count == 1 { ("", "takes", "it lowers") } else { ("s", "take", "they lower") };
        format!(
            "{count} {what}{s} {take} {}.{}",
            self.share(per_bank),
            self.lowers(&format!("As {to}, if accuracy allows, {lower}")),
        )
    }

    fn caches(&self, count: usize, per_bank: u64) -> String {
        let (s, take) = if count == 1 { ("", "takes") } else { ("s", "take") };
        format!(
            "{count} KV cache{s} {take} {}.{}",
            self.share(per_bank),
            self.lowers("Half the context length, or half the batch, lowers"),
        )
    }

    fn recompute(&self, layers: &Layers) -> String {
        format!(
            "The activations of {} layers, {}, take {}.{}",
            layers.count,
            brief(&layers.name, BRIEF),
            self.share(layers.per_bank),
            self.lowers_about(
                "Computed again in the backward pass (torch.utils.checkpoint around each layer), they lower"
            ),
        )
    }

    fn optimizer_state(&self, per_bank: u64) -> String {
        format!(
            "The state of the optimizer takes {}.{}",
            self.share(per_bank),
            self.lowers_about("In 8 bits (bitsandbytes and torchao have such optimizers) it lowers"),
        )
    }

    fn grows(&self, growth: &Growth) -> String {
        let (profile, rank) = (self.situation.profile, self.situation.rank);
        let name =
            rank.scopes.get(growth.scope.index()).map_or("something", |scope| profile.text(scope.name));
        let each = growth.per_bank / u64::try_from(growth.rounds.max(1)).unwrap_or(1);
        format!(
            "Every call of {} leaves {} more in {}, on average: {} over {} calls.{}",
            brief(name, BRIEF),
            self.each(each),
            self.pool,
            self.both(growth.per_bank),
            growth.rounds,
            growth.most.as_ref().map_or_else(String::new, |most| self.grown(most)),
        )
    }

    /// Whose tensors grow, and what to do about it.
    fn grown(&self, most: &Grown) -> String {
        let profile = self.situation.profile;
        let loc = profile.ops.loc(most.op).map(|loc| format!(" at {}", brief(profile.text(loc), BRIEF)));
        let op = profile.ops.name(most.op).map_or_else(|| "an operation".into(), |op| self.op(op));
        let made_by = format!("{op}{}", loc.unwrap_or_default());
        let more = self.each(most.per_bank);
        let (s, are) = if most.count == 1 { ("", "is") } else { ("s", "are") };
        let count = most.count;
        match most.how {
            How::More => format!(
                " The largest part is {count} tensor{s} of {made_by}: {more}. If this is a leak, keep less: \
                 `loss.item()` instead of the loss with its graph, and no lists that only grow."
            ),
            How::Larger => format!(
                " {count} tensor{s} of {made_by} {are} replaced by larger ones, which take {more} more. A KV cache \
                 grows like this with every token; to bound it, limit the number of tokens or allocate a cache of \
                 fixed size. If it is not a cache, drop what is no longer needed before concatenating."
            ),
            How::Cache => format!(
                " Most of it is the KV cache ({count} tensor{s} of {made_by}): {more}. It grows with every token, \
                 which is expected. To bound it, limit the number of tokens, or use a cache of fixed size or a \
                 sliding window (in transformers, `cache_implementation=\"static\"`)."
            ),
        }
    }

    fn fragmented(&self, worst: &Fragmented) -> String {
        format!(
            "Before step {}, {} of {} are free, but the largest piece has {}: what needs more of a bank does \
             not fit. Allocate what lives long (weights, caches) before what lives short.",
            worst.at.position(),
            self.each(worst.free),
            self.pool,
            size(worst.largest_free),
        )
    }

    fn unexplained(&self, rest: &Unexplained) -> String {
        let most = rest.most.map_or_else(String::new, |(op, bytes, steps)| {
            let s = if steps == 1 { "" } else { "s" };
            format!("; {} left {} of that behind, in {steps} step{s}", self.op(op), self.each(bytes))
        });
        let half = rest.per_bank / 2;
        let advice = if rest.once_for_each_shape > half {
            format!(
                "{} came when an operation first ran with its shapes: the program cache keeps that, and \
                 fewer different shapes keep it small.",
                self.each(rest.once_for_each_shape)
            )
        } else if rest.from_before > half {
            format!(
                "{} were there before the first step: arguments that no step has used, or another program on \
                 the device.",
                self.each(rest.from_before)
            )
        } else {
            "Compare --run 1 with --run last: if it grows, something leaks.".to_owned()
        };
        format!("No tensor explains {}{most}. {advice}", self.share(rest.per_bank))
    }

    /// ` <how> the peak by 146.3 MiB/bank (1.00 GiB on the device).`, or nothing where nothing is saved.
    fn lowers(&self, how: &str) -> String {
        let saves = self.finding.saves;
        saves.map_or_else(String::new, |saves| format!(" {how} the peak by {}.", self.both(saves)))
    }

    /// The same of a change that makes the program do something else, which is not known to the byte.
    fn lowers_about(&self, how: &str) -> String {
        let saves = self.finding.saves;
        saves.map_or_else(String::new, |saves| format!(" {how} the peak by about {}.", self.both(saves)))
    }

    /// `146.3 MiB/bank`; of evidence that counts whole devices `146.3 MiB`.
    fn each(&self, bytes: u64) -> String {
        let unit = if self.banks == Some(1) { "" } else { "/bank" };
        format!("{}{unit}", size(bytes))
    }

    /// `146.3 MiB/bank (1.00 GiB on the device)`.
    fn both(&self, per_bank: u64) -> String {
        let banks = self.banks.filter(|banks| *banks > 1);
        let device = banks.and_then(|banks| per_bank.checked_mul(banks.into()));
        let device = device.map_or_else(String::new, |bytes| format!(" ({} on the device)", size(bytes)));
        format!("{}{device}", self.each(per_bank))
    }

    /// `146.3 MiB/bank, 21.3% of the DRAM peak`.
    fn share(&self, per_bank: u64) -> String {
        format!("{}, {} of the {} peak", self.each(per_bank), percent(per_bank, self.peak), self.pool)
    }

    /// `Step 100, ttnn.add at "subtract.3",`.
    fn step(&self) -> Option<String> {
        let step: Step = self.finding.step?;
        let (profile, rank) = (self.situation.profile, self.situation.rank);
        let op = profile.op_name(rank, step).map(|op| format!(", {}", brief(op, BRIEF)));
        let loc = profile.op_loc(rank, step).map(|loc| format!(" at {},", brief(loc, BRIEF)));
        let end = if loc.is_none() && op.is_some() { "," } else { "" };
        Some(format!("Step {step}{}{}{end}", op.unwrap_or_default(), loc.unwrap_or_default()))
    }

    fn op(&self, op: StrId) -> String {
        brief(self.situation.profile.text(op), BRIEF)
    }

    fn ty(&self, tensor: TensorId) -> Option<ttmem_model::TypeId> {
        self.situation.rank.tensors.ty.get(tensor.index()).copied().flatten()
    }

    /// `1x32x64 (bf16)`.
    fn typed(&self, ty: &TensorType) -> String {
        let dtype = self.situation.profile.text(ty.dtype);
        format!("{} ({})", brief(&shape(&ty.shape), BRIEF), brief(dtype, BRIEF))
    }

    fn name(&self, tensor: TensorId) -> String {
        let tensors = &self.situation.rank.tensors;
        let name = tensors.name.get(tensor.index()).copied().flatten();
        let name = name.or_else(|| tensors.ssa.get(tensor.index()).copied().flatten());
        name.map_or_else(
            || "one without a name".into(),
            |name| brief(self.situation.profile.text(name), BRIEF),
        )
    }
}
