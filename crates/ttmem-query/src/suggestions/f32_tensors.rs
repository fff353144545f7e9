//! Tensors are stored as f32; bf16 would take half as much.

use ttmem_model::{Class, TensorId};

use super::phrases::by_count;
use super::{Effect, Finding, LARGE_SHARE, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::simulation::Change;
use crate::device::is_torch;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "f32_tensors";

/// The unit of sizes that PyTorch's caching allocators hand out.
const BLOCK: u64 = 512;

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let torch = is_torch(pool.label.name).then(|| Torch::new(situation, &pool));
    let is_wide = |tensor: &TensorId| match &torch {
        Some(torch) => torch.saved(*tensor).is_some(),
        None => situation.stored(*tensor).is_some_and(|(_, stored)| stored == "f32"),
    };
    let alive: Vec<TensorId> = situation.alive(&pool).filter(is_wide).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, LARGE_SHARE) {
        return Vec::new();
    }
    let halved = |tensor| {
        let saved = match &torch {
            Some(torch) => torch.saved(tensor)?,
            None => situation.interleaved(&pool, tensor)?.saved_by_halves()?,
        };
        Some(Change::Smaller(tensor, saved))
    };
    let span = (situation.span.start(), situation.span.last(situation.rank));
    let in_span = |tensor: &TensorId| {
        let tensors = &situation.rank.tensors;
        tensors.born[tensor.index()] <= span.1 && span.0 < tensors.dies[tensor.index()]
    };
    let all = situation.ever_in(&pool).filter(in_span).filter(is_wide);
    let changes: Vec<Change> = all.filter_map(halved).collect();
    let count = alive.len();
    let (wide, narrow) = if torch.is_some() { ("float32", "bfloat16") } else { ("f32", "bf16") };
    // The saving requires that those that are live at other moments are also stored as bf16.
    let them = match changes.len() {
        all if all > count => format!("all {wide} tensors"),
        _ => by_count(count, "it", "them").to_owned(),
    };
    let how = format!("Storing {them} as {narrow}, if accuracy allows, lowers");
    let takes = by_count(count, "tensor takes", "tensors take");
    let statement = Statement::new(format!("{count} {wide} {takes} {}.", pool.share(per_bank)));
    vec![pool.finding(NAME, statement).tensors(alive).effect(Effect::lowers(how, changes))]
}

/// The float32 tensors of a PyTorch program.
struct Torch<'a, 's> {
    situation: &'s Situation<'a>,
    /// The unit of its sizes.
    unit: u64,
    /// Whether it also computes in 16 bits. The results that it keeps in 32 bits would then remain.
    is_mixed: bool,
}

impl<'a, 's> Torch<'a, 's> {
    fn new(situation: &'s Situation<'a>, pool: &PoolAtPeak<'a>) -> Self {
        let is_narrow = |tensor: &TensorId| {
            let dtype = situation.ty(*tensor).map(|ty| situation.profile.text(ty.dtype));
            matches!(dtype, Some("torch.bfloat16" | "torch.float16"))
        };
        let narrow: Vec<TensorId> = situation.alive(pool).filter(is_narrow).collect();
        Self {
            situation,
            unit: if pool.label.name.starts_with("cpu") { 1 } else { BLOCK },
            is_mixed: pool.is_share(situation.sum(&narrow), MIN_SHARE),
        }
    }

    /// The bytes that a tensor would save as bfloat16; `None` for other tensors, and for views whose storage is larger.
    fn saved(&self, tensor: TensorId) -> Option<u64> {
        let ty = self.situation.ty(tensor)?;
        let class = *self.situation.rank.tensors.class.get(tensor.index())?;
        let is_kept = matches!(class, Class::Parameter | Class::Gradient | Class::Optimizer | Class::Buffer);
        if self.situation.profile.text(ty.dtype) != "torch.float32" || self.is_mixed && !is_kept {
            return None;
        }
        let elements = ty.shape.iter().try_fold(1_u64, |all, side| all.checked_mul(*side))?;
        let size = |bytes: u64| elements.checked_mul(bytes)?.checked_next_multiple_of(self.unit);
        // A scalar, such as the step of an optimizer, stays as it is.
        let is_whole = elements > 1 && size(4)? == self.situation.per_bank(tensor);
        is_whole.then(|| size(4)?.checked_sub(size(2)?)).flatten().filter(|saved| *saved > 0)
    }
}
