//! The truth about a real card's log, with fewer and different fields.

use std::collections::BTreeMap;

use serde::Deserialize;
use ttmem::model::{Profile, StepMarks};
use ttmem::query::{PoolMoment, RankSummary, Request, summary};

use crate::truth::{Fields, QUANTUM};

#[derive(Deserialize)]
struct RealTruth {
    total_ops: u32,
    reported_ops: u32,
    pools: BTreeMap<String, RealPool>,
    explained_at_least: f64,
    #[serde(rename = "left_behind_MB_per_bank")]
    left_behind: BTreeMap<String, f64>,
    const_eval_programs: usize,
    arguments: usize,
}

#[derive(Deserialize)]
struct RealPool {
    banks: u32,
    capacity_per_bank: u64,
    #[serde(rename = "peak_MB_per_bank")]
    peak: f64,
    peak_at_seq: u32,
}

/// The `ttnn.reshape` steps that allocate nothing although their operand stays live (the folder's README).
const VIEWS: usize = 4;

/// Compares every field of the truth with a profile.
pub fn compare(profile: &Profile, json: &str) -> Result<Fields, String> {
    let truth: RealTruth = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let answer = summary(std::slice::from_ref(profile), &Request::default()).map_err(|e| e.to_string())?;
    let (Some(rank), Some(found)) = (profile.ranks.first(), answer.ranks.first()) else {
        return Err("the profile has no rank".into());
    };
    let mut fields = Fields::default();
    fields.same("operations", &truth.total_ops, &found.operations.total);
    fields.same("operations reported", &truth.reported_ops, &found.operations.reported);
    for (name, pool) in &truth.pools {
        compare_pool(&mut fields, name, pool, found);
    }
    let const_eval = rank.runs.iter().filter(|run| run.const_eval).count();
    fields.same("const-eval programs", &truth.const_eval_programs, &const_eval);
    let arguments: usize = rank.modules.iter().map(|module| module.arguments.len()).sum();
    fields.same("arguments", &truth.arguments, &arguments);
    let is_view = |step: u32, marks: StepMarks| {
        marks.has(StepMarks::VIEW) && profile.op_name(rank, step) == Some("ttnn.reshape")
    };
    let views = (0..).zip(&rank.steps.marks).filter(|(step, marks)| is_view(*step, **marks)).count();
    fields.same("views", &VIEWS, &views);
    if let Some(peak) = &found.peak {
        compare_peak(&mut fields, &truth, peak);
    }
    Ok(fields)
}

fn compare_pool(fields: &mut Fields, name: &str, truth: &RealPool, found: &RankSummary) {
    let Some(found) = found.pools.get(name) else {
        fields.judge(name, false, &"a pool", &"none");
        return;
    };
    fields.same(format!("{name} banks"), &Some(truth.banks), &found.banks);
    fields.near(format!("{name} capacity"), truth.capacity_per_bank, found.capacity_per_bank, QUANTUM);
    fields.near(format!("{name} peak"), bytes(truth.peak), found.peak_per_bank, QUANTUM);
    fields.same(format!("{name} peak_step"), &Some(truth.peak_at_seq), &found.peak_step);
}

fn compare_peak(fields: &mut Fields, truth: &RealTruth, peak: &PoolMoment) {
    let share =
        mebibytes(peak.explained_per_bank.unwrap_or(0)) / mebibytes(peak.allocated_per_bank.unwrap_or(0));
    fields.judge("explained", share >= truth.explained_at_least, &truth.explained_at_least, &share);
    let rows = peak.residue.iter().flatten();
    let by_op: Vec<(Option<&str>, f64)> =
        rows.map(|row| (row.op.as_deref(), mebibytes(row.per_bank.max(0).unsigned_abs()))).collect();
    for (op, &left) in truth.left_behind.iter().filter(|(op, _)| *op != "others") {
        let found: f64 = by_op.iter().filter(|(have, _)| *have == Some(op)).map(|(_, bytes)| bytes).sum();
        let holds = (found - left).abs() <= (left * 0.05).max(0.1);
        fields.judge(format!("residue {op}"), holds, &left, &found);
    }
}

#[allow(clippy::cast_precision_loss, reason = "sizes of banks are exact in a double")]
fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a printed number of MiB")]
fn bytes(mebibytes: f64) -> u64 {
    (mebibytes * f64::from(1 << 20)).round() as u64
}
