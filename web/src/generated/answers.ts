// Generated from the Rust types; `make bless` updates this file. Do not edit it.

/** A short description of a peak. */
export type AboutPeak = {
  /** The name of the pool with the peak. */
  pool: string,
  /** The highest memory use of a bank. */
  per_bank: number | null,
  /** The size of a bank. */
  capacity_per_bank: number | null,
  /** The highest memory use of the device. */
  total: number | null,
  /** The memory of the device. */
  capacity_total: number | null,
  /** The unit that the peak refers to. Missing in reports of earlier versions. */
  of: Extent | null,
  /** How close the peak is to the capacity. */
  level: Level | null,
};

/** Facts about a rank that are not columns. */
export type AlignedOutline = {
  /** The number of places of the axis. */
  places: number,
  /** The place where each input ran out of memory. */
  before_failed: number | null,
  /** See `before_failed`. */
  after_failed: number | null,
  /** The pools, by number. */
  pools: Array<AlignedPool>,
  /** The pool to show first. */
  first_pool: number,
};

/** Facts about a pool that are not columns. */
export type AlignedPool = {
  /** The name of the pool. */
  name: string,
  /** The unit that its sizes refer to. */
  extent: Extent,
  /** The granularity that the inputs round to. */
  quantum: number,
  /** The moment of each peak, if anything was allocated. */
  before_peak: number | null,
  /** See `before_peak`. */
  after_peak: number | null,
};

/** Allocations that have something in common. */
export type AllocationGroup = {
  /** What they have in common: a line, an operation, a class, a size; null if it is unknown. */
  key: string | null,
  /** The operation, if all have the same one. */
  op: string | null,
  /** The call stack, innermost line first, if they are grouped by it. */
  stack?: Array<string>,
  /** Those that are live at the position. */
  live: Sum,
  /** Those that are live at the end of the input. */
  at_end: Sum,
  /** All of them. */
  total: Sum,
};

/** The allocations of a pool. */
export type Allocations = {
  /** The pool. */
  pool: string,
  /** The position that live allocations are listed for: the peak, unless another one is requested. */
  position: number,
  /** The filter, as it was written. */
  filter: string | null,
  /** What allocations are grouped by. */
  by: GroupBy,
  /** What modules are known by; omitted if allocations are not grouped by module. */
  module_source?: ModuleSource | null,
  /** The number of live allocations that pass the filter, and their bytes. */
  live: Sum,
  /** All allocations that pass the filter, over the whole input. */
  total: Sum,
  /** The groups with the most live bytes, largest first. */
  groups: Array<AllocationGroup>,
  /** The groups that allocated the most bytes over time, largest first. */
  busiest: Array<AllocationGroup>,
  /** The largest allocation that was freed again. */
  largest_transient: Transient | null,
  /** The bytes lost to fragmentation when it was worst. */
  waste: Waste | null,
  /** The reserved memory at the end, by private pool, stream and block size. */
  reserved: Array<ReservedPool>,
};

/** The levels that a caching allocator reports, in bytes of the device. */
export type AllocatorLevels = {
  /** The bytes requested by the program at the peak of allocated memory. */
  requested_at_peak_total: number | null,
  /** The bytes that were allocated, or waiting for a stream, at that peak. */
  active_at_peak_total: number | null,
  /** The bytes reserved from the driver at that peak. */
  reserved_at_peak_total: number | null,
  /** The maximum number of bytes reserved from the driver. */
  reserved_peak_total: number | null,
};

/** The requested moment. */
export type AtMoment = {
  /** The position. */
  step: number,
  /** The operation of the step at that position. */
  op: string | null,
  /** The source location of that operation. */
  loc: string | null,
  /** Every pool at that moment. */
  pools: Record<string, PoolMoment>,
};

/** A block of a bank. */
export type Block = {
  /** The start address. */
  address: number,
  /** The size. */
  size: number,
  /** Whether it is allocated. */
  allocated: boolean,
};

/** Calls, in the order of their start times. */
export type CallColumns = {
  /** The scope. */
  scope: Array<number>,
  /** The lane. */
  lane: Array<number>,
  /** The row within the lane. */
  row: Array<number>,
  /** The enclosing call. */
  parent: Array<number | null>,
  /** The start time. */
  began_ns: Array<number>,
  /** The end time. */
  ended_ns: Array<number | null>,
  /**
   * Whether the call was still running when the recording ended. If it has no end time and was not running, only its
   * start time is known.
   */
  still_ran: Array<boolean>,
  /** The bytes that it allocated. */
  allocated: Array<number | null>,
  /** The bytes that it freed. */
  freed: Array<number | null>,
  /** The change of the memory in use. */
  change: Array<number | null>,
  /** The highest memory use during the call, relative to its start. */
  peak: Array<number | null>,
  /** The bytes that it allocated and did not free. */
  kept: Array<number | null>,
  /** The source location of the call. */
  loc: Array<string | null>,
};

/** The step that brought a pool to its level. */
export type Caused = {
  /** The number of the step. */
  step: number,
  /** The name of the operation. */
  op: string | null,
  /** The source location of the operation. */
  loc: string | null,
  /** The program it ran in. */
  program: string | null,
  /** The number of the top-level run. */
  run: number | null,
};

/** The longest chain of calls that do not overlap. */
export type ChainTotals = {
  /** The total duration of its calls. */
  time_ns: number,
  /** The number of its calls. */
  calls: number,
};

/** A difference between tensors. */
export type ChangeKind = "appeared" | "vanished" | "pool" | "dtype" | "layout" | "resized" | "freed_later" | "freed_earlier" | "allocated_later" | "allocated_earlier" | "reordered";

/** A change of one tensor or of several similar ones. */
export type ChangeRow = {
  /** The kind of change. */
  kind: ChangeKind,
  /** The number of tensors. */
  tensors: number,
  /** Which tensors: `12 × layers.*.mlp`, `model.embed.weight`. */
  title: string,
  /** What is different: `4x128 → 8x128`. */
  detail: string,
  /** The pool; that of the second input, if they differ. */
  pool: string,
  /** The pool of the first input, if it is another one. */
  moved_from?: MovedFrom | null,
  /** The class; that of the second input, if they differ. */
  class: Class,
  /** The effect on the compared peak of the pool. */
  effect_per_bank: number,
  /** The size of the tensors in the first input. */
  before_per_bank: number,
  /** The size of the tensors in the second input. */
  after_per_bank: number,
  /** Tensors at the compared peak that these overlap in the second input only. */
  now_overlaps?: OverlapRow | null,
  /** Tensors at the compared peak that these overlap in the first input only. */
  no_longer_overlaps?: OverlapRow | null,
  /** The first of the tensors in the first input. */
  before: TensorSide | null,
  /** The first of the tensors in the second input. */
  after: TensorSide | null,
};

/** A moment that the program named. */
export type Checkpoint = {
  /** The name that the program gave. */
  name: string,
  /** The time since the start of the recording. */
  time_ns: number,
  /** The position in the run. */
  step: number,
  /** The allocated bytes of each pool. */
  pools: Record<string, number | null>,
};

/** The selected runs, numbered from 1. */
export type ChosenRuns = {
  /** The first selected run. */
  first: number,
  /** The last selected run. */
  last: number,
  /** The total number of runs. */
  of: number,
};

/** A program's buffers and the tensors that are in their way, on a core. */
export type Clash = {
  /** The address where the program's buffers begin; null if the input does not have the layout of L1. */
  region_start: number | null,
  /** The address where they end. */
  region_end: number | null,
  /** Their size. */
  region_bytes: number | null,
  /** The buffers, the largest first; equal ones share a row. */
  parts: Array<ClashPart>,
  /** Whether the parts add up to the region; null if none is known. */
  parts_are_complete: boolean | null,
  /** Why parts are missing. */
  parts_note: string | null,
  /** The tensor with the lowest address. */
  lowest_tensor: TensorFacts | null,
  /** The number of L1 tensors that are live. */
  live_tensors: number | null,
  /** The number of them that begin below the end of the program's buffers. */
  tensors_in_the_way: number | null,
  /** The last step that ran the same operation without an error. */
  ran_before: number | null,
  /** What was allocated in L1 since then, as a sentence. */
  since_then: string | null,
  /** The same facts as lines of text. */
  lines: Array<ClashLine>,
};

/** A line of text about a clash. */
export type ClashLine = {
  /** `program buffers`, `lowest tensor` or `overlap`. */
  label: string,
  /** The facts. */
  text: string,
};

/** Buffers of the same kind and size. */
export type ClashPart = {
  /** `circular`, `dataflow` or `scratchpad`. */
  kind: string,
  /** The size of one of them. */
  bytes: number,
  /** Their number. */
  count: number,
};

