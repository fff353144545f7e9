//! The tables of definitions emitted so far: their IDs, and the properties that the replay needs.

use std::borrow::Cow;
use std::hash::Hash;

use rustc_hash::FxHashMap;
use ttmem_model::{
    ByteRange, Error, Event, Layout, Op, OpId, OpKind, RankEvent, RankId, Result, Sink, Source, StrId,
    TensorType, TypeId, Warning,
};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use super::module::fingerprint;
use super::operation::ParsedOp;
use super::types::{Footprint, ParsedType, Place};
use super::view::decimal;

/// A type, by its row in [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TypeRef(u32);

/// An operation, by its row in [`Tables`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OpRef(u32);

/// The properties of a type that the replay needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TypeFacts {
    pub id: TypeId,
    /// The memory it is kept in; its size may still be unknown.
    pub place: Option<Place>,
    pub footprint: Option<Footprint>,
    /// The hash of shape and element.
    shape: u64,
}

/// The properties of an operation that the replay needs; its lists are in the table's arena.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpFacts {
    pub id: OpId,
    pub kind: OpKind,
    /// See [`fingerprint`].
    pub fingerprint: u64,
    pub callee: Option<StrId>,
    /// `ttnn.deallocate` with `force = true` also frees tensors with other names.
    pub force: bool,
    start: u32,
    operands: u16,
    results: u16,
}

/// Emits definitions to the sink and keeps track of them.
pub(crate) struct Tables<'s> {
    sink: &'s mut dyn Sink,
    strings: FxHashMap<u128, StrId>,
    types: Vec<TypeFacts>,
    types_by_text: FxHashMap<u128, Option<TypeRef>>,
    ops: Vec<OpFacts>,
    ops_by_text: FxHashMap<u128, OpRef>,
    lists: Vec<u32>,
    /// The argument numbers of texts such as `%arg7`.
    arguments: FxHashMap<StrId, u32>,
    ranks: usize,
    /// The number of texts with invalid UTF-8.
    pub replaced: u64,
}

impl<'s> Tables<'s> {
    pub fn new(sink: &'s mut dyn Sink) -> Self {
        Self {
            sink,
            strings: FxHashMap::default(),
            types: Vec::new(),
            types_by_text: FxHashMap::default(),
            ops: Vec::new(),
            ops_by_text: FxHashMap::default(),
            lists: Vec::new(),
            arguments: FxHashMap::default(),
            ranks: 0,
            replaced: 0,
        }
    }

    /// Emits an event of a rank.
    pub fn say(&mut self, rank: RankId, event: RankEvent) -> Result<()> {
        self.sink.take(Event::Of(rank, event))
    }

    /// Emits the source again, with another name of the format.
    pub fn source(&mut self, format: &str, file: &str) -> Result<()> {
        self.sink.take(Event::Source(Source { format: format.into(), file: file.into() }))
    }

    /// Emits a warning.
    pub fn warn(&mut self, line: Option<u64>, message: impl Into<String>) -> Result<()> {
        self.sink.take(Event::Warning(Warning { line, message: message.into() }))
    }

    /// Emits the number of skipped lines.
    pub fn skipped(&mut self, lines: u64) -> Result<()> {
        if lines == 0 { Ok(()) } else { self.sink.take(Event::SkippedLines(lines)) }
    }

    /// Emits a text of the source.
    pub fn source_text(&mut self, range: ByteRange, text: Cow<'_, str>) -> Result<()> {
        self.sink.take(Event::SourceText(range, text))
    }

    /// Ends the input.
    pub fn end(&mut self) -> Result<()> {
        self.sink.take(Event::End)
    }

    /// Defines a rank.
    pub fn rank(&mut self, label: Option<&[u8]>) -> Result<RankId> {
        let label = label.map(|label| self.text(label)).transpose()?;
        self.sink.take(Event::Rank { label })?;
        self.ranks += 1;
        RankId::new(self.ranks - 1).ok_or_else(|| full("ranks"))
    }

    /// The ID of a text, which is defined if it is new.
    pub fn text(&mut self, bytes: &[u8]) -> Result<StrId> {
        let key = xxh3_128(bytes);
        if let Some(&id) = self.strings.get(&key) {
            return Ok(id);
        }
        let id = StrId::new(self.strings.len()).ok_or_else(|| full("strings"))?;
        let text = String::from_utf8_lossy(bytes);
        self.replaced += u64::from(matches!(text, Cow::Owned(_)));
        self.sink.take(Event::Text(text))?;
        self.strings.insert(key, id);
        if let Some(number) = bytes.strip_prefix(b"%arg").and_then(decimal) {
            self.arguments.extend(u32::try_from(number).ok().map(|number| (id, number)));
        }
        Ok(id)
    }

    /// The number of an argument's name: 7 for `%arg7`.
    pub fn argument_number(&self, name: StrId) -> Option<u32> {
        self.arguments.get(&name).copied()
    }

