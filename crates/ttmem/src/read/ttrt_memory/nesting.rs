//! Puts records back to where they ran.
//!
//! A record is written when its operation ends, so the records of a program that ran inside an operation (the results of a
//! const-eval program that are loaded for the first time, a call) stand before that operation's own, and nothing says so.
//! But names tell: every program numbers its results from `%0` on, and an operation follows the one before it in its own
//! program.

use crate::read::tt_log::operation::ParsedOp;

/// An operation, and those that ran inside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Call {
    /// The row of its record.
    pub row: usize,
    pub inside: Vec<Call>,
}

/// The operations of the outermost program, with those inside them.
pub(super) fn nested(operations: &[Option<ParsedOp<'_>>]) -> Vec<Call> {
    let mut open: Vec<Call> = Vec::new();
    for (row, operation) in operations.iter().enumerate() {
        let runs_a_program = operation.as_ref().is_some_and(|operation| operation.callee.is_some());
        let inside = match (runs_a_program, operation.as_ref().and_then(result)) {
            (true, Some(number)) => open.split_off(begin_of_inner(&open, operations, number)),
            _ => Vec::new(),
        };
        open.push(Call { row, inside });
    }
    open
}

/// Where in the operations so far a program begins that ran inside one whose result has that number.
fn begin_of_inner(open: &[Call], operations: &[Option<ParsedOp<'_>>], number: u64) -> usize {
    let number_of = |call: &Call| operations[call.row].as_ref().and_then(result);
    let Some(begin) = open.iter().rposition(|call| number_of(call) == Some(0)) else { return open.len() };
    let before = open[..begin].iter().rev().find_map(number_of);
    let follows = match number {
        0 => true,
        _ => before == Some(number - 1),
    };
    if follows { begin } else { open.len() }
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
        show(&nested(&operations))
    }

    #[test]
    fn programs_inside_are_found_by_their_numbers() {
        let (a, c) = (|number| ('a', Some(number)), |number| ('c', Some(number)));
        let free = ('a', None);
        // Nothing ran inside.
        assert_eq!(outline(&[a(0), a(1), free, c(2), a(3)]), "0 1 2 3 4");
        // A program of two operations, first thing.
        assert_eq!(outline(&[a(0), a(1), c(0), a(1)]), "2(0 1) 3");
        // Two of them, with the second found.
        assert_eq!(outline(&[a(0), c(0), a(0), free, c(1), a(2)]), "1(0) 4(2 3) 5");
        // Loaded again: it is there.
        assert_eq!(outline(&[a(0), c(0), c(1), a(2)]), "1(0) 2 3");
        // One inside another.
        assert_eq!(outline(&[a(0), a(0), a(0), c(1), c(1), a(2)]), "0 4(1 3(2)) 5");
    }
}
