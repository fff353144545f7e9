//! Inconsistencies in the lines of a rank. The numbers are reported, with a warning about what may be wrong.

use ttmem_model::words::{by_count, counted, counted_as};
use ttmem_model::{Result, Step};

use super::super::tables::Tables;

/// Unresolved inconsistencies.
#[derive(Debug, Default)]
pub(super) struct Inconsistencies {
    /// The number of operations known only by their state, and the line of the first.
    lost: (u64, Option<u64>),
    /// Unexplained drops of usage between programs: their number, and the step and bytes per bank of the first.
    falls: (u64, Option<(Step, u64)>),
    /// The maximum excess of tensors over the reported usage, in bytes per bank, and the step after it.
    excess: Option<(u64, Step)>,
    /// The number of operands that are not the result of any operation in the log.
    undefined: u64,
    /// The line where a pool's number or size of banks changes.
    other_banks: Option<u64>,
    /// The number of cached results loaded that no program in the log has computed.
    cached_before: usize,
    /// The bytes per bank of DRAM at its first state that do not belong to a tensor, and whether the log shows the
    /// location of all arguments of the first program.
    unexplained_at_first: Option<(u64, bool)>,
    /// The lines of the graphs that the last ambiguous program matches.
    ambiguous: Vec<u64>,
    /// The number of programs that match none of the graphs.
    unmatched: u64,
}

impl Inconsistencies {
    /// Records an operation whose line is missing.
    pub fn lost_operation(&mut self, line: u64) {
        self.lost.0 += 1;
        self.lost.1.get_or_insert(line);
    }

    /// Records that usage dropped between programs, before a step, by more than their results explain.
    pub fn fall(&mut self, before: Step, per_bank: u64) {
        self.falls.0 += 1;
        self.falls.1.get_or_insert((before, per_bank));
    }

    /// Records the excess of tensors over the reported usage before a step.
    pub fn excess(&mut self, per_bank: u64, before: Step) {
        if self.excess.is_none_or(|(known, _)| per_bank > known) {
            self.excess = Some((per_bank, before));
        }
    }

    /// Records an operand that is not the result of any operation.
    pub fn undefined_operand(&mut self) {
        self.undefined += 1;
    }

    /// Records a state with a different number or size of banks.
    pub fn other_banks(&mut self, line: u64) {
        self.other_banks.get_or_insert(line);
    }

    /// Records cached results that no program in the log has computed.
    pub fn cached_before(&mut self, results: usize) {
        self.cached_before += results;
    }

    /// Records bytes of DRAM that do not belong to a tensor at its first state; `are_arguments_placed` if the log shows
    /// the location of all arguments of the first program.
    pub fn unexplained_at_first(&mut self, per_bank: u64, are_arguments_placed: bool) {
        self.unexplained_at_first = Some((per_bank, are_arguments_placed));
    }

    /// Records a program that matches several graphs, given by their lines. Warns once per group of graphs in a row.
    pub fn ambiguous(&mut self, program: &str, lines: Vec<u64>, tables: &mut Tables<'_>) -> Result<()> {
        if self.ambiguous == lines {
            return Ok(());
        }
        let places: Vec<String> = lines.iter().map(u64::to_string).collect();
        let message = format!(
            "program {program} matches the graphs at lines {} equally well, so argument names are not used",
            places.join(" and ")
        );
        self.ambiguous = lines;
        tables.warn(None, message)
    }

    /// Records a program that matches none of the graphs.
    pub fn unmatched(&mut self) {
        self.unmatched += 1;
    }

    /// Emits the warnings.
    pub fn warn(&self, tables: &mut Tables<'_>) -> Result<()> {
        self.warn_of_the_beginning(tables)?;
        if let (lost, Some(line)) = self.lost {
            let missing = match lost {
                1 => "the line of an operation before this line is missing from the log".to_owned(),
                _ => format!(
                    "the lines of {lost} operations are missing from the log, the first before this line"
                ),
            };
            let message = format!(
                "{missing}; types and memory states are known, but not the tensors that were allocated or freed, so \
                 tensors listed as live may already be freed"
            );
            tables.warn(Some(line), message)?;
        }
        if let (count, Some((step, bytes))) = self.falls {
            let falls =
                if count == 1 { "usage dropped once" } else { &format!("usage dropped {count} times") };
            let mib = mib(bytes);
            let message = format!(
                "{falls} between programs by more than their results explain (first by {mib} MiB per bank, before \
                 step {step}); tensors were freed between programs, or a new process was not detected"
            );
            tables.warn(None, message)?;
        }
        if let Some(line) = self.other_banks {
            let message = "the number or size of a pool's banks changes here; if a new process begins, later numbers \
                           may be wrong";
            tables.warn(Some(line), message)?;
        }
        if let Some((bytes, step)) = self.excess {
            let mib = mib(bytes);
            let message = format!(
                "tensors add up to {mib} MiB per bank more than the device reports before step {step}; lines are \
                 missing from the log, or a new process was not detected, so some tensors listed as live are already \
                 freed"
            );
            tables.warn(None, message)?;
        }
        if self.undefined > 0 {
            let message = format!(
                "{} not the result of any operation in the log; lines are missing, and the memory of {} is \
                 unexplained",
                counted_as(self.undefined, "operand is", "operands are"),
                by_count(self.undefined, "that tensor", "those tensors")
            );
            tables.warn(None, message)?;
        }
        if self.unmatched > 0 {
            let message = format!(
                "{} none of the dumped graphs; the names of {} arguments are unknown",
                counted_as(self.unmatched, "program run matches", "program runs match"),
                by_count(self.unmatched, "its", "their")
            );
            tables.warn(None, message)?;
        }
        Ok(())
    }

    /// Warns about memory that was allocated before the first line.
    fn warn_of_the_beginning(&self, tables: &mut Tables<'_>) -> Result<()> {
        let unexplained = self.unexplained_at_first.map(|(bytes, _)| {
            format!(
                "{} MiB per bank of DRAM does not belong to any tensor at the first memory state",
                mib(bytes)
            )
        });
        let are_arguments_placed =
            self.unexplained_at_first.is_some_and(|(_, are_arguments_placed)| are_arguments_placed);
        let message = match (self.cached_before, unexplained) {
            (0, None) => return Ok(()),
            (0, Some(unexplained)) if are_arguments_placed => format!(
                "the log does not include the start of the process, or tensors were created before its first program; \
                 {unexplained} and is reported as unexplained"
            ),
            (0, Some(unexplained)) => format!(
                "the log does not show which arguments of its first program are on the device; {unexplained} and is \
                 reported as unexplained. It may be arguments that no operation uses or tensors created before the \
                 program, or the log may not include the start of the process"
            ),
            (results, unexplained) => {
                let results = counted(results, "cached result");
                let unexplained =
                    unexplained.map_or_else(String::new, |unexplained| format!("; {unexplained}"));
                format!(
                    "the log does not include the start of the process; it uses {results} that no program in the log \
                     computes{unexplained}. Memory allocated before the first line is only attributed to tensors \
                     that the log names"
                )
            }
        };
        tables.warn(None, message)
    }
}

/// MiB with three decimals.
fn mib(bytes: u64) -> String {
    let thousandths = (u128::from(bytes) * 1000) >> 20;
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}
