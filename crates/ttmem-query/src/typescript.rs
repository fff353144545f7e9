//! TypeScript declarations of the types that pages read, generated from the Rust types.

use std::collections::BTreeMap;
use std::fmt::Write;

use ts_rs::{Config, TS, TypeVisitor};

/// Type declarations, sorted by name.
#[derive(Debug, Default)]
pub struct Declarations(BTreeMap<String, String>);

impl Declarations {
    /// Adds a type and all types that it refers to.
    pub fn add<T: TS + 'static + ?Sized>(&mut self) {
        self.visit::<T>();
    }

    /// A module that exports all types.
    pub fn module(&self) -> String {
        let mut text =
            "// Generated from the Rust types; `make bless` updates this file. Do not edit it.\n".to_owned();
        for declaration in self.0.values() {
            text.push('\n');
            text.push_str(declaration);
        }
        text
    }
}

impl TypeVisitor for Declarations {
    fn visit<T: TS + 'static + ?Sized>(&mut self) {
        // JSON has one kind of number. The sizes shown by a page are below 2^53.
        let config = Config::new().with_large_int("number");
        let name = T::ident(&config);
        // Types without a path, such as numbers, lists and maps, have no declaration.
        if T::output_path().is_none() || self.0.contains_key(&name) {
            return;
        }
        let declaration = format!("{}export {}", T::docs().unwrap_or_default(), T::decl(&config));
        self.0.insert(name, formatted(&declaration));
        T::visit_dependencies(self);
    }
}

/// Formats a declaration with one line per field, and short comments on one line.
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
        let mut rest = line;
        if let Some((head, fields)) = line.split_once(" = {") {
            let _ = writeln!(text, "{head} = {{");
            (indent, rest) = ("  ", fields);
        }
        for field in fields(rest) {
            let indent = if field == "};" { "" } else { indent };
            let _ = writeln!(text, "{indent}{field}");
        }
    }
    text
}

/// The fields of a line, each with its comma.
fn fields(line: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let ends_field = move |c: char| {
        match c {
            '<' | '[' | '(' => depth += 1,
            '>' | ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    line.split_inclusive(ends_field).map(str::trim).filter(|field| !field.is_empty())
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

#[cfg(test)]
mod tests {
    use super::formatted;

    #[test]
    fn each_field_has_a_line() {
        let made = "/**\n * A row.\n */\nexport type Row = { name: string, \n/**\n * Sizes,\n * by pool.\n */\npools: \
                    Record<string, number>, at?: Array<number | null>, };";
        let expected = "/** A row. */\nexport type Row = {\n  name: string,\n  /**\n   * Sizes,\n   * by pool.\n   */\n  \
                        pools: Record<string, number>,\n  at?: Array<number | null>,\n};\n";
        assert_eq!(formatted(made), expected);
        assert_eq!(formatted("export type Kind = \"a\" | \"b\";"), "export type Kind = \"a\" | \"b\";\n");
    }
}
