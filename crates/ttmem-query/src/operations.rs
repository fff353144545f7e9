//! The operations of a rank: the rows of `<name>_memory.json` and `<name>_operations.json`.
//!
//! Row n of both files is the same operation; `deallocate` and `get_device` are skipped. `index` counts the rows from
//! 0; `step` is the step number used everywhere else. Rows are computed while they are written, so that a file with
//! hundreds of thousands of operations is never in memory as a whole.
//!
//! | value | null if |
//! |---|---|
//! | a pool in `memory` | the pool was not observed right before the step |
//! | `unpadded_memory` | the input has no tensors (memory lines only) |
//! | operands, types, shapes, `weights` | only the OpType is known; `weights` also if graph or tensors are unknown |
//! | `is_weight_op` | the input has no program names |
//!
//! Sizes with `MB` in their name are MiB. Those of `memory` are as printed by the input, with three decimal places; the
//! profile has exact bytes. `ttmem-report` decides what files to write, and for what ranks.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmem_model::{
    Curve, CurveKind, ModuleId, Moment, Op, OpKind, Pool, Profile, Rank, Run, Step, StepMarks, TensorType,
    TypeId,
};

use super::rows::{Entries, Rows, Shape, mib, mib_as_printed};
use super::summary::overhead_pct;
use crate::analyze::main_pool::main_pool;
use crate::analyze::over_time::{PaddedSum, PaddingOverTime};
use crate::analyze::traced::{Traced, WeightRef, number_of};
use crate::analyze::{Account, Span, peak};

/// The content of `<name>_memory.json`.
#[derive(Clone, Copy, Debug)]
pub struct MemoryFile<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The rank.
    pub rank: &'a Rank,
    /// The range of steps.
    pub span: Span,
}

/// The content of `<name>_operations.json`.
#[derive(Clone, Copy, Debug)]
pub struct OperationsFile<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The rank.
    pub rank: &'a Rank,
    /// The range of steps.
    pub span: Span,
}

impl Serialize for MemoryFile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { profile, rank, span } = *self;
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("metadata", &Metadata::new(profile, rank, span))?;
        map.serialize_entry("operations", &Rows(|| memory_rows(profile, rank, span)))?;
        map.end()
    }
}

impl Serialize for OperationsFile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(operation_rows(self.profile, self.rank, self.span))
    }
}

#[derive(serde::Serialize)]
struct Metadata<'a> {
    memory_config: Entries<&'a str, PoolConfig>,
    total_operations: usize,
    rank: Option<&'a str>,
    format: &'a str,
    file: &'a str,
}

#[derive(serde::Serialize)]
struct PoolConfig {
    num_banks: Option<u32>,
    #[serde(rename = "total_bytes_per_bank_MB")]
    total: Option<f64>,
}

impl<'a> Metadata<'a> {
    fn new(profile: &'a Profile, rank: &'a Rank, span: Span) -> Self {
        let config = |pool: &'a Pool| {
            let capacity = pool.curve(CurveKind::Capacity).and_then(Curve::last);
            let total = capacity.map(|bytes| mib_as_printed(bytes, pool.quantum));
            (profile.text(pool.name), PoolConfig { num_banks: pool.banks, total })
        };
        Self {
            memory_config: Entries(rank.pools.iter().map(config).collect()),
            total_operations: reported(profile, rank, span).count(),
            rank: rank.label.map(|label| profile.text(label)),
            format: &profile.source.format,
            file: &profile.source.file,
        }
    }
}

/// The highest peak of a rank's main pool, in bytes per bank.
pub fn highest_peak(profile: &Profile, rank: &Rank) -> Option<u64> {
    let peak_of =
        |id| peak::peak(&Account::new(rank, id)?, Span::whole(rank)).map(|peak: peak::Peak| peak.per_bank);
    main_pool(profile, rank, peak_of).and_then(peak_of)
}

