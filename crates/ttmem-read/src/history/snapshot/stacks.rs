//! The distinct stacks of a snapshot.

use std::num::NonZeroU32;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// A source line in a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The function.
    pub function: String,
    /// The file, as reported by the program.
    pub file: String,
    /// The line number, from 1; 0 if unknown.
    pub number: u32,
}

impl Line {
    /// The name of an operation that allocates here, from the file name without its extension and the function:
    /// `linear.forward`. A graph of compiled code is named after its file: `compiled graph clcle66`.
    pub fn operation(&self) -> String {
        let file = self.file.rsplit(['/', '\\']).next().unwrap_or(&self.file);
        let stem = file.strip_suffix(".py").unwrap_or(file);
        if is_graph(stem) {
            format!("compiled graph {}", &stem[..7])
        } else {
            format!("{stem}.{}", self.function)
        }
    }
}

/// Whether a file without its extension is a graph that inductor wrote: `c` and a hash in base 32.
fn is_graph(stem: &str) -> bool {
    stem.len() == 52
        && stem.starts_with('c')
        && stem.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

/// A line in [`Stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LineIndex(u32);

impl LineIndex {
    /// The position among the lines, from 0.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A stack in [`Stacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StackIndex(NonZeroU32);

impl StackIndex {
    /// The stack at a position, from 0; `None` if it is too large.
    pub fn new(index: usize) -> Option<Self> {
        u32::try_from(index).ok()?.checked_add(1).and_then(NonZeroU32::new).map(Self)
    }

    /// The position among the stacks, from 0.
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The stacks of a snapshot.
#[derive(Debug, Default)]
pub struct Stacks {
    lines: Vec<Line>,
    all: Vec<Arc<[LineIndex]>>,
    by_lines: FxHashMap<Arc<[LineIndex]>, StackIndex>,
}

impl Stacks {
    /// The number of stacks.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a line. A snapshot has one object for each distinct line, so the caller knows which lines are the same.
    /// `None` if there are too many lines.
    pub fn add_line(&mut self, line: Line) -> Option<LineIndex> {
        let index = LineIndex(u32::try_from(self.lines.len()).ok()?);
        self.lines.push(line);
        Some(index)
    }

    /// Adds a stack of lines, innermost first; `None` if there are no lines or too many stacks.
    pub fn add(&mut self, lines: &[LineIndex]) -> Option<StackIndex> {
        if lines.is_empty() {
            return None;
        }
        if let Some(&known) = self.by_lines.get(lines) {
            return Some(known);
        }
        let stack = StackIndex::new(self.all.len())?;
        let lines: Arc<[LineIndex]> = lines.into();
        self.all.push(Arc::clone(&lines));
        self.by_lines.insert(lines, stack);
        Some(stack)
    }

    /// The indexes of a stack's lines, innermost first.
    pub fn indexes_of(&self, stack: StackIndex) -> &[LineIndex] {
        self.all.get(stack.index()).map_or(&[], |lines| lines)
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// The line at an index.
    pub fn line(&self, line: LineIndex) -> Option<&Line> {
        self.lines.get(line.0 as usize)
    }

    /// The lines of a stack, innermost first.
    pub fn lines_of(&self, stack: StackIndex) -> impl Iterator<Item = &Line> {
        self.indexes_of(stack).iter().filter_map(|line| self.line(*line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(function: &str, file: &str, number: u32) -> Line {
        Line { function: function.into(), file: file.into(), number }
    }

    #[test]
    fn a_stack_is_known_by_its_lines() {
        let mut stacks = Stacks::default();
        let [inner, outer] = ["inner", "outer"].map(|name| stacks.add_line(line(name, "a.py", 1)).unwrap());
        let both = stacks.add(&[inner, outer]).unwrap();
        assert_eq!(stacks.add(&[inner, outer]), Some(both));
        let other = stacks.add(&[outer, inner]).unwrap();
        assert_ne!(both, other);
        assert_eq!((stacks.add(&[]), stacks.len(), both.index(), other.index()), (None, 2, 0, 1));
        let names: Vec<&str> = stacks.lines_of(other).map(|line| line.function.as_str()).collect();
        assert_eq!(names, ["outer", "inner"]);
    }

    #[test]
    fn operations_are_named_after_file_and_function() {
        assert_eq!(line("forward", "/lib/torch/nn/linear.py", 9).operation(), "linear.forward");
        assert_eq!(line("main", r"C:\work\train.py", 9).operation(), "train.main");
        assert_eq!(line("<module>", "<stdin>", 1).operation(), "<stdin>.<module>");
        assert_eq!(line("f", "", 0).operation(), ".f");
        let graph = "/home/me/.cache/inductor/lc/clcle66numixfmo4m6teiox5yibnix555sqldxz7kwrrn3pqk7rs.py";
        assert_eq!(line("call", graph, 9).operation(), "compiled graph clcle66");
    }
}