    /// The row of a type; `None` if it is not a tensor.
    pub fn tensor_type(&mut self, text: &[u8]) -> Result<Option<TypeRef>> {
        let key = xxh3_128(text);
        if let Some(&known) = self.types_by_text.get(&key) {
            return Ok(known);
        }
        let row = match ParsedType::parse(text) {
            Some(parsed) => Some(self.define_type(text, &parsed)?),
            None => None,
        };
        self.types_by_text.insert(key, row);
        Ok(row)
    }

    fn define_type(&mut self, text: &[u8], parsed: &ParsedType<'_>) -> Result<TypeRef> {
        let id = TypeId::new(self.types.len()).ok_or_else(|| full("types"))?;
        let footprint = parsed.footprint();
        let layout = match &parsed.layout {
            Some(layout) => Some(Layout {
                buffer: self.text(layout.buffer)?,
                spread: layout.spread.map(|spread| self.text(spread)).transpose()?,
                stored_dtype: self.text(layout.stored)?,
                tile: layout.tile,
                grid: layout.grid.clone(),
                shard: layout.shard.clone(),
                padded_shape: parsed.padded_shape(),
            }),
            None => None,
        };
        let ty = TensorType {
            text: Some(self.text(text)?),
            shape: parsed.shape.clone(),
            dtype: self.text(parsed.element)?,
            layout,
            declared: parsed.declared_bytes().into(),
            logical: parsed.logical_bytes().into(),
            padded: footprint.map(|footprint| footprint.padded).into(),
        };
        self.sink.take(Event::Type(ty))?;
        let row = u32::try_from(self.types.len()).map_err(|_| full("types"))?;
        let shape = xxhash_rust::xxh3::xxh3_64(parsed.signature);
        self.types.push(TypeFacts { id, place: parsed.place(), footprint, shape });
        Ok(TypeRef(row))
    }

    /// Defines a type without a text; the caller must keep its ID.
    pub fn plain_type(&mut self, ty: TensorType) -> Result<TypeId> {
        let id = TypeId::new(self.types.len()).ok_or_else(|| full("types"))?;
        self.sink.take(Event::Type(ty))?;
        self.types.push(TypeFacts { id, place: None, footprint: None, shape: 0 });
        Ok(id)
    }

    /// The properties of a type.
    pub fn type_facts(&self, row: TypeRef) -> TypeFacts {
        self.types[row.0 as usize]
    }

    /// Whether two types have the same shape and element, regardless of their layouts.
    pub fn same_shape(&self, a: TypeRef, b: TypeRef) -> bool {
        self.type_facts(a).shape == self.type_facts(b).shape
    }

    /// The row of an operation's text; `None` if the text is not an operation.
    pub fn operation(&mut self, text: &[u8]) -> Result<Option<OpRef>> {
        let key = xxh3_128(text);
        if let Some(&known) = self.ops_by_text.get(&key) {
            return Ok(Some(known));
        }
        let Some(parsed) = ParsedOp::parse(text).filter(fits) else { return Ok(None) };
        let row = self.define_op(&parsed, kind_of(&parsed))?;
        self.ops_by_text.insert(key, row);
        Ok(Some(row))
    }

    /// The row of an operation given by its parts instead of its text; `None` if it has too many parts.
    pub fn operation_of(&mut self, parts: &ParsedOp<'_>) -> Result<Option<OpRef>> {
        let mut hash = Xxh3::new();
        parts.hash(&mut hash);
        let key = hash.digest128();
        if let Some(&known) = self.ops_by_text.get(&key) {
            return Ok(Some(known));
        }
        if !fits(parts) {
            return Ok(None);
        }
        let row = self.define_op(parts, kind_of(parts))?;
        self.ops_by_text.insert(key, row);
        Ok(Some(row))
    }

    /// The row of an operation that is only known by its OpType.
    pub fn op_type(&mut self, name: &[u8]) -> Result<OpRef> {
        let key = xxh3_128(name);
        if let Some(&known) = self.ops_by_text.get(&key) {
            return Ok(known);
        }
        let parsed = ParsedOp { name, ..ParsedOp::default() };
        let row = self.define_op(&parsed, kind_of(&parsed))?;
        self.ops_by_text.insert(key, row);
        Ok(row)
    }

    /// The ID of an operation that only has a name and possibly a location.
    pub fn plain_op(&mut self, name: &[u8], loc: Option<&[u8]>, kind: OpKind) -> Result<OpId> {
        let mut hash = Xxh3::new();
        (name, loc, kind as u8).hash(&mut hash);
        let key = hash.digest128();
        if let Some(&known) = self.ops_by_text.get(&key) {
            return Ok(self.op_facts(known).id);
        }
        let row = self.define_op(&ParsedOp { name, loc, ..ParsedOp::default() }, kind)?;
        self.ops_by_text.insert(key, row);
        Ok(self.op_facts(row).id)
    }