/// The steps that have rows.
fn reported<'a>(profile: &'a Profile, rank: &'a Rank, span: Span) -> impl Iterator<Item = Step> + 'a {
    (span.first..span.end.min(rank.end())).filter(|&step| profile.op_kind(rank, step).is_reported())
}

/// The fields that both files have for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Head<'a> {
    /// The row number, starting at 0.
    pub index: usize,
    /// The step number.
    pub step: Step,
    /// `ttnn.matmul`, or the OpType if only that is known.
    pub mlir_op: &'a str,
    /// The full text of the location.
    pub loc: Option<&'a str>,
    /// The const-eval program that it is part of, or whose results it loads.
    pub const_eval_graph: Option<&'a str>,
    /// Whether that program had to run; false for operations unrelated to const-eval.
    pub const_eval_cache_miss: Option<bool>,
    /// Whether it computes or loads constants.
    pub is_weight_op: Option<bool>,
}

impl<'a> Head<'a> {
    fn new(profile: &'a Profile, rank: &'a Rank, op: &Op, index: usize, step: Step) -> Self {
        let inside = rank.run_of(step).filter(|run| run.const_eval);
        let loads = op.kind == OpKind::LoadCached;
        let marks = rank.steps.marks.get(step as usize).copied().unwrap_or_default();
        let cache_miss = match (inside, loads) {
            _ if marks.has(StepMarks::CACHE_MISS) => Some(true),
            _ if marks.has(StepMarks::CACHE_HIT) => Some(false),
            (_, true) => None,
            // A const-eval program runs only if its results are not cached.
            (inside, false) => Some(inside.is_some()),
        };
        let called = op.callee.filter(|_| loads);
        // Without program names, operations that run once and whose results are kept cannot be identified.
        let known = rank.runs.iter().any(|run| run.parent.is_none());
        Self {
            index,
            step,
            mlir_op: profile.text(op.name),
            loc: op.loc.map(|loc| profile.text(loc)),
            const_eval_graph: called.or(inside.map(|run| run.program)).map(|name| profile.text(name)),
            const_eval_cache_miss: cache_miss,
            is_weight_op: known.then_some(inside.is_some() || loads),
        }
    }
}

/// The memory before an operation.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct MemoryRow<'a> {
    /// The operation.
    #[serde(flatten)]
    pub head: Head<'a>,
    /// The OpType if known, otherwise the last part of the name (`add`).
    pub op_type: &'a str,
    /// The state of each pool, as observed right before the operation.
    pub memory: Entries<&'a str, Option<PoolState>>,
    /// The size of the live tensors with and without padding.
    pub unpadded_memory: Option<Unpadded>,
}

/// The state of a pool, in MiB per bank.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct PoolState {
    /// The number of banks.
    #[serde(rename = "numBanks")]
    pub banks: Option<u32>,
    /// The size of a bank.
    #[serde(rename = "totalBytesPerBank_MB")]
    pub total: Option<f64>,
    /// The allocated memory.
    #[serde(rename = "totalBytesAllocatedPerBank_MB")]
    pub allocated: Option<f64>,
    /// The free memory.
    #[serde(rename = "totalBytesFreePerBank_MB")]
    pub free: Option<f64>,
    /// The largest free block.
    #[serde(rename = "largestContiguousBytesFreePerBank_MB")]
    pub largest_free: Option<f64>,
}

/// The padding of the live tensors, on one device.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Unpadded {
    /// In DRAM; `None` if there is no such pool.
    #[serde(rename = "DRAM")]
    pub dram: Option<PaddingState>,
    /// In L1; `None` if there is no such pool.
    #[serde(rename = "L1")]
    pub l1: Option<PaddingState>,
}

/// The padding of the live tensors of a pool.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct PaddingState {
    /// The size of the elements.
    pub unpadded_bytes: u64,
    /// The total size, including padding.
    pub padded_bytes: u64,
    /// The number of tensors.
    pub num_tensors: usize,
    /// The size of the elements in MiB.
    #[serde(rename = "unpadded_MB")]
    pub unpadded: f64,
    /// The total size in MiB.
    #[serde(rename = "padded_MB")]
    pub padded: f64,
    /// The size of the padding in MiB.
    #[serde(rename = "overhead_MB")]
    pub overhead: f64,
    /// The padding in percent of the size of the elements; 0 if there are none.
    pub overhead_pct: f64,
}

