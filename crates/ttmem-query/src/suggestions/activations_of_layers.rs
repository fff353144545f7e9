//! Layers keep activations for a backward pass that could recompute them.
//!
//! With recomputation, a layer keeps only its input, which is the output of the previous layer, and has its activations
//! again when the backward pass reaches it.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{CallId, Class, Moment, Rank, ScopeId, ScopeKind, Step, StepNumber, StrId, TensorId};

use super::phrases::brief;
use super::{Effect, Finding, LARGE_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::scopes::Alike;
use crate::analyze::simulation::{Change, Simulation};

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "activations_of_layers";

const HOW: &str = "Recomputing them in the backward pass (torch.utils.checkpoint around each layer) lowers";
const BEFORE_BACKWARD: &str = "Recompute them in the backward pass (torch.utils.checkpoint around each layer). If the \
                               program does not train, run it in torch.inference_mode(), which keeps none of them.";
const ONE_OUTPUT: &str =
    "This assumes that each layer returns a single tensor, which older recordings do not state.";
/// If the largest possible saving exceeds the smallest one by more than this percentage of it, the saving is unknown.
const MAX_UNCERTAINTY: u64 = 5;

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    let Some(pool) = situation.main_with_tensors().filter(|_| !situation.rank.calls.is_empty()) else {
        return Vec::new();
    };
    let layers = LayerOf::new(situation);
    let Some(found) = layers.heaviest(situation, &pool) else { return Vec::new() };
    // A checkpointed layer keeps all its outputs. Which of several tensors are outputs is unknown, and so is the saving.
    let changes = if layers.has_several_outputs(&found.name) {
        Vec::new()
    } else {
        layers.certain_changes(situation, &pool, &found.name)
    };
    // A program that failed in its first forward pass has not shown whether it trains. Recomputing activations that are
    // freed before a backward pass saves nothing: the program does not train.
    if situation.verdict.is_none() && changes.is_empty() {
        return Vec::new();
    }
    let mut effect = Effect::lowers(HOW, changes).about();
    if situation.verdict.is_some() {
        effect = effect.otherwise(BEFORE_BACKWARD.to_owned());
    }
    if !situation.rank.states_outputs() {
        effect = effect.then(ONE_OUTPUT.to_owned());
    }
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

/// When a layer is computed again, if the profile does not show it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unknown {
    /// When the backward pass begins.
    Earliest,
    /// Right before the first operation that frees an activation of the layer.
    Latest,
}

/// The changes by recomputation.
struct Recomputed {
    changes: Vec<Change>,
    /// Whether it is known when each layer is computed again.
    is_certain: bool,
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

    /// Whether layers with this name return several tensors.
    fn has_several_outputs(&self, name: &str) -> bool {
        let is_one = |scope: &ScopeId| {
            let found = self.of(*scope).filter(|(layer, _)| layer == scope);
            found.and_then(|(_, of)| self.names.get(of)).is_some_and(|of| of == name)
        };
        self.rank.several_outputs.iter().any(is_one)
    }

    /// The changes by recomputation that save least; none if others, which are also possible, save much more.
    fn certain_changes(&self, situation: &Situation<'_>, pool: &PoolAtPeak<'_>, name: &str) -> Vec<Change> {
        let recomputed = self.recomputed(situation, pool, name, Unknown::Earliest);
        if recomputed.is_certain {
            return recomputed.changes;
        }
        let latest = self.recomputed(situation, pool, name, Unknown::Latest).changes;
        let all = [&*recomputed.changes, &latest].concat();
        let simulation = Simulation::new(pool.account, situation.span, &all);
        let (least, most) = (simulation.saving(&recomputed.changes), simulation.saving(&latest));
        let is_close = u128::from(least) * 100 >= u128::from(most) * u128::from(100 - MAX_UNCERTAINTY);
        if is_close { recomputed.changes } else { Vec::new() }
    }