    fn define_op(&mut self, parsed: &ParsedOp<'_>, kind: OpKind) -> Result<OpRef> {
        let id = OpId::new(self.ops.len()).ok_or_else(|| full("operations"))?;
        let results = self.result_names(parsed)?;
        let operands = parsed.operands.iter().map(|name| self.text(name)).collect::<Result<Vec<_>>>()?;
        let operand_types = self.types_of(&parsed.operand_types)?;
        let result_types = self.types_of(&parsed.result_types)?;
        let ids = |rows: &[Option<TypeRef>], types: &[TypeFacts]| {
            rows.iter().map(|row| row.map(|row| types[row.0 as usize].id)).collect::<Vec<_>>()
        };
        let op = Op {
            name: self.text(parsed.name)?,
            operand_types: ids(&operand_types, &self.types),
            result_types: ids(&result_types, &self.types),
            attributes: parsed.attributes.map(|text| self.text(text)).transpose()?,
            callee: parsed.callee.map(|text| self.text(text)).transpose()?,
            loc: parsed.loc.filter(|loc| *loc != b"unknown").map(|text| self.text(text)).transpose()?,
            kind,
            results,
            operands,
        };
        let row = u32::try_from(self.ops.len()).map_err(|_| full("operations"))?;
        let facts = OpFacts {
            id,
            kind: op.kind,
            fingerprint: fingerprint(parsed),
            callee: op.callee,
            force: parsed
                .attributes
                .is_some_and(|text| memchr::memmem::find(text, b"force = true").is_some()),
            start: u32::try_from(self.lists.len()).map_err(|_| full("operands"))?,
            operands: u16::try_from(op.operands.len()).map_err(|_| full("operands"))?,
            results: u16::try_from(op.results.len()).map_err(|_| full("results"))?,
        };
        push_list(&mut self.lists, &op.operands, &operand_types);
        push_list(&mut self.lists, &op.results, &result_types);
        self.sink.take(Event::Op(op))?;
        self.ops.push(facts);
        Ok(OpRef(row))
    }

    /// `%5` alone, or `%5#0`, `%5#1` …
    fn result_names(&mut self, parsed: &ParsedOp<'_>) -> Result<Vec<StrId>> {
        match parsed.results {
            0 => Ok(Vec::new()),
            1 => Ok(vec![self.text(parsed.result)?]),
            // The types give the actual number of results; the printed number is not checked.
            _ => (0..parsed.result_types.len())
                .map(|index| self.text(&[parsed.result, format!("#{index}").as_bytes()].concat()))
                .collect(),
        }
    }

    fn types_of(&mut self, texts: &[&[u8]]) -> Result<Vec<Option<TypeRef>>> {
        texts.iter().map(|text| self.tensor_type(text)).collect()
    }

    /// The properties of an operation.
    pub fn op_facts(&self, row: OpRef) -> OpFacts {
        self.ops[row.0 as usize]
    }

    /// The operands of an operation with their types.
    pub fn operands(&self, op: &OpFacts) -> impl Iterator<Item = (StrId, Option<TypeRef>)> + '_ {
        self.list(op.start as usize, op.operands.into())
    }

    /// The results of an operation with their types.
    pub fn results(&self, op: &OpFacts) -> impl Iterator<Item = (StrId, Option<TypeRef>)> + '_ {
        self.list(op.start as usize + usize::from(op.operands) * 2, op.results.into())
    }

    fn list(&self, start: usize, count: usize) -> impl Iterator<Item = (StrId, Option<TypeRef>)> + '_ {
        self.lists[start..start + count * 2].chunks_exact(2).filter_map(|pair| {
            let name = StrId::new(pair[0] as usize)?;
            Some((name, pair[1].checked_sub(1).map(TypeRef)))
        })
    }
}

/// Names and types in pairs; a type is stored plus one, and 0 means none.
fn push_list(lists: &mut Vec<u32>, names: &[StrId], types: &[Option<TypeRef>]) {
    for (index, name) in names.iter().enumerate() {
        let ty = types.get(index).copied().flatten().map_or(0, |ty| ty.0 + 1);
        // An id is an index of 32 bits by construction.
        lists.extend([u32::try_from(name.index()).unwrap_or(u32::MAX), ty]);
    }
}

/// Whether the lists of an operation fit the limits of the model.
fn fits(op: &ParsedOp<'_>) -> bool {
    let longest = [op.operands.len(), op.operand_types.len(), op.result_types.len()].into_iter().max();
    longest.is_none_or(|longest| u16::try_from(longest).is_ok())
}

fn kind_of(op: &ParsedOp<'_>) -> OpKind {
    match op.name {
        b"ttnn.deallocate" | b"DeallocateOp" => OpKind::Deallocate,
        b"ttnn.get_device" | b"GetDeviceOp" => OpKind::GetDevice,
        b"ttcore.load_cached" | b"tt.load_cached" | b"LoadCachedOp" => OpKind::LoadCached,
        b"func.call" | b"ttnn.capture_or_execute_trace" | b"FuncCallOp" | b"CaptureOrExecuteTraceOp" => {
            OpKind::Call
        }
        _ => OpKind::Compute,
    }
}

fn full(what: &str) -> Error {
    Error::NotFound(format!("the log has too many {what}; split it"))
}
