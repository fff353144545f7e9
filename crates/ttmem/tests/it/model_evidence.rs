//! The model is proven before five readers stand on it: each later kind of evidence is said here by hand, as
//! the events that its reader will produce, and `summary` answers with nulls where nothing is known.

use std::borrow::Cow;

use serde_json::{Value, json};
use ttmem::model::{
    Builder, ByteRange, Bytes, Class, CurveKind, Event, Moment, Op, OpId, OpKind, Phase, PoolId, Position,
    Profile, RankEvent, RankId, Reading, Run, RunId, Session, SessionId, Sink, Source, Step, StepMarks,
    StepNumber, StepRow, StrId, Tensor, TensorId,
};
use ttmem::query::{Request, summary};
use ttmem::read;
use ttmem::record::frame::Writer;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Says events to a sink and counts the rows that they define, as a reader does.
struct Narrator<S> {
    sink: S,
    texts: usize,
    ops: usize,
    pools: usize,
    runs: usize,
    steps: Step,
    tensors: usize,
}

impl<S: Sink> Narrator<S> {
    fn new(sink: S, format: &str) -> Self {
        let mut narrator = Self { sink, texts: 0, ops: 0, pools: 0, runs: 0, steps: 0, tensors: 0 };
        narrator.say(Event::Source(Source { format: format.into(), file: "evidence".into() }));
        narrator.say(Event::Rank { label: None });
        narrator
    }

    fn say(&mut self, event: Event<'_>) {
        self.sink.take(event).unwrap();
    }

    fn of_rank(&mut self, event: RankEvent) {
        self.say(Event::Of(RankId::new(0).unwrap(), event));
    }

    fn text(&mut self, text: &str) -> StrId {
        self.say(Event::Text(Cow::Borrowed(text)));
        self.texts += 1;
        StrId::new(self.texts - 1).unwrap()
    }

    fn pool(&mut self, name: &str, banks: Option<u32>) -> PoolId {
        let name = self.text(name);
        self.of_rank(RankEvent::Pool { name, banks, quantum: 0 });
        self.pools += 1;
        PoolId::new(self.pools - 1).unwrap()
    }

    fn run(&mut self, program: &str, parent: Option<RunId>) -> RunId {
        let program = self.text(program);
        let run = Run {
            program,
            parent,
            module: None,
            const_eval: false,
            first: self.steps,
            end: self.steps,
            finished: false,
            source: ByteRange::default(),
        };
        self.of_rank(RankEvent::Run(run));
        self.runs += 1;
        RunId::new(self.runs - 1).unwrap()
    }

    fn end_run(&mut self, run: RunId) {
        let end = self.steps;
        self.of_rank(RankEvent::RunEnded { run, end, finished: true, source_end: 0 });
    }

    fn step(&mut self, name: &str, kind: OpKind, run: Option<RunId>) -> Step {
        let name = self.text(name);
        self.say(Event::Op(Op::new(name, kind)));
        let op = OpId::new(self.ops).unwrap();
        self.ops += 1;
        self.of_rank(RankEvent::Step(StepRow { op, run, offset: 0, marks: StepMarks::default() }));
        self.steps += 1;
        self.steps - 1
    }

    fn state(&mut self, pool: PoolId, at: Moment, reading: Reading) {
        self.of_rank(RankEvent::State(pool, at, reading));
    }

    fn tensor(&mut self, pool: PoolId, bytes: u64, step: Option<Step>, name: Option<&str>) -> TensorId {
        let name = name.map(|name| self.text(name));
        let tensor = Tensor {
            ty: None,
            pool,
            per_bank: Bytes::known(bytes),
            born: step.map_or(Moment::START, Moment::after),
            dies: Moment::NEVER,
            class: Class::Unknown,
            run: None,
            ssa: None,
            step: step.and_then(StepNumber::new),
            name,
        };
        self.of_rank(RankEvent::Tensor(tensor));
        self.tensors += 1;
        TensorId::new(self.tensors - 1).unwrap()
    }

    fn dies(&mut self, tensor: TensorId, step: Step) {
        self.of_rank(RankEvent::Dies(tensor, Moment::after(step)));
    }
}

