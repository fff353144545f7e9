//! The compiled graphs of a rank, and the assignment of program runs to them.

use rustc_hash::FxHashSet;
use ttmem_model::{Argument, ArgumentKind, Error, ModuleId, RankEvent, RankId, Result, Stage, StrId};

use super::module::{Dump, Function, FunctionArgument, stage_order};
use super::processes::EndedDump;
use super::tables::{Tables, TypeRef};

/// A compiled graph, with one dump per stage.
#[derive(Debug)]
struct Graph {
    id: ModuleId,
    /// The position of the last dumped stage in the compiler pipeline.
    last_stage: Option<usize>,
    stages: Vec<String>,
    /// The line of its first dump.
    line: u64,
    /// The functions of the stage that the runtime executes, and the names that each returns.
    functions: Vec<Function>,
    returns: Vec<Option<Vec<StrId>>>,
    /// The name of the main function.
    main: Option<String>,
    /// The arguments of the main function, merged from all stages: a later stage has the layout, an earlier one may
    /// have the name.
    arguments: Vec<FunctionArgument>,
    /// Whether the arguments come from the stage that the runtime executes.
    executable: bool,
}

/// A function of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FunctionRef {
    graph: usize,
    function: Option<usize>,
}

/// The observed properties of a run.
#[derive(Debug)]
pub(super) struct RunTraits<'a> {
    pub program: &'a str,
    pub operations: u32,
    pub fingerprint: u64,
    pub finished: bool,
    /// Operations of the run are missing from the log.
    pub has_gaps: bool,
    /// The arguments that it used, with the types it used them with.
    pub arguments: &'a [(u32, Option<TypeRef>)],
}

/// The graph that a run belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// Exactly one graph.
    One(FunctionRef),
    /// Several graphs with different arguments, given by their lines.
    Ambiguous(Vec<u64>),
    /// None of the dumped graphs.
    None,
}

/// The graphs of a rank.
#[derive(Debug, Default)]
pub(super) struct Graphs {
    graphs: Vec<Graph>,
    /// Hashes of the dumps that were added.
    dumps: FxHashSet<u64>,
}

impl Graphs {
    /// Whether no graph was dumped.
    pub fn is_empty(&self) -> bool {
        self.graphs.is_empty()
    }

    /// Whether a dump with this hash was added.
    pub fn has_dump(&self, hash: u64) -> bool {
        self.dumps.contains(&hash)
    }

    /// Adds a complete dump.
    pub fn add(&mut self, ended: EndedDump, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let EndedDump { dump, stage, source, line, hash, .. } = ended;
        self.dumps.insert(hash);
        let order = stage_order(&stage);
        let continues = self.graphs.last().is_some_and(|graph| {
            let later = match (order, graph.last_stage) {
                (Some(order), Some(last)) => order > last,
                _ => true,
            };
            later && !graph.stages.contains(&stage)
        });
        if !continues {
            self.begin(&dump, line, rank, tables)?;
        }
        let Some(graph) = self.graphs.last_mut() else { return Ok(()) };
        graph.last_stage = order.or(graph.last_stage);
        let name = tables.text(stage.as_bytes())?;
        graph.stages.push(stage);
        tables.say(rank, RankEvent::Stage(graph.id, Stage { name, source, line }))?;
        graph.take_functions(dump, tables)
    }

    fn begin(&mut self, dump: &Dump, line: u64, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        self.say_arguments(rank, tables)?;
        let id = ModuleId::new(self.graphs.len())
            .ok_or_else(|| Error::NotFound("the log has too many graphs; split it".into()))?;
        let name = dump.name.as_ref().map(|name| tables.text(name.as_bytes())).transpose()?;
        tables.say(rank, RankEvent::Module { name })?;
        self.graphs.push(Graph {
            id,
            last_stage: None,
            stages: Vec::new(),
            line,
            functions: Vec::new(),
            returns: Vec::new(),
            main: None,
            arguments: Vec::new(),
            executable: false,
        });
        Ok(())
    }

    /// Emits the arguments of the last graph when all its stages are known.
    pub fn say_arguments(&mut self, rank: RankId, tables: &mut Tables<'_>) -> Result<()> {
        let Some(graph) = self.graphs.last() else { return Ok(()) };
        for argument in &graph.arguments {
            let ty = tables.tensor_type(&argument.ty)?;
            let argument = Argument {
                ssa: tables.text(argument.ssa.as_bytes())?,
                name: argument.name.as_ref().map(|name| tables.text(name.as_bytes())).transpose()?,
                kind: argument.kind.unwrap_or(ArgumentKind::Default),
                ty: ty.map(|ty| tables.type_facts(ty).id),
            };
            tables.say(rank, RankEvent::Argument(graph.id, argument))?;
        }
        Ok(())
    }

