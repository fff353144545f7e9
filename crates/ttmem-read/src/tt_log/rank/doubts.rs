//! What does not fit together in the lines of a rank: the numbers are reported, with what may be wrong with them.

use super::super::tables::Tables;
use ttmem_model::Result;
use ttmem_model::Step;

/// What was noticed and could not be resolved.
#[derive(Debug, Default)]
pub(super) struct Doubts {
    /// How many operations are known by their state alone, and the line of the first.
    pub lost: (u64, Option<u64>),
    /// Falls between programs that nothing explains: how many, before which step the first is, and its bytes per bank.
    pub falls: (u64, Option<(Step, u64)>),
    /// By how many bytes per bank tensors add up to more than the device reports, at most, and before which step.
    pub excess: Option<(u64, Step)>,
    /// How many operands no operation in the log has made.
    pub undefined: u64,
    /// The line from which on a pool has another number or size of banks.
    pub other_banks: Option<u64>,
}

impl Doubts {
    /// Reports them.
    pub fn warn(&self, tables: &mut Tables<'_>) -> Result<()> {
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
        Ok(())
    }
}

/// MiB with three decimals.
fn mib(bytes: u64) -> String {
    let thousandths = (u128::from(bytes) * 1000) >> 20;
    format!("{}.{:03}", thousandths / 1000, thousandths % 1000)
}
