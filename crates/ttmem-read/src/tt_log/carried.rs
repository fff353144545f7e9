//! The lines that `ttmem last-run` writes into a cut-out: what the reader knew where the last pass begins.
//!
//! A log of one pass alone does not say what was on the device before it. So in front of the pass stands what the
//! reader of the whole log knew there, a line for each thing; whoever reads the cut-out takes it up (`rank::handover`) and
//! goes on as if it had read all that was cut away. Other programs pass such lines over.
//!
//! ```text
//! ttmem | const-eval of an earlier pass: {}                   the program that starts next ran earlier
//! ttmem | pool: {"name":"DRAM","banks":12, …}                 what a pool held
//! ttmem | carried over: {"ssa":"%arg0","program":"main", …}   a tensor that is alive
//! ttmem | cached: {"function":"f","results":[0,null], …}      what is kept for a const-eval program or a trace
//! ttmem | results: {"tensors":[3]}                            what an earlier run returned
//! ttmem | made from: {"tensor":4,"sources":[0]}               of what something was computed
//! ttmem | told before: {"message":"Out of Memory: …"}         an error that is not new when it is told again
//! ttmem | last pass: {"pass":2,"of":2}                        here it begins
//! ```
//!
//! Tensors are numbered by their lines, from 0, and const-eval programs by theirs.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use ttmem_model::{Class, Step};

/// What begins every line of ours.
pub(super) const MARK: &[u8] = b"ttmem | ";

/// A line of ours that says something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    ConstEval,
    Pool(Pool),
    Tensor(Box<Tensor>),
    Cached(Cached),
    Results(Results),
    MadeFrom(MadeFrom),
    Told(Told),
    LastPass(LastPass),
}

/// What a pool held when the last program before had ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pool {
    pub name: String,
    pub banks: Option<u32>,
    pub capacity: u64,
    /// What it should hold since the last program ended.
    pub level: Option<u64>,
    /// What it held when it was last looked at.
    pub observed: Option<u64>,
    /// What happened since the last program, if that was seen already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap: Option<i64>,
}

/// A tensor that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tensor {
    pub ssa: String,
    pub program: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub class: Class,
    /// The whole type with its layout.
    #[serde(rename = "type")]
    pub ty: String,
    /// What it takes of each bank.
    pub per_bank: Option<u64>,
    /// The step that made it, if its program is in the cut-out; then operation and location are that step's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loc: Option<String>,
    /// Its further names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// How many names and caches hold it.
    pub holders: u32,
    /// Which programs have it as an argument.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<ArgumentOf>,
    /// Which arguments of graphs it goes back to: the graph's number and the argument's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<(usize, u32)>,
}

/// That a tensor is an argument of a program: of a function of a graph that was printed, or by the program's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum ArgumentOf {
    Function { graph: usize, function: Option<usize>, number: u32 },
    Program { program: String, number: u32 },
}

/// What a const-eval program or a trace has left behind, to be asked for again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Cached {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// The operation that captured a trace, whole; such an entry has no function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// The const-eval program that made them, if it is in the cut-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<usize>,
    /// The results; null for what is not on the device.
    pub results: Vec<Option<usize>>,
}

/// What one earlier run returned and may still be there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Results {
    pub tensors: Vec<usize>,
}

/// What a const-eval result was computed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct MadeFrom {
    pub tensor: usize,
    pub sources: Vec<usize>,
}

/// An error of an earlier pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Told {
    pub message: String,
}

/// Where the pass begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LastPass {
    pub pass: u32,
    pub of: u32,
}

/// That a line looks like one of ours and is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The words in front of what is said. `Line::parse` and `Line::write` use the same.
const CONST_EVAL: &str = "const-eval of an earlier pass";
const POOL: &str = "pool";
const TENSOR: &str = "carried over";
const CACHED: &str = "cached";
const RESULTS: &str = "results";
const MADE_FROM: &str = "made from";
const TOLD: &str = "told before";
const LAST_PASS: &str = "last pass";

