//! Reads the file row by row, and keeps the required parts of snapshots and operation calls.

use std::io::Read;

use serde_json::Value;

use super::time::{Printed, When};
use crate::json::{Json, JsonError, Parsed};

const MIB: f64 = 1_048_576.0;
/// The tolerance for a number of MiB, stored as a double, to count as a whole number of bytes.
const EXACT: f64 = 1e-3;

/// The parts of a file that are kept.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// The start of the tracker as Unix time.
    pub began: Option<u64>,
    pub snapshots: Vec<Snapshot>,
    pub calls: Vec<Invocation>,
    pub operations: Vec<FrameworkOperation>,
    /// The peak usage of each device, if the file states it. Between snapshots, usage may have been higher than in any
    /// of them.
    pub peaks: Vec<(String, u64)>,
    /// The number of calls of each operation, as stated by the file.
    pub counts: Vec<(String, u64)>,
    /// The rounding of sizes; 0 if they are exact.
    pub quantum: u64,
    pub skipped: Skipped,
}

/// The numbers of skipped rows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Skipped {
    /// Snapshots without a time or without sizes.
    pub snapshots: u64,
    /// Calls without a time.
    pub invocations: u64,
    /// Framework operations without a count, time or size.
    pub operations: u64,
    /// Parts with the wrong type.
    pub parts: u64,
}

/// The memory usage at one time.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub when: When,
    pub name: Option<String>,
    pub total: Option<u64>,
    /// The usage of each device; empty if the file does not contain it.
    pub devices: Vec<(String, u64)>,
}

/// One call of an operation.
#[derive(Debug)]
pub(super) struct Invocation {
    pub name: String,
    /// The start time; if it was not recorded, the printed time.
    pub when: When,
    pub duration: Option<u64>,
    pub thread: Option<String>,
    /// The name of the enclosing operation.
    pub parent: Option<String>,
    pub change: Option<i64>,
    /// The usage of all devices after it.
    pub after: Option<u64>,
    pub outcome: Option<Bytes>,
}

/// The effect of an operation on memory, if it was measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    pub allocated: u64,
    pub freed: u64,
    pub peak: u64,
    pub kept: u64,
    pub allocations: u64,
    pub frees: u64,
}

/// A profiler's totals of a framework operation.
#[derive(Debug)]
pub(super) struct FrameworkOperation {
    pub name: String,
    pub count: u64,
    pub cpu_time: u64,
    pub device_time: Option<u64>,
    pub cpu_bytes: i64,
    pub device_bytes: Option<i64>,
    pub shapes: Option<String>,
}

