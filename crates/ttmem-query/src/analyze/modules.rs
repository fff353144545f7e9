//! The module that an allocation belongs to: the named part of the program that recorded it, or the `forward` calls in its
//! call stack.
//!
//! Snapshots of PyTorch's allocators have no names of modules. Their stacks have the `forward` functions of modules, but
//! neither the class nor the instance. A chain of calls therefore consists of the lines that called the modules, outermost
//! first, and ends with the file of the innermost module: `gpt.py:31 > :15 > nn.normalization`. The layers that a loop calls
//! have the same chain.

use rustc_hash::FxHashMap;
use ttmem_model::rules::{FrameOrigin, is_python};
use ttmem_model::{Frame, OpId, Profile, Rank, ScopeKind, StrId, TensorId};

/// The folder of PyTorch's own modules.
const NN_MODULES: &str = "/torch/nn/modules/";
/// Separates the calls of a chain.
const CALLS: &str = " > ";

/// A module, as an index into [`Modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleIndex(u32);

impl ModuleIndex {
    /// The index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The modules of a rank: its scopes, followed by the chains of `forward` calls in its stacks.
#[derive(Debug)]
pub struct Modules<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    calls: Vec<Call>,
    /// For each operation, the innermost call in its stack, as an index into `calls`; empty if there are no calls.
    of_ops: Vec<Option<u32>>,
}

impl<'a> Modules<'a> {
    /// Collects the modules of a rank. Stacks are used only if the input has no names of modules.
    pub fn new(profile: &'a Profile, rank: &'a Rank) -> Self {
        let has_names = rank.scopes.kind.contains(&ScopeKind::Forward);
        let (calls, of_stacks) = if has_names { Default::default() } else { Chains::of(profile) };
        let mut of_ops = vec![None; if calls.is_empty() { 0 } else { profile.ops.len() }];
        for (op, stack) in profile.stacks.of_ops.op.iter().zip(&profile.stacks.of_ops.stack) {
            if let Some(of_op) = of_ops.get_mut(op.index()) {
                *of_op = of_stacks.get(stack.index()).copied().flatten();
            }
        }
        Self { profile, rank, calls, of_ops }
    }

    /// Whether modules are derived from call stacks.
    pub fn are_derived(&self) -> bool {
        !self.calls.is_empty()
    }

    /// The module that an allocation belongs to: the chain of calls in the stack of the operation that made it, or else
    /// the named part of the program.
    pub fn of(&self, tensor: TensorId, op: Option<OpId>) -> Option<ModuleIndex> {
        let call = op.and_then(|op| self.of_ops.get(op.index()).copied().flatten());
        match call {
            Some(call) => Some(ModuleIndex(row(self.rank.scopes.len()).saturating_add(call))),
            None => self.rank.made_in(tensor).map(|scope| ModuleIndex(row(scope.index()))),
        }
    }

    /// The name of a module.
    pub fn name(&self, module: ModuleIndex) -> Option<String> {
        let scopes = &self.rank.scopes;
        match module.index().checked_sub(scopes.len()) {
            None => scopes.name.get(module.index()).map(|name| self.profile.text(*name).to_owned()),
            Some(call) => self.chain(self.calls.get(call)?),
        }
    }

    /// The names of all modules, in order.
    pub fn names(&self) -> impl Iterator<Item = Option<String>> + '_ {
        let count = self.rank.scopes.len() + self.calls.len();
        (0..count).map(|module| self.name(ModuleIndex(row(module))))
    }

    /// The lines that led to a call, and the file of the called module. A file is not repeated.
    fn chain(&self, innermost: &Call) -> Option<String> {
        let mut lines = Vec::new();
        let mut call = innermost;
        // A caller is always an earlier row, so this ends.
        while let Some(caller) = call.caller {
            lines.push(call.from);
            call = self.calls.get(caller as usize)?;
        }
        let mut last = None;
        let mut places: Vec<String> = Vec::new();
        for (file, line) in lines.into_iter().rev() {
            let is_same = last.replace(file) == Some(file) && line > 0;
            places.push(if is_same { format!(":{line}") } else { place(self.profile.text(file), line) });
        }
        places.push(place(self.profile.text(innermost.file), 0));
        Some(places.join(CALLS))
    }
}

/// A call of a module's `forward`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    /// The call of the module that made it; an earlier row.
    caller: Option<u32>,
    /// The file and the line that made it. Unused without a caller, because a model is the same wherever it is called.
    from: (StrId, u32),
    /// The file of the module.
    file: StrId,
}

