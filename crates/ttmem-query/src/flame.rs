//! A flame graph: which call stacks hold the memory of a pool at a moment, or allocated it in a range of steps.
//!
//! The total is exact: it is the sum of the allocations, and allocations without a stack are a child of the root.

use ttmem_model::{Error, Moment, PoolId, Position, Profile, Rank, Result, StackId, TensorId};

use super::about::Extent;
use super::answer::Summary;
use super::ranks::{files_in_order, in_order};
use super::summary::{Request, is_rank, span};
use crate::analyze::call_tree::{CallTree, stack_of};
use crate::analyze::{Account, Span, peak};

/// The memory that a flame graph shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlameOf {
    /// The memory that is live at the requested position, or at the peak.
    #[default]
    Live,
    /// The memory that was allocated in the requested runs, whether or not it was freed.
    Allocated,
}

/// A flame graph of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flame {
    /// The input file.
    pub file: String,
    /// The rank's label.
    pub rank: Option<String>,
    /// The number of other ranks that were selected.
    pub other_ranks: usize,
    /// The pool.
    pub pool: String,
    /// The unit that sizes refer to.
    pub extent: Extent,
    /// The time that it describes.
    pub when: FlameWhen,
    /// The bytes that the pool reports at the moment, if it is one; more than the root if not all of it is attributed.
    pub held: Option<u64>,
    /// The nodes. The first is the root; children follow their parent, largest first.
    pub nodes: Vec<FlameNode>,
}

/// The time that a flame graph describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlameWhen {
    /// The peak, before a step.
    Peak(Position),
    /// A requested position, before a step.
    At(Position),
    /// The steps from one position to another.
    Steps(Position, Position),
}

/// A source line in a flame graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlameNode {
    /// The line.
    pub name: FlameName,
    /// The node that called it; `None` for the root.
    pub parent: Option<usize>,
    /// The number of its callers; 0 for the root.
    pub depth: usize,
    /// The bytes allocated by this line and everything that it called.
    pub bytes: u64,
    /// The bytes of stacks that end here.
    pub own_bytes: u64,
    /// The number of allocations.
    pub allocations: u64,
}

/// The name of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlameName {
    /// All allocations.
    Root,
    /// A source line.
    Line {
        /// The function.
        function: String,
        /// The file.
        file: String,
        /// The line number; 0 if unknown.
        line: u32,
        /// Whether it is not in the user's program.
        library: bool,
    },
    /// Allocations whose stack was not recorded.
    Unknown,
}

/// The name of allocations without a stack.
pub const UNKNOWN_STACK: &str = "unknown stack";

/// The flame graph of the first rank of a summary. `summary` is the response to `request` for the same profiles.
pub fn flame(profiles: &[Profile], summary: &Summary, request: &Request, of: FlameOf) -> Result<Flame> {
    let is_wanted = |profile: &Profile, rank: &Rank| {
        let label = rank.label.map(|label| profile.text(label));
        request.rank.as_deref().is_none_or(|wanted| is_rank(label, wanted)) && request.process.takes(rank)
    };
    let files = files_in_order(profiles);
    let mut ranks =
        files.into_iter().flat_map(|profile| in_order(profile).into_iter().map(move |rank| (profile, rank)));
    let first = ranks.find(|(profile, rank)| is_wanted(profile, rank)).zip(summary.ranks.first());
    let Some(((profile, rank), answer)) = first else {
        return Err(Error::NotFound("no rank to draw".into()));
    };
    let file = || profile.source.file.clone();
    // A filter may select allocations of another pool.
    let listed = answer.allocations.as_ref().filter(|found| found.filter.is_some()).map(|found| &found.pool);
    let pool = listed.or(answer.peak.as_ref().map(|peak| &peak.pool));
    let pool = pool.and_then(|pool| rank.pool_named(profile, pool));
    let account = pool.and_then(|(id, _)| Account::new(rank, id));
    let no_data = |message: &str| Error::NoMemoryData { file: file(), message: message.into() };
    let account = account.ok_or_else(|| no_data("no memory data to draw"))?;
    let span = span(rank, request)?;
    let (when, held, mut tensors) = match (of, request.at) {
        (FlameOf::Allocated, _) => {
            let tensors = allocated(rank, account.id, span).collect::<Vec<_>>();
            (FlameWhen::Steps(span.first, span.end), None, tensors)
        }
        (FlameOf::Live, Some(at)) => {
            let moment = Moment::late(at);
            let held = account.held(moment).map(|held| held.per_bank);
            (FlameWhen::At(at), held, rank.live(account.id, moment).collect())
        }
        (FlameOf::Live, None) => {
            let peak = peak::peak(&account, span).ok_or_else(|| no_data("no memory was allocated"))?;
            let live = rank.live(account.id, peak.at).collect();
            (FlameWhen::Peak(peak.at.position()), Some(peak.per_bank), live)
        }
    };
    let mut held = held;
    if let Some(filter) = &request.filter {
        let matcher = filter.matcher(profile, rank);
        tensors.retain(|&tensor| TensorId::new(tensor).is_some_and(|tensor| matcher.matches(tensor)));
        held = None;
    }
    let nodes = nodes(profile, rank, &tensors);
    if !nodes.iter().any(|node| matches!(node.name, FlameName::Line { .. })) {
        return Err(no_data(if profile.stacks.of_ops.is_empty() {
            "no call stacks were recorded; recordings of PyTorch programs (`ttmem track`) and its memory snapshots have them"
        } else {
            "none of these allocations has a call stack"
        }));
    }
    let name = profile.text(account.pool.name).to_owned();
    Ok(Flame {
        file: file(),
        rank: answer.rank.clone(),
        other_ranks: summary.ranks.len() - 1,
        extent: Extent::of(&name, account.pool.banks),
        pool: name,
        when,
        held,
        nodes,
    })
}