impl Line {
    /// Understands what stands behind the mark; `None` for words that are for people, or of a newer ttmem.
    pub fn parse(text: &[u8]) -> Option<Result<Self, Malformed>> {
        let colon = memchr::memmem::find(text, b": {")?;
        let content = &text[colon + 2..];
        Some(match str::from_utf8(&text[..colon]).ok()? {
            CONST_EVAL => Ok(Self::ConstEval),
            POOL => json(content).map(Self::Pool),
            TENSOR => json(content).map(Self::Tensor),
            CACHED => json(content).map(Self::Cached),
            RESULTS => json(content).map(Self::Results),
            MADE_FROM => json(content).map(Self::MadeFrom),
            TOLD => json(content).map(Self::Told),
            LAST_PASS => json(content).map(Self::LastPass),
            _ => return None,
        })
    }

    /// Writes it as a line behind the tag of its rank.
    pub fn write(&self, tag: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let (words, content) = match self {
            Self::ConstEval => (CONST_EVAL, Ok("{}".to_owned())),
            Self::Pool(pool) => (POOL, serde_json::to_string(pool)),
            Self::Tensor(tensor) => (TENSOR, serde_json::to_string(tensor)),
            Self::Cached(cached) => (CACHED, serde_json::to_string(cached)),
            Self::Results(results) => (RESULTS, serde_json::to_string(results)),
            Self::MadeFrom(made) => (MADE_FROM, serde_json::to_string(made)),
            Self::Told(told) => (TOLD, serde_json::to_string(told)),
            Self::LastPass(pass) => (LAST_PASS, serde_json::to_string(pass)),
        };
        out.write_all(tag)?;
        out.write_all(MARK)?;
        writeln!(out, "{words}: {}", content?)
    }
}

fn json<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Malformed> {
    serde_json::from_slice(text).map_err(|_| Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Vec<Line> {
        let function = ArgumentOf::Function { graph: 1, function: Some(0), number: 3 };
        let whole = ArgumentOf::Function { graph: 1, function: None, number: 3 };
        let program = ArgumentOf::Program { program: "main".into(), number: 4 };
        vec![
            Line::ConstEval,
            Line::Pool(Pool { name: "DRAM".into(), banks: Some(12), observed: Some(7), ..Pool::default() }),
            Line::Tensor(Box::new(Tensor {
                ssa: "%arg3".into(),
                program: "main".into(),
                name: Some("a \"quoted\"\nname".into()),
                class: Class::Weight,
                ty: "tensor<1xf32>".into(),
                per_bank: None,
                step: Some(3),
                op: None,
                loc: None,
                also: vec!["%1".into()],
                holders: 2,
                arguments: vec![function, whole, program],
                origins: vec![(0, 3)],
            })),
            Line::Cached(Cached {
                function: Some("f".into()),
                hash: None,
                trace: None,
                run: Some(0),
                results: vec![Some(0), None],
            }),
            Line::Results(Results { tensors: vec![0] }),
            Line::MadeFrom(MadeFrom { tensor: 1, sources: vec![0, 2] }),
            Line::Told(Told { message: "Out of Memory".into() }),
            Line::LastPass(LastPass { pass: 2, of: 3 }),
        ]
    }

    #[test]
    fn a_line_comes_back_as_it_was_written() {
        for line in lines() {
            let mut written = Vec::new();
            line.write(b"[1,0]<stdout>:", &mut written).unwrap();
            assert_eq!(memchr::memchr_iter(b'\n', &written).count(), 1, "a line is one line");
            let text = written.strip_prefix(b"[1,0]<stdout>:ttmem | ").unwrap();
            assert_eq!(Line::parse(text.trim_ascii_end()), Some(Ok(line)));
        }
    }

    #[test]
    fn what_is_cut_is_malformed_and_what_is_not_ours_is_passed_over() {
        for line in lines().into_iter().skip(1) {
            let mut written = Vec::new();
            line.write(b"", &mut written).unwrap();
            let text = &written[MARK.len()..written.len() - 1];
            let brace = text.iter().position(|byte| *byte == b'{').unwrap();
            for end in brace + 1..text.len() {
                assert_eq!(Line::parse(&text[..end]), Some(Err(Malformed)), "{}", text[..end].escape_ascii());
            }
        }
        for text in ["", "the last pass of a.log: pass 1 of 2", "of a newer ttmem: {}", ": {}", "pool"] {
            assert_eq!(Line::parse(text.as_bytes()), None, "{text}");
        }
    }
}