/** The role of a tensor in the model. */
export type Class = "weight" | "input" | "argument" | "activation" | "parameter" | "gradient" | "optimizer" | "kv_cache" | "buffer" | "temporary" | "unknown" | "workspace";

/** The size of a tensor class in two ranks. */
export type ClassComparison = {
  /** The class. */
  class: string,
  /** The bytes at the peak of the worst rank. */
  bytes: number,
  /** The bytes at the peak of the median rank. */
  median_bytes: number,
};

/** A class of tensors at the peaks. */
export type ClassDiff = {
  /** The class. */
  class: Class,
  /** Its size at the peak of the first input. */
  before_per_bank: number,
  /** Its size at the peak of the second input. */
  after_per_bank: number,
};

/** Suggestions that are applied together. Their saving counts each byte once. */
export type Combination = {
  /** The indexes of the suggestions, in order, from 0. */
  suggestions: Array<number>,
  /** Their names. */
  rules: Array<string>,
  /** The pool that they are about. */
  pool: string,
  /** The reduction of the pool's peak, per bank. */
  saves_per_bank: number,
  /** The reduction of the pool's peak on the device; `None` if the number of banks is unknown. */
  saves_bytes: number | null,
  /** The same as text: `146.3 MiB/bank (1.00 GiB on the device)`. */
  saves: string,
};

/** The worst of several ranks of one program, compared with the median rank. */
export type Comparison = {
  /** The result, as a sentence. */
  sentence: string,
  /** The label of the worst rank: the one that ran out of memory, or the one with the highest peak. */
  rank: string | null,
  /** The file of the worst rank. */
  file: string,
  /** The label of the rank with the median peak among the others. */
  median_rank: string | null,
  /** The file of that rank. */
  median_file: string,
  /** The peak of the worst rank. */
  peak_bytes: number,
  /** The peak of the median rank. */
  median_peak_bytes: number,
  /** The classes at the two peaks, largest difference first; empty if the tensors are not known. */
  classes: Array<ClassComparison>,
  /** The ranks of the program without a recording. */
  missing_ranks: Array<number>,
  /** A sentence about the missing ranks. */
  missing: string | null,
};

/** The number of operations. */
export type Counts = {
  /** All operations, including deallocations. */
  total: number,
  /** All operations except `deallocate` and `get_device`. */
  reported: number,
  /** The reported operations that compute or load constants. */
  weight: number | null,
  /** All other reported operations. */
  activation: number | null,
};

/** The inputs of the model. */
export type Declared = {
  /** The number of inputs. */
  count: number,
  /** The size of their elements. */
  bytes: number,
};

/** A kind of device. */
export type DeviceKind = "tenstorrent" | "torch";

/** The response of `ttmem diff`. */
export type Diff = {
  /** The version of this format. */
  schema: number,
  /** The first input. */
  before: DiffSource,
  /** The second input. */
  after: DiffSource,
  /** The ranks that both inputs have: first those that only run out of memory in the second one, then the largest growth. */
  ranks: Array<RankDiff>,
  /** The labels of ranks that only the first input has. */
  only_before: Array<string>,
  /** The labels of ranks that only the second input has. */
  only_after: Array<string>,
};

export type DiffPageHead = {
  /** The names of both files, without their folders. */
  names: [string, string],
  generator: string,
  diff: Diff,
};

/** An input. */
export type DiffSource = {
  /** The file. */
  file: string,
  /** Its format. */
  format: string,
};

/** A part of the memory that an executable of XLA needs. */
export type ExecutablePart = {
  /** `xla_parameters`, `xla_outputs`, `xla_temporary` or `xla_total`. */
  name: string,
  /** The size. */
  bytes: number,
  /** The exact size differs by at most this. */
  rounding_bytes: number,
};

/** The expected and measured size of a tensor class. */
export type ExpectedSummary = {
  /** The class. */
  class: Class,
  /** The expected size on the device. */
  expected_bytes: number,
  /** Where the expectation is from: `recording` or `request`. */
  from: string,
  /** How the expected size was computed. */
  how: string,
  /** The maximum size of the class at one moment, over all pools. */
  measured_bytes: number | null,
  /** The position where the maximum was first reached. */
  measured_step: number | null,
  /** The size of the class in each pool at that position. */
  measured_by_pool: Record<string, number> | null,
  /** Measured minus expected bytes. */
  difference_bytes: number | null,
  /** The difference in percent of the expected size. */
  difference_pct: number | null,
  /** Why the class was not measured, and what to do about it. */
  note: string | null,
};

/** The unit that a size refers to. */
export type Extent = "bank" | "core" | "device";

/** Why a task failed. */
export type Failure = {
  kind: FailureKind,
  /** The exit code of the command for the same failure. */
  exit_code: number,
  message: string,
};

/** The kind of a failure. */
export type FailureKind = "no_memory_data" | "not_there" | "unreadable" | "full" | "bug" | "ended";

/** An error in the input, such as a failed allocation. */
export type FaultSummary = {
  /** The kind of error. */
  kind: string,
  /** The pool that the error is about. */
  pool: string | null,
  /** The step that failed. */
  step: number | null,
  /** The operation that failed. */
  op: string | null,
  /** The source location of the operation. */
  loc: string | null,
  /** The requested bytes on the device. */
  requested_total: number | null,
  /** The requested bytes per bank. */
  requested_per_bank: number | null,
  /** The number of banks. */
  banks: number | null,
  /** The free bytes per bank. */
  free_per_bank: number | null,
  /** The largest free block of a bank. */
  largest_free_per_bank: number | null,
  /** The line number of the error in the input. */
  line: number | null,
  /** Whether the error ended the program. */
  ended_program: boolean,
  /** The error message. */
  message: string,
  /** The size of a bank. */
  capacity_per_bank: number | null,
  /** The allocated bytes per bank. */
  allocated_per_bank: number | null,
  /** The bytes per bank where the allocation was allowed, if dependencies restrict it. */
  placeable_per_bank: number | null,
  /** The number of windows that these bytes are in. */
  placeable_windows: number | null,
  /** The largest of these windows. */
  largest_placeable_per_bank: number | null,
  /** The kind of the program's buffers that do not fit: `circular` or `dataflow`. */
  buffers: string | null,
  /** The address where these buffers end. */
  region_end: number | null,
  /** The address of the lowest buffer above them, or of the trace buffer that overlaps other memory. */
  buffer_address: number | null,
  /** The size of L1 or of the trace region, or the lowest allowed address. */
  limit: number | null,
  /** The cores, as in the message. */
  cores: string | null,
  /** The number of the program. */
  program: number | null,
  /** Whether a check of the operation failed, before the allocator was asked. */
  refused: boolean,
};

/** The worst fragmentation of a pool. */
export type Fragmentation = {
  /** The position of the worst fragmentation. */
  step: number,
  /** The free bytes. */
  free_per_bank: number,
  /** The largest free block. */
  largest_free_per_bank: number,
  /** How serious the fragmentation is. */
  severity: Severity,
  /** The blocks of a bank, if the input has block tables. */
  blocks: Array<Block> | null,
  /**
   * Live tensors that were allocated between tensors that have been freed, and that are not larger than the largest
   * free block; oldest first. They probably lie between the free blocks.
   */
  survivors: Array<LiveTensor>,
};

/** The free bytes and the largest free block of a bank at a moment. */
export type FragmentedMoment = {
  /** The moment. */
  moment: number,
  /** The free bytes. */
  free: number,
  /** The largest free block. */
  largest_free: number,
};

/** The response of `ttmem gantt`: calls over time. */
export type Gantt = {
  /** The version of this format. */
  schema: number,
  /** The input file. */
  file: string,
  /** The input format. */
  format: string,
  /** The ranks that have calls. */
  ranks: Array<RankGantt>,
};

/** The header of a rank's block. */
export type GanttHead = {
  unit_ns: number,
  pools: Array<GanttPool>,
  /** The rank's label. */
  rank: string | null,
  /** The Unix time of time 0, in nanoseconds. */
  began_unix_ns: number | null,
  /** The time of the first event. */
  first_ns: number,
  /** The time of the last event. */
  last_ns: number,
  /** The kinds of scopes, indexed by the numbers in `scopes.kind`. */
  kinds: Array<string>,
  /** Threads and streams. */
  lanes: Array<Lane>,
  /** The number of calls that were not kept individually. They are in no column, but count in the hot paths. */
  further_calls: number,
  /** The scopes that take the most time, first the longest. */
  hot_paths: Array<HotPath>,
  /** The longest chain of innermost calls that do not overlap. */
  chain: ChainTotals,
  /** Scopes that ran at the same time on different lanes. */
  overlaps: Overlaps,
};