/// The allocations that were made in a span. Memory that exists at its beginning was allocated before.
fn allocated(rank: &Rank, pool: PoolId, span: Span) -> impl Iterator<Item = usize> + '_ {
    let (start, last) = (Moment::late(span.first), Moment::late(span.end));
    let tensors = &rank.tensors;
    (0..tensors.len()).filter(move |&index| {
        tensors.pool[index] == pool && start < tensors.born[index] && tensors.born[index] <= last
    })
}

/// The bytes and the number of some allocations.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    bytes: u64,
    own: u64,
    allocations: u64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.allocations = self.allocations.saturating_add(other.allocations);
    }
}

/// The tree of some allocations of a rank.
fn nodes(profile: &Profile, rank: &Rank, tensors: &[usize]) -> Vec<FlameNode> {
    let mut of_stacks = vec![Sum::default(); profile.stacks.rows.len()];
    let (mut all, mut unknown) = (Sum::default(), Sum::default());
    for &index in tensors {
        let id = TensorId::new(index);
        let bytes = rank.tensors.per_bank[index].or_zero();
        // A row may represent several allocations.
        let allocations = id.and_then(|id| rank.stands_for.get(&id)).copied().unwrap_or(1);
        let sum = Sum { bytes, own: 0, allocations };
        all.add(sum);
        let stack = id.and_then(|id| stack_of(profile, rank, id));
        let of_stack = stack.and_then(|stack| of_stacks.get_mut(stack.index()));
        of_stack.unwrap_or(&mut unknown).add(sum);
    }
    let used = || (0..of_stacks.len()).filter(|&stack| of_stacks[stack].allocations > 0);
    let tree = CallTree::new(profile, used().filter_map(StackId::new));
    let mut of_nodes = vec![Sum::default(); tree.nodes.len()];
    for index in used() {
        let node = StackId::new(index).and_then(|stack| tree.node_of(stack));
        let Some(node) = node.and_then(|node| of_nodes.get_mut(node as usize)) else { continue };
        node.add(of_stacks[index]);
        node.own = node.own.saturating_add(of_stacks[index].bytes);
    }
    unknown.own = unknown.bytes;
    // A caller precedes the lines that it calls.
    let mut children: Vec<Vec<u32>> = vec![Vec::new(); tree.nodes.len()];
    let mut outermost: Vec<u32> = Vec::new();
    for index in (0..tree.nodes.len()).rev() {
        let sum = of_nodes[index];
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        match tree.nodes[index].caller {
            Some(caller) => {
                of_nodes[caller as usize].add(sum);
                children[caller as usize].push(number);
            }
            None => outermost.push(number),
        }
    }
    let largest_last = |list: &mut Vec<u32>| {
        list.sort_by_key(|&node| (of_nodes[node as usize].bytes, std::cmp::Reverse(node)));
    };
    children.iter_mut().for_each(largest_last);
    largest_last(&mut outermost);

    let node = |name, parent, depth, sum: Sum| FlameNode {
        name,
        parent,
        depth,
        bytes: sum.bytes,
        own_bytes: sum.own,
        allocations: sum.allocations,
    };
    let mut list = vec![node(FlameName::Root, None, 0, all)];
    let unknown_node = |list: &mut Vec<FlameNode>| list.push(node(FlameName::Unknown, Some(0), 1, unknown));
    let mut waits = unknown.allocations > 0;
    let mut pending: Vec<(u32, usize)> = outermost.into_iter().map(|index| (index, 0)).collect();
    while let Some((index, parent)) = pending.pop() {
        let (row, sum) = (tree.nodes[index as usize], of_nodes[index as usize]);
        if waits && parent == 0 && sum.bytes < unknown.bytes {
            unknown_node(&mut list);
            waits = false;
        }
        let frame = tree.frames[row.frame as usize];
        let name = FlameName::Line {
            function: profile.text(frame.function).to_owned(),
            file: profile.text(frame.file).to_owned(),
            line: frame.line,
            library: tree.origins[row.frame as usize].is_library(),
        };
        pending.extend(children[index as usize].iter().map(|&child| (child, list.len())));
        list.push(node(name, Some(parent), row.depth as usize + 1, sum));
    }
    if waits {
        unknown_node(&mut list);
    }
    list
}

impl FlameNode {
    /// The name in one line: `forward (model.py:12)`.
    pub fn label(&self) -> String {
        match &self.name {
            FlameName::Root => "all".into(),
            FlameName::Unknown => UNKNOWN_STACK.into(),
            FlameName::Line { function, file, line: 0, .. } if file.is_empty() => function.clone(),
            FlameName::Line { function, file, line: 0, .. } => format!("{function} ({file})"),
            FlameName::Line { function, file, line, .. } => format!("{function} ({file}:{line})"),
        }
    }
}
