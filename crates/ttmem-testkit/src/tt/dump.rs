//! Module dumps: the output of tt-xla during compilation, stage by stage.
//!
//! For the stages before TTIR, only signatures are dumped: their bodies contain nothing about memory.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;

use super::dialect::{Dialect, Loc};
use super::log::{Log, Source};
use super::options::Modules;
use super::print::{Spelling, write_op, write_tensor, write_types};
use super::program::{Effect, Function, Graph};
use super::tensor::TensorType;

/// The stages whose signatures are in the log.
const SIGNATURE_STAGES: [&str; 4] = ["vhlo", "shlo", "shlo_frontend", "shlo_compiler"];

/// Prints the output of compiling `graph`.
pub fn dump(log: &mut Log<'_>, graph: &Graph, dialect: Dialect, modules: Modules) -> io::Result<()> {
    if modules == Modules::None {
        return Ok(());
    }
    let mut stages: Vec<(&str, String)> = Vec::new();
    let signature =
        frame(graph, &mut Bare(dialect), |_, _, _| Ok(()), Private::Omit) + &Locs::default().definitions();
    stages.extend(SIGNATURE_STAGES.map(|stage| (stage, signature.clone())));
    if modules == Modules::Full {
        stages.push(("ttir", ttir(graph, dialect)));
        stages.push(("ttnn", ttnn(graph, dialect)));
    }
    for (number, (stage, text)) in stages.into_iter().enumerate() {
        let header = format!(
            "2026-03-16 10:31:07.{:03} (  12.345s) [        7F3A2B1C]     module_builder.cc:1278     1| \
             MLIR Module {stage}:",
            (number * 197 + graph.name.len() * 61) % 1000
        );
        log.raw(Source::Module, &header)?;
        for line in dialect.of_era(text).lines() {
            log.raw(Source::Module, line)?;
        }
        log.raw(Source::Module, "------------------ END OF MLIR MODULE ------------------")?;
    }
    Ok(())
}

/// Whether a stage contains the functions that the entry calls.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Private {
    Omit,
    Print,
}

/// The module around the functions; `body` writes the operations of a function.
fn frame<S: Spelling>(
    graph: &Graph,
    spelling: &mut S,
    body: impl Fn(&mut String, &Function, &mut S) -> fmt::Result,
    private: Private,
) -> String {
    let mut out = String::new();
    let mut write = || -> fmt::Result {
        writeln!(
            out,
            "module @{} attributes {{mhlo.cross_program_prefetches = [], \
             ttcore.meshes = #ttcore.meshes<[<\"mesh\" = 1x1>]>}} {{",
            graph.name
        )?;
        for (index, function) in graph.functions.iter().enumerate() {
            let is_entry = index == graph.entry;
            if is_entry || private == Private::Print {
                write_signature(&mut out, function, is_entry, spelling)?;
                body(&mut out, function, spelling)?;
                write_return(&mut out, function, spelling)?;
            }
        }
        out.push_str("} loc(#loc)\n");
        Ok(())
    };
    write().expect("a string takes every text");
    out
}

fn write_signature(
    out: &mut String,
    function: &Function,
    is_entry: bool,
    spelling: &mut dyn Spelling,
) -> fmt::Result {
    write!(out, "  func.func {}@{}(", if is_entry { "" } else { "private " }, function.name)?;
    for (index, argument) in function.arguments.iter().enumerate() {
        write!(out, "{}%arg{index}: ", if index == 0 { "" } else { ", " })?;
        write_tensor(out, &argument.tensor, spelling)?;
        if is_entry {
            write!(
                out,
                " {{ttcore.argument_type = #ttcore.argument_type<{}>, \
                 ttcore.shard_status = #ttcore.shard_status<unsharded>, ttir.name = \"{}\"}} \
                 loc(\"p{index}\")",
                argument.role.name(),
                argument.name
            )?;
        } else {
            out.push_str(" loc(unknown)");
        }
    }
    out.push_str(") -> (");
    for (index, value) in function.results.iter().enumerate() {
        out.push_str(if index == 0 { "" } else { ", " });
        write_types(out, function, std::slice::from_ref(value), spelling)?;
        out.push_str(if is_entry { " {jax.result_info = \"\"}" } else { "" });
    }
    out.push(')');
    out.push_str(if function.const_eval { " attributes {const_eval} {\n" } else { " {\n" });
    Ok(())
}

fn write_return(out: &mut String, function: &Function, spelling: &mut dyn Spelling) -> fmt::Result {
    out.push_str("    return ");
    for (index, &value) in function.results.iter().enumerate() {
        write!(out, "{}{}", if index == 0 { "" } else { ", " }, function.ssa(value))?;
    }
    out.push_str(if function.results.is_empty() { "" } else { " : " });
    write_types(out, function, &function.results, spelling)?;
    out.push_str(" loc(#loc)\n  } loc(#loc)\n");
    Ok(())
}