export type GanttPageHead = {
  name: string,
  file: string,
  generator: string,
  ranks: Array<string | null>,
};

export type GanttPool = {
  name: string,
  extent: Extent,
  quantum: number,
  has_tensors: boolean,
};

/** A graph of a rank. */
export type GraphHead = {
  name: string | null,
  stages: Array<GraphStage>,
};

export type GraphStage = {
  stage: string,
  /** The index of its first line among the lines of all graphs. */
  first: number,
  lines: number,
};

/** What allocations are grouped by. */
export type GroupBy = "line" | "stack" | "op" | "module" | "class" | "size";

/** Memory that is not freed at the end of iterations. */
export type Growth = {
  /** The name of the phase that ends an iteration. */
  phase: string,
  /** The number of iterations that growth was measured over. */
  iterations: number,
  /** The mean growth per iteration. */
  per_iteration_bytes: number,
  /** The number of further iterations that fit into the device memory; null if it is unknown. */
  iterations_left: number | null,
};

/** Whether memory grows from iteration to iteration, and what stays. */
export type GrowthSummary = {
  /** Whether memory grows, and whether that is expected. */
  verdict: GrowthVerdict,
  /** What an iteration is. */
  unit: GrowthUnit,
  /** The program, part of the program, operation or phase that marks an iteration. */
  of: string | null,
  /** The number of iterations. */
  iterations: number,
  /** The pool that grows; the main pool if none does. Null if the input has phases only. */
  pool: string | null,
  /** The bytes per bank that an iteration adds. */
  per_iteration_per_bank: number | null,
  /** The bytes on the device that an iteration adds. */
  per_iteration_bytes: number | null,
  /** The first iteration that leaves memory behind, from 1; null if memory does not grow. */
  since_iteration: number | null,
  /** The number of iterations that growth was measured over. */
  measured_iterations: number,
  /** The number of iterations until the memory is allocated that the program keeps; null if unknown. */
  warm_up_iterations: number | null,
  /** The memory that these iterations allocate and keep, without what grows. */
  warm_up_per_bank: number | null,
  /** The size of a bank. */
  capacity_per_bank: number | null,
  /**
   * The number of further iterations that fit into the pool at this rate; null if memory does not grow or if the
   * capacity is unknown.
   */
  iterations_left: number | null,
  /** What iterations leave behind, by origin, largest first. */
  survivors: Array<Survivor>,
  /** The number of origins, including those that are not listed. */
  survivor_count: number,
  /** The finding in sentences. */
  statement: Statement,
  /**
   * The title of a section about growth: `Growth of cuda:0: 1.00 GiB with every training step`. Null if memory does not
   * grow, or if the input has phases only, which are reported by session.
   */
  title: string | null,
  /** How growth was measured, when memory is full, and what warm-up allocated: a sentence each. */
  notes: Array<string>,
  /** Limits of the numbers above. */
  caveats: Array<string>,
};

/** What an iteration is. */
export type GrowthUnit = "run" | "pass" | "step" | "call" | "iteration";

/** Whether memory grows. */
export type GrowthVerdict = "grows" | "tensors_grow" | "kv_cache_grows" | "steady";

/** Tensors that are kept alive in the same way. */
export type HolderRow = {
  /** The references from a variable of the program to the tensors; `*` stands for any index, key or number in a key. */
  chain: string,
  /** The pool of the tensors. */
  pool: string,
  /** The number of tensors. */
  tensors: number,
  /** Their size per bank. */
  per_bank: number,
};

/** What kept tensors alive at the last search for it. */
export type HoldersSummary = {
  /** The time of the search, since the start of the recording. */
  time_ns: number,
  /** What kept tensors alive, by references and pool, largest first. */
  rows: Array<HolderRow>,
  /** The number of rows, including those that are not listed. */
  count: number,
};

/** A scope and the total time of its calls. */
export type HotPath = {
  /** The scope. */
  scope: number,
  /** The name of the scope, preceded by the names of the enclosing scopes. */
  path: string,
  /** The number of calls. */
  count: number,
  /** The number of calls whose duration is known. */
  timed: number,
  /** The total duration of these calls. */
  total_ns: number | null,
  /** The total duration without nested calls; null also if some calls were not kept individually. */
  own_ns: number | null,
  /** The duration of the longest call. */
  longest_ns: number | null,
  /** The longest call, or the first if no duration is known; null if the call was not kept. */
  longest_call: number | null,
  /** The change of the memory in use over all calls. */
  change: number | null,
};

/** Steps that added memory: the same operation with a result of the same type, and the same increase. */
export type Increase = {
  /** The number of steps. */
  count: number,
  /** The first step. */
  first_step: number,
  /** The last step. */
  last_step: number,
  /** The name of the operation. */
  op: string | null,
  /** The location that the steps share, the pattern that their locations follow, or the first location. */
  loc: string | null,
  /** The number of different locations. */
  locations: number,
  /** The shape of the first result. */
  shape: Array<number> | null,
  /** The element type of the first result. */
  dtype: string | null,
  /** The memory that each step added, per bank. */
  added_per_bank: number,
};

/** A job in the HTTP interface. */
export type Job = {
  id: string,
  file: string,
  size_bytes: number,
  state: JobState,
  read_bytes: number,
  report: string | null,
  page: string | null,
  error: Failure | null,
};

/** The state of a job. */
export type JobState = "queued" | "reading" | "writing" | "done" | "failed";

/** The L1 of a core while a step runs. Of the cores, the one whose program buffers end highest. */
export type L1Moment = {
  /** The step. */
  step: number,
  /** Its operation. */
  op: string | null,
  /** The location of the operation. */
  loc: string | null,
  /** All bytes in use: the reserved part, the program's buffers, the tensors, and the region for small buffers. */
  bytes: number | null,
  /** The bytes of tensors. */
  tensors: number | null,
  /** The bytes of circular buffers; null if unknown. */
  circular_buffers: number | null,
  /** The bytes of dataflow buffers; null if unknown. */
  dataflow_buffers: number | null,
  /** The bytes of scratchpads; null if unknown. */
  scratchpads: number | null,
  /** The parts in the order of their addresses, without empty ones. */
  parts: Array<L1Part>,
  /** The address where the program's buffers end. */
  program_end: number | null,
  /** The address of the lowest tensor. */
  lowest_tensor: number | null,
  /** The bytes between the two; negative if they overlap. */
  headroom: number | null,
  /** The bytes between tensors. Program buffers cannot use them. */
  holes: number | null,
  /** Whether the actual headroom may be smaller: buffers are unknown, or tensors have no addresses. */
  headroom_is_upper_bound: boolean,
};

/** The layout of a core's L1. */
export type L1Outline = {
  /** The size. */
  size: number,
  /** The size of the reserved part, which is also the address of a program's first buffer. */
  reserved: number,
  /** The size of the region for small buffers at the top. */
  small: number,
  /** The number of cores that run programs, in x and y direction. */
  grid: [number, number] | null,
  /** The number of the pool of the tensors. */
  pool: number | null,
  /** The number of the pool of small buffers. */
  small_pool: number | null,
  /** Whether nothing ran: tensors have no addresses. */
  is_estimate: boolean,
};

/** A part of a core's L1. */
export type L1Part = {
  /** `reserved`, `circular buffers`, `dataflow buffers`, `scratchpads`, `program buffers`, `tensors` or `L1_SMALL`. */
  name: string,
  /** The size; null if unknown. */
  bytes: number | null,
};

/** The L1 of a core. */
export type L1Summary = {
  /** The size of a core's L1. */
  size_per_core: number | null,
  /** The part that the runtime reserves. */
  reserved_per_core: number | null,
  /** The region for small buffers (`L1_SMALL`). */
  small_region_per_core: number | null,
  /** The number of cores that run programs, in x and y direction. */
  grid: [number, number] | null,
  /** Whether nothing ran: sizes are right, but addresses and the headroom are those of tensors without gaps. */
  is_estimate: boolean,
  /** The number of programs. */
  programs: number,
  /** The number of programs whose buffers are not in the input. */
  unknown_programs: number,
  /** The step with the most memory in use on a core. */
  peak: L1Moment | null,
  /** Whether the actual peak may be higher. */
  peak_is_lower_bound: boolean,
  /** Why the actual peak may be higher, and what to do about it. */
  note: string | null,
  /** How close the peak is to the size. */
  level: Level | null,
  /** The step with the lowest headroom. */
  lowest_headroom: L1Moment | null,
  /** The requested step: while it runs. */
  at: L1Moment | null,
  /** The peaks that ttnn's own functions compute from the capture. */
  ttnn: TtnnL1Peaks | null,
  /** What cannot run, for a program that was only captured and did not run. */
  verdict: Statement | null,
};

