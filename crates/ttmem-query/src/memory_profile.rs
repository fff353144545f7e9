//! The profile of a tracked program as `memory_profile_….json`, with the keys of Pie's tracker and some new ones.
//! Megabytes are 2²⁰ bytes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use ttmem_model::{
    AllocationTotals, Call, CallTotals, CurveKind, Moment, Nanoseconds, OpTotals, PoolId, Profile, Rank,
    Reading, ScopeId, ScopeKind, StepNumber, StrId, TensorId, difference,
};

use super::answer::LaunchSummary;
use crate::analyze::contents::{Content, contents, totals};
use crate::analyze::scopes;

/// Maximum number of tensors to list per device, largest first.
const TOP: usize = 10;
/// Maximum number of calls to list per operation. The last calls are kept.
const MAX_CALLS: usize = 1000;
/// Maximum depth of the tree of operations.
const MAX_DEPTH: usize = 128;
const MIB: f64 = 1_048_576.0;

/// The content of `memory_profile_….json`.
#[derive(Clone, Debug, Serialize)]
pub struct MemoryProfile {
    metadata: Metadata,
    snapshots: Vec<SnapshotRow>,
    operation_allocations: BTreeMap<String, Vec<Invocation>>,
    operation_summary: BTreeMap<String, OperationTotals>,
    operation_tree: Vec<Node>,
    pytorch_operations: Vec<PytorchOperation>,
    /// Totals per device, including allocations that were not kept individually.
    device_totals: BTreeMap<String, DeviceTotals>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct DeviceTotals {
    allocations: u64,
    allocated_bytes: u64,
    frees: u64,
    freed_bytes: u64,
    peak_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
struct Metadata {
    generated_at: String,
    num_snapshots: usize,
    operation_tracking_enabled: bool,
    /// The Unix time of time 0 in `start_ns`.
    began_unix_ns: Option<u64>,
    /// The maximum number of calls per operation in `operation_allocations`. The last calls are kept.
    invocations_listed_at_most: usize,
    /// The recording is complete from this time on, and thinned before it. Null if it is complete from the start.
    detail_since_ns: Option<Nanoseconds>,
    /// The process that was tracked.
    launch: Option<LaunchSummary>,
    warnings: Vec<String>,
}

#[derive(Clone, Debug, Serialize)]
struct SnapshotRow {
    timestamp: Option<String>,
    /// Nanoseconds since `began_unix_ns`.
    time_ns: Nanoseconds,
    checkpoint_name: Option<String>,
    total_mb: f64,
    total_bytes: u64,
    tensor_count: u64,
    device_breakdown: BTreeMap<String, Device>,
    /// The memory of the process, as counted by the system.
    host_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
struct Device {
    total_mb: f64,
    total_bytes: u64,
    count: u64,
    tensors: Vec<TensorRow>,
    /// The levels reported by a caching allocator, if there is one.
    active_bytes: Option<u64>,
    reserved_bytes: Option<u64>,
    requested_bytes: Option<u64>,
}

#[derive(Clone, Debug, Serialize)]
struct TensorRow {
    size_mb: f64,
    size_bytes: Option<u64>,
    shape: Option<Vec<u64>>,
    dtype: Option<String>,
    device: String,
    requires_grad: Option<bool>,
    operation: Option<String>,
    name: Option<String>,
    class: &'static str,
    made_by: Option<String>,
    location: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Invocation {
    memory_delta_mb: Option<f64>,
    tensor_delta: Option<i64>,
    pre_total_mb: Option<f64>,
    post_total_mb: Option<f64>,
    timestamp: Option<String>,
    peak_mb: Option<f64>,
    allocated_mb: Option<f64>,
    freed_mb: Option<f64>,
    kept_mb: Option<f64>,
    memory_delta_bytes: Option<i64>,
    peak_bytes: Option<u64>,
    allocated_bytes: Option<u64>,
    freed_bytes: Option<u64>,
    kept_bytes: Option<u64>,
    allocations: Option<u64>,
    frees: Option<u64>,
    start_ns: Nanoseconds,
    duration_ns: Option<Nanoseconds>,
    thread: Option<String>,
    parent: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize)]
struct OperationTotals {
    invocation_count: u64,
    total_memory_delta_mb: f64,
    avg_memory_delta_mb: f64,
    max_memory_delta_mb: f64,
    peak_mb: f64,
    allocated_mb: f64,
    freed_mb: f64,
    kept_mb: f64,
    total_time_ms: f64,
    max_time_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Node {
    name: String,
    kind: &'static str,
    #[serde(flatten)]
    totals: OperationTotals,
    children: Vec<Node>,
}

#[derive(Clone, Debug, Serialize)]
struct PytorchOperation {
    op_name: String,
    count: u64,
    cpu_time_us: f64,
    cuda_time_us: Option<f64>,
    cpu_memory_mb: f64,
    cuda_memory_mb: Option<f64>,
    input_shapes: Option<serde_json::Value>,
}

/// The profile of the first rank; a tracked program has one. If the program `is_running`, the missing end of the
/// recording is not reported as a warning.
pub fn memory_profile(profile: &Profile, is_running: bool) -> Option<MemoryProfile> {
    let view = View { profile, rank: profile.ranks.first()?, zone: TimeZone::system() };
    let rank = view.rank;
    let mut warnings = profile.warnings.as_slice();
    if is_running && !profile.complete {
        // The last warning says that the recording is incomplete.
        warnings = warnings.split_last().map_or(warnings, |(_, before)| before);
    }
    let metadata = Metadata {
        generated_at: local(Timestamp::now(), &view.zone),
        num_snapshots: rank.snapshots.len(),
        operation_tracking_enabled: !rank.calls.is_empty(),
        began_unix_ns: rank.began,
        invocations_listed_at_most: MAX_CALLS,
        detail_since_ns: rank.thinned.map(|thinned| thinned.since),
        launch: LaunchSummary::of(profile, rank),
        warnings: warnings.iter().map(|warning| warning.message.clone()).collect(),
    };
    let scopes = scopes::totals(rank);
    Some(MemoryProfile {
        metadata,
        snapshots: view.snapshots(),
        operation_allocations: view.invocations(),
        operation_summary: view.by_name(&scopes),
        operation_tree: view.children(None, &scopes, &view.scopes_by_parent(), 0),
        pytorch_operations: view.pytorch_operations(),
        device_totals: view.device_totals(),
    })
}

/// The rank that is described.
struct View<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    zone: TimeZone,
}

impl View<'_> {
    fn text(&self, id: StrId) -> String {
        self.profile.text(id).to_owned()
    }

    fn timestamp(&self, time: Nanoseconds) -> Option<String> {
        let unix = i128::from(self.rank.began?) + i128::from(time);
        Timestamp::from_nanosecond(unix).ok().map(|at| local(at, &self.zone))
    }

    fn snapshots(&self) -> Vec<SnapshotRow> {
        let moments: Vec<_> = self.rank.snapshots.iter().map(|snapshot| snapshot.at).collect();
        let host = self.rank.pool_named(self.profile, "host").map(|(_, pool)| pool);
        let rows = contents(self.rank, &moments, TOP).into_iter().zip(&self.rank.snapshots);
        let row = |(contents, snapshot): (Vec<Content>, &ttmem_model::Snapshot)| {
            let total_bytes = contents.iter().map(|content| content.bytes).sum();
            SnapshotRow {
                timestamp: self.timestamp(snapshot.time),
                time_ns: snapshot.time,
                checkpoint_name: snapshot.name.map(|name| self.text(name)),
                total_mb: mib(total_bytes),
                total_bytes,
                tensor_count: contents.iter().map(|content| content.count).sum(),
                device_breakdown: contents.iter().map(|content| self.device(content, snapshot.at)).collect(),
                host_bytes: host.and_then(|host| host.reading(snapshot.at).allocated),
            }
        };
        rows.map(row).collect()
    }

    fn device(&self, content: &Content, at: Moment) -> (String, Device) {
        let pool = self.rank.pools.get(content.pool.index());
        let name = pool.map_or("", |pool| self.profile.text(pool.name));
        let Reading { active, reserved, requested, .. } =
            pool.map(|pool| pool.reading(at)).unwrap_or_default();
        let tensors = content.largest.iter().map(|tensor| self.tensor(*tensor, name)).collect();
        let (total_bytes, count) = (content.bytes, content.count);
        let (active_bytes, reserved_bytes, requested_bytes) = (active, reserved, requested);
        let total_mb = mib(total_bytes);
        let device =
            Device { total_mb, total_bytes, count, tensors, active_bytes, reserved_bytes, requested_bytes };
        (name.to_owned(), device)
    }

    fn tensor(&self, id: TensorId, device: &str) -> TensorRow {
        let (tensors, index) = (&self.rank.tensors, id.index());
        let ty = tensors.ty[index].and_then(|ty| self.profile.tensor_type(ty));
        let made = self.profile.made(self.rank, id);
        TensorRow {
            size_mb: mib(tensors.per_bank[index].or_zero()),
            size_bytes: tensors.per_bank[index].get(),
            shape: ty.map(|ty| ty.shape.clone()),
            dtype: ty.map(|ty| self.text(ty.dtype)),
            device: device.to_owned(),
            requires_grad: self.rank.requires_grad.get(&id).copied(),
            operation: self.operation_of(id),
            name: tensors.name[index].map(|name| self.text(name)),
            class: tensors.class[index].as_str(),
            made_by: made.op.map(str::to_owned),
            location: made.loc.map(str::to_owned),
        }
    }

    /// The named operation that allocated a tensor, or its innermost scope if there is none.
    fn operation_of(&self, id: TensorId) -> Option<String> {
        let step = self.rank.tensors.step[id.index()].map(StepNumber::get)?;
        let call = self.rank.within.get(step)??;
        let innermost = self.rank.calls.scope.get(call.index()).copied()?;
        let mut next = Some(innermost);
        while let Some(scope) = next.and_then(|scope| self.rank.scopes.get(scope.index())) {
            if scope.kind == ScopeKind::Operation {
                return Some(self.text(scope.name));
            }
            next = scope.parent;
        }
        self.rank.scopes.get(innermost.index()).map(|scope| self.text(scope.name))
    }

    fn invocations(&self) -> BTreeMap<String, Vec<Invocation>> {
        let totals = totals(self.rank);
        let mut found: BTreeMap<String, Vec<Invocation>> = BTreeMap::new();
        // Starts with the last call, because only the last ones are listed.
        for index in (0..self.rank.calls.len()).rev() {
            let Some(call) = self.rank.calls.get(index) else { continue };
            let Some(scope) = self.rank.scopes.get(call.scope.index()) else { continue };
            if scope.kind == ScopeKind::Operation {
                let listed = found.entry(self.text(scope.name)).or_default();
                if listed.len() < MAX_CALLS {
                    listed.push(self.invocation(&call, &totals));
                }
            }
        }
        for listed in found.values_mut() {
            listed.reverse();
        }
        found
    }

    fn invocation(&self, call: &Call, totals: &[u64]) -> Invocation {
        // In the thinned part of a recording, the total is known only at some moments.
        let known = self.rank.thinned.map_or(0, |thinned| thinned.until);
        let total = |position: u32| {
            let total = totals.get(position as usize).copied().unwrap_or(0);
            (position >= known).then(|| mib(total))
        };
        let parent = call.parent.and_then(|parent| self.rank.calls.scope.get(parent.index()));
        let parent = parent.and_then(|scope| self.rank.scopes.get(scope.index()));
        let outcome = call.outcome;
        Invocation {
            memory_delta_mb: outcome.map(|outcome| signed_mib(outcome.change())),
            tensor_delta: outcome.map(|o| difference(o.allocations, o.frees)),
            pre_total_mb: total(call.first),
            post_total_mb: outcome.and_then(|outcome| total(outcome.end)),
            timestamp: self.timestamp(call.began),
            peak_mb: outcome.map(|outcome| mib(outcome.peak)),
            allocated_mb: outcome.map(|outcome| mib(outcome.allocated)),
            freed_mb: outcome.map(|outcome| mib(outcome.freed)),
            kept_mb: outcome.map(|outcome| mib(outcome.kept)),
            memory_delta_bytes: outcome.map(|outcome| outcome.change()),
            peak_bytes: outcome.map(|outcome| outcome.peak),
            allocated_bytes: outcome.map(|outcome| outcome.allocated),
            freed_bytes: outcome.map(|outcome| outcome.freed),
            kept_bytes: outcome.map(|outcome| outcome.kept),
            allocations: outcome.map(|outcome| outcome.allocations),
            frees: outcome.map(|outcome| outcome.frees),
            start_ns: call.began,
            duration_ns: outcome.map(|outcome| outcome.ended.saturating_sub(call.began)),
            thread: self.rank.lanes.get(call.lane.index()).map(|lane| self.text(*lane)),
            parent: parent.map(|scope| self.text(scope.name)),
        }
    }

    fn by_name(&self, totals: &[CallTotals]) -> BTreeMap<String, OperationTotals> {
        let mut found: BTreeMap<String, CallTotals> = BTreeMap::new();
        for (scope, totals) in self.rank.scopes.iter().zip(totals) {
            if scope.kind == ScopeKind::Operation {
                found.entry(self.text(scope.name)).or_default().add_all(totals);
            }
        }
        found.into_iter().map(|(name, totals)| (name, in_megabytes(&totals))).collect()
    }

    fn scopes_by_parent(&self) -> BTreeMap<Option<ScopeId>, Vec<ScopeId>> {
        let mut found: BTreeMap<Option<ScopeId>, Vec<ScopeId>> = BTreeMap::new();
        for (index, scope) in self.rank.scopes.iter().enumerate() {
            found.entry(scope.parent).or_default().extend(ScopeId::new(index));
        }
        found
    }

    /// The tree of operations. Its depth is limited so that a malicious file cannot overflow the stack.
    fn children(
        &self,
        parent: Option<ScopeId>,
        totals: &[CallTotals],
        by_parent: &BTreeMap<Option<ScopeId>, Vec<ScopeId>>,
        depth: usize,
    ) -> Vec<Node> {
        let children = by_parent.get(&parent).into_iter().flatten().filter(|_| depth < MAX_DEPTH);
        let node = |id: &ScopeId| {
            let scope = self.rank.scopes.get(id.index())?;
            let (sums, children) =
                (totals.get(id.index())?, self.children(Some(*id), totals, by_parent, depth + 1));
            if scope.kind == ScopeKind::Framework && sums.count == 0 && children.is_empty() {
                // All its calls are nested in other scopes, and are listed there.
                return None;
            }
            let (name, kind) = (self.text(scope.name), scope.kind.as_str());
            Some(Node { name, kind, totals: in_megabytes(sums), children })
        };
        children.filter_map(node).collect()
    }

    fn device_totals(&self) -> BTreeMap<String, DeviceTotals> {
        let (rank, tensors) = (self.rank, &self.rank.tensors);
        let mut found: BTreeMap<PoolId, AllocationTotals> = rank.further_allocations.clone();
        // Restored tensors are already included in the totals.
        let is_one = |index: &usize| {
            TensorId::new(*index).is_none_or(|tensor| {
                !rank.stands_for.contains_key(&tensor) && !rank.restored.contains_key(&tensor)
            })
        };
        for index in (0..tensors.len()).filter(is_one) {
            let bytes = tensors.per_bank[index].or_zero();
            let mut row = AllocationTotals { allocations: 1, allocated: bytes, ..Default::default() };
            if tensors.dies[index] != Moment::NEVER {
                (row.frees, row.freed) = (1, bytes);
            }
            found.entry(tensors.pool[index]).or_default().add(&row);
        }
        let row = |(pool, totals): (PoolId, AllocationTotals)| {
            let pool = rank.pools.get(pool.index())?;
            let curve = pool.curve(CurveKind::Allocated);
            let totals = DeviceTotals {
                allocations: totals.allocations,
                allocated_bytes: totals.allocated,
                frees: totals.frees,
                freed_bytes: totals.freed,
                peak_bytes: curve.and_then(|curve| curve.value.iter().copied().max()),
            };
            Some((self.text(pool.name), totals))
        };
        found.into_iter().filter(|(_, totals)| totals.allocations > 0).filter_map(row).collect()
    }

    fn pytorch_operations(&self) -> Vec<PytorchOperation> {
        let row = |totals: &OpTotals| PytorchOperation {
            op_name: self.text(totals.name),
            count: totals.count,
            cpu_time_us: micros(totals.cpu_time),
            cuda_time_us: totals.device_time.map(micros),
            cpu_memory_mb: signed_mib(totals.cpu_bytes),
            cuda_memory_mb: totals.device_bytes.map(signed_mib),
            input_shapes: totals.shapes.and_then(|s| serde_json::from_str(self.profile.text(s)).ok()),
        };
        // Several profiled blocks may contain the same operations.
        let mut found: BTreeMap<(StrId, Option<StrId>), OpTotals> = BTreeMap::new();
        for totals in &self.rank.op_totals {
            let key = (totals.name, totals.shapes);
            found.entry(key).and_modify(|have| have.add(totals)).or_insert(*totals);
        }
        let mut rows: Vec<_> = found.into_values().collect();
        rows.sort_by_key(|totals| (std::cmp::Reverse(totals.cpu_time), totals.name));
        rows.iter().map(row).collect()
    }
}

fn in_megabytes(totals: &CallTotals) -> OperationTotals {
    let change = signed_mib(totals.change());
    #[allow(clippy::cast_precision_loss)]
    let average = if totals.count == 0 { 0.0 } else { change / totals.count as f64 };
    OperationTotals {
        invocation_count: totals.count,
        total_memory_delta_mb: change,
        avg_memory_delta_mb: average,
        max_memory_delta_mb: signed_mib(totals.largest_change),
        peak_mb: mib(totals.peak),
        allocated_mb: mib(totals.allocated),
        freed_mb: mib(totals.freed),
        kept_mb: mib(totals.kept),
        total_time_ms: micros(totals.time) / 1000.0,
        max_time_ms: micros(totals.longest) / 1000.0,
    }
}

fn local(at: Timestamp, zone: &TimeZone) -> String {
    at.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%.6f").to_string()
}

#[allow(clippy::cast_precision_loss, reason = "rounded for display")]
fn mib(bytes: u64) -> f64 {
    bytes as f64 / MIB
}

#[allow(clippy::cast_precision_loss, reason = "rounded for display")]
fn signed_mib(bytes: i64) -> f64 {
    bytes as f64 / MIB
}

#[allow(clippy::cast_precision_loss, reason = "rounded for display")]
fn micros(time: Nanoseconds) -> f64 {
    time as f64 / 1000.0
}
