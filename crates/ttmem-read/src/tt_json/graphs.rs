//! The graphs of a report: their arguments from the inputs registry, their texts from the texts file.

use std::borrow::Cow;
use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::de::IgnoredAny;
use ttmem_model::{
    Argument, ArgumentKind, ByteRange, Error, ModuleId, RankEvent, RankId, Result, Stage, StrId,
};

use super::document::{Document, JsonStream};
use super::notes::Notes;
use super::rows::RegistryRow;
use crate::json::field::Object;
use crate::json::{Parsed, Stop};
use crate::tt_log::tables::Tables;

/// The maximum length of a graph text.
const MAX_TEXT: usize = 64 << 20;
/// The maximum length of such a text in JSON: each byte may be escaped as `\u0001`.
const MAX_ESCAPED: usize = 6 * MAX_TEXT;

/// The graphs, by their numbers in the files.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    by_number: BTreeMap<u32, Graph>,
    ids: FxHashMap<u32, ModuleId>,
    /// The total length of the texts so far: their offsets are as if the texts were concatenated.
    texts: u64,
}

#[derive(Debug, Default)]
struct Graph {
    name: Option<StrId>,
    stages: Vec<Stage>,
    arguments: Vec<Argument>,
}

impl Graphs {
    /// Emits the graphs of a rank, in the order of their numbers.
    pub fn say(&self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        for (number, graph) in &self.by_number {
            let id = self.id(*number).ok_or_else(|| Error::NotFound("too many graphs".into()))?;
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

    /// Assigns IDs to the graphs when all of them are known.
    pub fn number(&mut self) {
        let ids = (0..).map_while(ModuleId::new);
        self.ids = self.by_number.keys().copied().zip(ids).collect();
    }

    /// The graph with this number.
    pub fn id(&self, number: u32) -> Option<ModuleId> {
        self.ids.get(&number).copied()
    }

    /// Adds a text to a graph.
    fn add_text(
        &mut self,
        graph: u32,
        stage: &'static str,
        text: String,
        tables: &mut Tables<'_>,
    ) -> Result<()> {
        if text.is_empty() {
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

/// Reads the inputs registry.
pub(super) struct Registry<'a, 's> {
    pub graphs: &'a mut Graphs,
    pub notes: &'a mut Notes,
    pub tables: &'a mut Tables<'s>,
}

impl Document for Registry<'_, '_> {
    const ROWS: &'static str = "entries";

    fn row(&mut self, json: &mut JsonStream) -> Result<(), Stop> {
        if let Some(Object(row)) = self.notes.parse_row(json)? {
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
        // An unnamed argument has its SSA name instead of a name.
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

/// `tensor<1x32xbf16>`; `None` if the shape or element is invalid. A scalar has no shape.
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

/// The compiler stages of graph texts.
const STAGES: [&str; 2] = ["ttir", "ttnn"];

/// The texts of a graph, by stage.
type StageTexts = [StageText; STAGES.len()];

/// The text of a stage.
#[derive(Debug, Default)]
enum StageText {
    #[default]
    None,
    Text(String),
    TooLong,
}

/// Reads the file of graph texts.
pub(super) struct Texts<'a, 's> {
    pub graphs: &'a mut Graphs,
    pub notes: &'a mut Notes,
    pub tables: &'a mut Tables<'s>,
    /// The texts outside the list: those of the first graph that ran. If there is a list, it also contains them.
    first: StageTexts,
    listed: bool,
}

impl<'a, 's> Texts<'a, 's> {
    pub fn new(graphs: &'a mut Graphs, notes: &'a mut Notes, tables: &'a mut Tables<'s>) -> Self {
        Self { graphs, notes, tables, first: StageTexts::default(), listed: false }
    }

    /// Adds the texts outside the list if there was no list.
    pub fn finish(mut self) -> Result<()> {
        let first = std::mem::take(&mut self.first);
        if self.listed { Ok(()) } else { self.add(0, first) }
    }

    fn add(&mut self, graph: u32, texts: StageTexts) -> Result<()> {
        for (stage, text) in STAGES.into_iter().zip(texts) {
            match text {
                StageText::None => {}
                StageText::Text(text) => self.graphs.add_text(graph, stage, text, self.tables)?,
                StageText::TooLong => self
                    .notes
                    .warn(format!("the {stage} text of graph {graph} exceeds 64 MiB and was skipped")),
            }
        }
        Ok(())
    }

    /// The stage under a key, an object with a text.
    fn stage(&mut self, name: &str, json: &mut JsonStream) -> Parsed<StageText> {
        let mut text = StageText::None;
        let is_object = json.object(|json, key| {
            if key == "text" {
                text = self.text(json)?;
                Ok(())
            } else {
                json.skip()
            }
        })?;
        if !is_object {
            // Null is allowed, and an object cannot follow.
            self.notes.parse::<Object<IgnoredAny>>(json, name)?;
        }
        Ok(text)
    }

    /// A text, with a higher size limit than other values.
    fn text(&mut self, json: &mut JsonStream) -> Parsed<StageText> {
        if json.peek()? != Some(b'"') {
            self.notes.parse::<String>(json, "text")?;
            return Ok(StageText::None);
        }
        let text: Option<String> = json.parse(MAX_ESCAPED)?;
        Ok(text.filter(|text| text.len() <= MAX_TEXT).map_or(StageText::TooLong, StageText::Text))
    }
}

impl Document for Texts<'_, '_> {
    const ROWS: &'static str = "graphs";

    fn row(&mut self, json: &mut JsonStream) -> Result<(), Stop> {
        let (mut graph, mut name, mut texts) = (None, None::<String>, StageTexts::default());
        let is_object = json.object(|json, key| {
            match key.as_str() {
                "graph" => graph = self.notes.parse(json, "graph")?,
                "name" => name = self.notes.parse(json, "name")?,
                stage => match STAGES.iter().position(|known| *known == stage) {
                    Some(index) => texts[index] = self.stage(STAGES[index], json)?,
                    None => json.skip()?,
                },
            }
            Parsed::Ok(())
        })?;
        if !is_object {
            self.notes.parse_row::<Object<IgnoredAny>>(json)?;
        } else if let Some(graph) = graph {
            self.listed = true;
            let name = name.map(|name| self.tables.text(name.as_bytes())).transpose()?;
            self.graphs.by_number.entry(graph).or_default().name = name;
            self.add(graph, texts)?;
        }
        self.notes.next_row();
        Ok(())
    }

    fn entry(&mut self, key: &str, json: &mut JsonStream) -> Result<(), Stop> {
        match STAGES.iter().position(|stage| *stage == key) {
            Some(index) => self.first[index] = self.stage(STAGES[index], json)?,
            None => json.skip()?,
        }
        Ok(())
    }
}