/** A thread or stream. */
export type Lane = {
  /** The name of the thread or stream. */
  name: string,
  /** The number of rows that its calls take. */
  rows: number,
};

/** The process that wrote a recording. What is unknown is null. */
export type LaunchSummary = {
  /** The arguments of the program; the first is its name. */
  argv: Array<string>,
  /** The process id. */
  pid: number | null,
  /** The number of the rank. */
  rank: number | null,
  /** The number of the rank on its host. */
  local_rank: number | null,
  /** The number of ranks. */
  world_size: number | null,
  /** The name of the host. */
  host: string | null,
  /** The version of Python. */
  python: string | null,
  /** The version of PyTorch. */
  torch: string | null,
  /** The device runtime that PyTorch was built for: `CUDA 13.0`. */
  runtime: string | null,
  /** The version of the device driver. */
  driver: string | null,
};

/** A part of a device's memory. */
export type LedgerPart = {
  /** `allocated`, `private_pools`, `unallocated`, `non_pytorch`, `outside`, `process`, `unattributed` or `free`. */
  kind: string,
  /** A description for people. */
  label: string,
  /** The process ID; only for `process`. */
  pid: number | null,
  /** The size. */
  bytes: number,
  /** The exact size differs by at most this. */
  rounding_bytes: number,
};

/** A setting of the program. */
export type LedgerSetting = {
  /** The name, such as `PYTORCH_CUDA_ALLOC_CONF`. */
  name: string,
  /** The value. */
  value: string,
};

/** The parts of a device's memory when an allocation failed. */
export type LedgerSummary = {
  /**
   * What failed to allocate: `pytorch`, `cuda`, `cublas`, `cudnn`, `cusolver`, `cusparse`, `nccl`, `xla`; `vllm` if the
   * server refused to start, and `kv_cache` if a server has no room for its KV cache.
   */
  source: string | null,
  /** The platform: `cuda`, `hip`, `xpu`, `npu`, `mps`. */
  platform: string | null,
  /** The memory of the device. */
  capacity_bytes: number | null,
  /** The free memory of the device. */
  free_bytes: number | null,
  /** The limit of the process. */
  allowed_bytes: number | null,
  /** The memory of the process that failed, as stated. */
  process_bytes: number | null,
  /** The parts of the device's memory, without overlaps. */
  parts: Array<LedgerPart>,
  /** Whether the parts are the whole device, within the rounding; null if the error does not state all of them. */
  adds_up: boolean | null,
  /** What the program reported about its memory before the error. */
  reported: Array<ReportedSummary>,
  /** Settings of the program that affect its memory. */
  settings: Array<LedgerSetting>,
  /** The ranks that ran out of memory after this one. */
  failed_later: Array<string>,
  /** The inference server that failed: `vllm` or `sglang`; null if there is none, or it is unknown. */
  server: string | null,
  /** What the server did: `cuda_graphs` if it captured CUDA graphs; null if that is unknown. */
  activity: string | null,
  /** How often Ray counted the error after its first occurrence; 0 if Ray did not print it. */
  repeated: number,
  /** Whether the log proves that the program went on. */
  has_continued: boolean,
  /** The number of tokens that the KV cache must hold for one request. */
  needed_tokens: number | null,
  /** The number of tokens that the KV cache can hold. */
  possible_tokens: number | null,
  /** The memory that is available for the KV cache, if the error states it. */
  available_cache_bytes: number | null,
  /** The parts of the executable that failed, as XLA states them; empty if it does not. */
  executable: Array<ExecutablePart>,
  /** Remarks on the numbers. */
  notes: Array<string>,
};

/** How close the peak of a pool comes to its capacity. */
export type Level = "ok" | "high" | "full";

/** A live tensor. */
export type LiveTensor = {
  /** The name in the model, or the SSA name. */
  name: string | null,
  /** The SSA name in the program that allocated the tensor. */
  ssa: string | null,
  /** The program that allocated it. */
  program: string | null,
  /** The number of the top-level run. */
  run: number | null,
  /** Other names of the tensor. */
  also: Array<string>,
  /** The operation that allocated it. */
  op: string | null,
  /** The source location of that operation. */
  loc: string | null,
  /** The part of the program that allocated it; omitted if the program has no named parts. */
  made_in?: string | null,
  /** The role in the model. */
  class: Class,
  /** The shape, without padding. */
  shape: Array<number> | null,
  /** The element type. */
  dtype: string | null,
  /** The size per bank. */
  per_bank: number | null,
  /** The size on the device, including padding. */
  padded_bytes: number | null,
  /** The size of its elements. */
  logical_bytes: number | null,
  /** The step that allocated it. */
  born_step: number | null,
  /** The step that freed it. */
  dies_step: number | null,
  /** The position at its end, if it was freed between two programs. */
  gone_before_step: number | null,
  /** What kept it alive at the last search that found it; omitted if unknown. */
  held_by?: string | null,
};

/** The live activations, temporaries and unclassified tensors that a part of the program allocated. */
export type MadeIn = {
  /** The part, such as `h.*.mlp` for similar layers; null for tensors allocated outside all parts. */
  name: string | null,
  /** `operation`, `forward`, `backward` or `optimizer`. */
  kind: string | null,
  /** The number of parts with this name. */
  scopes: number,
  /** The number of tensors. */
  tensors: number,
  /** The total size of the tensors per bank. */
  per_bank: number,
};

/** The memory held by a pool over time. */
export type MemoryColumns = {
  /** The pool. */
  pool: string,
  /** The number of banks. */
  banks: number | null,
  /** The unit that its sizes refer to. */
  extent: Extent,
  /** The granularity that the input rounds to. */
  quantum: number,
  /** The times of the changes. */
  at_ns: Array<number>,
  /** The bytes per bank after each change. Of several changes at one time, the highest and the last are included. */
  per_bank: Array<number>,
};

/** What modules are known by. */
export type ModuleSource = "names" | "stacks";

/** The pool that tensors have left. */
export type MovedFrom = {
  /** The pool. */
  pool: string,
  /** The effect on its compared peak. */
  effect_per_bank: number,
};

/** The out-of-memory error that ended the program. */
export type Oom = {
  /** The pool that ran out of memory. */
  pool: string | null,
  /** The cause. */
  cause: string,
  /** Where the numbers are from: `message`, `state` (the last one before the error) or `history` (the allocator's). */
  evidence: string,
  /** The requested bytes on the device. */
  requested_total: number | null,
  /** The requested bytes per bank. */
  requested_per_bank: number | null,
  /** The number of banks. */
  banks: number | null,
  /** The free bytes per bank. */
  free_per_bank: number | null,
  /** The largest free block of a bank. */
  largest_free_per_bank: number | null,
  /** The missing bytes per bank. */
  lacks_per_bank: number | null,
  /** The part of the program that the step ran in; omitted if the program has no named parts. */
  within?: string | null,
  /** The excess of circular buffers over the available L1. */
  overlap_bytes: number | null,
  /** The step that failed. */
  step: number | null,
  /** The operation that failed. */
  op: string | null,
  /** The source location of the operation. */
  loc: string | null,
  /** The tensors whose size matches the request. */
  belongs_to: Array<OwnerSummary>,
  /** The two sides of a clash between a program's buffers and tensors in L1; null for other failures. */
  clash: Clash | null,
  /** The parts of the device's memory, if the error states them; null for devices of Tenstorrent. */
  ledger: LedgerSummary | null,
  /** How well a replay of the program's allocations reproduces it; null if the input does not allow one. */
  replay: ReplaySummary | null,
  /** The smallest changes that avoid the failure. */
  ways_out: Array<WayOut>,
  /** A sentence that no change is enough, if that was found. */
  no_way_out: string | null,
  /** The error message. */
  message: string,
  /** The finding, in one sentence. */
  headline: string,
  /** Further facts; `None` if the headline contains all of them. */
  detail: string | null,
  /** What to do; `None` if there is nothing to do, or no remedy is known. */
  advice: string | null,
  /** The size of a bank. */
  capacity_per_bank: number | null,
  /** The allocated bytes per bank. */
  allocated_per_bank: number | null,
  /** The bytes per bank where the allocation was allowed, if dependencies restrict it. */
  placeable_per_bank: number | null,
  /** The number of windows that these bytes are in. */
  placeable_windows: number | null,
  /** The largest of these windows. */
  largest_placeable_per_bank: number | null,
  /** The kind of the program's buffers that do not fit: `circular` or `dataflow`. */
  buffers: string | null,
  /** The address where these buffers end. */
  region_end: number | null,
  /** The address of the lowest buffer above them, or of the trace buffer that overlaps other memory. */
  buffer_address: number | null,
  /** The size of L1 or of the trace region, or the lowest allowed address. */
  limit: number | null,
  /** The cores, as in the message. */
  cores: string | null,
  /** The number of the program. */
  program: number | null,
  /** Whether a check of the operation failed, before the allocator was asked. */
  refused: boolean,
};

