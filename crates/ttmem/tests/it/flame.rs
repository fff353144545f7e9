//! Flame graphs: exact sums, whatever the stacks are.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use proptest::collection::vec;
use proptest::prelude::*;
use ttmem::model::{
    Builder, Bytes, Class, Event, Frame, FrameId, Moment, Op, OpId, OpKind, OpStack, PoolId, Profile,
    RankEvent, RankId, Reading, Sink, Source, Stack, StackId, StepMarks, StepNumber, StepRow, StrId, Tensor,
    TensorId,
};
use ttmem::query::{Flame, FlameName, FlameNode, FlameOf, FlameWhen, Request, flame, summary};
use ttmem::{Result, read};

/// An allocation: its stack, if it has one, its bytes, and for how many steps it lives.
type Act = (Option<usize>, u64, u32);

/// Stacks: the line of each, and its caller among the earlier ones. Different rows may be the same stack.
type Rows = Vec<(usize, Option<usize>)>;

fn programs() -> impl Strategy<Value = (Rows, Vec<Act>)> {
    let rows = vec((0..6_usize, any::<prop::sample::Index>(), any::<bool>()), 1..40).prop_map(|rows| {
        let row = |(place, (frame, caller, is_outermost)): (usize, (usize, prop::sample::Index, bool))| {
            let caller = (place > 0 && !is_outermost).then(|| caller.index(place.max(1)));
            (frame, caller)
        };
        rows.into_iter().enumerate().map(row).collect::<Rows>()
    });
    rows.prop_flat_map(|rows| {
        let act = (prop::option::weighted(0.8, 0..rows.len()), 0..5000_u64, 0..30_u32);
        (Just(rows), vec(act, 1..60))
    })
}

/// A program that allocates once per step.
fn profile(rows: &Rows, acts: &[Act]) -> Result<Profile> {
    let mut builder = Builder::new();
    let text = |index| StrId::new(index).unwrap();
    builder.take(Event::Source(Source { format: "recording".into(), file: "run.ttmem".into() }))?;
    // The last two lines are the same as the first two.
    let texts = ["cuda:0", "aten::mm", "main", "forward", "train.py", "/x/site-packages/torch/nn/linear.py"];
    for text in texts {
        builder.take(Event::Text(Cow::Borrowed(text)))?;
    }
    for (function, file, line) in [(2, 4, 1), (3, 4, 2), (3, 5, 3), (2, 4, 0), (2, 4, 1), (3, 4, 2)] {
        builder.take(Event::Frame(Frame { function: text(function), file: text(file), line }))?;
    }
    for (frame, caller) in rows {
        let caller = caller.map(|caller| StackId::new(caller).unwrap());
        builder.take(Event::Stack(Stack { frame: FrameId::new(*frame).unwrap(), caller }))?;
    }
    // An operation for each stack, and one without.
    for op in 0..=rows.len() {
        builder.take(Event::Op(Op::new(text(1), OpKind::Compute)))?;
        if let Some(stack) = StackId::new(op).filter(|_| op < rows.len()) {
            builder.take(Event::OpStack(OpStack { op: OpId::new(op).unwrap(), stack }))?;
        }
    }
    builder.take(Event::Rank { label: None })?;
    let rank = RankId::new(0).unwrap();
    let pool = PoolId::new(0).unwrap();
    builder.take(Event::Of(rank, RankEvent::Pool { name: text(0), banks: Some(1), quantum: 0 }))?;
    for (step, (stack, bytes, _)) in (0..).zip(acts) {
        let op = OpId::new(stack.unwrap_or(rows.len())).unwrap();
        let row = StepRow { op, run: None, offset: 0, marks: StepMarks::default() };
        builder.take(Event::Of(rank, RankEvent::Step(row)))?;
        let tensor = Tensor {
            ty: None,
            pool,
            per_bank: Bytes::known(*bytes),
            born: Moment::after(step),
            dies: Moment::NEVER,
            class: Class::Unknown,
            run: None,
            ssa: None,
            step: StepNumber::new(step),
            name: None,
        };
        builder.take(Event::Of(rank, RankEvent::Tensor(tensor)))?;
        for (made, _) in (0..).zip(acts).filter(|(made, (_, _, life))| *life > 0 && made + life == step) {
            let tensor = TensorId::new(made as usize).unwrap();
            builder.take(Event::Of(rank, RankEvent::Dies(tensor, Moment::after(step))))?;
        }
        let is_live =
            |(made, (_, _, life)): &(u32, &Act)| *made <= step && (*life == 0 || made + life > step);
        let allocated = (0..).zip(acts).filter(is_live).map(|(_, (_, bytes, _))| *bytes).sum();
        let reading = Reading { allocated: Some(allocated), ..Reading::default() };
        builder.take(Event::Of(rank, RankEvent::State(pool, Moment::after(step), reading)))?;
    }
    builder.take(Event::End)?;
    Ok(builder.finish())
}

