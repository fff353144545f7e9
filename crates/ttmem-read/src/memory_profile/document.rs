//! The file, row by row: what is kept of snapshots and of invocations of operations.

use std::io::Read;

use serde_json::Value;

use super::time::{Printed, When};
use crate::json::{Json, JsonError, Parsed};

const MIB: f64 = 1_048_576.0;
/// What a number of MiB may be off a whole number of bytes for being a double.
const EXACT: f64 = 1e-3;

/// All that is kept of a file.
#[derive(Debug, Default)]
pub(super) struct Document {
    /// Unix time of the tracker's beginning.
    pub began: Option<u64>,
    pub snapshots: Vec<Snapshot>,
    pub calls: Vec<Invocation>,
    pub operations: Vec<FrameworkOperation>,
    /// The highest use of each device, where the file states it: between snapshots it may have been higher than in any.
    pub peaks: Vec<(String, u64)>,
    /// How often operations ran, as the file adds it up.
    pub counts: Vec<(String, u64)>,
    /// How finely sizes are rounded; 0 where they are exact.
    pub quantum: u64,
    pub trouble: LeftOut,
}

/// Rows that were left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    /// Snapshots without a time or without sizes.
    pub snapshots: u64,
    /// Invocations without a time.
    pub invocations: u64,
    /// Framework operations without a count, time or size.
    pub operations: u64,
    /// Parts that are something else than they should be.
    pub parts: u64,
}

/// What was in memory when somebody looked.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub when: When,
    pub name: Option<String>,
    pub total: Option<u64>,
    /// What each device held; empty where the file does not say.
    pub devices: Vec<(String, u64)>,
}

/// An operation, once.
#[derive(Debug)]
pub(super) struct Invocation {
    pub name: String,
    /// When it began; where that was not counted, the time that was printed.
    pub when: When,
    pub duration: Option<u64>,
    pub thread: Option<String>,
    /// The name of the operation around it.
    pub parent: Option<String>,
    pub change: Option<i64>,
    /// What all devices held after it.
    pub after: Option<u64>,
    pub outcome: Option<Bytes>,
}

/// What an operation did to memory, where it was watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bytes {
    pub allocated: u64,
    pub freed: u64,
    pub peak: u64,
    pub kept: u64,
    pub allocations: u64,
    pub frees: u64,
}

/// What a profiler says of an operation of the framework.
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
    /// Whether nothing was read that could be told.
    pub fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.calls.is_empty() && self.operations.is_empty()
    }

    /// Reads all of it. What came before an error stays.
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

    /// Takes the rows of a list. Counts a value of another type.
    fn rows<R: Read>(&mut self, json: &mut Json<R>, mut take: impl FnMut(&mut Self, &Value)) -> Parsed<()> {
        let is_list = json.list(|json| {
            take(self, &object(json)?);
            Parsed::Ok(())
        })?;
        if is_list { Ok(()) } else { self.skip_part(json) }
    }

    /// Takes the entries of an object, whose keys are names. Counts a value of another type.
    fn entries<R: Read>(
        &mut self,
        json: &mut Json<R>,
        take: fn(&mut Self, &mut Json<R>, String) -> Parsed<()>,
    ) -> Parsed<()> {
        let is_object = json.object(|json, name| take(self, json, name))?;
        if is_object { Ok(()) } else { self.skip_part(json) }
    }

    fn skip_part(&mut self, json: &mut Json<impl Read>) -> Parsed<()> {
        self.trouble.parts += 1;
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
            self.trouble.snapshots += 1;
            return;
        }
        let name = text(row, "checkpoint_name").filter(|name| !name.is_empty());
        self.snapshots.push(Snapshot { when, name, total, devices });
    }

    /// `total_bytes`, or `total_mb` where there is none.
    fn total(&mut self, row: &Value) -> Option<u64> {
        let exact = row.get("total_bytes").and_then(Value::as_u64);
        exact.or_else(|| u64::try_from(self.mebibytes(row.get("total_mb")?)?).ok())
    }

    fn invocation(&mut self, name: &str, row: &Value) {
        let when = when(row, "start_ns");
        if !when.is_known() {
            self.trouble.invocations += 1;
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
            // What has no beginning has no length on the axis.
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
            self.trouble.operations += 1;
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

    /// The bytes of a number of MiB; and how finely it is rounded, where it is.
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

/// The next value, if it is an object; else null, which has no entries.
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

/// A whole number that a double holds exactly.
fn whole(number: f64) -> Option<i64> {
    const MOST: f64 = 9_007_199_254_740_992.0;
    #[allow(clippy::cast_possible_truncation, reason = "it is whole and not too large")]
    (number.abs() <= MOST).then_some(number as i64)
}

#[allow(clippy::cast_precision_loss, reason = "it came from a double")]
fn number_of(bytes: i64) -> f64 {
    bytes as f64
}