    /// The graph that a run belongs to, found by its sequence of operations, or by the arguments that it uses if the
    /// dumps have no function bodies.
    pub fn find(&self, run: &RunTraits<'_>, tables: &mut Tables<'_>) -> Result<Match> {
        let mut candidates = self.by_operations(run);
        if candidates.is_empty() {
            candidates = self.by_arguments(run, tables)?;
        }
        if candidates.is_empty() && run.has_gaps {
            candidates = self.by_name(run, tables)?;
        }
        // The last match is used: if a graph was compiled again, the new one runs.
        let Some(&last) = candidates.last() else { return Ok(Match::None) };
        let differs = |other: &&FunctionRef| self.arguments(**other) != self.arguments(last);
        if candidates.iter().any(|other| differs(&other)) {
            return Ok(Match::Ambiguous(
                candidates.iter().map(|found| self.graphs[found.graph].line).collect(),
            ));
        }
        Ok(Match::One(last))
    }

    fn by_operations(&self, run: &RunTraits<'_>) -> Vec<FunctionRef> {
        let Some(last) = (run.operations as usize).checked_sub(1) else { return Vec::new() };
        let fits = |function: &Function| {
            function.name == run.program
                && function.fingerprints.get(last) == Some(&run.fingerprint)
                && (!run.finished || function.fingerprints.len() == last + 1)
        };
        let mut found = Vec::new();
        for (graph, candidate) in self.graphs.iter().enumerate() {
            let function = candidate.functions.iter().position(fits);
            found.extend(function.map(|function| FunctionRef { graph, function: Some(function) }));
        }
        found
    }

    fn by_arguments(&self, run: &RunTraits<'_>, tables: &mut Tables<'_>) -> Result<Vec<FunctionRef>> {
        let mut found = Vec::new();
        for (graph, candidate) in self.graphs.iter().enumerate() {
            let has_body = candidate.functions.iter().any(|function| !function.fingerprints.is_empty());
            if !has_body && !run.arguments.is_empty() && candidate.takes(run.arguments, tables)? {
                found.push(FunctionRef { graph, function: None });
            }
        }
        Ok(found)
    }

    /// If operations are missing, any function with the program's name and matching arguments is accepted.
    fn by_name(&self, run: &RunTraits<'_>, tables: &mut Tables<'_>) -> Result<Vec<FunctionRef>> {
        let mut found = Vec::new();
        for (graph, candidate) in self.graphs.iter().enumerate() {
            let function = candidate.functions.iter().position(|function| function.name == run.program);
            if function.is_some() && candidate.takes(run.arguments, tables)? {
                found.push(FunctionRef { graph, function });
            }
        }
        Ok(found)
    }

    /// Whether it is the main function, whose arguments the module lists.
    pub fn is_main(&self, function: FunctionRef) -> bool {
        let graph = &self.graphs[function.graph];
        let is_main = |index: usize| graph.main.as_deref() == Some(graph.functions[index].name.as_str());
        function.function.is_none_or(is_main)
    }

    /// The module of a function.
    pub fn module(&self, function: FunctionRef) -> ModuleId {
        self.graphs[function.graph].id
    }

    /// The arguments of a function.
    pub fn arguments(&self, function: FunctionRef) -> &[FunctionArgument] {
        let graph = &self.graphs[function.graph];
        match function.function.and_then(|index| graph.functions.get(index)) {
            Some(found) if !self.is_main(function) && !found.arguments.is_empty() => &found.arguments,
            _ => &graph.arguments,
        }
    }

    /// The names that a function returns; `None` if its body was not dumped.
    pub fn returns(&self, function: FunctionRef) -> Option<&[StrId]> {
        self.graphs[function.graph].returns.get(function.function?)?.as_deref()
    }

    /// The names that a nested program returns.
    pub fn returns_of(&self, run: &RunTraits<'_>) -> Option<&[StrId]> {
        let found = self.by_operations(run);
        let returns = self.returns(*found.last()?)?;
        found.iter().all(|other| self.returns(*other) == Some(returns)).then_some(returns)
    }
}

impl Graph {
    fn take_functions(&mut self, dump: Dump, tables: &mut Tables<'_>) -> Result<()> {
        let executable = dump.executable;
        if let Some(main) = dump.main() {
            self.main = Some(main.name.clone());
            self.merge_arguments(main.arguments.clone(), executable);
        }
        if executable {
            self.functions = dump.functions;
            self.returns.clear();
            for function in &self.functions {
                let names = function.returns.as_ref();
                let names =
                    names.map(|names| names.iter().map(|name| tables.text(name.as_bytes())).collect());
                self.returns.push(names.transpose()?);
            }
        }
        Ok(())
    }

    /// Merges the arguments of a stage. A later stage takes precedence; missing values are kept from an earlier one.
    fn merge_arguments(&mut self, mut arguments: Vec<FunctionArgument>, executable: bool) {
        if self.executable && !executable {
            return;
        }
        if arguments.len() == self.arguments.len() {
            for (new, old) in arguments.iter_mut().zip(&self.arguments) {
                new.name = new.name.take().or_else(|| old.name.clone());
                new.kind = new.kind.or(old.kind);
            }
        }
        (self.arguments, self.executable) = (arguments, executable);
    }

    /// Whether the main function has arguments of the types that a run used.
    fn takes(&self, used: &[(u32, Option<TypeRef>)], tables: &mut Tables<'_>) -> Result<bool> {
        for &(index, ty) in used {
            let Some(argument) = self.arguments.get(index as usize) else { return Ok(false) };
            let declared = tables.tensor_type(&argument.ty)?;
            if let (Some(used), Some(declared)) = (ty, declared)
                && !tables.same_shape(used, declared)
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
