//! Generates a recording of a program on a GPU whose allocations have call stacks, in the shape of a CUDA snapshot: many
//! events, thousands of distinct stacks. `bench/page.sh` opens its page. The same numbers always give the same file.
//!
//! `cargo run --release --example make_stacks -- 1000000 OUT.ttmem`

use std::borrow::Cow;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::fs::File;
use std::io::BufWriter;

use ttmem::model::{
    Bytes, Class, Event, Frame, FrameId, Moment, Op, OpId, OpKind, OpStack, Placement, PoolId, RankEvent,
    RankId, Reading, Sink, Source, Stack, StackId, StepMarks, StepNumber, StepRow, StrId, Tensor, TensorId,
};
use ttmem::record::frame::Writer;
use ttmem::{Error, Result};
use ttmem_testkit::random::Random;

/// The number of distinct stacks, and the lines of each.
const STACKS: usize = 3000;
const DEPTH: usize = 40;
/// The number of distinct lines.
const LINES: usize = 2400;
/// The lines that all stacks begin with.
const COMMON: u64 = 8;
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// The memory of the device.
const CAPACITY: u64 = 80 << 30;

/// What a stack allocates each time.
struct Site {
    bytes: u64,
    /// The number of events until it is freed.
    life: u64,
    /// How much more it allocates in each round, as a cache of keys and values does.
    grows: u64,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, path] = &arguments[..] else {
        return Err(Error::NotFound("expected a number of events and an output file".into()));
    };
    let events = count.parse().map_err(|_| Error::NotFound(format!("{count} is not a number")))?;
    let file = File::create(path).map_err(|source| Error::Write { path: path.into(), source })?;
    let mut writer = Writer::create(BufWriter::new(file), path)?;
    write(events, path, &mut writer)?;
    writer.finish().map(drop)
}

fn write(events: u32, path: &str, sink: &mut dyn Sink) -> Result<()> {
    let mut random = Random::new(11);
    sink.take(Event::Source(Source { format: "recording".into(), file: path.to_owned() }))?;
    let lines = write_lines(&mut random, sink)?;
    let ops = write_stacks(&mut random, &lines, sink)?;
    sink.take(Event::Rank { label: None })?;
    let rank = row(RankId::new(0))?;
    let mut say = |event: RankEvent| sink.take(Event::Of(rank, event));
    say(RankEvent::Began(1_760_000_000_000_000_000))?;
    say(RankEvent::Pool { name: row(StrId::new(0))?, banks: Some(1), quantum: 0 })?;
    write_memory(events, ops, &mut random, &mut say)?;
    sink.take(Event::End)
}

/// The texts and the source lines.
fn write_lines(random: &mut Random, sink: &mut dyn Sink) -> Result<Vec<FrameId>> {
    let mut texts: HashMap<String, StrId> = HashMap::new();
    let mut text = |name: String, sink: &mut dyn Sink| -> Result<StrId> {
        if let Some(known) = texts.get(&name) {
            return Ok(*known);
        }
        let new = row(StrId::new(texts.len()))?;
        sink.take(Event::Text(Cow::Borrowed(name.as_str())))?;
        texts.insert(name, new);
        Ok(new)
    };
    text("cuda:0".into(), sink)?;
    text("alloc".into(), sink)?;
    text("free".into(), sink)?;
    let mut lines = Vec::new();
    for line in 0..LINES {
        let number = random.between(0, 90);
        let folder = match number % 3 {
            0 => "/srv/train/model",
            1 => "/opt/venv/lib/python3.12/site-packages/torch/nn/modules",
            _ => "/opt/venv/lib/python3.12/site-packages/transformers/models/llama",
        };
        let file = text(format!("{folder}/module_{number}.py"), sink)?;
        let function = text(format!("forward_{}", random.between(0, 500)), sink)?;
        let number = u32::try_from(random.between(1, 1500)).unwrap_or(1);
        sink.take(Event::Frame(Frame { function, file, line: number }))?;
        lines.push(row(FrameId::new(line))?);
    }
    Ok(lines)
}

