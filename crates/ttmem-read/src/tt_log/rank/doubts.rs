//! What does not fit together in the lines of a rank: the numbers are reported, with what may be wrong with them.

use ttmem_model::{Result, Step};

use super::super::tables::Tables;

/// What was noticed and could not be resolved.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// How many operations are known by their state alone, and the line of the first.
    lost: (u64, Option<u64>),
    /// Falls between programs that nothing explains: how many, before which step the first is, and its bytes per bank.
    falls: (u64, Option<(Step, u64)>),
    /// By how many bytes per bank tensors add up to more than the device reports, at most, and before which step.
    excess: Option<(u64, Step)>,
    /// How many operands no operation in the log has made.
    undefined: u64,
    /// The line from which on a pool has another number or size of banks.
    other_banks: Option<u64>,
    /// How many cached results were loaded that no program in the log has computed.
    cached_before: usize,
    /// The bytes per bank of DRAM at its first state that belong to no tensor, and whether the log says where all arguments
    /// of the first program are.
    unexplained_at_first: Option<(u64, bool)>,
    /// The lines of the graphs that the last ambiguous program fits.
    ambiguous: Vec<u64>,
    /// How many programs fit none of the graphs.
    unmatched: u64,
}

impl Doubts {
    /// Notes an operation whose line is missing.
    pub fn lost_operation(&mut self, line: u64) {
        self.lost.0 += 1;
        self.lost.1.get_or_insert(line);
    }

    /// Notes that memory fell between programs, before a step, by more than their results explain.
    pub fn fall(&mut self, before: Step, per_bank: u64) {
        self.falls.0 += 1;
        self.falls.1.get_or_insert((before, per_bank));
    }

    /// Notes by how much tensors add up to more than the device reports before a step.
    pub fn excess(&mut self, per_bank: u64, before: Step) {
        if self.excess.is_none_or(|(known, _)| per_bank > known) {
            self.excess = Some((per_bank, before));
        }
    }

    /// Notes an operand that no operation has made.
    pub fn undefined_operand(&mut self) {
        self.undefined += 1;
    }

    /// Notes a state with another number or size of banks.
    pub fn other_banks(&mut self, line: u64) {
        self.other_banks.get_or_insert(line);
    }

    /// Notes cached results that no program in the log has computed.
    pub fn cached_before(&mut self, results: usize) {
        self.cached_before += results;
    }

    /// Notes bytes of DRAM that belong to no tensor at its first state; `are_arguments_placed` if the log says where all
    /// arguments of the first program are.
    pub fn unexplained_at_first(&mut self, per_bank: u64, are_arguments_placed: bool) {
        self.unexplained_at_first = Some((per_bank, are_arguments_placed));
    }

    /// Notes a program that fits several graphs, given by their lines. Reported once per group of graphs in a row.
    pub fn ambiguous(&mut self, program: &str, lines: Vec<u64>, tables: &mut Tables<'_>) -> Result<()> {
        if self.ambiguous == lines {
            return Ok(());
        }
        let places: Vec<String> = lines.iter().map(u64::to_string).collect();
        let message = format!(
            "program {program} fits the graphs printed at lines {} equally; their argument names are not used",
            places.join(" and ")
        );
        self.ambiguous = lines;
        tables.warn(None, message)
    }

    /// Notes a program that fits none of the graphs.
    pub fn unmatched(&mut self) {
        self.unmatched += 1;
    }

    /// Reports them.
    pub fn warn(&self, tables: &mut Tables<'_>) -> Result<()> {
        self.warn_of_the_beginning(tables)?;
        if let (lost, Some(line)) = self.lost {
            let operations = if lost == 1 {
                "the line of 1 operation is"
            } else {
                &format!("the lines of {lost} operations are")
            };
            let message = format!(
                "{operations} missing from the log, the first before this line; types and memory states are known, the \
                 tensors made or freed are not, so tensors listed as alive may already be freed"
            );
            tables.warn(Some(line), message)?;
        }
        if let (count, Some((step, bytes))) = self.falls {
            let falls = if count == 1 { "memory fell once" } else { &format!("memory fell {count} times") };
            let mib = mib(bytes);
            let message = format!(
                "{falls} between programs by more than their results explain (first by {mib} MiB per bank, before step \
                 {step}): tensors were freed outside programs, or this is a new process that was not detected"
            );
            tables.warn(None, message)?;
        }
        if let Some(line) = self.other_banks {
            let message = "the number or size of the banks of a pool changes here: this may be a new process that was not detected";
            tables.warn(Some(line), message)?;
        }
        if let Some((bytes, step)) = self.excess {
            let mib = mib(bytes);
            let message = format!(
                "tensors add up to {mib} MiB per bank more than the device reports before step {step}: lines are missing \
                 from the log, or a new process was not detected; some of the tensors listed as alive are not"
            );
            tables.warn(None, message)?;
        }
        if self.undefined > 0 {
            let operands = if self.undefined == 1 {
                "1 operand is"
            } else {
                &format!("{} operands are", self.undefined)
            };
            let message = format!(
                "{operands} not made by any operation in the log: lines are missing, and memory of the tensors they made \
                 is unexplained"
            );
            tables.warn(None, message)?;
        }
        match self.unmatched {
            0 => Ok(()),
            1 => {
                let message =
                    "1 program run matches none of the dumped graphs; the names of its arguments are unknown";
                tables.warn(None, message)
            }
            runs => {
                let message = format!(
                    "{runs} program runs match none of the dumped graphs; the names of their arguments are unknown"
                );
                tables.warn(None, message)
            }
        }
    }

    /// Reports memory that was allocated before the first line.
    fn warn_of_the_beginning(&self, tables: &mut Tables<'_>) -> Result<()> {
        let unexplained = self.unexplained_at_first.map(|(bytes, _)| {
            format!("{} MiB per bank of DRAM belong to no tensor in it at its first memory state", mib(bytes))
        });
        let are_arguments_placed =
            self.unexplained_at_first.is_some_and(|(_, are_arguments_placed)| are_arguments_placed);
        let message = match (self.cached_before, unexplained) {
            (0, None) => return Ok(()),
            (0, Some(unexplained)) if are_arguments_placed => format!(
                "the log begins inside a running process, or tensors were created before its first program: {unexplained}, \
                 so they are reported as unexplained"
            ),
            (0, Some(unexplained)) => format!(
                "the log does not say which arguments of its first program are on the device: {unexplained}, so they are \
                 reported as unexplained. They are arguments that no operation uses, tensors created before the program, or \
                 the log begins inside a running process"
            ),
            (results, unexplained) => {
                let results = if results == 1 {
                    "1 cached result".to_owned()
                } else {
                    format!("{results} cached results")
                };
                let unexplained =
                    unexplained.map_or_else(String::new, |unexplained| format!("; {unexplained}"));
                format!(
                    "the log begins inside a running process: no program in it computes {results} that it uses{unexplained}. \
                     Memory allocated before the first line is attributed only to tensors that the log names"
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