/** The number of executions of an operation. */
export type OpCount = {
  /** The name of the operation. */
  op: string,
  /** The number of executions. */
  count: number,
};

/** The operations of a rank. */
export type OperationsDiff = {
  /** The number of operations in the first input. */
  before: number,
  /** The number of operations in the second input. */
  after: number,
  /** Operations that only the second input has. */
  added: number,
  /** Operations that only the first input has. */
  removed: number,
  /** Operations with another place in the order. */
  reordered: number,
};

/** An out-of-memory error. */
export type OutOfMemory = {
  /** The pool; `None` if it is unknown. */
  pool: string | null,
  /** The step that failed; `None` if it is unknown. */
  step: number | null,
};

/** The out-of-memory error that ended each input. */
export type OutOfMemoryDiff = {
  /** That of the first input; `None` if it did not run out of memory. */
  before: OutOfMemory | null,
  /** That of the second input. */
  after: OutOfMemory | null,
};

/** A change between programs. */
export type Outside = {
  /** The name of the pool. */
  pool: string,
  /** The position. */
  step: number,
  /** The change per bank. */
  change_per_bank: number,
};

/** A set of scopes that ran at the same time. */
export type Overlap = {
  /** The number of lanes. */
  lanes: number,
  /** The total duration of all intervals. */
  time_ns: number,
  /** The number of intervals. */
  count: number,
  /** The start of the longest interval. */
  from_ns: number,
  /** The end of the longest interval. */
  until_ns: number,
  /** The calls that ran in the longest interval, one per lane; at most eight. */
  calls: Array<number>,
};

/** Tensors that are live at the same time as those of a row in one input only. */
export type OverlapRow = {
  /** One sentence. */
  sentence: string,
  /** The number of tensors of the row that the sentence is about. */
  tensors: number,
  /** Whether the tensors of the row overlap each other. */
  each_other: boolean,
  /** Tensors that the other input frees before it allocates one of the row; `None` if there are none. */
  freed_before: OverlappedTensors | null,
  /** Tensors that the other input allocates after it frees one of the row. */
  allocated_after: OverlappedTensors | null,
};

/** A tensor that another one overlaps. */
export type OverlappedTensor = {
  /** Its name, or the module, location or operation that allocates it. */
  name: string | null,
  /** Its size in the input where they overlap. */
  per_bank: number | null,
};

/** Tensors that both inputs have. */
export type OverlappedTensors = {
  /** Their number. */
  tensors: number,
  /** Their size at the compared peak. */
  per_bank: number,
  /** The largest of them, at most three. */
  largest: Array<OverlappedTensor>,
};

/** Scopes that ran at the same time. */
export type Overlaps = {
  /** The total time during which two or more lanes had a running call. */
  time_ns: number,
  /** The number of different sets of scopes that ran at the same time. */
  sets: number,
  /** The sets with the longest total time. */
  longest: Array<Overlap>,
};

/** A tensor whose size matches the failed request. */
export type OwnerSummary = {
  /** `result`, `operand` or `argument`. */
  part: string,
  /** The SSA name in the program. */
  ssa: string,
  /** The name in the model. */
  name: string | null,
  /** The shape, without padding. */
  shape: Array<number>,
  /** The element type. */
  dtype: string,
  /** Whether the size matches only with elements twice as wide as declared. */
  widened: boolean,
};

/** A tensor with padding. */
export type PaddedTensor = {
  /** The name in the model, or the SSA name. */
  name: string | null,
  /** The operation that allocated it. */
  op: string | null,
  /** The source location of that operation. */
  loc: string | null,
  /** The shape, without padding. */
  shape: Array<number>,
  /** The shape including padding. */
  padded_shape: Array<number> | null,
  /** The element type. */
  dtype: string,
  /** The total size, including padding. */
  padded_bytes: number,
  /** The size of the elements. */
  logical_bytes: number,
  /** The size of the padding. */
  overhead_bytes: number,
  /** The padding in percent of the size of the elements. */
  overhead_pct: number | null,
};

/** The padding of tensors. */
export type PaddingSummary = {
  /** The pool. */
  pool: string,
  /** The total size, including padding. */
  padded_bytes: number,
  /** The size of the elements. */
  logical_bytes: number,
  /** The padding in percent of the size of the elements. */
  overhead_pct: number | null,
  /** The tensors with the most padding. */
  top: Array<PaddedTensor>,
};

/** The allocations of a rank. */
export type PageAllocations = {
  /** The groups of allocations by each of their properties. */
  groupings: Array<PageGrouping>,
  /** The reserved memory at the end, most free bytes first. */
  reserved: Array<PageReserved>,
};

export type PageGroup = {
  /** The common property, or a phrase if it is unknown. */
  name: string,
  /** What they have in common: a line, an operation, a class, a size; null if it is unknown. */
  key: string | null,
  /** The operation, if all have the same one. */
  op: string | null,
  /** The call stack, innermost line first, if they are grouped by it. */
  stack?: Array<string>,
  /** Those that are live at the position. */
  live: Sum,
  /** Those that are live at the end of the input. */
  at_end: Sum,
  /** All of them. */
  total: Sum,
};

/** The allocations of a rank by one of their properties. */
export type PageGrouping = {
  by: GroupBy,
  /** The property, such as `source line`. */
  title: string,
  /** What the property means for this input, if that needs an explanation. */
  note: string | null,
  /** The groups with the most live bytes, largest first. */
  groups: Array<PageGroup>,
  /** The groups that allocated the most bytes over time, largest first. */
  busiest: Array<PageGroup>,
};

export type PageHead = {
  name: string,
  generator: string,
  summary: Summary,
  /** Whether a rank has call stacks. */
  has_stacks: boolean,
};

export type PageReserved = {
  /** The private pool, the block size and the stream. */
  name: string,
  /** The private pool, such as that of a CUDA graph; null: the default pool. */
  private_pool: [number, number] | null,
  /** The stream; 0 is the default stream. */
  stream: number,
  /** Whether it is for allocations up to 1 MiB. */
  is_small: boolean,
  /** The number of segments. */
  segments: number,
  /** Their size. */
  bytes: number,
  /** The allocated bytes in them. */
  allocated: number,
  /** The free bytes in them: neither allocated nor waiting for a stream. */
  free: number,
  /** The largest free block. */
  largest_free: number,
};

/** A phase of a session, such as a forward pass. */
export type PhaseSummary = {
  session: number,
  name: string,
  first_step: number | null,
  end_step: number | null,
  segment_peak_bytes: number | null,
  allocations_bytes: number | null,
  deallocations_bytes: number | null,
  change_bytes: number | null,
  cumulative_peak_bytes: number | null,
  cumulative_current_bytes: number | null,
  l1_peak_cb_bytes: number | null,
  l1_peak_buffer_bytes: number | null,
  l1_peak_total_bytes: number | null,
};

/** A pool. */
export type PoolDiff = {
  /** The peak of the first input; `None` if it is unknown, or the input does not have the pool. */
  before_per_bank: number | null,
  /** The peak of the second input. */
  after_per_bank: number | null,
  /** The difference of the peaks. */
  change_per_bank: number | null,
  /** The position of each peak. */
  before_step: number | null,
  /** See `before_step`. */
  after_step: number | null,
  /** The input whose peak explains the changes: `before` or `after`, the one with the higher peak. */
  compared_at: string,
  /** The sum of all changes at that peak. */
  explained_per_bank: number,
  /** The classes of tensors at the peak of each input. */
  by_class: Array<ClassDiff>,
  /** The number of banks, if both inputs have the same. */
  banks: number | null,
  /** Whether the pool was only sampled, as the memory of the process is: small differences mean nothing if there are other pools. */
  sampled: boolean,
};

