//! Emits the definitions of a profile with one rank, each once: texts, operations, stacks, threads, scopes.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use ttmem_model::{
    Error, Event, Frame, FrameId, HistoryRow, LaneId, Op, OpId, OpStack, RankEvent, RankId, Result, Scope,
    ScopeId, ScopeKind, Sink, Stack, StackId, StrId, Warning,
};

/// Emits events, and keeps track of definitions.
pub(crate) struct Definitions<'s> {
    sink: &'s mut dyn Sink,
    rank: RankId,
    texts: FxHashMap<String, StrId>,
    frames: FxHashMap<Frame, FrameId>,
    stacks: FxHashMap<(FrameId, Option<StackId>), StackId>,
    ops: usize,
    lanes: FxHashMap<StrId, LaneId>,
    scopes: FxHashMap<(Option<ScopeId>, StrId), ScopeId>,
}

impl<'s> Definitions<'s> {
    /// Defines the rank.
    pub fn new(sink: &'s mut dyn Sink) -> Result<Self> {
        Self::of_rank(None, sink)
    }

    /// Defines the rank with its label, if that is known.
    pub fn of_rank(label: Option<String>, sink: &'s mut dyn Sink) -> Result<Self> {
        let mut texts = FxHashMap::default();
        if let Some(label) = label {
            sink.take(Event::Text(label.as_str().into()))?;
            texts.insert(label, row(StrId::new(0))?);
        }
        sink.take(Event::Rank { label: texts.values().next().copied() })?;
        Ok(Self {
            sink,
            rank: row(RankId::new(0))?,
            texts,
            frames: FxHashMap::default(),
            stacks: FxHashMap::default(),
            ops: 0,
            lanes: FxHashMap::default(),
            scopes: FxHashMap::default(),
        })
    }

    /// Emits an event of the rank.
    pub fn say(&mut self, event: RankEvent) -> Result<()> {
        self.sink.take(Event::Of(self.rank, event))
    }

    /// Emits an action of an allocator.
    pub fn history(&mut self, row: HistoryRow) -> Result<()> {
        self.sink.history(self.rank, row)
    }

    /// Emits a warning.
    pub fn warn(&mut self, line: Option<u64>, message: impl Into<String>) -> Result<()> {
        self.sink.take(Event::Warning(Warning { line, message: message.into() }))
    }

    /// Ends the input.
    pub fn end(&mut self) -> Result<()> {
        self.sink.take(Event::End)
    }

    /// The id of a text.
    pub fn text(&mut self, text: &str) -> Result<StrId> {
        if let Some(&id) = self.texts.get(text) {
            return Ok(id);
        }
        let id = row(StrId::new(self.texts.len()))?;
        self.texts.insert(text.to_owned(), id);
        self.sink.take(Event::Text(Cow::Borrowed(text)))?;
        Ok(id)
    }

    /// Defines an operation, which is always a new one.
    pub fn new_op(&mut self, op: Op, stack: Option<StackId>) -> Result<OpId> {
        let id = row(OpId::new(self.ops))?;
        self.ops += 1;
        self.sink.take(Event::Op(op))?;
        if let Some(stack) = stack {
            self.sink.take(Event::OpStack(OpStack { op: id, stack }))?;
        }
        Ok(id)
    }

    /// The id of a source line.
    pub fn frame(&mut self, function: &str, file: &str, line: u32) -> Result<FrameId> {
        let frame = Frame { function: self.text(function)?, file: self.text(file)?, line };
        if let Some(&id) = self.frames.get(&frame) {
            return Ok(id);
        }
        let id = row(FrameId::new(self.frames.len()))?;
        self.frames.insert(frame, id);
        self.sink.take(Event::Frame(frame))?;
        Ok(id)
    }

    /// The id of a stack.
    pub fn stack(&mut self, frame: FrameId, caller: Option<StackId>) -> Result<StackId> {
        if let Some(&id) = self.stacks.get(&(frame, caller)) {
            return Ok(id);
        }
        let id = row(StackId::new(self.stacks.len()))?;
        self.stacks.insert((frame, caller), id);
        self.sink.take(Event::Stack(Stack { frame, caller }))?;
        Ok(id)
    }

    /// The id of a thread or stream.
    pub fn lane(&mut self, name: &str) -> Result<LaneId> {
        let name = self.text(name)?;
        if let Some(&id) = self.lanes.get(&name) {
            return Ok(id);
        }
        let id = row(LaneId::new(self.lanes.len()))?;
        self.lanes.insert(name, id);
        self.say(RankEvent::Lane { name })?;
        Ok(id)
    }

    /// The id of a scope that the program has named.
    pub fn scope(&mut self, parent: Option<ScopeId>, name: &str) -> Result<ScopeId> {
        let name = self.text(name)?;
        if let Some(&id) = self.scopes.get(&(parent, name)) {
            return Ok(id);
        }
        let id = row(ScopeId::new(self.scopes.len()))?;
        self.scopes.insert((parent, name), id);
        self.say(RankEvent::Scope(Scope { name, parent, kind: ScopeKind::Operation }))?;
        Ok(id)
    }
}

/// An id, unless there are too many rows for one.
pub(crate) fn row<T>(id: Option<T>) -> Result<T> {
    id.ok_or_else(|| Error::NotFound("too many rows".into()))
}
