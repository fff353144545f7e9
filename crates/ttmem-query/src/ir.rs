//! The texts of the compiled graphs with the line numbers of every location, for `<name>_ir.json`.
//!
//! The file has the stages `ttir` and `ttnn` of the first graph that ran, and under `graphs` those of every graph if
//! there are several. A stage that was not printed is an empty object, because the visualizer and the scripts of
//! tt-memory-profiler 0.x read it without checking whether it exists. `loc_index` has the first line of each
//! location and `lines` all of them, counted from 1 within the text. The keys are the locations of operations:
//! aliases (`#loc12`) are resolved, and `unknown` does not count as a location.
//!
//! The texts are embedded in the profile (`embed_texts` of `ttmem-read`). They may contain lines that other writers
//! printed in between; lines that cannot belong to a module are skipped here.

use rustc_hash::{FxHashMap, FxHashSet};
use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmem_model::{Module, ModuleId, OpId, Profile, Rank, RunId, StrId};

use super::rows::{Entries, Rows};

/// The stages to include: the original graph and the graph that runs.
pub const STAGES: [&str; 2] = ["ttir", "ttnn"];

/// The content of `<name>_ir.json`.
#[derive(Clone, Copy, Debug)]
pub struct IrFile<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The rank whose graphs are listed.
    pub rank: &'a Rank,
}

impl Serialize for IrFile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { profile, rank } = *self;
        let first = rank.top_level_runs().find_map(|(_, run)| rank.module(run.module?));
        let first = first.or(rank.modules.first());
        let mut map = serializer.serialize_map(None)?;
        for stage in STAGES {
            let text = first.and_then(|module| stage_text(profile, module, stage));
            map.serialize_entry(stage, &StageOrEmpty(text))?;
        }
        if rank.modules.len() > 1 {
            let graphs = || rank.modules.iter().enumerate();
            let graph = |(index, module)| Graph { profile, index, module };
            map.serialize_entry("graphs", &Rows(|| graphs().map(graph)))?;
        }
        map.end()
    }
}

/// A graph in the list of all graphs. Its texts are computed while it is serialized.
struct Graph<'a> {
    profile: &'a Profile,
    index: usize,
    module: &'a Module,
}

impl Serialize for Graph<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("graph", &self.index)?;
        map.serialize_entry("name", &self.module.name.map(|name| self.profile.text(name)))?;
        for stage in STAGES {
            map.serialize_entry(stage, &StageOrEmpty(stage_text(self.profile, self.module, stage)))?;
        }
        map.end()
    }
}

/// A stage in the file: an empty object if its text is unknown.
struct StageOrEmpty(Option<StageText>);

impl Serialize for StageOrEmpty {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(stage) => stage.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

/// The text of a stage, with the line numbers of its locations.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct StageText {
    /// The text.
    pub text: String,
    /// The first line of each location.
    pub loc_index: Entries<String, u32>,
    /// All lines of each location.
    pub lines: Entries<String, Vec<u32>>,
}

/// A stage of a graph; `None` if it was not printed, or if its text is no longer available.
pub fn stage_text(profile: &Profile, module: &Module, stage: &str) -> Option<StageText> {
    source_of(profile, module, stage).map(stage_text_of)
}

/// The unfiltered text of a stage; `None` if it was not printed, or is no longer available.
pub fn source_of<'a>(profile: &'a Profile, module: &Module, stage: &str) -> Option<&'a str> {
    let found = module.stages.iter().find(|found| profile.text(found.name) == stage)?;
    profile.source_text(found.source)
}

/// The text of a stage without foreign lines, with the line numbers of its locations.
fn stage_text_of(source: &str) -> StageText {
    let text = GraphText::new(source);
    let lines = text.locations();
    let loc_index = lines.iter().filter_map(|(loc, lines)| Some((loc.clone(), *lines.first()?))).collect();
    StageText { text: text.joined(), loc_index: Entries(loc_index), lines: Entries(lines) }
}

/// The lines of a graph, without lines that cannot belong to a module.
#[derive(Debug)]
pub struct GraphText<'a> {
    lines: Vec<&'a str>,
}

impl<'a> GraphText<'a> {
    /// Splits a text into lines and filters them.
    pub fn new(source: &'a str) -> Self {
        let mut in_resources = false;
        let mut is_ours = |line: &&str| {
            in_resources |= line.starts_with("{-#");
            let is_ours = in_resources || is_module_line(line.trim_ascii());
            in_resources &= !line.starts_with("#-}");
            is_ours
        };
        Self { lines: lines_of(source).filter(|line| is_ours(line)).collect() }
    }

    /// The lines that belong to a module.
    pub fn lines(&self) -> &[&'a str] {
        &self.lines
    }