/** A pool at one moment. */
export type PoolMoment = {
  /** The name of the pool. */
  pool: string,
  /** The position. */
  step: number | null,
  /** The training phase. */
  phase: string | null,
  /** The step that led to this level. */
  caused_by: Caused | null,
  /** Whether the level was reached between two programs and not by a step. */
  caused_outside_programs: boolean,
  /** The allocated bytes, as reported by the device. */
  allocated_per_bank: number | null,
  /** The free bytes. */
  free_per_bank: number | null,
  /** The largest free block. */
  largest_free_per_bank: number | null,
  /** The sum of all live tensors. */
  explained_per_bank: number | null,
  /** Allocated minus explained bytes; negative if the tensors add up to more. */
  unexplained_per_bank: number | null,
  /** The sum of all live tensors, by class. */
  by_class_per_bank: Record<string, number> | null,
  /** The unexplained bytes, by the operation that left them allocated. */
  residue: Array<ResidueRow> | null,
  /** The number of live tensors. */
  live_count: number | null,
  /** Where the activations and temporaries were allocated, largest first; omitted if the program has no named parts. */
  made_in?: Array<MadeIn> | null,
  /** The live tensors, largest first. */
  live: Array<LiveTensor> | null,
  /** The blocks of a bank, if the input has block tables. */
  blocks: Array<Block> | null,
};

/** Facts about a pool that are not columns. */
export type PoolOutline = {
  /** The name of the pool. */
  name: string,
  /** The unit that its sizes refer to. */
  extent: Extent,
  /** The granularity that the input rounds to. */
  quantum: number,
  /** The moment when its peak was first reached; null if nothing was ever allocated. */
  peak_moment: number | null,
  /** Whether the input has the bytes that the allocator reserved. */
  has_reserved: boolean,
  /**
   * The moments of the worst fragmentation, worst first; empty if the free memory was always contiguous, null if the
   * input does not contain it.
   */
  fragmented: Array<FragmentedMoment> | null,
};

/** A memory pool. */
export type PoolSummary = {
  /** The number of banks. */
  banks: number | null,
  /** The unit that the `per_bank` sizes refer to. */
  extent: Extent,
  /** The size of a bank. */
  capacity_per_bank: number | null,
  /** The highest memory use of a bank. */
  peak_per_bank: number | null,
  /** How close the peak is to the capacity. */
  level: Level | null,
  /** The highest memory use of the device, computed by the input's own rule if it has one. */
  peak_total: number | null,
  /** The position of the peak. */
  peak_step: number | null,
  /** The step before the peak. */
  caused_by_step: number | null,
  /** The allocated bytes at the end. */
  final_per_bank: number | null,
  /**
   * The allocated bytes of the device at the end. Negative if the input does not include memory that was allocated
   * before it starts.
   */
  final_total: number | null,
  /** `measured`, or `rebuilt` if it was reconstructed. */
  final_source: string | null,
  /** The free bytes at the peak. */
  free_at_peak_per_bank: number | null,
  /** The largest free block at the peak. */
  largest_free_at_peak_per_bank: number | null,
  /** The granularity that the input rounds to. */
  quantum_per_bank: number,
  /** The levels reported by a caching allocator; omitted if there is none. */
  allocator?: AllocatorLevels | null,
  /** Whether the pool is a counter that was polled, alongside pools that were tracked exactly; omitted if false. */
  polled?: boolean,
  /**
   * The source of a peak that may not be the true one. `counted` is the input's own figure. The others are lower
   * bounds: `sampled` is the highest sample, and `recorded` the peak of a history that begins with memory in use.
   * Omitted if every change was tracked.
   */
  peak_source?: string | null,
  /** The highest sample of a sampled pool. */
  highest_sample_per_bank?: number | null,
  /** Memory that these figures do not include, in words; omitted if nothing is known to be missing. */
  not_watched?: Array<string>,
};

/** A part of the program, with totals over its finished calls. The totals include nested calls. */
export type Ran = {
  /** The name of the module, operation or pass. */
  name: string,
  /** `operation`, `forward`, `backward` or `optimizer`. */
  kind: string,
  /** The nesting depth: the number of enclosing parts. */
  depth: number,
  /** The number of finished calls. */
  calls: number,
  /** The number of calls that had not finished when the recording ended. */
  running: number,
  /** The total duration of all calls; `None` if the duration of a call is unknown. */
  time_ns: number | null,
  /** The duration of the longest call; `None` if the duration of a call is unknown. */
  longest_ns: number | null,
  /** The highest memory use during one call, relative to its start. */
  peak_bytes: number | null,
  /** The total number of bytes that the calls allocated. */
  allocated_bytes: number | null,
  /** The total number of bytes that the calls allocated and that were still live when each call ended. */
  kept_bytes: number | null,
  /** The bytes that a call retains: the median of the recorded calls. */
  retained_per_call_bytes: number | null,
  /** The number of calls that retained memory; null if not every call was recorded. */
  retaining_calls: number | null,
  /** Bytes allocated minus bytes freed. */
  change_bytes: number | null,
};

/** The differences of a rank. */
export type RankDiff = {
  /** The label of the rank. */
  rank: string | null,
  /** The most important difference, and before it a sentence about out-of-memory errors. */
  verdict: string,
  /** The out-of-memory error that ended each input. */
  out_of_memory: OutOfMemoryDiff,
  /** The pools, by name. */
  pools: Record<string, PoolDiff>,
  /** The operations, without deallocations. */
  operations: OperationsDiff,
  /** The changes, the largest effect on a peak first. Similar tensors are one row. */
  changes: Array<ChangeRow>,
  /** The number of changes that are not listed. */
  further_changes: number,
};

/** The calls of one rank over time. */
export type RankGantt = {
  /** The tree of scopes. */
  scopes: ScopeColumns,
  /** The calls, as columns. */
  calls: CallColumns,
  /** The calls of the longest chain, in order. */
  chain_calls: Array<number>,
  /** The memory held by the pools. */
  memory: Array<MemoryColumns>,
  /** The snapshots that the program took. */
  snapshots: SnapshotColumns,
  /** The rank's label. */
  rank: string | null,
  /** The Unix time of time 0, in nanoseconds. */
  began_unix_ns: number | null,
  /** The time of the first event. */
  first_ns: number,
  /** The time of the last event. */
  last_ns: number,
  /** The kinds of scopes, indexed by the numbers in `scopes.kind`. */
  kinds: Array<string>,
  /** Threads and streams. */
  lanes: Array<Lane>,
  /** The number of calls that were not kept individually. They are in no column, but count in the hot paths. */
  further_calls: number,
  /** The scopes that take the most time, first the longest. */
  hot_paths: Array<HotPath>,
  /** The longest chain of innermost calls that do not overlap. */
  chain: ChainTotals,
  /** Scopes that ran at the same time on different lanes. */
  overlaps: Overlaps,
};

export type RankHead = {
  /** The compiled graphs, with the range of their text in the lines of the block `ir`. */
  modules: Array<GraphHead>,
  /** The allocations of a caching allocator by their properties; null if the summary has none. */
  allocations: PageAllocations | null,
  /** The number of steps. */
  steps: number,
  /** Whether the input has tensors. */
  has_tensors: boolean,
  /** The classes, indexed by the numbers in `tensors.class`. */
  classes: Array<string>,
  /** The pools, by number. */
  pools: Array<PoolOutline>,
  /** The layout of a core's L1. */
  l1: L1Outline | null,
  /** Whether there are tables of call stacks. */
  has_stacks: boolean,
};

