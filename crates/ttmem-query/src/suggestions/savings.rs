//! The savings of findings and of their combinations, by simulation.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ttmem_model::PoolId;

use super::{Combination, Effect, Finding, MIN_SHARE, PoolAtPeak, Rule, Situation};
use crate::analyze::simulation::{Change, Simulation};

/// Maximum number of suggestions in a combination.
const MAX_TOGETHER: usize = 4;

/// A finding with its rule and its saving.
#[derive(Debug)]
pub(super) struct Saved {
    pub rule: &'static Rule,
    pub finding: Finding,
    /// The reduction of the pool's peak per bank, if it is known and large enough to report.
    pub saves: Option<u64>,
}

/// Findings with their savings.
#[derive(Debug)]
pub(super) struct Computed<'a, 's> {
    situation: &'s Situation<'a>,
    /// The pools that the findings would change.
    pools: BTreeMap<PoolId, (PoolAtPeak<'a>, Simulation<'a>)>,
    pub findings: Vec<Saved>,
}

impl<'a, 's> Computed<'a, 's> {
    /// Simulates each finding alone, and drops those that save too little, unless memory ran out: a change may then help
    /// at the failure although the observed peak was before it.
    pub fn new(situation: &'s Situation<'a>, found: Vec<(&'static Rule, Finding)>) -> Self {
        let mut changes: BTreeMap<PoolId, Vec<Change>> = BTreeMap::new();
        for (_, finding) in &found {
            let effect = finding.effect.as_ref().filter(|effect| !effect.changes.is_empty());
            if let Some(effect) = effect {
                changes.entry(finding.pool).or_default().extend(&effect.changes);
            }
        }
        let simulation = |(id, changes): (PoolId, Vec<Change>)| {
            let pool = situation.pools.iter().copied().find(|pool| pool.account.id == id)?;
            Some((id, (pool, Simulation::new(pool.account, situation.span, &changes))))
        };
        let pools = changes.into_iter().filter_map(simulation).collect();
        let mut computed = Self { situation, pools, findings: Vec::new() };
        let findings = found.into_iter().filter_map(|(rule, finding)| computed.settle(rule, finding));
        computed.findings = findings.collect();
        computed
    }

    /// Computes the saving of a finding, and completes its sentences.
    fn settle(&self, rule: &'static Rule, mut finding: Finding) -> Option<Saved> {
        let Some(effect) = &finding.effect else { return Some(Saved { rule, finding, saves: None }) };
        let saves = self.saving(finding.pool, &effect.changes);
        let ran_out = || self.situation.ran_out(self.situation.pool_label(finding.pool).name);
        if saves.is_none() && !effect.changes.is_empty() && !ran_out() {
            return None;
        }
        finding.statement.advice = match saves {
            Some(saves) => Some(self.lowers(effect, finding.pool, saves)),
            None => effect.otherwise.clone(),
        };
        Some(Saved { rule, finding, saves })
    }

    /// The reduction of a pool's peak, per bank; `None` if it is too small to report.
    fn saving(&self, pool: PoolId, changes: &[Change]) -> Option<u64> {
        let (pool, simulation) = self.pools.get(&pool)?;
        let saving = simulation.saving(changes);
        (saving > pool.account.pool.quantum && pool.is_share(saving, MIN_SHARE)).then_some(saving)
    }

    /// `Storing it as bf16 lowers the peak by 146.3 MiB/bank (1.00 GiB on the device).`
    fn lowers(&self, Effect { how, is_exact, then, .. }: &Effect, pool: PoolId, saves: u64) -> String {
        let about = if *is_exact { "" } else { "about " };
        let saves = self.situation.pool_label(pool).with_total(saves);
        let then = then.as_deref().map_or_else(String::new, |then| format!(" {then}"));
        format!("{how} the peak by {about}{saves}.{then}")
    }

    /// Puts the most urgent first, then what saves most, and removes what is beyond the limits.
    pub fn rank(&mut self, max: usize) {
        self.findings.sort_by_key(|found| (found.rule.urgency, Reverse(found.saves)));
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        self.findings.retain(|found| {
            let count = counts.entry(found.rule.names.first().copied().unwrap_or_default()).or_default();
            *count += 1;
            *count <= found.rule.max
        });
        self.findings.truncate(max);
    }

    /// For each pool, what its best suggestion saves together with the one that adds most, and so on, as long as each
    /// adds enough to report.
    pub fn combinations(&self) -> Vec<Combination> {
        self.pools.keys().flat_map(|pool| self.combinations_in(*pool)).collect()
    }

    fn combinations_in(&self, id: PoolId) -> Vec<Combination> {
        let Some((pool, simulation)) = self.pools.get(&id) else { return Vec::new() };
        let mut others: Vec<(usize, &Effect)> = Vec::new();
        for (index, found) in self.findings.iter().enumerate() {
            if let Some(effect) = &found.finding.effect
                && found.finding.pool == id
                && found.saves.is_some()
            {
                others.push((index, effect));
            }
        }
        let mut combinations = Vec::new();
        if others.len() < 2 {
            return combinations;
        }
        let (first, effect) = others.remove(0);
        let (mut members, mut changes) = (vec![first], effect.changes.clone());
        let mut saves = self.findings.get(first).and_then(|found| found.saves).unwrap_or(0);
        while members.len() < MAX_TOGETHER {
            let with = |(_, effect): &(usize, &Effect)| {
                simulation.saving(&[changes.as_slice(), &effect.changes].concat())
            };
            let together = others.iter().map(with).enumerate();
            let best = together.max_by_key(|(place, saving)| (*saving, Reverse(*place)));
            let Some((place, saving)) = best.filter(|(_, saving)| {
                let added = saving.saturating_sub(saves);
                added > pool.account.pool.quantum && pool.is_share(added, MIN_SHARE)
            }) else {
                break;
            };
            let (index, effect) = others.remove(place);
            members.push(index);
            members.sort_unstable();
            changes.extend(&effect.changes);
            saves = saving;
            combinations.push(self.combination(pool, &members, saves));
        }
        combinations
    }

    fn combination(&self, pool: &PoolAtPeak<'_>, members: &[usize], saves: u64) -> Combination {
        let name = |index: &usize| self.findings.get(*index).map(|found| found.finding.name);
        Combination {
            suggestions: members.to_vec(),
            rules: members.iter().filter_map(name).collect(),
            pool: pool.label.name.to_owned(),
            saves_per_bank: saves,
            saves_bytes: pool.label.banks.and_then(|banks| saves.checked_mul(banks.into())),
            saves: pool.label.with_total(saves),
        }
    }
}