    fn joined(&self) -> String {
        let mut text = String::with_capacity(self.lines.iter().map(|line| line.len() + 1).sum());
        for line in &self.lines {
            text.push_str(line);
            text.push('\n');
        }
        text
    }

    /// The lines of each location, counted from 1, in the order the locations appear.
    fn locations(&self) -> Vec<(String, Vec<u32>)> {
        let mut found: Vec<(String, Vec<u32>)> = Vec::new();
        let mut by_text: FxHashMap<String, usize> = FxHashMap::default();
        let rows = self.located(|text| {
            Some(*by_text.entry(text.to_owned()).or_insert_with_key(|text| {
                found.push((text.clone(), Vec::new()));
                found.len() - 1
            }))
        });
        for (line, row) in rows {
            found[row].1.push(line + 1);
        }
        found
    }

    /// The lines where operations with a location begin, counted from 0, each with the result of `number` for the
    /// location. `number` is called once for each distinct spelling.
    pub fn located<T: Copy>(&self, mut number: impl FnMut(&str) -> Option<T>) -> Vec<(u32, T)> {
        let aliases = Aliases::new(&self.lines);
        // Most operations refer to their location by an alias, which is resolved once.
        let mut known: FxHashMap<&str, Option<T>> = FxHashMap::default();
        let mut open = Vec::new();
        let mut found = Vec::new();
        for (line_number, line) in (0..).zip(self.lines.iter().map(|line| line.trim_ascii())) {
            let begins = is_operation(line);
            if line.ends_with("({") && begins {
                // Its location is at the end of its regions.
                open.push(line_number);
                continue;
            }
            let line_number = if begins {
                line_number
            } else if line.starts_with("})")
                && let Some(begin) = open.pop()
            {
                begin
            } else {
                continue;
            };
            let Some(loc) = location_of(line) else { continue };
            let of_loc = *known
                .entry(loc)
                .or_insert_with(|| number(&aliases.resolve(loc).filter(|text| text != "unknown")?));
            found.extend(of_loc.map(|number| (line_number, number)));
        }
        found
    }
}

/// The lines of a text.
fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = memchr::memchr(b'\n', rest.as_bytes());
        let (line, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        rest = after;
        let line = line.strip_suffix('\n').unwrap_or(line);
        Some(line.strip_suffix('\r').unwrap_or(line))
    })
}

/// The operations of a rank that ran, by graph.
#[derive(Debug)]
pub struct Executed<'a> {
    profile: &'a Profile,
    /// For each graph, the distinct operations that ran in it, with the names of their programs.
    by_module: Vec<Vec<(OpId, StrId)>>,
}

impl<'a> Executed<'a> {
    /// Collects the operations of a rank.
    pub fn new(profile: &'a Profile, rank: &Rank) -> Self {
        let mut by_module = vec![Vec::new(); rank.modules.len()];
        let mut seen: FxHashSet<(usize, OpId, StrId)> = FxHashSet::default();
        let runs = (0..rank.runs.len()).map(RunId::new);
        let modules: Vec<Option<usize>> = runs.map(|run| rank.module_of(run?).map(ModuleId::index)).collect();
        for (op, run) in rank.steps.op.iter().zip(rank.steps.run.iter()) {
            let Some(run) = *run else { continue };
            let Some(module) = modules.get(run.index()).copied().flatten() else { continue };
            // Several programs of one graph may contain the same operation; each has its own line.
            let program = rank.runs[run.index()].program;
            if seen.insert((module, *op, program)) {
                by_module[module].push((*op, program));
            }
        }
        Self { profile, by_module }
    }

    /// The lines where the operations of a graph begin, counted from 0, in order, each with the operation and the
    /// program that it ran in.
    ///
    /// An operation is matched by its name and result (or its first operand, if it has no result) in the function with
    /// the name of its program.
    pub fn lines(&self, module: usize, text: &GraphText<'_>) -> Vec<(u32, OpId, StrId)> {
        let heads: FxHashMap<Head<'_>, u32> = heads(text.lines()).collect();
        let Some(ops) = self.by_module.get(module) else { return Vec::new() };
        let mut lines: Vec<(u32, OpId, StrId)> = ops
            .iter()
            .filter_map(|(id, program)| {
                let op = self.profile.ops.get(*id)?;
                let text = |id: &StrId| self.profile.text(*id);
                let result = op.results.first().map(|result| base_name(text(result)));
                let head = Head {
                    function: text(program),
                    name: text(&op.name),
                    value: result.or_else(|| op.operands.first().map(text))?,
                };
                Some((*heads.get(&head)?, *id, *program))
            })
            .collect();
        lines.sort_unstable();
        lines
    }
}