/// The stacks, each with an operation, and an operation that frees. Returns their number.
fn write_stacks(random: &mut Random, lines: &[FrameId], sink: &mut dyn Sink) -> Result<usize> {
    let mut rows = 0;
    let mut known: HashMap<(FrameId, Option<StackId>), StackId> = HashMap::new();
    let mut stacks: Vec<Vec<FrameId>> = Vec::new();
    for number in 0..STACKS {
        // Most of a stack is the same as in another one.
        let shared = random.between(COMMON, 34);
        let like = usize::try_from(random.between(0, number as u64)).unwrap_or(0);
        let mut stack: Vec<FrameId> = stacks
            .get(like)
            .map_or_else(Vec::new, |stack| stack[..usize::try_from(shared).unwrap_or(0)].to_vec());
        while stack.len() < DEPTH {
            stack.push(random.pick(lines));
        }
        let mut caller = None;
        for frame in &stack {
            let next = row(StackId::new(rows))?;
            let stack = *known.entry((*frame, caller)).or_insert(next);
            if stack == next {
                sink.take(Event::Stack(Stack { frame: *frame, caller }))?;
                rows += 1;
            }
            caller = Some(stack);
        }
        sink.take(Event::Op(Op::new(row(StrId::new(1))?, OpKind::Compute)))?;
        let op = row(OpId::new(number))?;
        sink.take(Event::OpStack(OpStack { op, stack: row(caller)? }))?;
        stacks.push(stack);
    }
    sink.take(Event::Op(Op::new(row(StrId::new(2))?, OpKind::Deallocate)))?;
    Ok(STACKS)
}

fn sites(count: usize, random: &mut Random) -> Vec<Site> {
    let site = |random: &mut Random| {
        let kind = random.between(0, 100);
        let bytes = match kind {
            0..60 => random.between(1, 400) * 512,
            60..95 => random.between(1, 80) * 256 * KIB,
            _ => random.between(1, 40) * 4 * MIB,
        };
        let life = match random.between(0, 100) {
            0..70 => random.between(1, 12),
            70..98 => random.between(20, 3000),
            _ => random.between(20_000, 200_000),
        };
        Site { bytes, life, grows: if kind.is_multiple_of(10) { 512 } else { 0 } }
    };
    (0..count).map(|_| site(random)).collect()
}

/// A step for each allocation and each free, until there are enough.
fn write_memory(
    events: u32,
    ops: usize,
    random: &mut Random,
    say: &mut impl FnMut(RankEvent) -> Result<()>,
) -> Result<()> {
    let pool = row(PoolId::new(0))?;
    let sites = sites(ops, random);
    let free = row(OpId::new(ops))?;
    // The next free first, as (step, tensor, address, bytes).
    let mut frees: BinaryHeap<std::cmp::Reverse<(u64, usize, u64, u64)>> = BinaryHeap::new();
    let mut blocks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let (mut end, mut held, mut reserved) = (0x7f00_0000_0000_u64, 0_u64, 0_u64);
    let (mut tensor, mut time, mut at) = (0_usize, 0_u64, 0_usize);
    let mut rounds = 0;
    for step in 0..events {
        time += random.between(800, 40_000);
        let mut take = |op| {
            say(RankEvent::Time(step, time))?;
            say(RankEvent::Step(StepRow { op, run: None, offset: 0, marks: StepMarks::default() }))
        };
        let now = Moment::after(step);
        let is_due = |next: &std::cmp::Reverse<(u64, usize, u64, u64)>| next.0.0 <= u64::from(step);
        if frees.peek().is_some_and(is_due)
            && let Some(std::cmp::Reverse((_, which, address, bytes))) = frees.pop()
        {
            take(free)?;
            say(RankEvent::Dies(row(TensorId::new(which))?, now))?;
            blocks.entry(bytes).or_default().push(address);
            held -= bytes;
        } else {
            // A program repeats its lines in order, and skips some.
            at += if random.between(0, 40) == 0 { 3 } else { 1 };
            if at >= sites.len() {
                (at, rounds) = (0, rounds + 1);
            }
            take(row(OpId::new(at))?)?;
            let site = &sites[at];
            let bytes = site.bytes + site.grows * rounds;
            let address = blocks.get_mut(&bytes).and_then(Vec::pop).unwrap_or_else(|| {
                end += bytes.next_multiple_of(512);
                reserved = (end - 0x7f00_0000_0000).next_multiple_of(2 * MIB).min(CAPACITY);
                end - bytes.next_multiple_of(512)
            });
            say(RankEvent::Tensor(Tensor {
                ty: None,
                pool,
                per_bank: Bytes::known(bytes),
                born: now,
                dies: Moment::NEVER,
                class: Class::Unknown,
                run: None,
                ssa: None,
                step: StepNumber::new(step),
                name: None,
            }))?;
            let (id, order) = (row(TensorId::new(tensor))?, u32::try_from(tensor).unwrap_or(u32::MAX));
            say(RankEvent::Placed(Placement { tensor: id, address, order, cores: None }))?;
            held += bytes;
            let life = site.life + random.between(0, 3);
            frees.push(std::cmp::Reverse((u64::from(step) + life, tensor, address, bytes)));
            tensor += 1;
        }
        let reading = Reading {
            allocated: Some(held),
            reserved: Some(reserved.max(held)),
            capacity: (step == 0).then_some(CAPACITY),
            ..Reading::default()
        };
        say(RankEvent::State(pool, now, reading))?;
    }
    Ok(())
}

fn row<T>(id: Option<T>) -> Result<T> {
    id.ok_or_else(|| Error::NotFound("too many rows".into()))
}
