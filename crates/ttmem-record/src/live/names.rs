//! Assigns the ids of texts, types, lines, stacks, operations, pools, threads and scopes. New ids come with the event
//! that defines them.

use std::borrow::Cow;

use rustc_hash::FxHashMap;
use ttmem_model::{
    Bytes, Event, Frame, FrameId, LaneId, Op, OpId, OpKind, OpStack, PoolId, Scope, ScopeId, ScopeKind,
    Stack, StackId, StrId, TensorType, TypeId,
};

use super::narrator::{FREE, FURTHER, TEXTS};
use crate::texts::Texts;

/// The maximum number of scopes. More usually means generated names, such as numbered requests.
const MAX_SCOPES: usize = 1 << 16;
/// The maximum depth of scopes. Deeper ones become siblings.
const MAX_DEPTH: u8 = 64;
/// The maximum number of texts, and of types, lines and stacks: names must not fill the program's memory or the
/// recording.
const MAX_NAMES: usize = 1 << 20;
/// The maximum number of threads. More usually means one per request.
const MAX_LANES: usize = 1 << 14;

/// A tensor type of a framework without layouts.
#[derive(Clone, Copy, Debug)]
pub struct TypeOf<'a> {
    /// The shape.
    pub shape: &'a [u64],
    /// The element type: `torch.float32`.
    pub dtype: StrId,
    /// The bytes of all elements.
    pub bytes: u64,
}

/// All ids.
#[derive(Debug)]
pub(super) struct Names {
    texts: Texts,
    /// Operations with the types of their arguments.
    typed: FxHashMap<(StrId, Box<[TypeId]>), OpId>,
    /// By the element's id, the bytes, and the shape.
    types: FxHashMap<Box<[u64]>, TypeId>,
    key: Vec<u64>,
    frames: FxHashMap<Frame, FrameId>,
    stacks: FxHashMap<(FrameId, Option<StackId>), StackId>,
    ops: FxHashMap<(StrId, Option<StackId>), OpId>,
    /// The names of operations, by id.
    called: Vec<StrId>,
    pools: Vec<StrId>,
    lanes: usize,
    scopes: Vec<Scope>,
    /// The depth of each scope.
    depths: Vec<u8>,
    scope_ids: FxHashMap<(Option<ScopeId>, StrId, ScopeKind), ScopeId>,
}

impl Default for Names {
    /// The names that every recording begins with, and the operation that frees memory.
    fn default() -> Self {
        Self {
            texts: Texts::starting_with(TEXTS),
            typed: FxHashMap::default(),
            types: FxHashMap::default(),
            key: Vec::new(),
            frames: FxHashMap::default(),
            stacks: FxHashMap::default(),
            ops: FxHashMap::default(),
            called: vec![id(StrId::new, FREE)],
            pools: Vec::new(),
            lanes: 0,
            scopes: Vec::new(),
            depths: Vec::new(),
            scope_ids: FxHashMap::default(),
        }
    }
}

/// The id of row `index`.
fn id<T>(new: fn(usize) -> Option<T>, index: usize) -> T {
    // Four billion rows would fill the memory long before.
    new(index).unwrap_or_else(|| unreachable!("an id reaches further than {index}"))
}

impl Names {
    /// The id of a text. Above the limit, one id is shared by all.
    pub fn text(&mut self, text: &str) -> (StrId, Option<Event<'static>>) {
        if let Some(id) = self.texts.known(text) {
            return (id, None);
        }
        match Some(text).filter(|_| self.texts.len() < MAX_NAMES).and_then(|text| self.texts.define(text)) {
            Some(new) => (new, Some(Event::Text(Cow::Owned(text.to_owned())))),
            None => (id(StrId::new, FURTHER), None),
        }
    }

    pub fn text_of(&self, id: StrId) -> &str {
        self.texts.text(id).unwrap_or_default()
    }

    /// The id of a type; `None` above the limit.
    pub fn tensor_type(&mut self, ty: TypeOf<'_>) -> (Option<TypeId>, Option<Event<'static>>) {
        self.key.clear();
        self.key.extend([ty.dtype.index() as u64, ty.bytes]);
        self.key.extend_from_slice(ty.shape);
        if let Some(id) = self.types.get(self.key.as_slice()) {
            return (Some(*id), None);
        }
        if self.types.len() >= MAX_NAMES {
            return (None, None);
        }
        let new = id(TypeId::new, self.types.len());
        self.types.insert(self.key.as_slice().into(), new);
        let bytes = Bytes::known(ty.bytes);
        let (shape, layout) = (ty.shape.to_vec(), None);
        // The allocator's overhead is unknown.
        let (declared, logical, padded) = (bytes, bytes, Bytes::UNKNOWN);
        let ty = TensorType { text: None, shape, dtype: ty.dtype, layout, declared, logical, padded };
        (Some(new), Some(Event::Type(ty)))
    }

    /// The id of a line. Above the limit, one id is shared by all.
    pub fn frame(&mut self, mut frame: Frame) -> (FrameId, Option<Event<'static>>) {
        let next = self.frames.len();
        if next >= MAX_NAMES && !self.frames.contains_key(&frame) {
            let further = id(StrId::new, FURTHER);
            frame = Frame { function: further, file: further, line: 0 };
        }
        let mut new = None;
        let id = *self.frames.entry(frame).or_insert_with(|| {
            new = Some(Event::Frame(frame));
            id(FrameId::new, next)
        });
        (id, new)
    }

