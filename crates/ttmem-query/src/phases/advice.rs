//! What helps a session that does not fit, and how sessions differ: numbers and the sentences about them.

use super::answer::{Advice, Comparison, SessionPhases};
use super::percent_of;
use crate::analyze::phases::{AtPeak, Held};
use crate::words::{brief, size};

/// Names have at most this many characters in a sentence.
const MAX_NAME: usize = 60;

/// Everything advice is computed from.
pub(super) struct Excess<'a> {
    /// The peak beyond the device.
    pub over: u64,
    /// What is in memory at the peak.
    pub at: AtPeak,
    /// What the gradients take, measured or else expected.
    pub gradients: Option<i64>,
    /// The phase that holds the peak.
    pub phase: &'a str,
}

impl Excess<'_> {
    pub fn advice(&self) -> Vec<Advice> {
        match self.activations() {
            Some(activations) if activations > 0 => vec![
                self.recomputation(activations),
                self.smaller_batch(activations),
                self.gradient_accumulation(activations),
            ],
            activations => vec![self.without_activations(activations)],
        }
    }

    /// What activations take at the peak; `None` where a figure of theirs is missing.
    fn activations(&self) -> Option<i64> {
        let known = |held: Held| match held {
            Held::Nothing => Some(0),
            held => held.bytes(),
        };
        Some(known(self.at.activations)?.saturating_add(known(self.at.activations_in_rise)?))
    }

    /// What the phase that holds the peak needed for itself, above what it kept, if that and the activations could be
    /// enough together: it grows with the batch as well, but it is unknown how much of it does.
    fn passing(&self, activations: i64) -> Option<i64> {
        let kept = self.at.activations_in_rise.bytes().unwrap_or(0);
        let passing = self.at.rise?.saturating_sub(kept.max(0));
        let over = i64::try_from(self.over).unwrap_or(i64::MAX);
        (passing > 0 && activations.saturating_add(passing) > over).then_some(passing)
    }

    /// An advice that says only what to do and why.
    fn of_kind(
        &self,
        kind: &'static str,
        activations: Option<i64>,
        headline: impl Into<String>,
        detail: String,
    ) -> Advice {
        let headline = headline.into();
        Advice {
            kind,
            message: format!("{headline}: {detail}"),
            headline,
            detail,
            must_save_bytes: self.over,
            activations_bytes: activations,
            can_suffice: None,
            activations_share_pct: None,
            micro_batches: None,
        }
    }

    /// What may stay of the activations, if nothing else changes and `more` comes on top.
    fn may_stay(&self, activations: i64, more: i64) -> Option<i64> {
        let over = i64::try_from(self.over).unwrap_or(i64::MAX);
        let rest = activations.saturating_sub(over).saturating_sub(more);
        (rest > 0).then_some(rest)
    }

    fn recomputation(&self, activations: i64) -> Advice {
        let enough = self.may_stay(activations, 0).is_some();
        let verdict = if enough {
            format!("that can be enough, if it saves {} of them", share(self.over, activations))
        } else {
            "that cannot be enough alone".to_owned()
        };
        let detail = format!(
            "it has to save more than {}, and activations take {} at the peak; {verdict}.",
            size(self.over),
            shown(activations)
        );
        let headline = "Recompute activations (gradient checkpointing)";
        let advice = self.of_kind("recomputation", Some(activations), headline, detail);
        Advice { can_suffice: Some(enough), ..advice }
    }

    fn smaller_batch(&self, activations: i64) -> Advice {
        let rest = self.may_stay(activations, 0);
        let passing = self.passing(activations).filter(|_| rest.is_none());
        let detail = match rest {
            _ if passing.is_some() => format!(
                "more than {} have to go, and activations take {} only; what {} needs besides while it \
                 runs ({}) shrinks with the batch as well, but it is unknown by how much.",
                size(self.over),
                shown(activations),
                brief(self.phase, MAX_NAME),
                shown(passing.unwrap_or(0))
            ),
            Some(rest) => format!(
                "activations grow with it, and would have to shrink below {} of what they take \
                 (to {}), so the batch to that share.",
                share(rest.unsigned_abs(), activations),
                shown(rest)
            ),
            None => format!(
                "more than {} have to go, and activations take {} only; it cannot be enough alone.",
                size(self.over),
                shown(activations)
            ),
        };
        Advice {
            can_suffice: passing.is_none().then_some(rest.is_some()),
            activations_share_pct: rest.and_then(|rest| percent_of(rest, activations)),
            ..self.of_kind("smaller_batch", Some(activations), "Reduce the batch", detail)
        }
    }

    /// Smaller batches, one after the other. From the second on, the gradients of the first are there as well.
    fn gradient_accumulation(&self, activations: i64) -> Advice {
        let kept = if self.at.gradients.is_there() { Some(0) } else { self.gradients };
        let rest = self.may_stay(activations, kept.unwrap_or(0).max(0));
        let passing = self.passing(activations).filter(|_| rest.is_none());
        // Activations of one in so many must be less than what may stay.
        let batches = rest.map(|rest| activations.unsigned_abs() / rest.unsigned_abs() + 1);
        let beside = match kept {
            Some(0) => String::new(),
            Some(kept) => format!(", beside the gradients ({}) that stay from the second on", shown(kept)),
            None => {
                ", not counting the gradients that stay from the second on: their size is not known".into()
            }
        };
        let detail = match (rest, batches) {
            (Some(rest), Some(batches)) => format!(
                "the same batch in {batches} or more micro-batches leaves activations below \
                 {}{beside}.",
                shown(rest)
            ),
            _ if passing.is_some() => format!(
                "smaller micro-batches save more than the activations, but it is unknown how much of \
                 what {} needs besides while it runs{beside}; more than {} have to go.",
                brief(self.phase, MAX_NAME),
                size(self.over)
            ),
            _ => format!(
                "however small the micro-batches, it cannot be enough alone{beside}; more than \
                 {} have to go.",
                size(self.over)
            ),
        };
        Advice {
            can_suffice: passing.is_none().then_some(rest.is_some()),
            micro_batches: batches,
            ..self.of_kind("gradient_accumulation", Some(activations), "Accumulate gradients", detail)
        }
    }

    /// The peak is reached where no activations are kept, or it is unknown how much they take.
    fn without_activations(&self, activations: Option<i64>) -> Advice {
        let over = size(self.over);
        let (headline, detail) = match activations {
            Some(_) => (
                format!(
                    "The peak is reached in {}, where forward passes keep nothing",
                    brief(self.phase, MAX_NAME)
                ),
                format!(
                    "recomputing activations or a smaller batch does not help. More than {over} have to go: fewer \
                     parameters, a narrower dtype, an optimizer with less state, or more devices."
                ),
            ),
            None => (
                format!("More than {over} have to go"),
                "what the activations take is not known, because a figure is missing; recomputing them or a smaller \
                 batch may or may not be enough."
                    .to_owned(),
            ),
        };
        self.of_kind("smaller_model", activations, headline, detail)
    }
}

