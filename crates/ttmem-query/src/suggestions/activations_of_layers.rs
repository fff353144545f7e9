//! Layers keep activations for a backward pass that could recompute them.
//!
//! With recomputation, a layer keeps only its input, which is the output of the previous layer, and has its activations
//! again when the backward pass reaches it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{CallId, Class, Moment, Rank, ScopeId, ScopeKind, StrId, TensorId};

use super::phrases::brief;
use super::{Effect, Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::scopes::Alike;
use crate::analyze::simulation::Change;

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "activations_of_layers";

const HOW: &str = "Recomputing them in the backward pass (torch.utils.checkpoint around each layer) lowers";
const BEFORE_BACKWARD: &str = "Recompute them in the backward pass (torch.utils.checkpoint around each layer). If the \
                               program does not train, run it in torch.inference_mode(), which keeps none of them.";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors().filter(|_| !situation.rank.calls.is_empty()) else {
        return Vec::new();
    };
    let layers = LayerOf::new(situation);
    let Some(found) = layers.heaviest(situation, &pool) else { return Vec::new() };
    let changes = layers.kept_for_backward(situation, &pool, &found.name);
    // A program that failed in its first forward pass has not shown whether it trains. Recomputing activations that are
    // freed before a backward pass saves nothing: the program does not train.
    let effect = match situation.verdict {
        Some(_) => Effect::lowers(HOW, changes).about().otherwise(BEFORE_BACKWARD.to_owned()),
        None if changes.is_empty() => return Vec::new(),
        None => Effect::lowers(HOW, changes).about(),
    };
    let statement = Statement::new(format!(
        "The activations of {} layers ({}) take {}.",
        found.count,
        brief(&found.name),
        pool.share(found.per_bank),
    ));
    vec![pool.finding(NAME, statement).tensors(found.activations).effect(effect)]
}

/// Similar layers and their activations at the peak.
struct Layers {
    /// The name that the layers share, such as `h.*`.
    name: String,
    count: usize,
    activations: Vec<TensorId>,
    /// The size of the activations per bank.
    per_bank: u64,
}

/// The layer of each scope: the outermost enclosing scope (or the scope itself) whose name differs from others only in
/// a number.
struct LayerOf<'a> {
    rank: &'a Rank,
    /// For each scope, its layer and the index in `names` of that layer's name without its number.
    layers: Vec<Option<(ScopeId, usize)>>,
    names: Vec<String>,
}

impl<'a> LayerOf<'a> {
    fn new(situation: &Situation<'a>) -> Self {
        let (rank, alike) = (situation.rank, Alike::new(situation.profile, situation.rank));
        let (mut layers, mut names): (Vec<Option<(ScopeId, usize)>>, Vec<String>) = (Vec::new(), Vec::new());
        let mut numbers: FxHashMap<String, usize> = FxHashMap::default();
        // A forward pass inside a backward pass already is a recomputation.
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

    /// The layers whose activations take the largest share of the peak, if that share is large.
    fn heaviest(&self, situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Option<Layers> {
        let mut found: FxHashMap<usize, (FxHashSet<StrId>, Vec<TensorId>)> = FxHashMap::default();
        for tensor in situation.alive(pool).filter(|tensor| self.is_activation(*tensor)) {
            let Some((layer, name)) = self.rank.made_in(tensor).and_then(|scope| self.of(scope)) else {
                continue;
            };
            let (layers, activations) = found.entry(name).or_default();
            layers.extend(self.rank.scopes.name.get(layer.index()));
            activations.push(tensor);
        }
        let sized = found.into_iter().map(|(name, (layers, activations))| {
            let per_bank = situation.sum(&activations);
            (per_bank, Reverse(name), layers.len(), activations)
        });
        let (per_bank, Reverse(name), count, activations) =
            sized.max_by_key(|(per_bank, name, ..)| (*per_bank, *name))?;
        let is_worth_it = count > 1 && pool.is_share(per_bank, LARGE_SHARE);
        is_worth_it.then(|| Layers { name: self.names[name].clone(), count, activations, per_bank })
    }

    /// The changes by recomputation: the activations that layer calls keep for a backward pass, except their outputs.
    ///
    /// Everything that outlives a call is kept; its output is allocated last. The activations of a layer are in memory
    /// again when the backward pass reaches it: when those of the following layers are freed, or its own start to be.
    fn kept_for_backward(&self, situation: &Situation<'_>, pool: &PoolAtPeak<'_>, name: &str) -> Vec<Change> {
        let mut activations: Vec<TensorId> =
            situation.ever_in(pool).filter(|tensor| self.is_activation(*tensor)).collect();
        activations.sort_by_key(|tensor| self.born(*tensor));
        // For each pass (the call that encloses the layers), the tensors that its layer calls keep.
        let mut passes: BTreeMap<Option<CallId>, BTreeMap<CallId, Vec<TensorId>>> = BTreeMap::new();
        for tensor in &activations {
            let Some((call, end)) = self.call_of_layer(*tensor, name) else { continue };
            let pass = passes.entry(self.rank.calls.parent[call.index()]).or_default();
            let kept = pass.entry(call).or_default();
            if Moment::late(end) < self.dies(*tensor) && self.dies_in_backward(*tensor) {
                kept.push(*tensor);
            }
        }
        let mut changes = Vec::new();
        let mut following = None;
        for (pass, layers) in passes.into_iter().rev() {
            let mut later = None;
            for (call, mut kept) in layers.into_iter().rev() {
                // If one operation has several results, the largest is the output.
                let made_last = |made: &TensorId| (self.born(*made), situation.per_bank(*made), *made);
                let given = kept.iter().copied().max_by_key(made_last);
                kept.retain(|made| Some(*made) != given);
                kept.sort_by_key(|made| self.dies(*made));
                let Some(lets_go) = kept.get(kept.len() / 2).map(|made| self.dies(*made)) else { continue };
                // One backward pass may cover several forward passes.
                let turn = later.or(following.filter(|end| *end <= lets_go));
                let turn = turn.or_else(|| self.end_of_rest(&activations, call, pass?, lets_go));
                later = kept.last().map(|made| self.dies(*made));
                // If it is unknown when the last layer is recomputed, that may be at the peak.
                let Some(until) = turn.map(|turn| turn.min(lets_go)) else { continue };
                changes.extend(kept.iter().map(|tensor| Change::Away(*tensor, self.born(*tensor), until)));
            }
            following = later;
        }
        changes
    }

    /// The moment when the last activation allocated by a pass after its last layer is freed, if that is before the
    /// layer's own activations are freed.
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

    /// Whether a backward pass frees a tensor, which means that the tensor was kept for it.
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

    /// The call of a layer named `name` that allocated a tensor, and the position where the call ended.
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
