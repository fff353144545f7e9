//! What programs that train can do without: activations that can be computed again, and the width of an optimizer's state.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Finding, LARGE, PoolAtPeak, Situation, What};
use crate::analyze::lowered::Saving;
use crate::analyze::scopes::Alike;
use ttmem_model::{CallId, Class, Moment, Rank, ScopeId, ScopeKind, StrId, TensorId};

/// An optimizer with a state of 8 bits leaves tensors of fewer elements as they are.
const FEWEST_ELEMENTS: u64 = 4096;
/// It has a factor of 32 bits for so many elements.
const ELEMENTS_OF_A_FACTOR: u64 = 256;

/// Layers that are alike, and what they hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layers {
    /// Their name: `h.*`.
    pub name: String,
    /// How many.
    pub count: usize,
    /// What their activations take at the peak.
    pub per_bank: u64,
}

/// Activations of layers that are alike, which a backward pass could compute again.
///
/// Then a layer keeps only what it was given, which is what the one before it has given, and has all of its own again when the
/// backward pass comes to it.
pub fn recompute(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors().filter(|_| !situation.rank.calls.is_empty()) else {
        return Vec::new();
    };
    let layers = LayerOf::new(situation);
    let Some(found) = layers.heaviest(situation, &pool) else { return Vec::new() };
    let saves = situation.fall(&pool, &layers.kept_for_backward(situation, &pool, &found.name));
    // What is gone before a backward pass saves nothing: the program does not train.
    let finding = saves.map(|saves| Finding { saves: Some(saves), ..pool.finding(What::Recompute(found)) });
    finding.into_iter().collect()
}

/// The state of an optimizer that could be narrower.
pub fn optimizer_state(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors() else { return Vec::new() };
    let is_state = |tensor: &TensorId| situation.rank.tensors.class[tensor.index()] == Class::Optimizer;
    let alive: Vec<TensorId> = pool.alive(situation.rank).into_iter().filter(is_state).collect();
    let per_bank = situation.sum(&alive);
    if !pool.is_share(per_bank, LARGE) {
        return Vec::new();
    }
    let narrower = |tensor: TensorId| {
        let ty = situation.ty(tensor)?;
        let elements = ty.shape.iter().try_fold(1_u64, |all, side| all.checked_mul(*side))?;
        let is_wide = situation.profile.text(ty.dtype) == "torch.float32" && elements >= FEWEST_ELEMENTS;
        let narrow = elements.saturating_add(elements.div_ceil(ELEMENTS_OF_A_FACTOR).saturating_mul(4));
        is_wide.then(|| (tensor, situation.per_bank(tensor).saturating_sub(narrow)))
    };
    let saves = situation.fall_of(&pool, situation.ever_in(&pool).filter(is_state).filter_map(narrower));
    let finding = |saves| Finding { saves: Some(saves), ..pool.finding(What::OptimizerState { per_bank }) };
    saves.map(finding).into_iter().collect()
}

/// The layers that scopes are in, or are: the outermost of those that are alike.
struct LayerOf<'a> {
    rank: &'a Rank,
    /// By scope: the layer, and its name without its number.
    layers: Vec<Option<(ScopeId, usize)>>,
    names: Vec<String>,
}

impl<'a> LayerOf<'a> {
    fn new(situation: &Situation<'a>) -> Self {
        let (rank, alike) = (situation.rank, Alike::new(situation.profile, situation.rank));
        let (mut layers, mut names): (Vec<Option<(ScopeId, usize)>>, Vec<String>) = (Vec::new(), Vec::new());
        let mut numbers: FxHashMap<String, usize> = FxHashMap::default();
        // What a backward pass runs forward, it computes again already.
        let mut is_again: Vec<bool> = Vec::new();
        for (index, scope) in rank.scopes.iter().enumerate() {
            // A parent is always an earlier row.
            let parent = scope.parent.map(ScopeId::index);
            let again = parent.and_then(|parent| is_again.get(parent)).is_some_and(|again| *again);
            let outer = parent.and_then(|parent| layers.get(parent).copied().flatten());
            let own = || {
                let is_layer = scope.kind == ScopeKind::Forward && !again;
                let id = ScopeId::new(index).filter(|_| is_layer)?;
                let name = alike.name(id).filter(|name| name.ends_with('*'))?;
                let known = *numbers.entry(name).or_insert_with_key(|name| {
                    names.push(name.clone());
                    names.len() - 1
                });
                Some((id, known))
            };
            let layer = outer.or_else(own);
            layers.push(layer);
            is_again.push(again || scope.kind == ScopeKind::Backward);
        }
        Self { rank, layers, names }
    }

    fn of(&self, scope: ScopeId) -> Option<(ScopeId, usize)> {
        self.layers.get(scope.index()).copied().flatten()
    }