impl Narrator<Builder> {
    fn finish(mut self) -> Profile {
        self.say(Event::End);
        self.sink.finish()
    }
}

fn builder(format: &str) -> Narrator<Builder> {
    Narrator::new(Builder::new(), format)
}

/// The answer about the one rank of a profile, as the contract's JSON.
#[track_caller]
fn answer(profile: &Profile, at: Option<Position>) -> Value {
    let request = Request { at, ..Request::default() };
    let answer = serde_json::to_value(summary(std::slice::from_ref(profile), &request).unwrap()).unwrap();
    assert_eq!(answer["ranks"].as_array().unwrap().len(), 1);
    answer["ranks"][0].clone()
}

/// The value at a path of keys and indices: `pools.DRAM.banks`.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('/').fold(value, |value, key| match key.parse::<usize>() {
        Ok(index) if value.is_array() => &value[index],
        _ => &value[key],
    })
}

#[track_caller]
fn says(answer: &Value, expected: &[(&str, Value)]) {
    for (path, value) in expected {
        assert_eq!(at(answer, path), value, "{path}");
    }
}

/// Not known is null, never zero, and never left out.
#[track_caller]
fn is_null(answer: &Value, paths: &[&str]) {
    for path in paths {
        let (parent, key) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = if parent.is_empty() { answer } else { at(answer, parent) };
        let there = if parent.is_array() { true } else { parent.get(key).is_some() };
        assert!(there && at(answer, path).is_null(), "{path} is {}", at(answer, path));
    }
}

/// What no evidence without steps, types and graphs can know.
const NEVER_KNOWN: [&str; 6] =
    ["rank", "weights", "inputs", "oom", "operations/weight", "operations/activation"];

#[test]
fn a_training_log_has_phases_and_no_steps() {
    let mut log = builder("tt_train");
    log.of_rank(RankEvent::Session(Session { quantum: 10_486, ..Session::default() }));
    let session = SessionId::new(0).unwrap();
    let name = log.text("MODEL_CREATION");
    // 1863.25 MB, and 0.12 MB to the nearest byte.
    let (created, cb) = (1863 * MIB + MIB / 4, 125_829);
    log.of_rank(RankEvent::Phase(Phase {
        session,
        name,
        steps: None,
        line: None,
        segment_peak: Some(created.cast_signed()),
        allocations: Some(created),
        deallocations: Some(0),
        change: Some(created.cast_signed()),
        cumulative_peak: Some(created.cast_signed()),
        cumulative_current: Some(created.cast_signed()),
        l1_peak_cb: Some(cb),
        l1_peak_buffer: Some(0),
        l1_peak_total: Some(cb),
    }));
    // A phase whose second and third lines were torn off: what they say is not known.
    let name = log.text("BACKWARD_PASS");
    log.of_rank(RankEvent::Phase(Phase {
        session,
        name,
        steps: None,
        line: None,
        segment_peak: Some(512 << 20),
        allocations: Some(900 << 20),
        deallocations: Some(1000 << 20),
        change: Some(-100 << 20),
        cumulative_peak: None,
        cumulative_current: None,
        l1_peak_cb: None,
        l1_peak_buffer: None,
        l1_peak_total: None,
    }));
    let answer = answer(&log.finish(), None);

    says(
        &answer,
        &[
            ("runs", json!(0)),
            ("passes", json!(0)),
            ("operations/total", json!(0)),
            ("operations/reported", json!(0)),
            ("pools", json!({})),
            ("peaks", json!({})),
            ("suspects", json!([])),
            ("faults", json!([])),
            ("phases/0/name", json!("MODEL_CREATION")),
            ("phases/0/segment_peak_bytes", json!(1_953_759_232)),
            ("phases/0/allocations_bytes", json!(1_953_759_232)),
            ("phases/0/deallocations_bytes", json!(0)),
            ("phases/0/change_bytes", json!(1_953_759_232)),
            ("phases/0/cumulative_peak_bytes", json!(1_953_759_232)),
            ("phases/0/cumulative_current_bytes", json!(1_953_759_232)),
            ("phases/0/l1_peak_cb_bytes", json!(125_829)),
            ("phases/0/l1_peak_buffer_bytes", json!(0)),
            ("phases/0/l1_peak_total_bytes", json!(125_829)),
            ("phases/1/name", json!("BACKWARD_PASS")),
            ("phases/1/change_bytes", json!(-104_857_600)),
        ],
    );
    is_null(&answer, &NEVER_KNOWN);
    is_null(
        &answer,
        &[
            "peak",
            "padding",
            "at",
            "phases/1/cumulative_peak_bytes",
            "phases/1/cumulative_current_bytes",
            "phases/1/l1_peak_cb_bytes",
            "phases/1/l1_peak_buffer_bytes",
            "phases/1/l1_peak_total_bytes",
        ],
    );
    assert_eq!(answer["phases"].as_array().unwrap().len(), 2);
}