/// The key that identifies an operation in a text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Head<'a> {
    function: &'a str,
    name: &'a str,
    value: &'a str,
}

/// The operations of a text with their lines, counted from 0.
fn heads<'t>(lines: &[&'t str]) -> impl Iterator<Item = (Head<'t>, u32)> {
    let mut function = "";
    (0..).zip(lines.iter().map(|line| line.trim_ascii_start())).filter_map(move |(number, line)| {
        if line.starts_with("func.func") {
            let name = line.split_once('@')?.1;
            function = name.split(['(', ' ']).next().unwrap_or(name);
            return None;
        }
        let (result, op) = match line.strip_prefix('%') {
            Some(_) => line.split_once(" = ").map(|(result, op)| (Some(result), op))?,
            None if line.starts_with('"') => (None, line),
            None => return None,
        };
        let op = op.strip_prefix('"').unwrap_or(op);
        let end = op.find(['"', '(', ' '])?;
        let (name, rest) = op.split_at(end);
        let operand = || rest.split_once('(')?.1.split([',', ')']).next();
        let value = result.map(base_name).or_else(operand)?;
        Some((Head { function, name, value }, number))
    })
}

/// `%5` of `%5#1` and of `%5:2`.
fn base_name(value: &str) -> &str {
    value.split(['#', ':']).next().unwrap_or(value)
}

/// Whether a line may belong to a module, judging by its first word and by syntax that only code has.
fn is_module_line(line: &str) -> bool {
    let has_type_or_loc = || line.contains(" : ") || line.contains("loc(") || line.ends_with('{');
    match line.as_bytes() {
        [b'}' | b')' | b'^', ..] => true,
        [b'/', second, ..] => *second == b'/',
        [b'#', second, ..] => second.is_ascii_lowercase() && line.contains(" = "),
        [b'%' | b'"', ..] => has_type_or_loc(),
        [b'a'..=b'z', ..] => {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            let word = line.split(|c: char| !is_word(c)).next().unwrap_or(line);
            let is_dialect = word.contains('.') && !word.ends_with('.');
            match word {
                "module" | "return" | "call" => true,
                _ => is_dialect && (has_type_or_loc() || line.contains('@')),
            }
        }
        _ => false,
    }
}

/// Whether an operation begins on a line. Functions and modules do not count, because they do not run.
fn is_operation(line: &str) -> bool {
    match line.as_bytes().first() {
        Some(b'%' | b'"') => true,
        Some(b'a'..=b'z') => {
            let word = line.split([' ', '(']).next().unwrap_or(line);
            word.contains('.') && word != "func.func" && !line.ends_with('{') || word == "call"
        }
        _ => false,
    }
}

/// The content of the `loc( )` at the end of a line.
fn location_of(line: &str) -> Option<&str> {
    // A name may also contain `loc(`, but then it is inside a string.
    let is_whole = |(at, _): &(usize, &str)| line[*at..].matches('"').count().is_multiple_of(2);
    let (at, word) = line.rmatch_indices(" loc(").find(is_whole)?;
    line[at + word.len()..].strip_suffix(')')
}

/// The values of the aliases of a text, such as `#loc12 = loc("add.1")`.
struct Aliases<'a>(FxHashMap<&'a str, &'a str>);

impl<'a> Aliases<'a> {
    /// Limits for aliases that refer to aliases, so that a malicious text does not expand without end.
    const MAX_DEPTH: usize = 64;
    const MAX_LEN: usize = 64 << 10;

    fn new(lines: &[&'a str]) -> Self {
        let definitions = lines.iter().copied().filter(|line| line.starts_with("#loc"));
        let alias = |line: &'a str| {
            let (name, value) = line.split_once(" = loc(")?;
            Some((name, value.trim_end().strip_suffix(')')?))
        };
        Self(definitions.filter_map(alias).collect())
    }

    /// A location with its aliases resolved; `None` if it exceeds the limits.
    fn resolve(&self, loc: &str) -> Option<String> {
        let mut resolved = String::new();
        self.add(loc, &mut resolved, 0)?;
        Some(resolved)
    }

    fn add(&self, loc: &str, resolved: &mut String, depth: usize) -> Option<()> {
        if depth > Self::MAX_DEPTH {
            return None;
        }
        let mut rest = loc;
        while let Some(at) = rest.find(['#', '"']) {
            let (before, tail) = rest.split_at(at);
            resolved.push_str(before);
            let length = if tail.starts_with('"') { string_length(tail) } else { alias_length(tail) };
            let (part, after) = tail.split_at(length);
            match self.0.get(part) {
                Some(value) => self.add(value, resolved, depth + 1)?,
                None => resolved.push_str(part),
            }
            rest = after;
        }
        resolved.push_str(rest);
        (resolved.len() <= Self::MAX_LEN).then_some(())
    }
}

