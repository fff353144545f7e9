//! Memory over time, for a chart: the memory held by a pool, by class, reduced to the resolution of the chart.
//!
//! The peak, its operation and the capacity are those of [`summary`]; the curve is the page's. The reduction loses no
//! peak: it keeps the first, the lowest, the highest and the last value of each pixel column.

use ttmem_model::rules::live::LiveSums;
use ttmem_model::{Class, Error, Moment, PoolId, Position, Profile, Rank, Result, Step};

use super::about::Extent;
use super::answer::RankSummary;
use super::phases::{Phases, PhasesRequest, phases};
use super::ranks::{ProcessFilter, in_order};
use super::summary::{Request, RunFilter, is_rank, summary};
use crate::analyze::{Account, Span, held};

/// The parameters of a chart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChartRequest {
    /// The pool to draw; `None` for the most important one.
    pub pool: Option<String>,
    /// The rank to draw; `None` for the first.
    pub rank: Option<String>,
    /// The process to draw, if several processes wrote the log.
    pub process: ProcessFilter,
    /// The runs to include.
    pub run: RunFilter,
    /// The width of the chart in pixels.
    pub columns: usize,
}

/// The content of a chart.
#[derive(Clone, Debug, PartialEq)]
pub enum Drawn {
    /// A pool over the steps.
    Steps(OverTime),
    /// Sessions over their phases, if the input has no steps.
    Phases(Phases),
}

/// A pool over the steps.
#[derive(Clone, Debug, PartialEq)]
pub struct OverTime {
    /// The input file.
    pub file: String,
    /// The rank's label.
    pub rank: Option<String>,
    /// The number of other ranks.
    pub other_ranks: usize,
    /// The pool.
    pub pool: String,
    /// The number of banks.
    pub banks: Option<u32>,
    /// The unit that sizes refer to.
    pub extent: Extent,
    /// The first position.
    pub first: Position,
    /// The last position.
    pub end: Position,
    /// The size of a bank.
    pub capacity_per_bank: Option<u64>,
    /// The highest value and its position.
    pub peak: Option<PeakOverTime>,
    /// The out-of-memory error that ended the program, if it is within the steps.
    pub oom: Option<OomOverTime>,
    /// The bytes held by a bank, at each change.
    pub points: Vec<PointOverTime>,
    /// The number of changes before the reduction.
    pub changes: usize,
    /// The size of the tensors of each class at each of the points; empty if a size is unknown.
    pub classes: Vec<ClassOverTime>,
    /// The phases that have steps.
    pub phases: Vec<PhaseOverTime>,
}

/// The highest use of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeakOverTime {
    /// The position in the run.
    pub position: Position,
    /// The bytes held by a bank.
    pub per_bank: u64,
    /// The step that caused it, and its operation.
    pub caused_by: Option<(Step, Option<String>)>,
}

/// An out-of-memory error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OomOverTime {
    /// The step that failed; `None` if unknown, after the last step.
    pub step: Option<Step>,
    /// The pool that ran out of memory, if it is another one.
    pub other_pool: Option<String>,
}

/// The bytes held by a bank from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointOverTime {
    /// The moment: position `i` has the sides `2i` and `2i + 1`.
    pub moment: usize,
    /// The bytes held.
    pub per_bank: u64,
}

/// A class over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassOverTime {
    /// The class.
    pub class: Class,
    /// The size of its tensors at each point.
    pub per_bank: Vec<u64>,
}

/// A phase and its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhaseOverTime {
    /// The name in the log or recording.
    pub name: String,
    /// The first step of the phase.
    pub first: Step,
    /// The step after its last.
    pub end: Step,
}