/// Each session of a rank against the one that needs least.
pub(super) fn comparisons(sessions: &[SessionPhases]) -> Vec<Comparison> {
    let mut found = Vec::new();
    let mut ranks: Vec<Option<&str>> = Vec::new();
    for session in sessions {
        let rank = session.rank.as_deref();
        if ranks.contains(&rank) {
            continue;
        }
        ranks.push(rank);
        let of_rank: Vec<&SessionPhases> =
            sessions.iter().filter(|session| session.rank.as_deref() == rank).collect();
        let known = of_rank.iter().filter(|session| session.peak_bytes.is_some());
        let Some(least) = known.min_by_key(|session| session.peak_bytes).copied() else { continue };
        let others = of_rank.into_iter().filter(|session| session.label != least.label);
        found.extend(others.filter_map(|other| compared(least, other)));
    }
    found
}

fn compared(least: &SessionPhases, other: &SessionPhases) -> Option<Comparison> {
    let (low, high) = (least.peak_bytes?, other.peak_bytes?);
    let saves = high.saturating_sub(low);
    let activations = other
        .activations
        .measured_bytes
        .zip(least.activations.measured_bytes)
        .map(|(high, low)| high.saturating_sub(low));
    let saves_pct = percent_of(saves, high);
    let pct = saves_pct.map_or_else(String::new, |pct| format!(" ({pct:.1} %)"));
    let why = activations
        .filter(|saved| *saved > 0 && saves > 0)
        .map_or_else(String::new, |saved| format!("; its activations take {} less", shown(saved)));
    let (label, against) = (brief(&least.label, MAX_NAME), brief(&other.label, MAX_NAME));
    let message = if saves == 0 {
        format!("{label} and {against} need the same at their peaks: {}.", shown(low))
    } else {
        format!(
            "{label} saves {}{pct} at the peak against {against}: {} instead of {}{why}.",
            shown(saves),
            shown(low),
            shown(high)
        )
    };
    Some(Comparison {
        label: least.label.clone(),
        against: other.label.clone(),
        saves_bytes: saves,
        saves_pct,
        activations_saved_bytes: activations,
        message,
    })
}

