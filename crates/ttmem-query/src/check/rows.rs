//! What holds the memory that exceeds a limit, and the source lines of it.

use serde::Serialize;

use crate::answer::{Oom, PaddingSummary, PoolMoment};
use crate::groups::groups;
use crate::l1::L1Moment;
use crate::words::class_name;

/// The number of rows.
const MAX_ROWS: usize = 5;

/// A part of the memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldRow {
    /// Its name: tensors, a part of L1, or an operation that retained memory.
    pub what: String,
    /// Its size, in the unit of the limit.
    pub bytes: i64,
    /// What allocated it.
    pub allocated_by: Option<String>,
    /// The location of the first operation that did.
    pub loc: Option<String>,
}

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SourceLine {
    /// The file, as it is in the input.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

impl SourceLine {
    /// The line of a location: `train.py:28`, `train.py:28 in forward`, `"model.py":12:3`.
    pub(super) fn of(loc: &str) -> Option<Self> {
        let loc = loc.trim();
        let (file, rest) = match loc.strip_prefix('"') {
            Some(quoted) => {
                let (file, rest) = quoted.split_once('"')?;
                (file, rest.strip_prefix(':')?)
            }
            None => {
                let loc = loc.split_once(" in ").map_or(loc, |(place, _)| place);
                // A Windows path also has a colon; a column may follow the line.
                let at = loc.match_indices(':').map(|(at, _)| at).find(|at| {
                    loc[at + 1..]
                        .split(':')
                        .all(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
                })?;
                (&loc[..at], &loc[at + 1..])
            }
        };
        let line = rest.split(':').next()?.parse().ok().filter(|line| *line > 0)?;
        let name = file.rsplit(['/', '\\']).next()?;
        let is_file = name.contains('.') && !file.contains(['<', '"']) && !file.chars().any(char::is_control);
        is_file.then(|| Self { file: file.to_owned(), line })
    }
}

/// The largest tensors at a moment, similar ones in one row.
pub(super) fn of_moment(moment: Option<&PoolMoment>) -> Vec<HeldRow> {
    let live = moment.and_then(|moment| moment.live.as_deref()).unwrap_or_default();
    let known = groups(live).into_iter().filter_map(|group| Some((group.per_bank?, group)));
    let rows = known.take(MAX_ROWS).map(|(bytes, group)| {
        let class = class_name(group.first().class.as_str());
        HeldRow {
            what: group.title().unwrap_or_else(|| format!("1 tensor ({class})")),
            bytes: i64::try_from(bytes).unwrap_or(i64::MAX),
            allocated_by: Some(group.allocated_by()),
            loc: group.first().loc.clone(),
        }
    });
    rows.collect()
}

/// The parts of a core's L1.
pub(super) fn of_l1(moment: &L1Moment) -> Vec<HeldRow> {
    let row = |part: &crate::l1::L1Part| {
        let bytes = i64::try_from(part.bytes?).ok()?;
        Some(HeldRow { what: part.name.to_owned(), bytes, allocated_by: None, loc: None })
    };
    let mut rows: Vec<HeldRow> = moment.parts.iter().filter_map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.bytes));
    rows
}

/// The tensors with the most padding.
pub(super) fn of_padding(padding: &PaddingSummary) -> Vec<HeldRow> {
    let rows = padding.top.iter().filter(|tensor| tensor.overhead_bytes > 0).take(MAX_ROWS);
    let rows = rows.map(|tensor| HeldRow {
        what: format!(
            "{} {}",
            tensor.name.as_deref().unwrap_or("1 tensor"),
            crate::words::shape(&tensor.shape)
        ),
        bytes: i64::try_from(tensor.overhead_bytes).unwrap_or(i64::MAX),
        allocated_by: tensor.op.clone(),
        loc: tensor.loc.clone(),
    });
    rows.collect()
}

/// The operations that retained unexplained memory.
pub(super) fn of_residue(moment: &PoolMoment) -> Vec<HeldRow> {
    let rows = moment.residue.as_deref().unwrap_or_default().iter().take(MAX_ROWS);
    let rows = rows.map(|row| HeldRow {
        what: row.op.clone().or_else(|| row.note.map(str::to_owned)).unwrap_or_else(|| "unknown".into()),
        bytes: row.per_bank,
        allocated_by: None,
        loc: None,
    });
    rows.collect()
}

/// The parts of the device's memory that an error message states.
pub(super) fn of_ledger(oom: &Oom) -> Vec<HeldRow> {
    let parts = oom.ledger.as_ref().map_or(&[][..], |ledger| &ledger.parts);
    let rows = parts.iter().filter(|part| part.kind != "free").map(|part| HeldRow {
        what: part.label.clone(),
        bytes: i64::try_from(part.bytes).unwrap_or(i64::MAX),
        allocated_by: None,
        loc: None,
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_may_be_a_source_line() {
        let line = |loc: &str| SourceLine::of(loc).map(|line| (line.file, line.line));
        let some = |file: &str, line: u64| Some((file.to_owned(), line));
        assert_eq!(line("train.py:28"), some("train.py", 28));
        assert_eq!(line("/srv/my app/train.py:43:7"), some("/srv/my app/train.py", 43));
        assert_eq!(line("train.py:28 in forward"), some("train.py", 28));
        assert_eq!(line("\"model.py\":12:3"), some("model.py", 12));
        assert_eq!(line(r"C:\work\train.py:5"), some(r"C:\work\train.py", 5));
        for other in [
            "",
            ":",
            ":3",
            "\"subtract.3\"",
            "\"model.layers.0.attn\"",
            "<frozen runpy>:88",
            "<string>.x:1",
            "train.py:0",
            "train.py:",
            "train.py:99999999999999999999",
            "ttnn.add > BinaryNgDeviceOperation",
            "fused[\"a.py\":1:2, \"b\"]",
            "a\n.py:3",
            "alloc:3",
        ] {
            assert_eq!(line(other), None, "{other}");
        }
    }
}