    /// The changes by recomputation: layer calls free the activations that they keep for a backward pass, except their
    /// outputs, and compute them again when the backward pass reaches the layer.
    ///
    /// A profile does not state what each layer is given and when exactly it is computed again. The changes assume what
    /// saves less.
    fn recomputed(
        &self,
        situation: &Situation<'_>,
        pool: &PoolAtPeak<'_>,
        name: &str,
        unknown: Unknown,
    ) -> Recomputed {
        let mut tensors: Vec<TensorId> = situation.ever_in(pool).collect();
        tensors.sort_by_key(|tensor| (self.born(*tensor), *tensor));
        let is_parameter =
            |id: &&TensorId| self.rank.tensors.class.get(id.index()) == Some(&Class::Parameter);
        let parameters = tensors.iter().filter(is_parameter);
        let weights: FxHashSet<&[u64]> =
            parameters.filter_map(|id| Some(&situation.ty(*id)?.shape[..])).collect();
        let mut deaths_in_order: Vec<Moment> = tensors.iter().map(|tensor| self.dies(*tensor)).collect();
        deaths_in_order.sort_unstable();
        let mut changes = Vec::new();
        // When a backward pass frees what was allocated after a layer: it frees the youngest first.
        let mut freed: BTreeSet<Moment> = BTreeSet::new();
        let mut younger = tensors.len();
        let (mut following, mut is_certain) = (None, true);
        for (begin, end) in self.calls_of_layers(name).into_iter().rev() {
            let index_after = |at: Moment| tensors.partition_point(|tensor| self.born(*tensor) <= at);
            let (first, last) = (index_after(begin), index_after(end));
            let later = tensors.get(last..younger).unwrap_or_default();
            freed.extend(later.iter().filter(|id| self.is_kept_for_backward(**id)).map(|id| self.dies(*id)));
            younger = last;
            let made = tensors.get(first..last).unwrap_or_default();
            // If one operation has several results, the largest is the output.
            let made_last = |id: &TensorId| (self.step(*id), situation.per_bank(*id), Reverse(*id));
            let outlives = made.iter().copied().filter(|tensor| end < self.dies(*tensor));
            let output = outlives.clone().max_by_key(made_last);
            let kept: Vec<TensorId> = outlives
                .filter(|id| Some(*id) != output && self.is_activation(*id) && self.is_kept_for_backward(*id))
                // The next layer uses it, so it is another output.
                .filter(|id| {
                    !following.is_some_and(|(from, until)| from <= self.dies(*id) && self.dies(*id) <= until)
                })
                .collect();
            let deaths = || kept.iter().map(|tensor| self.dies(*tensor));
            if let (Some(reached), Some(left)) = (deaths().min(), deaths().max()) {
                if let Some(output) = output.filter(|id| self.is_kept_for_backward(*id))
                    && self.does_not_save_its_result(situation, output)
                {
                    freed.insert(self.dies(output));
                }
                let input = tensors[..first].iter().rev().find(|tensor| begin < self.dies(**tensor));
                let again = freed.range(..reached).next_back().copied().filter(|again| end < *again);
                let again = again
                    .or_else(|| self.before_derivative(situation, output?, end, reached))
                    .or_else(|| {
                        is_certain = false;
                        let earliest = self.backward_after(end).filter(|begins| *begins < reached)?;
                        let latest = Moment::before(reached.position().saturating_sub(1));
                        Some(if unknown == Unknown::Latest { latest.max(earliest) } else { earliest })
                    });
                if let Some(again) = again {
                    let away = |tensor: TensorId| {
                        let from = self.freed_at(tensor, end, again, &weights, situation);
                        Change::Away(tensor, from, again)
                    };
                    changes.extend(kept.iter().copied().map(away));
                    // An output that its operation saves is computed again as well.
                    let saved = output.filter(|id| self.is_kept_for_backward(*id) && again < self.dies(*id));
                    let computed: Vec<TensorId> = kept.iter().copied().chain(saved).collect();
                    let more = self.highest(situation, made, &computed);
                    let more = more.saturating_sub(situation.sum(&computed));
                    // What is freed before the next allocation makes room for it.
                    let next = tensors.get(index_after(again)).map_or(Moment::NEVER, |next| self.born(*next));
                    let count = deaths_in_order.partition_point(|at| *at < next);
                    let lowest = count.checked_sub(1).and_then(|index| deaths_in_order.get(index)).copied();
                    changes.push(Change::Added(lowest.unwrap_or(again).max(again), next, more));
                    // The input is needed to compute the layer again, even if the layer has not saved it.
                    if let Some(input) = input.copied().filter(|input| self.dies(*input) < left) {
                        changes.push(Change::Added(self.dies(input), left, situation.per_bank(input)));
                    }
                }
                following = Some((reached, left));
            }
            freed.extend(made.iter().filter(|id| self.is_kept_for_backward(**id)).map(|id| self.dies(*id)));
            younger = first.min(younger);
        }
        Recomputed { changes, is_certain }
    }

    /// Where the calls of layers with this name begin and end, in order. Calls that have not ended are left out.
    fn calls_of_layers(&self, name: &str) -> Vec<(Moment, Moment)> {
        let calls = &self.rank.calls;
        let span = |call: usize| {
            let scope = *calls.scope.get(call)?;
            let (layer, of) = self.of(scope)?;
            let is_one = layer == scope && self.names.get(of).is_some_and(|of| of == name);
            let end = (*calls.outcome.get(call)?)?.end;
            is_one.then(|| Some((Moment::late(*calls.first.get(call)?), Moment::late(end))))?
        };
        let mut found: Vec<(Moment, Moment)> = (0..calls.len()).filter_map(span).collect();
        found.sort_unstable();
        found
    }

