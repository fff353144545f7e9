//! The graphs of a report: their arguments from the inputs registry, their texts from the texts' file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::de::MapAccess;

use super::document::Document;
use super::field::{Field, Object};
use super::notes::Notes;
use super::rows::{GraphRow, RegistryRow, StageRow};
use crate::tt_log::tables::Tables;
use ttmem_model::{Argument, ArgumentKind, ByteRange, ModuleId, RankEvent, RankId, Stage, StrId};
use ttmem_model::{Error, Result};

/// A text longer than this is not worth its place in a report.
const LONGEST: usize = 64 << 20;

/// The graphs, by the numbers that the files give them.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    by_number: BTreeMap<u32, Graph>,
    ids: FxHashMap<u32, ModuleId>,
    /// How long the texts are so far: they are numbered as if they stood one behind the other.
    texts: u64,
}

#[derive(Debug, Default)]
struct Graph {
    name: Option<StrId>,
    stages: Vec<Stage>,
    arguments: Vec<Argument>,
}

impl Graphs {
    /// Says the graphs of a rank, in the order of their numbers.
    pub fn say(&self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        for (number, graph) in &self.by_number {
            let id = self.id(*number).ok_or_else(|| Error::NotThere("too many graphs".into()))?;
            tables.say(rank, RankEvent::Module { name: graph.name })?;
            for &stage in &graph.stages {
                tables.say(rank, RankEvent::Stage(id, stage))?;
            }
            for &argument in &graph.arguments {
                tables.say(rank, RankEvent::Argument(id, argument))?;
            }
        }
        Ok(())
    }

    /// Numbers the graphs, once all of them are known.
    pub fn number(&mut self) {
        let ids = (0..).map_while(ModuleId::new);
        self.ids = self.by_number.keys().copied().zip(ids).collect();
    }

    /// The graph of that number.
    pub fn id(&self, number: u32) -> Option<ModuleId> {
        self.ids.get(&number).copied()
    }

    /// Takes a text along.
    fn add_text(
        &mut self,
        graph: u32,
        stage: &'static str,
        text: String,
        notes: &mut Notes,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if text.len() > LONGEST {
            notes.warn(format!("the {stage} text of graph {graph} is longer than 64 MiB and was left out"));
            return Ok(());
        }
        let source = ByteRange { start: self.texts, end: self.texts + text.len() as u64 };
        self.texts = source.end;
        let name = tables.text(stage.as_bytes())?;
        tables.source_text(source, Cow::Owned(text))?;
        self.by_number.entry(graph).or_default().stages.push(Stage { name, source, line: 1 });
        Ok(())
    }
}

/// The inputs registry, being read.
pub(super) struct Registry<'a, 's> {
    pub graphs: &'a mut Graphs,
    pub notes: &'a mut Notes,
    pub tables: &'a mut Tables<'s>,
}

impl Document for Registry<'_, '_> {
    const ROWS: &'static str = "entries";
    type Row = RegistryRow;

    fn row(&mut self, row: Field<Object<RegistryRow>>) -> Result<()> {
        if let Some(Object(row)) = self.notes.row(row) {
            self.argument(row)?;
        }
        self.notes.next_row();
        Ok(())
    }
}

impl Registry<'_, '_> {
    fn argument(&mut self, row: RegistryRow) -> Result<()> {
        let Self { graphs, notes, tables } = self;
        let graph = graphs.by_number.entry(notes.known(row.graph, "graph").unwrap_or(0)).or_default();
        let ssa = notes.known(row.ssa, "ssa").unwrap_or_else(|| {
            let place = u32::try_from(graph.arguments.len()).unwrap_or(u32::MAX);
            format!("%arg{}", notes.known(row.index, "index").unwrap_or(place))
        });
        // An argument that nobody named is called what it is.
        let name = notes.known(row.name, "name").filter(|name| *name != ssa);
        let kind = notes.known(row.kind, "type");
        let ty = type_text(notes.known(row.shape, "shape"), notes.known(row.dtype, "dtype"));
        let ty = ty.map(|text| tables.tensor_type(text.as_bytes())).transpose()?.flatten();
        graph.arguments.push(Argument {
            ssa: tables.text(ssa.as_bytes())?,
            name: name.map(|name| tables.text(name.as_bytes())).transpose()?,
            kind: match kind.as_deref() {
                Some("parameter") => ArgumentKind::Parameter,
                Some("constant") => ArgumentKind::Constant,
                Some("input") => ArgumentKind::Input,
                _ => ArgumentKind::Default,
            },
            ty: ty.map(|ty| tables.type_facts(ty).id),
        });
        Ok(())
    }
}

/// `tensor<1x32xbf16>`; `None` where shape or element are none. A scalar has no shape.
pub(super) fn type_text(shape: Option<String>, dtype: Option<String>) -> Option<String> {
    let dtype = dtype?;
    match shape.filter(|shape| !shape.is_empty()) {
        Some(shape) => {
            let is_shape = shape.bytes().all(|byte| byte.is_ascii_digit() || byte == b'x');
            is_shape.then(|| format!("tensor<{shape}x{dtype}>"))
        }
        None => Some(format!("tensor<{dtype}>")),
    }
}

/// The file of the graphs' texts, being read.
pub(super) struct Texts<'a, 's> {
    pub graphs: &'a mut Graphs,
    pub notes: &'a mut Notes,
    pub tables: &'a mut Tables<'s>,
    /// The texts that stand outside of the list: those of the first graph that ran, again where there is a list.
    first: Vec<(&'static str, Field<Object<StageRow>>)>,
    listed: bool,
}

impl<'a, 's> Texts<'a, 's> {
    pub fn new(graphs: &'a mut Graphs, notes: &'a mut Notes, tables: &'a mut Tables<'s>) -> Self {
        Self { graphs, notes, tables, first: Vec::new(), listed: false }
    }

    /// Takes the texts outside of the list, where there was none.
    pub fn finish(mut self) -> Result<()> {
        let first = std::mem::take(&mut self.first);
        if self.listed {
            return Ok(());
        }
        first.into_iter().try_for_each(|(name, stage)| self.stage(0, name, stage))
    }

    fn stage(&mut self, graph: u32, name: &'static str, stage: Field<Object<StageRow>>) -> Result<()> {
        let Some(Object(stage)) = self.notes.known(stage, name) else { return Ok(()) };
        let Some(text) = self.notes.known(stage.text, "text") else { return Ok(()) };
        self.graphs.add_text(graph, name, text, self.notes, self.tables)
    }
}

impl Document for Texts<'_, '_> {
    const ROWS: &'static str = "graphs";
    type Row = GraphRow;

    fn row(&mut self, row: Field<Object<GraphRow>>) -> Result<()> {
        if let Some(Object(row)) = self.notes.row(row)
            && let Some(number) = self.notes.known(row.graph, "graph")
        {
            self.listed = true;
            let name = self.notes.known(row.name, "name");
            let name = name.map(|name| self.tables.text(name.as_bytes())).transpose()?;
            self.graphs.by_number.entry(number).or_default().name = name;
            self.stage(number, "ttir", row.ttir)?;
            self.stage(number, "ttnn", row.ttnn)?;
        }
        self.notes.next_row();
        Ok(())
    }

    fn entry<'de, A: MapAccess<'de>>(&mut self, key: &str, object: &mut A) -> Result<(), A::Error> {
        let known = ["ttir", "ttnn"].into_iter().find(|stage| *stage == key);
        match known {
            Some(stage) => self.first.push((stage, object.next_value()?)),
            None => drop(object.next_value::<serde::de::IgnoredAny>()?),
        }
        Ok(())
    }
}