fn alias_length(text: &str) -> usize {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text[1..].find(|c| !is_name(c)).map_or(text.len(), |end| end + 1)
}

/// The length of the string at the start of a text, including its quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = true;
    let end = text.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    end.map_or(text.len(), |end| end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r##"#dram = #ttnn.buffer_type<dram>
module @g attributes {ttcore.meshes = #ttcore.meshes<[<"mesh" = 1x1>]>} {
  ttcore.device_module {
  func.func @main(%arg0: tensor<4xf32> loc("p0")) -> tensor<4xf32> {
    %0 = "ttnn.neg"(%arg0) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc3)
    %1 = ttcore.load_cached(@f, [%0]) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc)
    "ttnn.deallocate"(%0#1) <{force = false}> : (tensor<4xf32>) -> () loc(#loc3)
    %2 = "ttnn.abs"(%1) : (tensor<4xf32>) -> tensor<4xf32> loc("a\22 loc(x"("y"))
    %3 = "stablehlo.reduce"(%2) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32> loc(unknown)):
      stablehlo.return %a : tensor<f32> loc(#loc2)
    }) : (tensor<4xf32>) -> tensor<4xf32> loc(#loc4)
    return %3 : tensor<4xf32> loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc(unknown)
#loc1 = loc("x")
#loc2 = loc("f.py":1:2)
#loc3 = loc("add.1_b"(#loc1))
#loc4 = loc(fused<"#loc1">[#loc1, #loc2])
"##;

    #[test]
    fn every_operation_of_a_location_has_its_line() {
        let lines = |lines: &[u32]| lines.to_vec();
        assert_eq!(
            GraphText::new(TEXT).locations(),
            [
                ("\"add.1_b\"(\"x\")".to_owned(), lines(&[5, 7])),
                ("\"a\\22 loc(x\"(\"y\")".to_owned(), lines(&[8])),
                ("\"f.py\":1:2".to_owned(), lines(&[11])),
                ("fused<\"#loc1\">[\"x\", \"f.py\":1:2]".to_owned(), lines(&[9])),
            ]
        );
    }

    #[test]
    fn operations_are_identified_by_function_name_and_value() {
        let found: Vec<(&str, &str, &str, u32)> = heads(GraphText::new(TEXT).lines())
            .map(|(head, line)| (head.function, head.name, head.value, line))
            .collect();
        assert_eq!(
            found,
            [
                ("main", "ttnn.neg", "%0", 4),
                ("main", "ttcore.load_cached", "%1", 5),
                ("main", "ttnn.deallocate", "%0#1", 6),
                ("main", "ttnn.abs", "%2", 7),
                ("main", "stablehlo.reduce", "%3", 8),
            ]
        );
    }

    #[test]
    fn foreign_lines_are_skipped() {
        let noise = [
            "",
            "INFO 03-16 10:31:08 [engine.py:163] step 12",
            " 12%|####      | 12/100 [00:01<00:09,  2.31it/s]",
            "%12 = \"ttnn.add\"(%1, %2) is slow, says the tuner",
            "{\"event\": \"step\", \"n\": 12}",
            "/venv/lib/module.py:12: UserWarning: x",
            "torch.nn says nothing",
            "# a comment",
        ];
        let mixed: String =
            TEXT.lines().zip(noise.iter().cycle()).fold(String::new(), |mut all, (line, noise)| {
                all.extend([line, "\n", noise, "\n"]);
                all
            });
        assert_eq!(GraphText::new(&mixed).joined(), TEXT);
        let resources = "{-#\n  dialect_resources: {\n    builtin: {\n    }\n  }\n#-}\n";
        let text = format!("{resources}noise\r\n");
        assert_eq!(GraphText::new(&text).joined(), resources);
    }

    #[test]
    fn endless_aliases_are_rejected() {
        let chain = (2..80).map(|n| format!("#loc{n} = loc(fused[#loc{0}, #loc{0}])\n", n - 1));
        let text = format!("#loc0 = loc(#loc0)\n#loc1 = loc(\"x\")\n{}", chain.collect::<String>());
        let lines: Vec<&str> = text.lines().collect();
        let aliases = Aliases::new(&lines);
        assert_eq!(aliases.resolve("#loc0"), None);
        assert_eq!(aliases.resolve("#loc79"), None);
        assert_eq!(
            aliases.resolve("#loc3").as_deref(),
            Some("fused[fused[\"x\", \"x\"], fused[\"x\", \"x\"]]")
        );
        assert_eq!(aliases.resolve("\"unclosed #loc1").as_deref(), Some("\"unclosed #loc1"));
    }
}