/// A source line, by what it tells about calls of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// C++ code.
    Native,
    /// `forward` of a module, or of a function of the autograd engine.
    Forward,
    /// `forward` of a module of PyTorch.
    NnForward,
    /// `Module.__call__`, which runs hooks and `forward`.
    Dispatch,
    /// `Function.apply`, which calls a `forward` that belongs to no module.
    Apply,
    /// Other code of PyTorch or Python, and methods that only wrap the call of a module.
    Wrapper,
    /// Other code, which may call modules.
    Other,
}

impl Line {
    fn of(profile: &Profile, frame: Frame) -> Self {
        let (file, function) = (profile.text(frame.file), profile.text(frame.function));
        if !is_python(file) {
            return Self::Native;
        }
        let is_forward = function == "forward" || function.starts_with("torch_dynamo_resume_in_forward_at_");
        let is_library = FrameOrigin::of(file) == FrameOrigin::Runtime;
        if file.ends_with("/torch/nn/modules/module.py") {
            Self::Dispatch
        } else if file.ends_with("/torch/autograd/function.py") {
            Self::Apply
        } else if is_forward && file.contains(NN_MODULES) {
            Self::NnForward
        } else if is_forward && !is_library {
            Self::Forward
        } else if is_library || function == "__call__" {
            Self::Wrapper
        } else {
            Self::Other
        }
    }
}

/// What the lines of a stack, outermost first, have shown so far.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    /// The innermost call.
    call: Option<u32>,
    /// The innermost line that may call a module.
    last: Option<(StrId, u32)>,
    /// That line when `Module.__call__` began. Lines after it belong to hooks and decorators.
    caller: Option<(StrId, u32)>,
    /// Whether the innermost Python line is `Function.apply`.
    is_applying: bool,
}

/// Finds the chains of calls in stacks.
#[derive(Default)]
struct Chains {
    calls: Vec<Call>,
    known: FxHashMap<Call, u32>,
}

impl Chains {
    /// All calls, and the innermost call of each stack.
    fn of(profile: &Profile) -> (Vec<Call>, Vec<Option<u32>>) {
        let stacks = &profile.stacks;
        let lines: Vec<Line> = stacks.frames.iter().map(|frame| Line::of(profile, *frame)).collect();
        if !lines.iter().any(|line| matches!(line, Line::Forward | Line::NnForward)) {
            return Default::default();
        }
        let mut chains = Self::default();
        let mut seen: Vec<Seen> = Vec::with_capacity(stacks.rows.len());
        for (frame, caller) in stacks.rows.frame.iter().zip(&stacks.rows.caller) {
            let outside = caller.and_then(|caller| seen.get(caller.index()).copied()).unwrap_or_default();
            let row = stacks.frames.get(frame.index()).zip(lines.get(frame.index()));
            seen.push(row.map_or(outside, |(frame, line)| chains.inside(outside, *frame, *line)));
        }
        (chains.calls, seen.into_iter().map(|seen| seen.call).collect())
    }

    fn inside(&mut self, outside: Seen, frame: Frame, line: Line) -> Seen {
        let seen = Seen { is_applying: false, ..outside };
        match line {
            Line::Native => outside,
            Line::Wrapper => seen,
            Line::Apply => Seen { is_applying: true, ..outside },
            Line::Dispatch => Seen { caller: outside.last, ..seen },
            Line::Forward if outside.is_applying => Seen { last: Some((frame.file, frame.line)), ..seen },
            Line::Other => Seen { last: Some((frame.file, frame.line)), ..seen },
            Line::Forward | Line::NnForward => {
                let from = outside.call.and(outside.caller.or(outside.last)).unwrap_or((frame.file, 0));
                // PyTorch's own lines differ between versions and tell the user nothing.
                let number = if line == Line::NnForward { 0 } else { frame.line };
                let call = self.call(Call { caller: outside.call, from, file: frame.file });
                Seen { call: Some(call), last: Some((frame.file, number)), ..Seen::default() }
            }
        }
    }

    fn call(&mut self, call: Call) -> u32 {
        *self.known.entry(call).or_insert_with(|| {
            self.calls.push(call);
            row(self.calls.len()) - 1
        })
    }
}

/// A file with a line number, without folders: `gpt.py:31`. The files of PyTorch's modules are `nn.linear`.
fn place(file: &str, line: u32) -> String {
    let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
    if file.contains(NN_MODULES) {
        format!("nn.{}", name.strip_suffix(".py").unwrap_or(name))
    } else if line == 0 {
        name.to_owned()
    } else {
        format!("{name}:{line}")
    }
}

fn row(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