/** The summary of one rank. */
export type RankSummary = {
  /** The rank's label. */
  rank: string | null,
  /** The number of the process that wrote it, from 1, if several processes wrote the log. */
  process: number,
  /** The number of processes that wrote the log. */
  processes: number,
  /** The input file. */
  file: string,
  /** The format of that file. */
  format: string,
  /** The kind of device it ran on. */
  device: DeviceKind | null,
  /** The process that wrote a recording; omitted for other inputs. */
  launch?: LaunchSummary | null,
  /** The number of top-level program runs. */
  runs: number,
  /** How often the sequence of programs ran. */
  passes: number,
  /** The selected runs; `None` if all runs are included. */
  chosen_runs: ChosenRuns | null,
  /** The number of operations. */
  operations: Counts,
  /** The reported operations by name, most frequent first. */
  distribution: Array<OpCount>,
  /** The memory pools, by name. */
  pools: Record<string, PoolSummary>,
  /**
   * The allocations of the most important pool, grouped; omitted if the input does not record a caching allocator and
   * neither a filter nor a grouping was requested.
   */
  allocations?: Allocations | null,
  /** The L1 of a Tenstorrent core: tensors, the buffers of programs, and the headroom between them. */
  l1: L1Summary | null,
  /** The peak of the most important pool: the one that ran out of memory, or DRAM. */
  peak: PoolMoment | null,
  /** Every pool at its peak. */
  peaks: Record<string, PoolMoment>,
  /** The requested position. */
  at: AtMoment | null,
  /** The padding of the tensors that are live at the DRAM peak. */
  padding: PaddingSummary | null,
  /** The steps with the largest increases. */
  suspects: Array<Suspect>,
  /** The largest increases in DRAM (in the first pool, if there is no DRAM); identical steps share a row. */
  increases: Array<Increase>,
  /** Changes between programs, which belong to no step. */
  outside: Array<Outside>,
  /** The worst fragmentation of each pool. */
  fragmentation: Record<string, Fragmentation>,
  /** The weights of the model. */
  weights: Weights | null,
  /** The inputs of the model. */
  inputs: Declared | null,
  /** The out-of-memory error that ended the program. */
  oom: Oom | null,
  /**
   * A sentence about the exception that ended the program. If `oom` is also set, this is the same error as reported
   * by Python, or a later one.
   */
  ended_by: string | null,
  /** All errors. */
  faults: Array<FaultSummary>,
  /** The training sessions. */
  sessions: Array<SessionSummary>,
  /** The phases of all sessions, in order. */
  phases: Array<PhaseSummary>,
  /** The expected and measured sizes of tensor classes. */
  expected: Array<ExpectedSummary>,
  /** The moments that the program named, in order; omitted if there are none. */
  checkpoints?: Array<Checkpoint>,
  /** The named parts of the program, in order; omitted if there are none. */
  ran?: Array<Ran>,
  /**
   * Whether memory grows from iteration to iteration; omitted if fewer than six iterations are
   * known or only some runs are included.
   */
  growth?: GrowthSummary | null,
  /** What kept tensors alive at the last search for it; omitted if the recording has none. */
  holders?: HoldersSummary | null,
  /** Suggested changes, most important first. */
  suggestions: Array<Suggestion>,
  /** What some of the suggestions save together, the smallest combination first. */
  combinations: Array<Combination>,
};

/** What replaying a program says about its failure. */
export type ReplaySummary = {
  /** The number of allocations with a known address. */
  allocations: number,
  /** The number of them that get the same address when they are replayed. */
  reproduced: number,
  /** Whether the failure also happens in the replay; if it does not, there are no ways out. */
  fails: boolean,
};

/** A part of its memory that the program reported. */
export type ReportedSummary = {
  /** `weights`, `kv_cache`, `cuda_graphs`, `activations`, `non_torch`, `budget` or `device_used`. */
  name: string,
  /** A description for people. */
  label: string,
  /** The size. */
  bytes: number,
  /** The exact size differs by at most this. */
  rounding_bytes: number,
  /** The line, from 1. */
  line: number,
};

/** The segments of a caching allocator for one private pool, stream and block size. */
export type ReservedPool = {
  /** The private pool, such as that of a CUDA graph; null: the default pool. */
  private_pool: [number, number] | null,
  /** The stream; 0 is the default stream. */
  stream: number,
  /** Whether it is for allocations up to 1 MiB. */
  is_small: boolean,
  /** The number of segments. */
  segments: number,
  /** Their size. */
  bytes: number,
  /** The allocated bytes in them. */
  allocated: number,
  /** The free bytes in them: neither allocated nor waiting for a stream. */
  free: number,
  /** The largest free block. */
  largest_free: number,
};

/** Bytes that no tensor explains. */
export type ResidueRow = {
  /** The operation that left them allocated; null if there was none, or one of several. */
  op: string | null,
  /** The unexplained bytes per bank. */
  per_bank: number,
  /** The number of steps that left bytes allocated. */
  steps: number,
  /** The number of these steps that ran with types and attributes not used before. */
  first_uses: number,
  /** The steps that left bytes allocated. */
  at_steps: Array<number>,
  /** An explanation if there is no operation. */
  note: string | null,
};

/** The tree of scopes. */
export type ScopeColumns = {
  /** The names. */
  name: Array<string>,
  /** The enclosing scope. */
  parent: Array<number | null>,
  /** The kind, as an index into `kinds`. */
  kind: Array<number>,
};

/** The response of `/api`. */
export type ServerInfo = {
  name: string,
  version: string,
  /** The size limit of an upload. */
  max_upload_bytes: number,
};

/** A training session. */
export type SessionSummary = {
  /** The name in the log. */
  name: string | null,
  /** The number of parameters of the model. */
  parameters: number | null,
  /** The element type of the parameters. */
  dtype: string | null,
  /** The memory of the device. */
  device_memory_bytes: number | null,
  /** Whether the figures are estimates: nothing was allocated. */
  estimated: boolean,
  /** Whether the session finished. */
  finished: boolean,
  /** The line number where it starts, from 1. */
  line: number | null,
  /** The highest known memory use of all phases. */
  peak_bytes: number | null,
  /** How close the peak is to the memory of the device. */
  level: Level | null,
  /** Whether the peak is below the memory of the device. */
  fits: boolean | null,
  /** How memory grows from iteration to iteration; null if it does not. */
  growth: Growth | null,
  /** The memory use at the end. */
  final_bytes: number | null,
};

/** How serious fragmentation is. */
export type Severity = "negligible" | "minor" | "notable";

/** A peak as it is displayed. */
export type ShownPeak = {
  /** The highest memory use. */
  bytes: number,
  /** The capacity, in the same unit. */
  capacity: number | null,
  /** The unit that both sizes refer to. */
  of: Extent,
};

/** The snapshots that the program took. */
export type SnapshotColumns = {
  /** The names that the program gave. */
  name: Array<string | null>,
  /** The times of the snapshots. */
  at_ns: Array<number>,
};

/** A source. Two are equal if they are the same file with the same content, judged by size and hash. */
export type SourceId = {
  /** The file, as an absolute path. */
  path: string,
  /** The size in bytes. */
  size: number,
  /** The XXH3 hash (128 bits, hexadecimal) of its first and its last 64 KiB. */
  hash: string,
};

/** The input files. */
export type SourceSummary = {
  /** The name of the input format. */
  format: string,
  /** The input files, as they were given. */
  files: Array<string>,
  /** Problems in the input that affect the numbers. */
  warnings: Array<WarningSummary>,
  /** The number of lines that could not be parsed. */
  skipped_lines: number,
};

/**
 * The text of a verdict or a suggestion: complete sentences with numbers and units.
 *
 * `ttmem-query` composes all sentences. Front ends display them as they are and never parse them.
 */
export type Statement = {
  /** The finding, in one sentence. */
  headline: string,
  /** Further facts; `None` if the headline contains all of them. */
  detail: string | null,
  /** What to do; `None` if there is nothing to do, or no remedy is known. */
  advice: string | null,
};

/** How a report was created. */
export type StoredKind = "report" | "run";

/** A row of the list: the fields of `ttmem list --json`, and the page's address. */
export type StoredRow = {
  /** The address of the page, if it exists or can be created. */
  page: string | null,
  /** The name of the report. */
  name: string,
  /** How the report was created. */
  kind: StoredKind,
  /** The folder that contains its files. */
  folder: string,
  /** The time of the last write. */
  written: string | null,
  /** The log's format; unknown, like the fields below, for folders of tt-memory-profiler 0.x. */
  format: string | null,
  /** The number of ranks. */
  ranks: number | null,
  /** The number of operations, without deallocate and get_device. */
  operations: number | null,
  /** The most important peak. */
  peak: AboutPeak | null,
  /** The peak as a list shows it. */
  shown: ShownPeak | null,
  /** The cause of the out-of-memory error, if there was one. */
  oom: string | null,
  /** The same as a sentence. */
  oom_headline: string | null,
  /** The size of its files. */
  bytes: number,
  /** The source, if it is recorded. */
  source: SourceId | null,
};

/** A suggested change, and how much it would save. */
export type Suggestion = {
  /** The name of the suggestion. */
  rule: string,
  /** The address of the documentation of the rule. */
  docs: string,
  /** How urgent it is. */
  urgency: Urgency,
  /** The pool that it is about. */
  pool: string,
  /** The headline, detail and advice in one string. */
  message: string,
  /** The reduction of the pool's peak, per bank. */
  saves_per_bank: number | null,
  /** The reduction of the pool's peak on the device. */
  saves_bytes: number | null,
  /** The first of the steps that it is about. */
  step: number | null,
  /** The steps that it is about, earliest first. */
  steps: Array<number>,
  /** The number of these steps, including those not listed. */
  step_count: number,
  /** The tensors that it is about, largest first; `None` if the input has no tensors. */
  tensors: Array<SuggestionTensor> | null,
  /** The number of these tensors, including those not listed. */
  tensor_count: number | null,
  /** The same tensors in groups of similar ones, the first group with the largest tensors. */
  groups: Array<SuggestionGroup>,
  /** The finding, in one sentence. */
  headline: string,
  /** Further facts; `None` if the headline contains all of them. */
  detail: string | null,
  /** What to do; `None` if there is nothing to do, or no remedy is known. */
  advice: string | null,
};