impl Document {
    /// Whether the file contains nothing to report.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.calls.is_empty() && self.operations.is_empty()
    }

    /// Reads the whole file. Everything before an error is kept.
    pub fn take_all(&mut self, json: &mut Json<impl Read>) -> Parsed<()> {
        let is_object = json.object(|json, key| match key.as_str() {
            "metadata" => {
                let value = object(json)?;
                self.began = value.get("began_unix_ns").and_then(Value::as_u64);
                Ok(())
            }
            "snapshots" => self.rows(json, Self::snapshot),
            "pytorch_operations" => self.rows(json, Self::operation),
            "operation_allocations" => self.entries(json, |document, json, name| {
                document.rows(json, |document, row| document.invocation(&name, row))
            }),
            "operation_summary" => self.entries(json, |document, json, name| {
                let count = object(json)?.get("invocation_count").and_then(Value::as_u64);
                document.counts.extend(count.map(|count| (name, count)));
                Ok(())
            }),
            "device_totals" => self.entries(json, |document, json, name| {
                let peak = object(json)?.get("peak_bytes").and_then(Value::as_u64);
                document.peaks.extend(peak.map(|peak| (name, peak)));
                Ok(())
            }),
            _ => json.skip(),
        })?;
        if is_object { Ok(()) } else { Err(JsonError::Syntax("expected an object")) }
    }

    /// Reads the rows of a list. Counts a value of another type as skipped.
    fn rows<R: Read>(&mut self, json: &mut Json<R>, mut take: impl FnMut(&mut Self, &Value)) -> Parsed<()> {
        let is_list = json.list(|json| {
            take(self, &object(json)?);
            Parsed::Ok(())
        })?;
        if is_list { Ok(()) } else { self.skip_part(json) }
    }

    /// Reads the entries of an object whose keys are names. Counts a value of another type as skipped.
    fn entries<R: Read>(
        &mut self,
        json: &mut Json<R>,
        take: fn(&mut Self, &mut Json<R>, String) -> Parsed<()>,
    ) -> Parsed<()> {
        let is_object = json.object(|json, name| take(self, json, name))?;
        if is_object { Ok(()) } else { self.skip_part(json) }
    }

    fn skip_part(&mut self, json: &mut Json<impl Read>) -> Parsed<()> {
        self.skipped.parts += 1;
        json.skip()
    }

    fn snapshot(&mut self, row: &Value) {
        let when = when(row, "time_ns");
        let devices: Vec<(String, u64)> = row
            .get("device_breakdown")
            .and_then(Value::as_object)
            .map(|devices| {
                let device = |(name, device): (&String, &Value)| Some((name.clone(), self.total(device)?));
                devices.iter().filter_map(device).collect()
            })
            .unwrap_or_default();
        let total = self.total(row);
        if !when.is_known() || (total.is_none() && devices.is_empty()) {
            self.skipped.snapshots += 1;
            return;
        }
        let name = text(row, "checkpoint_name").filter(|name| !name.is_empty());
        self.snapshots.push(Snapshot { when, name, total, devices });
    }

    /// `total_bytes`, otherwise `total_mb`.
    fn total(&mut self, row: &Value) -> Option<u64> {
        let exact = row.get("total_bytes").and_then(Value::as_u64);
        exact.or_else(|| u64::try_from(self.mebibytes(row.get("total_mb")?)?).ok())
    }

    fn invocation(&mut self, name: &str, row: &Value) {
        let when = when(row, "start_ns");
        if !when.is_known() {
            self.skipped.invocations += 1;
            return;
        }
        let bytes = |key: &str| row.get(key).and_then(Value::as_u64);
        let outcome = || {
            Some(Bytes {
                allocated: bytes("allocated_bytes")?,
                freed: bytes("freed_bytes")?,
                peak: bytes("peak_bytes")?,
                kept: bytes("kept_bytes")?,
                allocations: bytes("allocations")?,
                frees: bytes("frees")?,
            })
        };
        let change = row.get("memory_delta_bytes").and_then(Value::as_i64);
        let call = Invocation {
            name: name.to_owned(),
            when,
            // Without a start time, the duration cannot be placed on the timeline.
            duration: bytes("duration_ns").filter(|_| when.counted.is_some()),
            thread: text(row, "thread")
                .or_else(|| row.get("thread")?.as_u64().map(|number| number.to_string())),
            parent: text(row, "parent"),
            change: change.or_else(|| self.mebibytes(row.get("memory_delta_mb")?)),
            after: row
                .get("post_total_mb")
                .and_then(|after| self.mebibytes(after))
                .and_then(|after| u64::try_from(after).ok()),
            outcome: outcome(),
        };
        self.calls.push(call);
    }

    fn operation(&mut self, row: &Value) {
        let made = || {
            let microseconds = |key: &str| nanoseconds(row.get(key)?.as_f64()?);
            Some((text(row, "op_name")?, row.get("count")?.as_u64()?, microseconds("cpu_time_us")?))
        };
        let Some(((name, count, cpu_time), cpu_bytes)) =
            made().and_then(|made| Some((made, whole_mebibytes(row.get("cpu_memory_mb")?.as_f64()?)?)))
        else {
            self.skipped.operations += 1;
            return;
        };
        self.operations.push(FrameworkOperation {
            name,
            count,
            cpu_time,
            device_time: row.get("cuda_time_us").and_then(Value::as_f64).and_then(nanoseconds),
            cpu_bytes,
            device_bytes: row.get("cuda_memory_mb").and_then(Value::as_f64).and_then(whole_mebibytes),
            shapes: row.get("input_shapes").map(Value::to_string),
        });
    }

    /// Converts MiB to bytes, and records the rounding, if any.
    fn mebibytes(&mut self, value: &Value) -> Option<i64> {
        let number = value.as_f64()?;
        let bytes = whole_mebibytes(number)?;
        if (number * MIB - number_of(bytes)).abs() > EXACT {
            let text = value.to_string();
            let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len().min(9));
            let step = MIB / 10_f64.powi(i32::try_from(digits).unwrap_or(9));
            self.quantum = self.quantum.max(u64::try_from(whole(step.ceil())?).ok()?);
        }
        Some(bytes)
    }
}

/// The next value if it is an object; otherwise null, which has no entries.
fn object(json: &mut Json<impl Read>) -> Parsed<Value> {
    let value = serde_json::from_slice(json.value()?).ok();
    Ok(value.filter(Value::is_object).unwrap_or(Value::Null))
}

fn text(row: &Value, key: &str) -> Option<String> {
    row.get(key)?.as_str().map(str::to_owned)
}

fn when(row: &Value, counted: &str) -> When {
    When {
        printed: row.get("timestamp").and_then(Value::as_str).and_then(Printed::parse),
        counted: row.get(counted).and_then(Value::as_u64).map(i128::from),
    }
}

fn nanoseconds(microseconds: f64) -> Option<u64> {
    u64::try_from(whole((microseconds * 1e3).round())?).ok()
}

fn whole_mebibytes(mebibytes: f64) -> Option<i64> {
    whole((mebibytes * MIB).round())
}

/// An integer that a double represents exactly.
fn whole(number: f64) -> Option<i64> {
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "checked to be an integer within range")]
    (number.abs() <= MAX_EXACT).then_some(number as i64)
}

#[allow(clippy::cast_precision_loss, reason = "the value came from a double")]
fn number_of(bytes: i64) -> f64 {
    bytes as f64
}
