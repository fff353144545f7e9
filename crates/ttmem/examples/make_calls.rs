//! Generates a recording of a program that trains and serves at the same time: calls on several threads, with memory.
//! `bench/gantt.sh` renders it. The same number of calls always gives the same file.
//!
//! `cargo run --release --example make_calls -- 200000 OUT.ttmem`

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;

use ttmem::model::{
    Call, CallId, Event, LaneId, Moment, Op, OpId, OpKind, Outcome, PoolId, RankEvent, RankId, Reading,
    Scope, ScopeId, ScopeKind, Sink, Snapshot, Source, StepMarks, StepRow, StrId,
};
use ttmem::record::frame::Writer;
use ttmem::{Error, Result};
use ttmem_testkit::random::Random;

const LANES: [&str; 6] = ["MainThread", "autograd-0", "loader-0", "loader-1", "asyncio_0", "stream 7"];
const OPS: [&str; 12] = [
    "aten::mm",
    "aten::addmm",
    "aten::native_layer_norm",
    "aten::gelu",
    "aten::softmax",
    "aten::copy_",
    "aten::add",
    "aten::mul",
    "aten::transpose",
    "aten::bmm",
    "aten::dropout",
    "aten::embedding",
];
const MIB: u64 = 1 << 20;

/// A generated call, before all calls are sorted.
struct Made {
    name: String,
    kind: ScopeKind,
    lane: usize,
    /// The enclosing call.
    parent: Option<usize>,
    began: u64,
    ended: u64,
    allocated: u64,
    freed: u64,
    peak: u64,
}

struct Program {
    random: Random,
    calls: Vec<Made>,
    wanted: usize,
}

impl Program {
    fn call(&mut self, name: &str, kind: ScopeKind, lane: usize, parent: Option<usize>, began: u64) -> usize {
        let name = name.to_owned();
        self.calls.push(Made {
            name,
            kind,
            lane,
            parent,
            began,
            ended: began,
            allocated: 0,
            freed: 0,
            peak: 0,
        });
        self.calls.len() - 1
    }

    fn end(&mut self, call: usize, now: u64) {
        self.calls[call].ended = now;
    }

    /// Consecutive framework operations inside a call. Returns when the last one ends.
    fn operations(&mut self, parent: usize, count: u64, mut now: u64) -> u64 {
        let (lane, freed) = (self.calls[parent].lane, self.random.between(0, 3));
        for number in 0..count {
            now += self.random.between(500, 6_000);
            let name = self.random.pick(&OPS);
            let call = self.call(name, ScopeKind::Framework, lane, Some(parent), now);
            now += self.random.between(3_000, 90_000);
            self.end(call, now);
            let bytes = self.random.between(1, 24) * MIB / 4;
            let made = &mut self.calls[call];
            (made.allocated, made.peak) = (bytes, bytes);
            if number % 4 <= freed {
                made.freed = bytes;
            }
        }
        let (allocated, freed) = self.calls[parent + 1..]
            .iter()
            .filter(|call| call.parent == Some(parent))
            .fold((0, 0), |(allocated, freed), call| (allocated + call.allocated, freed + call.freed));
        let made = &mut self.calls[parent];
        (made.allocated, made.freed, made.peak) = (allocated, freed, allocated - freed / 2);
        now
    }

    /// A training step, with other threads running at the same time. Returns when it ends.
    fn step(&mut self, number: u64, began: u64) -> u64 {
        let step = self.call("train_step", ScopeKind::Operation, 0, None, began);
        let forward = self.call("GPT", ScopeKind::Forward, 0, Some(step), began + 2_000);
        let mut now = began + 4_000;
        for layer in 0..4 {
            let block = self.call(&format!("blocks.{layer}"), ScopeKind::Forward, 0, Some(forward), now);
            now = self.operations(block, 9, now);
            self.end(block, now);
        }
        self.end(forward, now + 1_000);
        let backward = self.call("backward", ScopeKind::Backward, 1, None, now + 20_000);
        now = self.operations(backward, 24, now + 22_000);
        self.end(backward, now);
        let optimizer = self.call("AdamW.step", ScopeKind::Optimizer, 0, Some(step), now + 8_000);
        now = self.operations(optimizer, 6, now + 9_000);
        self.end(optimizer, now);
        self.end(step, now + 3_000);
        for loader in 0..2 {
            let load = self.call(
                "load_batch",
                ScopeKind::Operation,
                2 + loader,
                None,
                began + 10_000 * loader as u64,
            );
            let until = self.operations(load, 3, began + 10_000 * loader as u64 + 100);
            let pause = self.random.between(10_000, 900_000);
            self.end(load, until + pause);
        }
        // Tasks that overlap on one thread.
        for task in 0..3 {
            let at = began + task * 150_000 + self.random.between(0, 90_000);
            let request = self.call("request", ScopeKind::Operation, 4, None, at);
            let until = at + self.random.between(200_000, 900_000);
            self.end(request, until);
            if number.is_multiple_of(2) {
                let decode = self.call("decode", ScopeKind::Operation, 4, Some(request), at + 30_000);
                self.end(decode, until - 20_000);
            }
        }
        let copy = self.call("Memcpy HtoD", ScopeKind::Framework, 5, None, began + 40_000);
        let copied = self.random.between(20_000, 200_000);
        self.end(copy, began + 40_000 + copied);
        now + self.random.between(5_000, 400_000)
    }

