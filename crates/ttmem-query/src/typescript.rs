//! Declarations in TypeScript of the types that pages read, made from the Rust types.

use std::collections::BTreeMap;
use std::fmt::Write;

use ts_rs::{Config, TS, TypeVisitor};

/// Declarations of types, each once, in the order of their names.
#[derive(Debug, Default)]
pub struct Declarations(BTreeMap<String, String>);

impl Declarations {
    /// Adds a type and all types that it is made of.
    pub fn add<T: TS + 'static + ?Sized>(&mut self) {
        self.visit::<T>();
    }

    /// A module that exports all of them.
    pub fn module(&self) -> String {
        let mut text =
            "// Made from the types in Rust by a test; `make bless` writes it anew. Do not edit.\n"
                .to_owned();
        for declaration in self.0.values() {
            text.push('\n');
            text.push_str(declaration);
        }
        text
    }
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // JSON has one kind of number. Sizes are below 2^53, as far as a page shows them.
        let config = Config::new().with_large_int("number");
        let name = T::ident(&config);
        // Types without a path of their own, as numbers, lists and maps, have no declaration.
        if T::output_path().is_none() || self.0.contains_key(&name) {
            return;
        }
        let declaration = format!("{}export {}", T::docs().unwrap_or_default(), T::decl(&config));
        self.0.insert(name, formatted(&declaration));
        T::visit_dependencies(self);
    }
}

/// A declaration with a line for each field, and comments of one line in one line.
fn formatted(declaration: &str) -> String {
    let mut text = String::new();
    let mut comment: Vec<&str> = Vec::new();
    let mut indent = "";
    for line in declaration.lines().map(str::trim) {
        if line == "/**" || !comment.is_empty() {
            comment.push(line);
            if line == "*/" {
                write_comment(&mut text, indent, &comment);
                comment.clear();
            }
            continue;
        }
        let (line, end) = match line.strip_suffix(" };") {
            Some(field) if !indent.is_empty() => (field, "};\n"),
            _ => (line, ""),
        };
        let _ = writeln!(text, "{indent}{line}");
        text.push_str(end);
        if line.ends_with('{') {
            indent = "  ";
        }
    }
    text
}

fn write_comment(text: &mut String, indent: &str, lines: &[&str]) {
    let _ = match lines {
        [_, line, _] => writeln!(text, "{indent}/** {} */", line.trim_start_matches("* ")),
        _ => lines.iter().try_for_each(|line| {
            let space = if line.starts_with('*') { " " } else { "" };
            writeln!(text, "{indent}{space}{line}")
        }),
    };
}