/// A reading of a CUDA device, in MiB.
fn cuda(allocated: u64, active: u64, reserved: u64) -> Reading {
    Reading {
        allocated: Some(allocated * MIB),
        active: Some(active * MIB),
        reserved: Some(reserved * MIB),
        ..Reading::default()
    }
}

/// Ten trace entries of the caching allocator: each is a step, and the state after it is known.
fn cuda_profile() -> Profile {
    let mut trace = builder("torch_snapshot");
    let device = trace.pool("CUDA:0", Some(1));
    // Allocated before the recording began: its free is of a block that no event of the trace has made.
    let ghost = trace.tensor(device, 3 * MIB, None, None);
    trace.state(device, Moment::START, cuda(3, 3, 20));
    let entries = [
        ("alloc", cuda(4, 4, 20)),
        ("segment_alloc", cuda(4, 4, 22)),
        ("alloc", cuda(6, 6, 22)),
        ("free_requested", cuda(3, 6, 22)),
        ("free_completed", cuda(3, 3, 22)),
        ("alloc", cuda(7, 7, 22)),
        ("free_requested", cuda(6, 7, 22)),
        ("free_completed", cuda(6, 6, 22)),
        ("free_requested", cuda(4, 6, 22)),
        ("free_completed", cuda(4, 4, 22)),
    ];
    let mut made = Vec::new();
    for (action, reading) in entries {
        let kind = if action.starts_with("free") { OpKind::Deallocate } else { OpKind::Compute };
        let step = trace.step(action, kind, None);
        trace.state(device, Moment::after(step), reading);
        match step {
            0 => made.push(trace.tensor(device, MIB, Some(step), Some("layer.bias"))),
            2 => made.push(trace.tensor(device, 2 * MIB, Some(step), None)),
            3 => trace.dies(ghost, step),
            5 => made.push(trace.tensor(device, 4 * MIB, Some(step), None)),
            6 => trace.dies(made[0], step),
            8 => trace.dies(made[1], step),
            _ => {}
        }
    }
    trace.finish()
}