/// The content of a chart of a profile.
pub fn chart(profile: &Profile, request: &ChartRequest) -> Result<Drawn> {
    let ChartRequest { run, process, .. } = *request;
    let ask = Request { run, process, rank: request.rank.clone(), top: Some(1), ..Request::default() };
    let answers = summary(std::slice::from_ref(profile), &ask)?;
    let of_rank = |rank: &&Rank| {
        let label = rank.label.map(|label| profile.text(label));
        process.takes(rank) && request.rank.as_deref().is_none_or(|wanted| is_rank(label, wanted))
    };
    let first = in_order(profile).into_iter().filter(of_rank).zip(&answers.ranks).next();
    let Some((rank, answer)) = first else { return Err(nothing(profile)) };
    if answer.pools.iter().next().is_none() {
        if answer.sessions.is_empty() {
            return Err(nothing(profile));
        }
        if let Some(pool) = &request.pool {
            return Err(Error::NotFound(format!("no pool {pool}: the input has phases but no pools")));
        }
        let ask = PhasesRequest { rank: request.rank.clone(), ..PhasesRequest::default() };
        return phases(std::slice::from_ref(profile), &ask).map(Drawn::Phases);
    }
    let mut drawn = View { profile, rank, answer, request }.over_time()?;
    drawn.other_ranks = answers.ranks.len() - 1;
    Ok(Drawn::Steps(drawn))
}

fn nothing(profile: &Profile) -> Error {
    Error::NoMemoryData {
        file: profile.source.file.clone(),
        message: "nothing to draw; the input has neither pool readings nor phases. For a Tenstorrent log, run with \
                  TT_RUNTIME_MEMORY_LOG_LEVEL=operation"
            .into(),
    }
}

/// The rank to draw.
struct View<'a> {
    profile: &'a Profile,
    rank: &'a Rank,
    answer: &'a RankSummary,
    request: &'a ChartRequest,
}

impl View<'_> {
    fn over_time(&self) -> Result<OverTime> {
        let (id, name) = self.pool()?;
        let account = Account::new(self.rank, id).ok_or_else(|| nothing(self.profile))?;
        let span = self.span()?;
        let (points, changes) = self.points(&account, span);
        if points.is_empty() {
            return Err(nothing(self.profile));
        }
        let pool = self.answer.pools.get(&name);
        let moment = self.answer.peaks.get(&name);
        let peak = pool.and_then(|pool| {
            Some(PeakOverTime {
                position: pool.peak_step?,
                per_bank: pool.peak_per_bank?,
                caused_by: moment
                    .and_then(|moment| moment.caused_by.as_ref())
                    .map(|caused| (caused.step, caused.op.clone())),
            })
        });
        let oom = self.answer.oom.as_ref().map(|oom| OomOverTime {
            step: oom.step,
            other_pool: oom.pool.clone().filter(|pool| *pool != name),
        });
        let is_within = |(first, end): &(Step, Step)| *first < span.end && *end > span.first;
        let phase = |phase: &ttmem_model::Phase| {
            let (first, end) = phase.steps.filter(is_within)?;
            Some(PhaseOverTime { name: self.profile.text(phase.name).to_owned(), first, end })
        };
        Ok(OverTime {
            file: self.answer.file.clone(),
            rank: self.answer.rank.clone(),
            other_ranks: 0,
            banks: pool.and_then(|pool| pool.banks),
            extent: pool.map_or_else(|| Extent::of(&name, None), |pool| pool.extent),
            capacity_per_bank: pool.and_then(|pool| pool.capacity_per_bank).filter(|all| *all > 0),
            pool: name,
            first: span.first,
            end: span.end,
            peak,
            oom,
            classes: self.classes(id, &points),
            points,
            changes,
            phases: self.rank.phases.iter().filter_map(phase).collect(),
        })
    }

    fn pool(&self) -> Result<(PoolId, String)> {
        let names: Vec<&str> = self.rank.pools.iter().map(|pool| self.profile.text(pool.name)).collect();
        let main = self.answer.peak.as_ref().map(|peak| peak.pool.as_str());
        let wanted = self.request.pool.as_deref().or(main);
        let found = names.iter().position(|name| Some(*name) == wanted);
        match found.and_then(|index| Some((PoolId::new(index)?, names[index].to_owned()))) {
            Some(found) => Ok(found),
            None => Err(Error::NotFound(format!(
                "no pool {}: available pools are {}",
                wanted.unwrap_or_default(),
                names.join(", ")
            ))),
        }
    }

    fn span(&self) -> Result<Span> {
        super::summary::span(self.rank, &Request { run: self.request.run, ..Request::default() })
    }

    /// The curve within the span, reduced to the resolution of the chart, and the number of points before that.
    fn points(&self, account: &Account<'_>, span: Span) -> (Vec<PointOverTime>, usize) {
        let curve = held::over_time(account);
        let (start, last) = (span.start(), span.last(self.rank));
        let before = curve.value_at(start).map(|value| (start, value));
        let within = curve.changes().filter(|(at, _)| *at > start && *at <= last);
        let all: Vec<PointOverTime> = before
            .into_iter()
            .chain(within)
            .map(|(at, per_bank)| PointOverTime { moment: at.index(), per_bank })
            .collect();
        let moments = last.index() - start.index() + 1;
        (thinned(&all, start.index(), moments, self.request.columns.max(1)), all.len())
    }

    fn classes(&self, id: PoolId, points: &[PointOverTime]) -> Vec<ClassOverTime> {
        let tensors = &self.rank.tensors;
        let of_pool = || (0..tensors.len()).filter(|&index| tensors.pool[index] == id);
        if of_pool().any(|index| tensors.per_bank[index].get().is_none()) {
            return Vec::new();
        }
        let class = |class: &Class| {
            let of_class = of_pool().filter(|&index| tensors.class[index] == *class);
            let lives = of_class
                .map(|index| (tensors.born[index], tensors.dies[index], tensors.per_bank[index].or_zero()));
            let sums = LiveSums::of(lives);
            let mut cursor = sums.cursor();
            let at =
                |point: &PointOverTime| Moment::from_index(point.moment).and_then(|at| cursor.value_at(at));
            let per_bank: Vec<u64> = points.iter().map(at).map(|bytes| bytes.unwrap_or(0)).collect();
            per_bank.iter().any(|bytes| *bytes > 0).then_some(ClassOverTime { class: *class, per_bank })
        };
        Class::ALL.iter().filter_map(class).collect()
    }
}