    /// The most memory that the tensors of a layer call take together, up to the last one that is kept: computing the
    /// layer again ends there.
    fn highest(&self, situation: &Situation<'_>, made: &[TensorId], kept: &[TensorId]) -> u64 {
        let Some(last) = kept.iter().map(|tensor| self.born(*tensor)).max() else { return 0 };
        let mut changes: Vec<(Moment, bool, u64)> = Vec::new();
        for tensor in made.iter().filter(|tensor| self.born(**tensor) <= last) {
            let bytes = situation.per_bank(*tensor);
            changes.push((self.born(*tensor), true, bytes));
            changes.push((self.dies(*tensor), false, bytes));
        }
        // Frees come first.
        changes.sort_unstable();
        let (mut level, mut highest) = (0_u64, 0);
        for (_, is_allocated, bytes) in changes.into_iter().take_while(|(at, ..)| *at <= last) {
            level = if is_allocated { level.saturating_add(bytes) } else { level.saturating_sub(bytes) };
            highest = level.max(highest);
        }
        highest
    }

    /// When a checkpointed layer call frees a tensor: at its end. Autocast keeps the weights that it converts for other
    /// calls, until the backward pass begins.
    fn freed_at(
        &self,
        tensor: TensorId,
        end: Moment,
        again: Moment,
        weights: &FxHashSet<&[u64]>,
        situation: &Situation<'_>,
    ) -> Moment {
        let is_weight = situation.ty(tensor).is_some_and(|ty| weights.contains(&ty.shape[..]));
        let op = situation.profile.made(self.rank, tensor).op;
        if !is_weight || !op.is_some_and(|op| op.ends_with("::_to_copy")) {
            return end;
        }
        self.backward_after(end).map_or(again, |begins| begins.min(again))
    }

    /// When the next backward pass begins.
    fn backward_after(&self, at: Moment) -> Option<Moment> {
        let calls = &self.rank.calls;
        let kind = |call: usize| self.rank.scopes.kind.get(calls.scope.get(call)?.index());
        // Calls are in the order of their start.
        let later = calls.first.partition_point(|first| *first < at.position());
        let backward = (later..calls.len()).find(|call| kind(*call) == Some(&ScopeKind::Backward))?;
        calls.first.get(backward).map(|first| Moment::late(*first))
    }

    /// The moment before the derivative of the operation that made a layer's output, if that operation saves its result. A
    /// backward pass begins each layer with the last operation of the layer.
    fn before_derivative(
        &self,
        situation: &Situation<'_>,
        output: TensorId,
        end: Moment,
        reached: Moment,
    ) -> Option<Moment> {
        let derivative = match situation.profile.made(self.rank, output).op?.strip_prefix("aten::")? {
            "relu" => "aten::threshold_backward",
            "sigmoid" => "aten::sigmoid_backward",
            "tanh" => "aten::tanh_backward",
            "_softmax" => "aten::_softmax_backward_data",
            "_log_softmax" => "aten::_log_softmax_backward_data",
            _ => return None,
        };
        let mut steps = self.backward_after(end)?.position()..reached.position();
        let is_it = |step: &Step| situation.profile.op_name(self.rank, *step) == Some(derivative);
        steps.find(is_it).map(Moment::before)
    }

    /// Whether the operation that made a tensor is known not to need its result for the backward pass.
    fn does_not_save_its_result(&self, situation: &Situation<'_>, tensor: TensorId) -> bool {
        let op = situation.profile.made(self.rank, tensor).op.and_then(|op| op.strip_prefix("aten::"));
        matches!(
            op,
            Some(
                "add"
                    | "sub"
                    | "mul"
                    | "mm"
                    | "bmm"
                    | "addmm"
                    | "baddbmm"
                    | "linear"
                    | "convolution"
                    | "native_layer_norm"
                    | "native_batch_norm"
                    | "native_group_norm"
                    | "cat"
                    | "clone"
                    | "_to_copy"
            )
        )
    }

    /// Whether a tensor is allocated outside a backward pass and freed in one, which means that it was kept for it.
    fn is_kept_for_backward(&self, tensor: TensorId) -> bool {
        let freed_by = self.dies(tensor).position().checked_sub(1);
        freed_by.is_some_and(|step| self.is_in_backward(step))
            && !self.step(tensor).is_some_and(|step| self.is_in_backward(step))
    }

    /// Whether a step is part of a backward pass.
    fn is_in_backward(&self, step: Step) -> bool {
        let calls = &self.rank.calls;
        let kind = |call: &CallId| self.rank.scopes.kind.get(calls.scope.get(call.index())?.index());
        let outer = |call: &CallId| calls.parent.get(call.index()).copied().flatten();
        let within = self.rank.within.get(step).flatten();
        let mut around = std::iter::successors(within, outer).take(calls.len());
        around.any(|call| kind(&call) == Some(&ScopeKind::Backward))
    }

    fn step(&self, tensor: TensorId) -> Option<Step> {
        self.rank.tensors.step.get(tensor.index()).copied().flatten().map(StepNumber::get)
    }

    fn born(&self, tensor: TensorId) -> Moment {
        self.rank.tensors.born[tensor.index()]
    }

    fn dies(&self, tensor: TensorId) -> Moment {
        self.rank.tensors.dies[tensor.index()]
    }

    fn is_activation(&self, tensor: TensorId) -> bool {
        self.rank.tensors.class.get(tensor.index()) == Some(&Class::Activation)
    }
}