/// A size that may be below nothing.
fn shown(bytes: i64) -> String {
    let sign = if bytes < 0 { "−" } else { "" };
    format!("{sign}{}", size(bytes.unsigned_abs()))
}

/// `35.1 %`.
fn share(part: u64, whole: i64) -> String {
    let part = i64::try_from(part).unwrap_or(i64::MAX);
    percent_of(part, whole).map_or_else(|| "a share".into(), |pct| format!("{pct:.1} %"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: i64 = 1 << 30;

    fn excess(over: i64, activations: Held, gradients: Option<i64>) -> Excess<'static> {
        let at = AtPeak {
            model: Held::Nothing,
            optimizer: Held::Nothing,
            gradients: Held::Nothing,
            activations,
            rise: Some(0),
            activations_in_rise: Held::Nothing,
        };
        Excess { over: over.unsigned_abs(), at, gradients, phase: "BACKWARD_PASS" }
    }

    #[test]
    fn activations_that_are_large_enough_can_be_saved() {
        let advice = excess(3 * GIB, Held::Bytes(9 * GIB), Some(2 * GIB)).advice();
        let kinds: Vec<&str> = advice.iter().map(|one| one.kind).collect();
        assert_eq!(kinds, ["recomputation", "smaller_batch", "gradient_accumulation"]);
        assert!(advice.iter().all(|one| one.can_suffice == Some(true)));
        assert_eq!(advice[1].activations_share_pct, Some(66.67));
        // 9 GiB in three are 3 GiB, and 9 − 3 − 2 = 4 may stay; in two they are 4.5.
        assert_eq!(advice[2].micro_batches, Some(3));
    }

    /// The limit itself does not fit: what may stay must be more than nothing, and parts must be below it.
    #[test]
    fn what_is_just_not_enough_is_said() {
        let advice = excess(3 * GIB, Held::Bytes(3 * GIB), Some(0)).advice();
        assert!(advice.iter().all(|one| one.can_suffice == Some(false)), "{advice:?}");
        assert!(advice.iter().all(|one| one.message.contains("cannot be enough alone")), "{advice:?}");
        let exact = excess(2 * GIB, Held::Bytes(4 * GIB), Some(0)).advice();
        assert_eq!(exact[2].micro_batches, Some(3), "two would reach the limit exactly");
    }

    #[test]
    fn a_forward_pass_that_holds_the_peak_has_its_own_activations() {
        let mut forward = excess(GIB, Held::Nothing, None);
        forward.at.activations_in_rise = Held::Bytes(5 * GIB);
        let advice = forward.advice();
        assert_eq!(advice[0].activations_bytes, Some(5 * GIB));
        assert!(advice[2].message.contains("not known"), "{}", advice[2].message);
    }

    #[test]
    fn what_a_forward_pass_needs_besides_may_shrink_with_the_batch() {
        let mut forward = excess(3 * GIB, Held::Nothing, Some(0));
        (forward.at.activations_in_rise, forward.at.rise) = (Held::Bytes(2 * GIB), Some(9 * GIB));
        let advice = forward.advice();
        let verdicts: Vec<Option<bool>> = advice.iter().map(|one| one.can_suffice).collect();
        assert_eq!(verdicts, [Some(false), None, None]);
        assert!(advice[1].message.contains("7.00 GiB"), "{}", advice[1].message);
        // A torn figure is not nothing.
        forward.at.activations_in_rise = Held::Unknown;
        assert!(forward.advice()[0].message.contains("is not known"));
    }

    #[test]
    fn where_nothing_is_kept_a_smaller_batch_is_no_advice() {
        for (activations, words) in [(Held::Nothing, "keep nothing"), (Held::Unknown, "is not known")] {
            let advice = excess(GIB, activations, None).advice();
            assert_eq!(advice.len(), 1);
            assert!(advice[0].message.contains(words), "{}", advice[0].message);
        }
    }
}