impl From<PaddedSum> for PaddingState {
    fn from(sum: PaddedSum) -> Self {
        Self {
            unpadded_bytes: sum.logical,
            padded_bytes: sum.padded,
            num_tensors: sum.tensors,
            unpadded: mib(sum.logical),
            padded: mib(sum.padded),
            overhead: mib(sum.padded.saturating_sub(sum.logical)),
            overhead_pct: overhead_pct(sum.padded, sum.logical).unwrap_or(0.0),
        }
    }
}

/// The rows of the memory file.
pub fn memory_rows<'a>(
    profile: &'a Profile,
    rank: &'a Rank,
    span: Span,
) -> impl Iterator<Item = MemoryRow<'a>> + 'a {
    let mut pools: Vec<PoolWalk<'a>> = rank.pools.iter().map(PoolWalk::new).collect();
    let walk = |name: &str| {
        let (id, _) = rank.pool_named(profile, name)?;
        rank.has_tensors().then(|| PaddingOverTime::new(profile, rank, id))
    };
    let (mut dram, mut l1) = (walk("DRAM"), walk("L1"));
    let rows = (0..).zip(reported(profile, rank, span));
    rows.filter_map(move |(index, step)| {
        let at = Moment::before(step);
        let op = profile.op_of(rank, step)?;
        let head = Head::new(profile, rank, &op, index, step);
        let padding = |walk: &mut Option<PaddingOverTime<'_>>| walk.as_mut().map(|walk| walk.at(at).into());
        let unpadded = Unpadded { dram: padding(&mut dram), l1: padding(&mut l1) };
        Some(MemoryRow {
            op_type: head.mlir_op.rsplit('.').next().unwrap_or(head.mlir_op),
            head,
            memory: Entries(
                pools.iter_mut().map(|walk| (profile.text(walk.pool.name), walk.at(at))).collect(),
            ),
            unpadded_memory: rank.has_tensors().then_some(unpadded),
        })
    })
}

/// A walk through the observed states of a pool.
struct PoolWalk<'a> {
    pool: &'a Pool,
    curves: [Option<CurveWalk<'a>>; 4],
}

impl<'a> PoolWalk<'a> {
    fn new(pool: &'a Pool) -> Self {
        let kinds = [CurveKind::Capacity, CurveKind::Allocated, CurveKind::Free, CurveKind::LargestFree];
        Self { pool, curves: kinds.map(|kind| pool.curve(kind).map(|curve| CurveWalk { curve, next: 0 })) }
    }

    /// The state that was observed at a moment. Moments must be passed in order.
    fn at(&mut self, at: Moment) -> Option<PoolState> {
        if !self.pool.observed.contains(at) {
            return None;
        }
        let quantum = self.pool.quantum;
        let [total, allocated, free, largest_free] = self.curves.each_mut().map(|curve| {
            let bytes = curve.as_mut().and_then(|curve| curve.at(at));
            bytes.map(|bytes| mib_as_printed(bytes, quantum))
        });
        Some(PoolState { banks: self.pool.banks, total, allocated, free, largest_free })
    }
}

struct CurveWalk<'a> {
    curve: &'a Curve,
    next: usize,
}

impl CurveWalk<'_> {
    fn at(&mut self, at: Moment) -> Option<u64> {
        while self.curve.at.get(self.next).is_some_and(|when| *when <= at) {
            self.next += 1;
        }
        self.curve.value.get(self.next.checked_sub(1)?).copied()
    }
}