/** Similar tensors that a suggestion is about: the same shape, type, size and operation. */
export type SuggestionGroup = {
  /** The number of tensors. */
  count: number,
  /** Their name, or the pattern that their names follow. */
  name: string | null,
  /** The shape, without padding. */
  shape: Array<number> | null,
  /** The element type. */
  dtype: string | null,
  /** The size of all of them per bank. */
  per_bank: number | null,
  /** The first step that allocated one of them. */
  first_step: number | null,
  /** The last step that allocated one of them. */
  last_step: number | null,
  /** The operation that allocated them. */
  op: string | null,
  /** The location of that operation, the pattern that the locations follow, or the first location. */
  loc: string | null,
  /** The number of different locations. */
  locations: number,
};

/** A tensor that a suggestion is about. */
export type SuggestionTensor = {
  /** The name in the model, or the SSA name. */
  name: string | null,
  /** The SSA name in the program. */
  ssa: string | null,
  /** The shape, without padding. */
  shape: Array<number> | null,
  /** The element type. */
  dtype: string | null,
  /** The size per bank. */
  per_bank: number | null,
  /** The step that allocated it. */
  born_step: number | null,
  /** The operation that allocated it. */
  op: string | null,
  /** The location of that operation. */
  loc: string | null,
};

/** A number of allocations and their bytes. */
export type Sum = {
  /** The number of allocations. */
  count: number,
  /** Their bytes. */
  bytes: number,
};

/** The response of `ttmem summary`. */
export type Summary = {
  /** The version of this format. */
  schema: number,
  /** The input files. */
  source: SourceSummary,
  /** How the worst rank differs from the others, if the input has several ranks of a PyTorch program. */
  comparison?: Comparison | null,
  /** One entry per rank. */
  ranks: Array<RankSummary>,
};

/** What iterations leave behind. */
export type Survivor = {
  /** How it grows. */
  kind: SurvivorKind,
  /** What allocates it: an operation, an argument, or nothing known. */
  allocated_by: string,
  /** The operation that allocates it. */
  op: string | null,
  /** The location of that operation. */
  loc: string | null,
  /** The module or named part of the program that allocates it, with `*` in place of layer numbers. */
  module: string | null,
  /** The name of the argument, if no operation allocates it. */
  name: string | null,
  /** The class of its tensors; null if they differ. */
  class: Class | null,
  /** The bytes per bank that an iteration adds. */
  per_iteration_per_bank: number,
  /** The bytes per bank that the measured iterations added. */
  per_bank: number,
  /** The number of measured iterations. */
  measured_iterations: number,
  /** The number of tensors that these iterations added or replaced by larger ones; null if there are none. */
  tensors: number | null,
  /** The first iteration that leaves memory behind, from 1. */
  since_iteration: number,
  /** Whether the program freed these tensors after the last iteration. */
  freed_later: boolean,
  /** The last step that allocated one of them. */
  step: number | null,
  /** What keeps at least half of the added bytes alive, as references from a variable of the program; null if unknown. */
  held_by: string | null,
  /** The tensors that it keeps alive, if they are not all: `9 of 12 tensors`. */
  held_part: string | null,
};

/** How memory grows. */
export type SurvivorKind = "kept" | "replaced" | "kv_cache" | "unexplained";

/** A step with a large increase. */
export type Suspect = {
  /** The number of the step. */
  step: number,
  /** The name of the operation. */
  op: string | null,
  /** The source location of the operation. */
  loc: string | null,
  /** The shape of its first result. */
  shape: Array<number> | null,
  /** The element type of its first result. */
  dtype: string | null,
  /** The increase per bank of DRAM, or of the first pool if there is no DRAM. */
  added_per_bank: number,
};

/** A tensor that is involved in a failure. */
export type TensorFacts = {
  /** Its name. */
  name: string | null,
  /** Its shape. */
  shape: Array<number> | null,
  /** Its element type. */
  dtype: string | null,
  /** Its size per bank. */
  bytes_per_bank: number | null,
  /** Its address in each bank. */
  address: number | null,
  /** The step that allocated it. */
  step: number | null,
  /** The operation that allocated it. */
  op: string | null,
  /** The location of that operation. */
  loc: string | null,
  /** The last step that used it. */
  last_use: number | null,
};

/** A tensor of an input. */
export type TensorSide = {
  /** Its name. */
  name: string | null,
  /** The operation that allocates it. */
  op: string | null,
  /** The location of that operation. */
  loc: string | null,
  /** The module or other part of the program that allocates it. */
  made_in: string | null,
  /** Its shape. */
  shape: Array<number> | null,
  /** Its element type. */
  dtype: string | null,
  /** Its memory layout. */
  layout: string | null,
  /** Its size. */
  per_bank: number | null,
  /** The step that allocates it. */
  born_step: number | null,
  /** The first position without it; `None` if it is not. */
  freed_before_step: number | null,
};

/** An allocation that was freed again. */
export type Transient = {
  /** The bytes. */
  bytes: number,
  /** The operation that allocated it. */
  op: string | null,
  /** The source line. */
  line: string | null,
  /** The step that allocated it. */
  step: number | null,
  /** The step that freed it. */
  freed_by: number,
};

/**
 * The peaks of L1 by the rules of ttnn's own functions. They assume that all program buffers are on the same core, and
 * that these stay until the next program begins.
 */
export type TtnnL1Peaks = {
  /** `extract_resource_usage_per_core`: circular buffers. */
  peak_cb: number,
  /** `extract_resource_usage_per_core`: dataflow buffers. */
  peak_dataflow_buffer: number,
  /** `extract_resource_usage_per_core`: scratchpads. */
  peak_scratchpad: number,
  /** `extract_resource_usage_per_core`: buffers of tensors. */
  peak_l1: number,
  /** `extract_resource_usage_per_core`: all of them at the same time. */
  peak_total: number,
  /** `extract_peak_L1_memory_usage`: the buffers of all cores plus the program buffers of one core. */
  peak_l1_memory_usage: number,
};

/** How urgent a suggestion is, most urgent first. */
export type Urgency = "failure" | "risk" | "change" | "note";

/** A problem in an input file. */
export type WarningSummary = {
  /** The name of the input file. */
  file: string,
  /** The line number, from 1. */
  line: number | null,
  /** What is wrong, and how it affects the numbers. */
  message: string,
};

/** Bytes lost to fragmentation. */
export type Waste = {
  /** The most bytes that blocks were larger than requested. */
  internal: number,
  /** The position of that moment. */
  internal_position: number,
  /** The most bytes that were reserved but not active. */
  external: number,
  /** The position of that moment. */
  external_position: number,
  /** The same in equal parts of the run, in order. */
  over_time: Array<WasteInPart>,
};

/** The most bytes lost to fragmentation in a part of the run. */
export type WasteInPart = {
  /** The last position of the part. */
  last: number,
  /** The most bytes that blocks were larger than requested. */
  internal: number,
  /** The most bytes that were reserved but not active. */
  external: number,
};

/** A change after which the program does not fail at this point, verified by replaying its allocations. */
export type WayOut = {
  /**
   * `move_to_dram`, `allocate_in_dram`, `free_earlier`, `allocate_earlier`, `allocate_first`, `bfloat8_b` or
   * `l1_small_size`.
   */
  kind: string,
  /** What to do, as a sentence. */
  text: string,
  /** The tensors that it is about, the largest first. */
  tensors: Array<TensorFacts>,
  /** The step before which to free or allocate. */
  before_step: number | null,
  /** The new value of the setting, in bytes. */
  value: number | null,
  /** The bytes per bank that change. */
  bytes_per_bank: number,
  /** The bytes per bank to spare afterwards; null if unknown. */
  margin_per_bank: number | null,
};

/** A parameter or constant that a graph declares. */
export type Weight = {
  /** The name in the model. */
  name: string,
  /** The shape, without padding. */
  shape: Array<number>,
  /** The element type. */
  dtype: string,
  /** The size of its elements. */
  bytes: number | null,
  /** Whether a const-eval result computed from it is also on the device at the DRAM peak. */
  kept_twice: boolean | null,
};

/** The weights of the model. */
export type Weights = {
  /** The number of weights. */
  count: number,
  /** The size of their elements. */
  bytes: number,
  /** The size of those weights that are on the device in two forms at the DRAM peak. */
  kept_twice_bytes: number | null,
  /** The largest weights. */
  largest: Array<Weight>,
};