    /// The id of a stack. Above the limit, a new stack is replaced by its caller, or by its innermost line.
    pub fn stack(&mut self, frame: FrameId, caller: Option<StackId>) -> (StackId, Option<Event<'static>>) {
        let next = self.stacks.len();
        if next >= MAX_NAMES
            && let Some(caller) = caller.filter(|_| !self.stacks.contains_key(&(frame, caller)))
        {
            return (caller, None);
        }
        let mut new = None;
        let id = *self.stacks.entry((frame, caller)).or_insert_with(|| {
            new = Some(Event::Stack(Stack { frame, caller }));
            id(StackId::new, next)
        });
        (id, new)
    }

    /// The id of an operation called from a stack, and the events that define it.
    pub fn op(
        &mut self,
        name: StrId,
        stack: Option<StackId>,
        loc: Option<StrId>,
    ) -> (OpId, [Option<Event<'static>>; 2]) {
        let is_too_many = |ops: &FxHashMap<_, _>| ops.len() >= MAX_NAMES && !ops.contains_key(&(name, stack));
        // Above the limit, operations differ by name only.
        let (stack, loc) = if is_too_many(&self.ops) { (None, None) } else { (stack, loc) };
        if let Some(id) = self.ops.get(&(name, stack)) {
            return (*id, [None, None]);
        }
        let new = id(OpId::new, self.called.len());
        self.ops.insert((name, stack), new);
        self.called.push(name);
        let of_op = stack.map(|stack| Event::OpStack(OpStack { op: new, stack }));
        (new, [Some(Event::Op(op(name, loc))), of_op])
    }

    /// The id of an operation with the types of its arguments, and the event that defines it.
    pub fn op_of_types(&mut self, name: StrId, types: &[TypeId]) -> (OpId, Option<Event<'static>>) {
        // Above the limit, operations differ by name only.
        let types = if self.typed.len() >= MAX_NAMES { &[] } else { types };
        if let Some(id) = self.typed.get(&(name, types.into())) {
            return (*id, None);
        }
        let new = id(OpId::new, self.called.len());
        self.typed.insert((name, types.into()), new);
        self.called.push(name);
        let row = Op { operand_types: types.iter().copied().map(Some).collect(), ..op(name, None) };
        (new, Some(Event::Op(row)))
    }

    pub fn op_name(&self, op: OpId) -> &str {
        self.called.get(op.index()).map_or("", |name| self.text_of(*name))
    }

    /// The id of a pool, and whether it is new.
    pub fn pool(&mut self, name: StrId) -> (PoolId, bool) {
        if let Some(index) = self.pools.iter().position(|have| *have == name) {
            return (id(PoolId::new, index), false);
        }
        self.pools.push(name);
        (id(PoolId::new, self.pools.len() - 1), true)
    }

    pub fn pool_name(&self, index: usize) -> &str {
        self.pools.get(index).map_or("", |name| self.text_of(*name))
    }

    /// The id of the next thread, and whether it is new. Names may repeat. Above the limit, the last id is shared.
    pub fn lane(&mut self) -> (LaneId, bool) {
        let is_new = self.lanes < MAX_LANES;
        self.lanes += usize::from(is_new);
        (id(LaneId::new, self.lanes - 1), is_new)
    }

    /// The name of the next thread. At the limit, a name for all further threads.
    pub fn lane_name<'a>(&self, name: &'a str) -> &'a str {
        if self.lanes + 1 < MAX_LANES { name } else { TEXTS[FURTHER] }
    }

    pub fn known_scope(&self, parent: Option<ScopeId>, name: &str, kind: ScopeKind) -> Option<ScopeId> {
        let name = self.texts.known(name)?;
        self.scope_ids.get(&(parent, name, kind)).copied()
    }

    /// The parent of a new scope: one level higher if it would be too deep.
    pub fn room_in(&self, parent: Option<ScopeId>) -> Option<ScopeId> {
        if self.depth_below(parent) < MAX_DEPTH {
            return parent;
        }
        parent.and_then(|parent| self.scope_row(parent)).and_then(|scope| scope.parent)
    }

    fn depth_below(&self, parent: Option<ScopeId>) -> u8 {
        let depth = parent.and_then(|parent| self.depths.get(parent.index()));
        depth.map_or(0, |depth| depth.saturating_add(1))
    }

    pub fn has_room_for_scopes(&self) -> bool {
        self.scopes.len() < MAX_SCOPES
    }

    /// The id of a scope, and whether it is new.
    pub fn scope(&mut self, scope: Scope) -> (ScopeId, bool) {
        let key = (scope.parent, scope.name, scope.kind);
        if let Some(id) = self.scope_ids.get(&key) {
            return (*id, false);
        }
        let new = id(ScopeId::new, self.scopes.len());
        self.scopes.push(scope);
        self.depths.push(self.depth_below(scope.parent));
        self.scope_ids.insert(key, new);
        (new, true)
    }

    pub fn scope_row(&self, id: ScopeId) -> Option<Scope> {
        self.scopes.get(id.index()).copied()
    }

    pub fn scopes(&self) -> impl Iterator<Item = (ScopeId, Scope)> + '_ {
        self.scopes.iter().enumerate().map(|(index, scope)| (id(ScopeId::new, index), *scope))
    }
}

fn op(name: StrId, loc: Option<StrId>) -> Op {
    let kind = if name.index() == FREE { OpKind::Deallocate } else { OpKind::Compute };
    Op { loc, ..Op::new(name, kind) }
}