/// A row of `<name>_operations.json`.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct OperationRow<'a> {
    /// The fields that both files have.
    #[serde(flatten)]
    pub head: Head<'a>,
    /// The program that it ran in.
    pub program: Option<&'a str>,
    /// The number of the top-level run, from 1.
    pub run: Option<usize>,
    /// The graph of that run, from 0, if known.
    pub graph: Option<usize>,
    /// The SSA name of the first result.
    pub result: Option<&'a str>,
    /// The SSA names of all results.
    pub results: Option<Vec<&'a str>>,
    /// The SSA names of the operands, including devices.
    pub inputs: Option<Vec<&'a str>>,
    /// The text between `<{` and `}>`.
    pub attributes: Option<&'a str>,
    /// The types of the tensor operands, as printed.
    pub input_types: Option<String>,
    /// The type of the result, as printed; several types are in parentheses.
    pub output_type: Option<String>,
    /// The shapes of the tensor operands.
    pub input_shapes: Option<Vec<Shape<'a>>>,
    /// The element types of the tensor operands.
    pub input_dtypes: Option<Vec<&'a str>>,
    /// The shapes of the results.
    pub output_shapes: Option<Vec<Shape<'a>>>,
    /// The element types of the results.
    pub output_dtypes: Option<Vec<&'a str>>,
    /// The memory layout of the first result.
    pub output_layout_info: Option<LayoutInfo<'a>>,
    /// The weights that it reads.
    pub weights: Option<Vec<WeightRow<'a>>>,
}

/// The memory layout of a tensor.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct LayoutInfo<'a> {
    /// The shape without padding.
    pub logical_shape: &'a [u64],
    /// The element type.
    pub dtype: &'a str,
    /// Whether it is tiled.
    pub is_tiled: bool,
    /// The shard on each core or bank, in tiles or elements.
    pub memref_shape: &'a [u64],
    /// Height and width of a tile.
    pub tile_size: Option<(u32, u32)>,
    /// The shape including padding.
    pub padded_shape: &'a [u64],
    /// `dram`, `l1` …
    pub buffer_type: &'a str,
    /// The size of the elements.
    pub unpadded_bytes: Option<u64>,
    /// The total size, including padding.
    pub padded_bytes: Option<u64>,
    /// The padding in percent of the size of the elements.
    pub overhead_pct: Option<f64>,
    /// The stored element type.
    pub stored_dtype: &'a str,
    /// `interleaved`, `height_sharded` …
    pub memory_layout: Option<&'a str>,
    /// The grid of cores or banks that it is distributed over.
    pub grid: &'a [u64],
}

/// A weight that an operation reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct WeightRow<'a> {
    /// The `index` in the inputs registry.
    pub registry_index: usize,
    /// The `graph` in the inputs registry; omitted if there is only one graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<usize>,
    /// The name in the model.
    pub name: &'a str,
    /// The shape, without padding.
    pub shape: Option<Shape<'a>>,
    /// The element type.
    pub dtype: Option<&'a str>,
    /// The size of its elements.
    pub bytes: Option<u64>,
}

/// The rows of the operations file.
pub fn operation_rows<'a>(
    profile: &'a Profile,
    rank: &'a Rank,
    span: Span,
) -> impl Iterator<Item = OperationRow<'a>> + 'a {
    let view = View { profile, rank, run_numbers: rank.run_numbers() };
    let mut traced = Traced::new(profile, rank);
    let mut index = 0;
    // Weights are traced from the first step, whatever range was requested.
    reported(profile, rank, Span { first: 0, end: span.end }).filter_map(move |step| {
        let op = profile.op_of(rank, step)?;
        // Without tensors, it is unknown whether a result is a view, so weights cannot be traced through results.
        let weights = traced.of(step, &op).filter(|_| rank.has_tensors());
        if step < span.first {
            return None;
        }
        let row = view.row(index, step, &op, weights);
        index += 1;
        Some(row)
    })
}

struct View<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    run_numbers: Vec<usize>,
}