/// The stage with the operations, but without layouts, deallocations and hoisted functions.
fn ttir(graph: &Graph, dialect: Dialect) -> String {
    let mut spelling = Ttir { dialect, locs: Locs::default() };
    let body = |out: &mut String, function: &Function, spelling: &mut Ttir| {
        for op in &function.ops {
            let hidden = matches!(op.effect, Effect::Deallocate | Effect::GetDevice | Effect::LoadCached(_));
            if !hidden {
                let mut line = String::new();
                write_op(&mut line, graph, function, op, spelling)?;
                writeln!(out, "    {}", line.replace("\"ttnn.", "\"ttir."))?;
            }
        }
        Ok(())
    };
    let module = frame(graph, &mut spelling, body, Private::Omit);
    module + &spelling.locs.definitions()
}

/// The stage that the runtime executes, with every function.
fn ttnn(graph: &Graph, dialect: Dialect) -> String {
    let mut spelling = Aliased { dialect, numbers: BTreeMap::new(), locs: Locs::default() };
    let body = |out: &mut String, function: &Function, spelling: &mut Aliased| {
        for op in &function.ops {
            out.push_str("    ");
            write_op(out, graph, function, op, spelling)?;
            out.push('\n');
        }
        Ok(())
    };
    let module = frame(graph, &mut spelling, body, Private::Print);
    let mut out = String::new();
    for buffer in ["dram", "l1", "system_memory"] {
        writeln!(out, "#{buffer} = #ttnn.buffer_type<{buffer}>").expect("a string takes every text");
    }
    let mut layouts: Vec<(&String, &usize)> = spelling.numbers.iter().collect();
    layouts.sort_unstable_by_key(|&(_, number)| number);
    for (layout, &number) in layouts {
        let alias = layout_alias(number);
        writeln!(out, "{alias} = {}", short_buffer_types(layout)).expect("a string takes every text");
    }
    out + &short_buffer_types(&module) + &spelling.locs.definitions()
}

fn layout_alias(number: usize) -> String {
    if number == 0 { "#ttnn_layout".to_owned() } else { format!("#ttnn_layout{number}") }
}

fn short_buffer_types(text: &str) -> String {
    text.replace("#ttnn.buffer_type<dram>", "#dram")
        .replace("#ttnn.buffer_type<l1>", "#l1")
        .replace("#ttnn.buffer_type<system_memory>", "#system_memory")
}

/// The aliases of locations, numbered in order of first use.
#[derive(Debug, Default)]
struct Locs {
    numbers: BTreeMap<Loc, usize>,
    definitions: Vec<String>,
}

impl Locs {
    /// The alias of `loc`; the unknown one is `#loc`, and nested locations have their own aliases.
    fn alias(&mut self, loc: &Loc) -> String {
        if *loc == Loc::Unknown {
            return "#loc".to_owned();
        }
        if let Some(number) = self.numbers.get(loc) {
            return format!("#loc{number}");
        }
        let mut text = String::new();
        loc.write(&mut text, &mut |out, child| out.write_str(&self.alias(child)))
            .expect("a string takes every text");
        self.definitions.push(text);
        let number = self.definitions.len();
        self.numbers.insert(loc.clone(), number);
        format!("#loc{number}")
    }

    fn definitions(&self) -> String {
        let mut out = String::from("#loc = loc(unknown)\n");
        for (index, text) in self.definitions.iter().enumerate() {
            writeln!(out, "#loc{} = loc({text})", index + 1).expect("a string takes every text");
        }
        out
    }
}

/// No layouts and no locations: the stages before TTIR.
struct Bare(Dialect);

impl Spelling for Bare {
    fn dialect(&self) -> Dialect {
        self.0
    }

    fn layout(&mut self, _: &mut String, _: &TensorType) -> fmt::Result {
        Ok(())
    }

    fn loc(&mut self, out: &mut String, _: &Loc) -> fmt::Result {
        out.write_str("loc(#loc)")
    }
}

/// Locations, but no layouts.
struct Ttir {
    dialect: Dialect,
    locs: Locs,
}

impl Spelling for Ttir {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn layout(&mut self, _: &mut String, _: &TensorType) -> fmt::Result {
        Ok(())
    }

    fn loc(&mut self, out: &mut String, loc: &Loc) -> fmt::Result {
        write!(out, "loc({})", self.locs.alias(loc))
    }
}

/// Aliases for both.
struct Aliased {
    dialect: Dialect,
    /// The number of every layout so far.
    numbers: BTreeMap<String, usize>,
    locs: Locs,
}

impl Spelling for Aliased {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn layout(&mut self, out: &mut String, tensor: &TensorType) -> fmt::Result {
        let mut text = String::new();
        self.dialect.write_layout(&mut text, tensor)?;
        let next = self.numbers.len();
        let number = *self.numbers.entry(text).or_insert(next);
        write!(out, ", {}", layout_alias(number))
    }

    fn loc(&mut self, out: &mut String, loc: &Loc) -> fmt::Result {
        write!(out, "loc({})", self.locs.alias(loc))
    }
}
