//! Restores the execution order of records.
//!
//! A record is written when its operation ends. The records of a program that ran inside an operation (a const-eval
//! program whose results are loaded for the first time, or a call) therefore precede that operation's own record,
//! without any marker. Result names make the nesting visible: every program numbers its results from `%0`, and an
//! operation follows the previous one of its program.

use crate::tt_log::operation::ParsedOp;

/// The maximum nesting depth. Real programs do not nest deeper; deeper records are left in file order.
const MAX_DEPTH: usize = 32;

/// An operation and the operations that ran inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// The row of its record.
    pub row: usize,
    pub inside: Vec<Call>,
    /// The nesting depth of the programs inside it.
    depth: usize,
}

/// The operations so far that may have run inside a later one.
#[derive(Default)]
struct Open {
    calls: Vec<Call>,
    /// The positions where a program may begin, with the number of the preceding result.
    begins: Vec<(usize, Option<u64>)>,
    last: Option<u64>,
}

/// The operations of the outermost program, each with the operations inside it.
pub(super) fn nested(operations: &[Option<ParsedOp<'_>>]) -> Vec<Call> {
    let mut open = Open::default();
    for (row, operation) in operations.iter().enumerate() {
        let number = operation.as_ref().and_then(result);
        let runs_a_program = operation.as_ref().is_some_and(|operation| operation.callee.is_some());
        let inside = if runs_a_program { number.and_then(|number| open.take_inner(number)) } else { None };
        open.push(row, number, runs_a_program, inside.unwrap_or_default());
    }
    open.calls
}

impl Open {
    /// The operations of the program that ran inside the operation whose result has this number.
    fn take_inner(&mut self, number: u64) -> Option<Vec<Call>> {
        let &(begin, before) = self.begins.last()?;
        if number != 0 && before != Some(number - 1) {
            return None;
        }
        let depth = self.calls[begin..].iter().map(|call| call.depth).max().unwrap_or(0);
        if depth >= MAX_DEPTH {
            // Programs that began earlier contain these operations, so they are too deep as well.
            self.begins.clear();
            return None;
        }
        self.begins.pop();
        self.last = before;
        Some(self.calls.split_off(begin))
    }

    fn push(&mut self, row: usize, number: Option<u64>, runs_a_program: bool, inside: Vec<Call>) {
        // A const-eval program does not run other programs. A program that begins with one is the outermost program
        // again.
        if number == Some(0) && !runs_a_program {
            self.begins.push((self.calls.len(), self.last));
        }
        self.last = number.or(self.last);
        let depth = inside.iter().map(|call| call.depth + 1).max().unwrap_or(0);
        self.calls.push(Call { row, inside, depth });
    }
}

/// Splits the operations of the outermost program into runs: each run numbers its results from `%0`.
pub(super) fn runs(calls: Vec<Call>, operations: &[Option<ParsedOp<'_>>]) -> Vec<Vec<Call>> {
    let mut runs: Vec<Vec<Call>> = Vec::new();
    let mut has_results = false;
    for call in calls {
        let number = operations[call.row].as_ref().and_then(result);
        if runs.is_empty() || (number == Some(0) && has_results) {
            runs.push(Vec::new());
            has_results = false;
        }
        has_results |= number.is_some();
        if let Some(run) = runs.last_mut() {
            run.push(call);
        }
    }
    runs
}

/// The number of an operation's result: 5 for `%5` and for `%5:2`.
fn result(operation: &ParsedOp<'_>) -> Option<u64> {
    let digits = operation.result.strip_prefix(b"%")?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(calls: &[Call]) -> String {
        let one = |call: &Call| match call.inside.as_slice() {
            [] => call.row.to_string(),
            inside => format!("{}({})", call.row, show(inside)),
        };
        calls.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// `a` stands for a plain operation; `c` for one that runs a program.
    fn outline(records: &[(char, Option<u64>)]) -> String {
        let texts: Vec<String> = records
            .iter()
            .map(|(kind, number)| {
                let result = number.map_or_else(String::new, |number| format!("%{number} = "));
                match kind {
                    'c' => {
                        format!("{result}ttcore.load_cached(@f, [%arg0]) : (tensor<1xf32>) -> tensor<1xf32>")
                    }
                    _ => format!("{result}\"ttnn.add\"(%arg0) : (tensor<1xf32>) -> tensor<1xf32>"),
                }
            })
            .collect();
        let operations: Vec<_> = texts.iter().map(|text| ParsedOp::parse(text.as_bytes())).collect();
        assert!(operations.iter().all(Option::is_some), "{texts:?}");
        let runs = runs(nested(&operations), &operations);
        runs.iter().map(|run| show(run)).collect::<Vec<_>>().join(" | ")
    }

    #[test]
    fn programs_inside_are_found_by_their_numbers() {
        let (a, c) = (|number| ('a', Some(number)), |number| ('c', Some(number)));
        let free = ('a', None);
        // Nothing ran inside.
        assert_eq!(outline(&[a(0), a(1), free, c(2), a(3)]), "0 1 2 3 4");
        // A program of two operations, first thing.
        assert_eq!(outline(&[a(0), a(1), c(0), a(1)]), "2(0 1) 3");
        // Two of them; the second one is only found later.
        assert_eq!(outline(&[a(0), c(0), a(0), free, c(1), a(2)]), "1(0) 4(2 3) 5");
        // Loaded again: the result is cached.
        assert_eq!(outline(&[a(0), c(0), c(1), a(2)]), "1(0) 2 3");
        // The same program twice; its cached results exist the second time.
        assert_eq!(outline(&[a(0), c(0), a(1), c(0), a(1)]), "1(0) 2 | 3 4");
        assert_eq!(outline(&[a(0), a(1), a(0), a(1)]), "0 1 | 2 3");
        // A long list must not overflow the stack.
        let many: Vec<_> = (0..50_000).map(|_| a(0)).chain((0..50_000).map(|_| c(1))).collect();
        assert!(!outline(&many).is_empty());
        assert_eq!(outline(&vec![c(0); 1000]).matches('|').count(), 999);
        // One inside another.
        assert_eq!(outline(&[a(0), a(0), a(0), c(1), c(1), a(2)]), "0 4(1 3(2)) 5");
    }
}