/// Keeps the first, the lowest, the highest and the last point of each pixel column, in order.
pub(super) fn thinned(
    points: &[PointOverTime],
    start: usize,
    moments: usize,
    columns: usize,
) -> Vec<PointOverTime> {
    if points.len() <= columns.saturating_mul(4) {
        return points.to_vec();
    }
    let column = |point: &PointOverTime| (point.moment - start).saturating_mul(columns) / moments.max(1);
    let mut kept = Vec::new();
    for chunk in points.chunk_by(|a, b| column(a) == column(b)) {
        let place = |best: Option<(usize, &PointOverTime)>| best.map(|(index, _)| index);
        let rows = || chunk.iter().enumerate();
        let mut wanted = vec![0, chunk.len() - 1];
        wanted.extend(place(rows().min_by_key(|(_, point)| point.per_bank)));
        // The first of several equal maxima, as everywhere else.
        wanted.extend(place(rows().rev().max_by_key(|(_, point)| point.per_bank)));
        wanted.sort_unstable();
        wanted.dedup();
        kept.extend(wanted.into_iter().map(|index| chunk[index]));
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_extremes_of_each_column() {
        let value = |moment: usize| (moment as u64).wrapping_mul(2_654_435_761) % 1000;
        let all: Vec<PointOverTime> =
            (0..5000).map(|moment| PointOverTime { moment, per_bank: value(moment) }).collect();
        let kept = thinned(&all, 0, 5000, 50);
        assert!(kept.len() <= 200 && kept.len() > 100, "{}", kept.len());
        assert!(kept.windows(2).all(|pair| pair[0].moment < pair[1].moment));
        for column in 0..50 {
            let within = |points: &[PointOverTime]| -> Vec<u64> {
                let of_column = points.iter().filter(|point| point.moment / 100 == column);
                of_column.map(|point| point.per_bank).collect()
            };
            let (all, kept) = (within(&all), within(&kept));
            assert_eq!((all.iter().max(), all.iter().min()), (kept.iter().max(), kept.iter().min()));
            assert_eq!((all.first(), all.last()), (kept.first(), kept.last()));
        }
        assert_eq!(thinned(&all[..100], 0, 100, 50), &all[..100]);
        assert!(thinned(&[], 0, 1, 1).is_empty());
    }
}