#[test]
fn cuda_events_have_allocated_and_reserved_apart_and_free_what_nobody_made() {
    let profile = cuda_profile();
    assert_eq!(profile.warnings, []);
    let answer = answer(&profile, Some(3));
    says(
        &answer,
        &[
            ("operations/total", json!(10)),
            ("pools/CUDA:0/banks", json!(1)),
            ("pools/CUDA:0/peak_per_bank", json!(7 * MIB)),
            ("pools/CUDA:0/peak_total", json!(7 * MIB)),
            ("pools/CUDA:0/peak_step", json!(6)),
            ("pools/CUDA:0/caused_by_step", json!(5)),
            ("pools/CUDA:0/final_total", json!(4 * MIB)),
            ("pools/CUDA:0/final_source", json!("measured")),
            ("pools/CUDA:0/quantum_per_bank", json!(0)),
            ("peak/pool", json!("CUDA:0")),
            ("peak/caused_by/op", json!("alloc")),
            ("peak/explained_per_bank", json!(7 * MIB)),
            ("peak/unexplained_per_bank", json!(0)),
            ("peak/by_class_per_bank", json!({ "unknown": 7 * MIB })),
            ("peak/residue", json!([])),
            ("peak/live_count", json!(3)),
            ("peak/live/0/per_bank", json!(4 * MIB)),
            ("peak/live/0/born_step", json!(5)),
            ("peak/live/1/dies_step", json!(8)),
            ("peak/live/2/name", json!("layer.bias")),
            ("suspects/0/step", json!(5)),
            ("suspects/0/added_per_bank", json!(4 * MIB)),
            // Before the unknown block was freed, it was there, and it is somebody's.
            ("at/pools/CUDA:0/live_count", json!(3)),
            ("at/pools/CUDA:0/live/0/per_bank", json!(3 * MIB)),
        ],
    );
    is_null(&answer, &NEVER_KNOWN);
    is_null(
        &answer,
        &[
            "pools/CUDA:0/capacity_per_bank",
            "pools/CUDA:0/free_at_peak_per_bank",
            "pools/CUDA:0/largest_free_at_peak_per_bank",
            "peak/phase",
            "peak/caused_by/loc",
            "peak/caused_by/program",
            "peak/caused_by/run",
            "peak/live/0/name",
            "peak/live/0/ssa",
            "peak/live/0/shape",
            "peak/live/0/dtype",
            "peak/live/0/padded_bytes",
            "peak/live/0/logical_bytes",
            "peak/live/0/dies_step",
            "at/pools/CUDA:0/live/0/born_step",
            "at/pools/CUDA:0/live/0/op",
        ],
    );
    // The three curves of the allocator are three curves of the pool.
    let pool = &profile.ranks[0].pools[0];
    let value = |kind, step| pool.curve(kind).unwrap().value_at(Moment::after(step));
    assert_eq!(value(CurveKind::Reserved, 0), Some(20 * MIB));
    assert_eq!(value(CurveKind::Reserved, 9), Some(22 * MIB));
    assert_eq!((value(CurveKind::Allocated, 3), value(CurveKind::Active, 3)), (Some(3 * MIB), Some(6 * MIB)));
}

/// A view of ttrt, in exact bytes.
fn ttrt(allocated: u64) -> Reading {
    const BANK: u64 = 1_073_741_792;
    Reading {
        allocated: Some(allocated),
        free: Some(BANK - allocated),
        largest_free: Some(BANK - 2 * allocated),
        capacity: Some(BANK),
        ..Reading::default()
    }
}

#[test]
fn states_after_operations_are_at_the_next_position() {
    let mut run = builder("ttrt_memory");
    let dram = run.pool("DRAM", Some(12));
    for (op, kind, allocated) in [
        ("ttnn.to_device", OpKind::Compute, 8192),
        ("ttnn.matmul", OpKind::Compute, 12_288),
        ("ttnn.deallocate", OpKind::Deallocate, 4096),
    ] {
        let step = run.step(op, kind, None);
        run.state(dram, Moment::after(step), ttrt(allocated));
    }
    let profile = run.finish();
    let found = answer(&profile, None);
    says(
        &found,
        &[
            ("operations/total", json!(3)),
            ("operations/reported", json!(2)),
            ("pools/DRAM/banks", json!(12)),
            ("pools/DRAM/capacity_per_bank", json!(1_073_741_792)),
            ("pools/DRAM/peak_per_bank", json!(12_288)),
            ("pools/DRAM/peak_total", json!(12 * 12_288)),
            // After operation 1 is before operation 2, and operation 1 caused it.
            ("pools/DRAM/peak_step", json!(2)),
            ("pools/DRAM/caused_by_step", json!(1)),
            ("pools/DRAM/final_per_bank", json!(4096)),
            ("pools/DRAM/final_source", json!("measured")),
            ("pools/DRAM/free_at_peak_per_bank", json!(1_073_729_504)),
            ("pools/DRAM/largest_free_at_peak_per_bank", json!(1_073_717_216)),
            ("pools/DRAM/quantum_per_bank", json!(0)),
            ("peak/caused_by/op", json!("ttnn.matmul")),
            ("fragmentation/DRAM/step", json!(2)),
        ],
    );
    is_null(&found, &NEVER_KNOWN);
    is_null(
        &found,
        &[
            "padding",
            "peak/explained_per_bank",
            "peak/unexplained_per_bank",
            "peak/by_class_per_bank",
            "peak/residue",
            "peak/live",
            "peak/live_count",
        ],
    );
    // Position 0 is before the first operation: nobody has looked at the device then.
    let first = answer(&profile, Some(0));
    is_null(&first, &["at/pools/DRAM/allocated_per_bank", "at/pools/DRAM/free_per_bank"]);
}