fn drawn(profile: &Profile, at: Option<u32>, of: FlameOf) -> Result<Flame> {
    let profiles = std::slice::from_ref(profile);
    let request = Request { at, ..Request::default() };
    flame(profiles, &summary(profiles, &request)?, &request, of)
}

/// The nodes of each path of names, and that of the root.
fn paths(flame: &Flame) -> BTreeMap<Vec<String>, &FlameNode> {
    let mut paths: BTreeMap<Vec<String>, &FlameNode> = BTreeMap::new();
    let mut path = Vec::new();
    for node in &flame.nodes {
        path.truncate(node.depth);
        path.push(node.label());
        assert!(paths.insert(path.clone(), node).is_none(), "{path:?} exists twice");
    }
    paths
}

fn check_sums(flame: &Flame) {
    let mut last = vec![u64::MAX; flame.nodes.len()];
    let mut sums = vec![0; flame.nodes.len()];
    for (index, node) in flame.nodes.iter().enumerate() {
        let Some(parent) = node.parent else { continue };
        assert!(parent < index && flame.nodes[parent].depth + 1 == node.depth);
        assert!(node.bytes <= last[parent], "children are sorted by size");
        last[parent] = node.bytes;
        sums[parent] += node.bytes;
    }
    for (node, children) in flame.nodes.iter().zip(sums) {
        assert_eq!(node.bytes, children + node.own_bytes, "{}", node.label());
    }
}

proptest! {
    #[test]
    fn children_and_own_bytes_are_the_whole((rows, acts) in programs(), at in 0..70_u32) {
        let profile = profile(&rows, &acts).unwrap();
        let rank = &profile.ranks[0];
        let at = at.min(rank.end());
        for (at, of) in [(None, FlameOf::Live), (Some(at), FlameOf::Live), (None, FlameOf::Allocated)] {
            let flame = match drawn(&profile, at, of) {
                Ok(flame) => flame,
                Err(error) => {
                    let has_stack = acts.iter().all(|(stack, bytes, life)| stack.is_some() && *bytes > 0 && *life == 0);
                    prop_assert!(!has_stack || at.is_some(), "{}", error);
                    continue;
                }
            };
            check_sums(&flame);
            let wanted: Vec<usize> = match flame.when {
                FlameWhen::Steps(..) => (0..rank.tensors.len()).collect(),
                FlameWhen::At(at) => rank.live(PoolId::new(0).unwrap(), Moment::late(at)).collect(),
                // The peak is right after a step.
                FlameWhen::Peak(at) => rank.live(PoolId::new(0).unwrap(), Moment::early(at)).collect(),
            };
            let bytes: u64 = wanted.iter().map(|&index| rank.tensors.per_bank[index].or_zero()).sum();
            prop_assert_eq!(flame.nodes[0].bytes, bytes);
            prop_assert_eq!(flame.nodes[0].allocations, wanted.len() as u64);
            if of == FlameOf::Live {
                prop_assert_eq!(flame.held.unwrap_or(bytes), bytes, "{:?}", flame.when);
            }
            // The slow way: each allocation counts for every line of its stack.
            let mut expected: BTreeMap<Vec<String>, u64> = BTreeMap::new();
            for index in wanted {
                let mut path = vec!["all".to_owned()];
                let op = rank.op_id(rank.tensors.step[index].unwrap().get()).unwrap();
                match profile.stacks.of_op(op) {
                    Some(stack) => {
                        let mut lines: Vec<Frame> = profile.stacks.lines(stack).collect();
                        lines.reverse();
                        path.extend(lines.iter().map(|frame| name(&profile, *frame)));
                    }
                    None => path.push("unknown stack".into()),
                }
                for len in 1..=path.len() {
                    *expected.entry(path[..len].to_vec()).or_default() += rank.tensors.per_bank[index].or_zero();
                }
            }
            let found: BTreeMap<Vec<String>, u64> =
                paths(&flame).into_iter().map(|(path, node)| (path, node.bytes)).collect();
            prop_assert_eq!(found, expected);
        }
    }
}