    /// The layers whose activations take most at a peak, where that is much.
    fn heaviest(&self, situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Option<Layers> {
        let mut sums: FxHashMap<usize, (FxHashSet<StrId>, u64)> = FxHashMap::default();
        for tensor in pool.alive(self.rank).into_iter().filter(|tensor| self.is_activation(*tensor)) {
            let Some((layer, name)) = self.rank.made_in(tensor).and_then(|scope| self.of(scope)) else {
                continue;
            };
            let sum = sums.entry(name).or_default();
            sum.0.extend(self.rank.scopes.name.get(layer.index()));
            sum.1 = sum.1.saturating_add(situation.per_bank(tensor));
        }
        let most = sums.into_iter().max_by_key(|(name, (_, bytes))| (*bytes, std::cmp::Reverse(*name)));
        let (name, (layers, per_bank)) = most?;
        let is_worth_it = layers.len() > 1 && pool.is_share(per_bank, LARGE);
        is_worth_it.then(|| Layers { name: self.names[name].clone(), count: layers.len(), per_bank })
    }

    /// What calls of layers keep for a backward pass and need not: all that outlives the call but what it has given, which is
    /// made last. It is there again when it is a layer's turn in the backward pass: when what was made after it is gone, or
    /// it begins to let go itself.
    fn kept_for_backward(&self, situation: &Situation<'_>, pool: &PoolAtPeak<'_>, name: &str) -> Vec<Saving> {
        let mut activations: Vec<TensorId> =
            situation.ever_in(pool).filter(|tensor| self.is_activation(*tensor)).collect();
        activations.sort_by_key(|tensor| self.born(*tensor));
        // By pass, which is the call that they are in: what the calls of its layers keep.
        let mut passes: BTreeMap<Option<CallId>, BTreeMap<CallId, Vec<TensorId>>> = BTreeMap::new();
        for tensor in &activations {
            let Some((call, end)) = self.call_of_layer(*tensor, name) else { continue };
            let pass = passes.entry(self.rank.calls.parent[call.index()]).or_default();
            let kept = pass.entry(call).or_default();
            if Moment::late(end) < self.dies(*tensor) && self.dies_in_backward(*tensor) {
                kept.push(*tensor);
            }
        }
        let mut savings = Vec::new();
        let mut following = None;
        for (pass, layers) in passes.into_iter().rev() {
            let mut later = None;
            for (call, mut kept) in layers.into_iter().rev() {
                // Of several results of one operation, the largest.
                let made_last = |made: &TensorId| (self.born(*made), situation.per_bank(*made), *made);
                let given = kept.iter().copied().max_by_key(made_last);
                kept.retain(|made| Some(*made) != given);
                kept.sort_by_key(|made| self.dies(*made));
                let Some(lets_go) = kept.get(kept.len() / 2).map(|made| self.dies(*made)) else { continue };
                // Several passes may come before one that goes back through all of them.
                let turn = later.or(following.filter(|end| *end <= lets_go));
                let turn = turn.or_else(|| self.end_of_rest(&activations, call, pass?, lets_go));
                later = kept.last().map(|made| self.dies(*made));
                // Where nothing tells when the turn of the last one comes, it may be at the peak.
                let Some(until) = turn.map(|turn| turn.min(lets_go)) else { continue };
                savings.extend(kept.iter().filter_map(|tensor| {
                    let saving = Saving::of(self.rank, *tensor, situation.per_bank(*tensor))?;
                    Some(Saving { until: until.min(saving.until), ..saving })
                }));
            }
            following = later;
        }
        savings
    }

    /// When the last is gone of what a pass has made after its last layer, and before that begins to let go.
    fn end_of_rest(
        &self,
        activations: &[TensorId],
        layer: CallId,
        pass: CallId,
        lets_go: Moment,
    ) -> Option<Moment> {
        let end =
            |call: CallId| self.rank.calls.outcome[call.index()].map(|outcome| Moment::late(outcome.end));
        let (from, until) = (end(layer)?, end(pass)?);
        let first = activations.partition_point(|tensor| self.born(*tensor) < from);
        let rest = activations[first..].iter().take_while(|tensor| self.born(**tensor) <= until);
        rest.map(|tensor| self.dies(*tensor)).filter(|dies| until < *dies && *dies <= lets_go).max()
    }

    /// Whether a tensor is given back by a backward pass: what it was kept for.
    fn dies_in_backward(&self, tensor: TensorId) -> bool {
        let calls = &self.rank.calls;
        let kind = |call: &CallId| self.rank.scopes.kind.get(calls.scope.get(call.index())?.index());
        let outer = |call: &CallId| calls.parent.get(call.index()).copied().flatten();
        let step = self.dies(tensor).position().checked_sub(1);
        let within = step.and_then(|step| self.rank.within.get(step)).flatten();
        let mut around = std::iter::successors(within, outer).take(calls.len());
        around.any(|call| kind(&call) == Some(&ScopeKind::Backward))
    }

    fn born(&self, tensor: TensorId) -> Moment {
        self.rank.tensors.born[tensor.index()]
    }

    fn dies(&self, tensor: TensorId) -> Moment {
        self.rank.tensors.dies[tensor.index()]
    }

    /// The call of a layer with that name in which a tensor was made, and where it ended.
    fn call_of_layer(&self, tensor: TensorId, name: &str) -> Option<(CallId, u32)> {
        let calls = &self.rank.calls;
        let (layer, of) = self.of(self.rank.made_in(tensor)?)?;
        if self.names[of] != name {
            return None;
        }
        let step = self.rank.tensors.step[tensor.index()]?.get();
        let outer = |call: &CallId| calls.parent.get(call.index()).copied().flatten();
        let mut around = std::iter::successors(self.rank.within.get(step)?, outer).take(calls.len());
        let call = around.find(|call| calls.scope[call.index()] == layer)?;
        Some((call, calls.outcome[call.index()]?.end))
    }

    fn is_activation(&self, tensor: TensorId) -> bool {
        self.rank.tensors.class.get(tensor.index()) == Some(&Class::Activation)
    }
}
