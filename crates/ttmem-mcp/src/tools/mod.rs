//! The tools, one file each.

mod alive_at;
mod diff;
mod explain_failure;
mod find;
mod growth;
mod largest;
mod list_files;
mod open;
mod series;
mod suggestions;
mod summary;

use rmcp::model::JsonObject;
use serde_json::{Value, json};

use crate::answer::{Answer, Failure};
use crate::link::link;
use crate::profiles::Chosen;
use crate::session::Call;
use crate::text;

/// A tool.
#[derive(Debug)]
pub(crate) struct Tool {
    pub name: &'static str,
    pub title: &'static str,
    pub description: &'static str,
    pub parameters: &'static [Parameter],
    pub call: fn(&Call<'_>) -> Result<Answer, Failure>,
}

/// A parameter of a tool.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub name: &'static str,
    pub description: &'static str,
    kind: Kind,
    pub required: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    /// A whole number, at least the first and at most the second.
    Number(u64, Option<u64>),
    /// A whole number or a text.
    Step,
}

const fn text(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, description, kind: Kind::Text, required: false }
}

const fn required(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, description, kind: Kind::Text, required: true }
}

const fn number(name: &'static str, least: u64, most: Option<u64>, description: &'static str) -> Parameter {
    Parameter { name, description, kind: Kind::Number(least, most), required: false }
}

const PROFILE: Parameter = required("profile", "The handle that `open` returned, such as p1.");
const RANK: Parameter = text(
    "rank",
    "The rank, such as 0 or 1,0 (default: the one that ran out of memory or has the highest peak).",
);
const PROCESS: Parameter =
    number("process", 1, None, "The process, if several wrote the log, starting at 1 (`open` lists them).");
const POOL: Parameter = text("pool", "The memory pool, such as DRAM, L1 or cuda:0 (default: the main pool).");
const LIMIT: Parameter = number("limit", 1, Some(50), "The number of rows (default: 20).");
const CURSOR: Parameter = text("cursor", "`next_cursor` of the same call, for the next rows.");

/// All tools, in the order of their use.
pub(crate) const TOOLS: &[Tool] = &[
    list_files::TOOL,
    open::TOOL,
    summary::TOOL,
    explain_failure::TOOL,
    suggestions::TOOL,
    largest::TOOL,
    alive_at::TOOL,
    find::TOOL,
    series::TOOL,
    growth::TOOL,
    diff::TOOL,
];

impl Tool {
    /// The parameter with that name.
    pub fn parameter(&self, name: &str) -> Option<&'static Parameter> {
        self.parameters.iter().find(|parameter| parameter.name == name)
    }

    /// The JSON schema of the arguments.
    pub fn schema(&self) -> JsonObject {
        let property = |parameter: &Parameter| {
            let mut schema = match parameter.kind {
                Kind::Text => json!({"type": "string"}),
                Kind::Number(least, None) => json!({"type": "integer", "minimum": least}),
                Kind::Number(least, Some(most)) => {
                    json!({"type": "integer", "minimum": least, "maximum": most})
                }
                Kind::Step => json!({"type": ["integer", "string"]}),
            };
            schema["description"] = parameter.description.into();
            (parameter.name.to_owned(), schema)
        };
        let properties: JsonObject = self.parameters.iter().map(property).collect();
        let required = self.parameters.iter().filter(|parameter| parameter.required);
        let required: Vec<&str> = required.map(|parameter| parameter.name).collect();
        let mut schema = JsonObject::new();
        schema.insert("type".into(), "object".into());
        schema.insert("properties".into(), properties.into());
        schema.insert("required".into(), required.into());
        schema.insert("additionalProperties".into(), false.into());
        schema
    }
}

/// A response about a rank, with everything that all such responses have.
struct Response<'a> {
    call: &'a Call<'a>,
    chosen: Chosen<'a>,
    object: JsonObject,
    lines: Vec<String>,
    /// The caveats of this response, in addition to those of the rank.
    caveats: Vec<String>,
}

impl<'a> Response<'a> {
    /// A response with the profile and the rank.
    fn new(call: &'a Call<'a>, chosen: Chosen<'a>) -> Self {
        let mut object = JsonObject::new();
        object.insert("profile".into(), chosen.opened.handle.as_str().into());
        object.insert("rank".into(), chosen.rank.rank.as_deref().into());
        object.insert("process".into(), chosen.rank.process.into());
        Self { call, chosen, object, lines: Vec::new(), caveats: Vec::new() }
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.object.insert(name.into(), value.into());
    }

    fn line(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// Adds a link to a moment on the page.
    fn link(&mut self, pool: Option<&str>, step: Option<u32>) {
        let page = link(self.chosen, &self.call.session.roots, pool, step);
        let line = match (&page["url"], &page["command"], &page["fragment"]) {
            (Value::String(url), ..) => format!("Page: {url}"),
            // An input without pools has no moments.
            (_, Value::String(command), Value::String(fragment)) if fragment == "#" => {
                format!("Page: run `{command}`")
            }
            (_, Value::String(command), Value::String(fragment)) => {
                format!("Page: run `{command}`, then append {fragment} to its address")
            }
            _ => String::new(),
        };
        self.line(line);
        self.set("page", page);
    }

    /// The response with its caveats.
    fn done(mut self) -> Answer {
        let opened = self.chosen.opened;
        let mut caveats = opened.summary.caveats(self.chosen.rank);
        caveats.append(&mut self.caveats);
        if opened.is_stale() {
            caveats.insert(
                0,
                "The file has changed since it was opened; call `open` again for its new state.".into(),
            );
        }
        self.lines.extend(text::caveats(&caveats));
        self.set("caveats", caveats);
        Answer { structured: Value::Object(self.object), text: self.lines.join("\n") }
    }
}

/// The pool that a call selects, otherwise the main pool.
fn pool_of(call: &Call<'_>, chosen: Chosen<'_>) -> Result<String, Failure> {
    let names = || chosen.rank.pools.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    match call.arguments.text("pool")? {
        Some(pool) if chosen.rank.pools.get(pool).is_some() => Ok(pool.to_owned()),
        Some(pool) => {
            let pool = crate::arguments::shown(pool);
            Err(Failure(format!("no pool {pool}: available pools are {}", names())))
        }
        None => {
            let main = chosen.rank.peak.as_ref().map(|peak| peak.pool.clone());
            main.ok_or_else(|| {
                Failure::new(
                    "the input has no memory pools; `summary` shows what it has instead (phases, errors)",
                )
            })
        }
    }
}

#[cfg(test)]
mod tests;
