//! The device reports more memory than the tensors that are live at the peak.

use ttmem_model::difference;

use super::{Finding, MIN_SHARE, PoolAtPeak, Rule, Situation, Statement, Urgency};
use crate::analyze::live::live_set;
use crate::analyze::residue::{self, LeftBehind, Who};

pub(super) const RULE: Rule = Rule::new(&[NAME], Urgency::Change, find);

const NAME: &str = "unexplained";

fn find(situation: &Situation<'_>) -> Vec<Finding> {
    situation.main().and_then(|pool| look(situation, &pool)).into_iter().collect()
}

fn look(situation: &Situation<'_>, pool: &PoolAtPeak<'_>) -> Option<Finding> {
    let explained = pool.account.explained(pool.peak.at)?;
    let live = live_set(situation.rank, pool.account.id, pool.peak.at)?;
    let rest = u64::try_from(difference(pool.peak.per_bank, explained)).ok()?;
    // Without the size of every tensor, their sum explains nothing.
    if live.unknown > 0 || rest <= pool.account.pool.quantum || !pool.is_share(rest, MIN_SHARE) {
        return None;
    }
    let rows = residue::by_operation(situation.profile, pool.account, pool.peak.at);
    let most = rows.iter().filter(|row| kept(row) > 0).find(|row| row.op.is_some());
    let left = most.and_then(|row| Some((row.op?, row))).map_or_else(String::new, |(op, row)| {
        let (steps, s) = (row.steps.len(), if row.steps.len() == 1 { "" } else { "s" });
        let bytes = pool.label.per_bank(kept(row));
        format!("; {} retains {bytes} of it, allocated in {steps} step{s}", situation.op(op))
    });
    let found = Statement::new(format!("{}, is not explained by tensors{left}.", pool.share(rest)));
    let steps = most.map_or_else(Vec::new, |row| row.steps.clone());
    let is_cut_out = situation.rank.cut_out.is_some();
    Some(pool.finding(NAME, explain(found, pool, rest, &rows, is_cut_out)).steps(steps))
}

/// Adds the main source of the unexplained bytes, and what to do about it. In a pass that was cut out of a log, memory
/// allocated before the first step may be from earlier passes.
fn explain(
    found: Statement,
    pool: &PoolAtPeak<'_>,
    rest: u64,
    rows: &[LeftBehind],
    is_cut_out: bool,
) -> Statement {
    let sum = |is_counted: &dyn Fn(&LeftBehind) -> bool| {
        let rows = rows.iter().filter(|row| is_counted(row));
        rows.map(kept).fold(0, u64::saturating_add).min(rest)
    };
    let once = sum(&|row| !row.steps.is_empty() && row.first_uses == row.steps.len());
    let from_before = sum(&|row| row.who == Some(Who::Before));
    let half = rest / 2;
    if once > half {
        return found.advice(format!(
            "{} was allocated when an operation ran with new shapes and stays in the program cache. Use fewer \
             different shapes to keep the cache small.",
            pool.label.per_bank(once)
        ));
    }
    if from_before > half {
        let bytes = pool.label.per_bank(from_before);
        return found.detail(if is_cut_out {
            format!(
                "{bytes} was allocated before this pass. Run a summary of the whole log to see which operation \
                 allocated it."
            )
        } else {
            format!(
                "{bytes} was allocated before the first step, by arguments that no step used or by another program \
                 on the device."
            )
        });
    }
    found.advice("Compare --run 1 with --run last: if this memory grows, there is a leak.".to_owned())
}

fn kept(row: &LeftBehind) -> u64 {
    u64::try_from(row.per_bank).unwrap_or(0)
}