#[test]
fn a_graph_capture_has_totals_and_functions_that_nest() {
    let mut capture = builder("ttnn_graph");
    // Sizes of a capture are those of the whole device.
    let dram = capture.pool("DRAM", Some(1));
    let total = |bytes: u64| Reading { allocated: Some(bytes), ..Reading::default() };
    capture.state(dram, Moment::START, total(0));

    let add = capture.run("ttnn::add", None);
    let inner = capture.run("ttnn::prim::binary_ng", Some(add));
    let step = capture.step("buffer_allocate", OpKind::Compute, Some(inner));
    let sum = capture.tensor(dram, 2 * MIB, Some(step), None);
    capture.state(dram, Moment::after(step), total(2 * MIB));
    capture.end_run(inner);
    capture.end_run(add);

    let matmul = capture.run("ttnn::matmul", None);
    let step = capture.step("buffer_allocate", OpKind::Compute, Some(matmul));
    capture.tensor(dram, 4 * MIB + 512 * KIB, Some(step), None);
    capture.state(dram, Moment::after(step), total(6 * MIB + 512 * KIB));
    let step = capture.step("buffer_deallocate", OpKind::Deallocate, Some(matmul));
    capture.dies(sum, step);
    capture.state(dram, Moment::after(step), total(4 * MIB + 512 * KIB));
    capture.end_run(matmul);

    let profile = capture.finish();
    assert_eq!(profile.ranks[0].run_numbers(), [1, 1, 2]);
    let answer = answer(&profile, None);
    says(
        &answer,
        &[
            ("runs", json!(2)),
            ("operations/total", json!(3)),
            ("operations/weight", json!(0)),
            ("pools/DRAM/banks", json!(1)),
            ("pools/DRAM/peak_total", json!(6 * MIB + 512 * KIB)),
            ("pools/DRAM/peak_step", json!(2)),
            ("pools/DRAM/caused_by_step", json!(1)),
            ("pools/DRAM/final_total", json!(4 * MIB + 512 * KIB)),
            ("peak/caused_by/program", json!("ttnn::matmul")),
            ("peak/caused_by/run", json!(2)),
            ("peak/unexplained_per_bank", json!(0)),
            ("peak/live_count", json!(2)),
            ("outside", json!([])),
        ],
    );
    is_null(&answer, &["rank", "weights", "inputs", "oom", "pools/DRAM/capacity_per_bank", "peak/phase"]);
    is_null(&answer, &["pools/DRAM/free_at_peak_per_bank", "peak/live/0/shape", "peak/live/0/padded_bytes"]);
}

#[test]
fn a_recording_cut_off_in_mid_event_is_answered_up_to_there() {
    let mut bytes = Vec::new();
    let mut recording = Narrator::new(Writer::create(&mut bytes, "live.ttmem").unwrap(), "recording");
    let dram = recording.pool("DRAM", Some(1));
    for allocated in [MIB, 5 * MIB, 2 * MIB, 9 * MIB] {
        let step = recording.step("aten::mm", OpKind::Compute, None);
        let reading = Reading { allocated: Some(allocated), ..Reading::default() };
        recording.state(dram, Moment::after(step), reading);
        recording.sink.flush().unwrap();
    }
    // Killed: there is no `End`, and the last frame has lost its last bytes.
    drop(recording);
    bytes.truncate(bytes.len() - 3);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("live.ttmem");
    std::fs::write(&path, &bytes).unwrap();

    let profile = read::open(path.to_str().unwrap()).unwrap();
    assert!(!profile.complete);
    assert_eq!(profile.warnings.len(), 1, "{:?}", profile.warnings);
    let answer = answer(&profile, None);
    says(
        &answer,
        &[
            ("operations/total", json!(3)),
            ("pools/DRAM/peak_total", json!(5 * MIB)),
            ("pools/DRAM/peak_step", json!(2)),
            ("pools/DRAM/caused_by_step", json!(1)),
            ("pools/DRAM/final_total", json!(2 * MIB)),
        ],
    );
    is_null(&answer, &NEVER_KNOWN);
    is_null(&answer, &["peak/live", "padding"]);
}