fn name(profile: &Profile, frame: Frame) -> String {
    let (function, file) = (profile.text(frame.function), profile.text(frame.file));
    if frame.line == 0 {
        format!("{function} ({file})")
    } else {
        format!("{function} ({file}:{})", frame.line)
    }
}

#[test]
fn a_recording_of_a_program_is_drawn_to_the_byte() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/guides/batch32.ttmem");
    let profile = read::open(path.to_str().unwrap()).unwrap();
    let rank = &profile.ranks[0];
    let flame = drawn(&profile, None, FlameOf::Live).unwrap();
    check_sums(&flame);
    let (pool, _) = rank.pool_named(&profile, "cuda:0").unwrap();
    let summary = summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
    let moment = summary.ranks[0].peak.as_ref().unwrap();
    assert_eq!(flame.pool, "cuda:0");
    assert_eq!(flame.nodes[0].bytes, moment.explained_per_bank.unwrap());
    assert_eq!(flame.held, moment.allocated_per_bank);
    let unknown = flame.nodes.iter().find(|node| node.name == FlameName::Unknown).unwrap();
    assert!(unknown.bytes > 0 && unknown.bytes < flame.nodes[0].bytes);
    // `train.py` is the program; everything else in this recording is a library.
    for node in &flame.nodes {
        if let FlameName::Line { file, library, .. } = &node.name {
            assert_eq!(*library, !file.ends_with("/train.py"), "{file}");
        }
    }
    // Every allocation of the recording, freed or not.
    let all = drawn(&profile, None, FlameOf::Allocated).unwrap();
    check_sums(&all);
    let tensors = &rank.tensors;
    let of_steps = |index: &usize| tensors.pool[*index] == pool && tensors.born[*index] > Moment::late(0);
    let bytes =
        (0..tensors.len()).filter(of_steps).map(|index| tensors.per_bank[index].or_zero()).sum::<u64>();
    assert_eq!(all.nodes[0].bytes, bytes);
    assert!(bytes > flame.nodes[0].bytes);
}

#[test]
fn input_without_stacks_is_an_error_that_says_so() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_log/vae-decoder.log");
    let profile = read::open(path.to_str().unwrap()).unwrap();
    let error = drawn(&profile, None, FlameOf::Live).unwrap_err().to_string();
    assert!(error.contains("no call stacks were recorded"), "{error}");
}

#[test]
fn a_deep_stack_ends_at_the_limit_and_loses_no_bytes() {
    let rows: Rows = (0..3000_usize).map(|row| (row % 4, row.checked_sub(1))).collect();
    let profile = profile(&rows, &[(Some(2999), 7, 0), (Some(500), 5, 0)]).unwrap();
    let flame = drawn(&profile, None, FlameOf::Live).unwrap();
    check_sums(&flame);
    assert_eq!(flame.nodes[0].bytes, 12);
    assert_eq!(flame.nodes.iter().map(|node| node.depth).max(), Some(1000));
}