    fn run(&mut self) {
        let (mut now, mut number) = (1_000_000, 0);
        while self.calls.len() < self.wanted {
            now = self.step(number, now);
            number += 1;
        }
        self.calls.truncate(self.wanted);
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, path] = &arguments[..] else {
        return Err(Error::NotFound("expected a number of calls and an output file".into()));
    };
    let wanted = count.parse().map_err(|_| Error::NotFound(format!("{count} is not a number")))?;
    let mut program = Program { random: Random::new(7), calls: Vec::new(), wanted };
    program.run();
    let file = File::create(path).map_err(|source| Error::Write { path: path.into(), source })?;
    let mut writer = Writer::create(BufWriter::new(file), path)?;
    write(&program.calls, path, &mut writer)?;
    writer.finish().map(drop)
}

fn write(calls: &[Made], path: &str, sink: &mut dyn Sink) -> Result<()> {
    let rank = row(RankId::new(0))?;
    sink.take(Event::Source(Source { format: "recording".into(), file: path.to_owned() }))?;
    sink.take(Event::Rank { label: None })?;
    let mut texts: HashMap<&str, StrId> = HashMap::new();
    let names = calls.iter().map(|call| call.name.as_str());
    for name in LANES.into_iter().chain(["cpu", "warm"]).chain(names) {
        if !texts.contains_key(name) {
            texts.insert(name, row(StrId::new(texts.len()))?);
            sink.take(Event::Text(Cow::Borrowed(name)))?;
        }
    }
    sink.take(Event::Op(Op::new(texts["cpu"], OpKind::Compute)))?;
    let mut say = |event: RankEvent| sink.take(Event::Of(rank, event));
    say(RankEvent::Began(1_760_000_000_000_000_000))?;
    say(RankEvent::Pool { name: texts["cpu"], banks: Some(1), quantum: 0 })?;
    for lane in LANES {
        say(RankEvent::Lane { name: texts[lane] })?;
    }
    write_calls(calls, &texts, &mut say)?;
    write_memory(calls, texts["warm"], &mut say)?;
    sink.take(Event::End)
}

/// The calls in order of their start, each with its scope.
fn write_calls(
    calls: &[Made],
    texts: &HashMap<&str, StrId>,
    say: &mut impl FnMut(RankEvent) -> Result<()>,
) -> Result<()> {
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|&call| calls[call].began);
    let mut ids: HashMap<usize, (CallId, ScopeId)> = HashMap::new();
    let mut scopes: HashMap<(Option<ScopeId>, StrId), ScopeId> = HashMap::new();
    for (place, &index) in order.iter().enumerate() {
        let call = &calls[index];
        let outer = call.parent.and_then(|parent| ids.get(&parent)).copied();
        let (name, parent) = (texts[call.name.as_str()], outer.map(|(_, scope)| scope));
        let next = row(ScopeId::new(scopes.len()))?;
        let scope = *scopes.entry((parent, name)).or_insert(next);
        if scope == next {
            say(RankEvent::Scope(Scope { name, parent, kind: call.kind }))?;
        }
        ids.insert(index, (row(CallId::new(place))?, scope));
        let outcome = Outcome {
            ended: call.ended,
            allocated: call.allocated,
            freed: call.freed,
            peak: call.peak,
            kept: call.allocated.saturating_sub(call.freed),
            ..Outcome::default()
        };
        say(RankEvent::Call(Call {
            scope,
            lane: row(LaneId::new(call.lane))?,
            parent: outer.map(|(id, _)| id),
            op: None,
            began: call.began,
            first: 0,
            outcome: Some(outcome),
        }))?;
    }
    Ok(())
}

/// The operations' allocations and frees, a step each.
fn write_memory(calls: &[Made], warm: StrId, say: &mut impl FnMut(RankEvent) -> Result<()>) -> Result<()> {
    let pool = row(PoolId::new(0))?;
    let mut changes: Vec<(u64, u64, bool)> = Vec::new();
    for call in calls.iter().filter(|call| call.kind == ScopeKind::Framework && call.allocated > 0) {
        changes.push((call.began, call.allocated, true));
        // An operation that does not free its memory itself frees it a while later.
        changes.push((call.ended + if call.freed > 0 { 0 } else { 4_000_000 }, call.allocated, false));
    }
    changes.sort_unstable();
    let mut held = 180 * MIB;
    for (step, (time, bytes, takes)) in (0..Moment::MAX_STEPS).zip(changes) {
        held = if takes { held + bytes } else { held.saturating_sub(bytes) };
        say(RankEvent::Time(step, time))?;
        let op = row(OpId::new(0))?;
        say(RankEvent::Step(StepRow { op, run: None, offset: 0, marks: StepMarks::default() }))?;
        let at = Moment::after(step);
        say(RankEvent::State(pool, at, Reading { allocated: Some(held), ..Reading::default() }))?;
        if step == 500 {
            say(RankEvent::Snapshot(Snapshot { name: Some(warm), at, time }))?;
        }
    }
    Ok(())
}

fn row<T>(id: Option<T>) -> Result<T> {
    id.ok_or_else(|| Error::NotFound("too many rows".into()))
}