impl<'a> View<'a> {
    fn row(&self, index: usize, step: Step, op: &Op, weights: Option<&[WeightRef]>) -> OperationRow<'a> {
        let profile = self.profile;
        let text = |id| profile.text(id);
        let head = Head::new(profile, self.rank, op, index, step);
        // If only the OpType is known, the operands are unknown, which is not the same as none.
        let known = head.mlir_op.contains('.');
        let (inputs, outputs) = (self.types(&op.operand_types), self.types(&op.result_types));
        let shapes =
            |types: &[&'a TensorType]| known.then(|| types.iter().map(|ty| Shape(&ty.shape)).collect());
        let dtypes =
            |types: &[&'a TensorType]| known.then(|| types.iter().map(|ty| text(ty.dtype)).collect());
        let run = self.rank.steps.run.get(step as usize).copied().flatten();
        OperationRow {
            program: self.rank.run_of(step).map(|run: &Run| text(run.program)),
            run: run.and_then(|run| self.run_numbers.get(run.index()).copied()).filter(|number| *number > 0),
            graph: run.and_then(|run| self.rank.module_of(run)).map(ModuleId::index),
            result: op.results.first().map(|&name| text(name)),
            results: known.then(|| op.results.iter().map(|&name| text(name)).collect()),
            inputs: known.then(|| op.operands.iter().map(|&name| text(name)).collect()),
            attributes: op.attributes.map(text),
            input_types: known.then(|| self.type_texts(&inputs)),
            output_type: known.then(|| match outputs.len() {
                1 => self.type_texts(&outputs),
                _ => format!("({})", self.type_texts(&outputs)),
            }),
            input_shapes: shapes(&inputs),
            input_dtypes: dtypes(&inputs),
            output_shapes: shapes(&outputs),
            output_dtypes: dtypes(&outputs),
            output_layout_info: outputs.first().and_then(|ty| self.layout(ty)),
            weights: weights
                .map(|weights| weights.iter().filter_map(|weight| self.weight(*weight)).collect()),
            head,
        }
    }

    fn types(&self, ids: &[Option<TypeId>]) -> Vec<&'a TensorType> {
        ids.iter().flatten().filter_map(|&id| self.profile.tensor_type(id)).collect()
    }

    fn type_texts(&self, types: &[&'a TensorType]) -> String {
        let texts: Vec<&str> =
            types.iter().filter_map(|ty| ty.text).map(|id| self.profile.text(id)).collect();
        texts.join(", ")
    }

    fn layout(&self, ty: &'a TensorType) -> Option<LayoutInfo<'a>> {
        let layout = ty.layout.as_ref()?;
        let (padded, logical) = (ty.padded.get(), ty.logical.get());
        Some(LayoutInfo {
            logical_shape: &ty.shape,
            dtype: self.profile.text(ty.dtype),
            is_tiled: layout.tile.is_some(),
            memref_shape: &layout.shard,
            tile_size: layout.tile,
            padded_shape: &layout.padded_shape,
            buffer_type: self.profile.text(layout.buffer),
            unpadded_bytes: logical,
            padded_bytes: padded,
            overhead_pct: padded.zip(logical).and_then(|(padded, logical)| overhead_pct(padded, logical)),
            stored_dtype: self.profile.text(layout.stored_dtype),
            memory_layout: layout.spread.map(|spread| self.profile.text(spread)),
            grid: &layout.grid,
        })
    }

    fn weight(&self, weight: WeightRef) -> Option<WeightRow<'a>> {
        let module = self.rank.module(weight.module)?;
        let argument = module.arguments.get(weight.argument as usize)?;
        let ty = argument.ty.and_then(|ty| self.profile.tensor_type(ty));
        Some(WeightRow {
            registry_index: number_of(self.profile, argument, weight.argument)?,
            graph: (self.rank.modules.len() > 1).then(|| weight.module.index()),
            name: self.profile.text(argument.name.unwrap_or(argument.ssa)),
            shape: ty.map(|ty| Shape(&ty.shape)),
            dtype: ty.map(|ty| self.profile.text(ty.dtype)),
            bytes: ty.and_then(|ty| ty.declared.get()),
        })
    }
}
