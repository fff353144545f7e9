//! Selects and orders the ranks of a response.

use std::cmp::Reverse;
use std::path::Path;
use std::str::FromStr;

use ttmem_model::{Profile, Rank, Source};

use super::operations::highest_peak;
use crate::analyze::oom;

/// The processes to include, if several processes wrote one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessFilter {
    /// All processes.
    #[default]
    All,
    /// The process with this number, from 1.
    Number(u32),
}

/// Parses `all` or a number.
impl FromStr for ProcessFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err("expected `all` or a process number, starting at 1".into()),
            },
        }
    }
}

impl ProcessFilter {
    /// Whether a rank belongs to an included process.
    pub fn takes(self, rank: &Rank) -> bool {
        match self {
            Self::All => true,
            Self::Number(number) => process(rank) == number,
        }
    }
}

/// The number of the process that wrote a rank, from 1.
pub fn process(rank: &Rank) -> u32 {
    rank.process.unwrap_or(1)
}

/// The ranks with content, by number. If several processes wrote the log, the ranks of the process that ran out of
/// memory come first, then those of the others, latest first.
pub fn in_order(profile: &Profile) -> Vec<&Rank> {
    let mut ranks: Vec<&Rank> = profile.ranks.iter().filter(|rank| rank.has_content()).collect();
    if ranks.len() > 1 && is_of_one_program(profile) {
        ranks.sort_by_cached_key(|rank| {
            let label = rank.label.map(|label| RankOrder::of(profile.text(label)));
            (severity(profile, rank), label)
        });
        return ranks;
    }
    let failed = |rank: &&&Rank| oom::fatal(rank).is_some();
    let leading = ranks.iter().filter(failed).map(|rank| process(rank)).max();
    ranks.sort_by_cached_key(|rank| {
        let label = rank.label.map(|label| RankOrder::of(profile.text(label)));
        (Some(process(rank)) != leading, Reverse(process(rank)), failed_at(rank), label)
    });
    ranks
}

/// The line of the error that ended a rank, if only errors are known about it: the rank that failed first comes first, because
/// the others often fail as a consequence.
pub(crate) fn failed_at(rank: &Rank) -> Option<u64> {
    oom::fatal(rank).filter(|_| rank.has_only_faults() && !rank.ledgers.is_empty()).map(|fault| fault.line)
}

/// The files in the order of their first ranks: the shell lists `rank10.log` before `rank2.log`. Files without a rank tag
/// stay where they are, unless no file has one and the names only differ in numbers.
pub fn files_in_order(profiles: &[Profile]) -> Vec<&Profile> {
    let rank = |profile: &Profile| {
        let first = in_order(profile).into_iter().next();
        first.and_then(|rank| rank.label).map(|label| RankOrder::of(profile.text(label)))
    };
    let mut tagged: Vec<(RankOrder, &Profile)> =
        profiles.iter().filter_map(|profile| Some((rank(profile)?, profile))).collect();
    if profiles.len() > 1 && are_of_one_program(profiles) {
        return by_severity(profiles);
    }
    if tagged.is_empty() {
        return by_numbers_in_names(profiles);
    }
    // Stable: files with the same first rank stay as given.
    tagged.sort_by(|(one, _), (other, _)| one.cmp(other));
    let mut tagged = tagged.into_iter().map(|(_, profile)| profile);
    let next = |profile| if rank(profile).is_some() { tagged.next().unwrap_or(profile) } else { profile };
    profiles.iter().map(next).collect()
}

/// Whether inputs are usually the ranks of one PyTorch program: snapshots, or recordings of processes.
pub(crate) fn are_of_one_program(profiles: &[Profile]) -> bool {
    let format = profiles.first().map(|profile| &profile.source.format);
    profiles.iter().all(|profile| is_of_one_program(profile) && Some(&profile.source.format) == format)
}

/// Whether all ranks of an input are those of one PyTorch program.
fn is_of_one_program(profile: &Profile) -> bool {
    match profile.source.format.as_str() {
        "torch_snapshot" => true,
        Source::RECORDING => profile.ranks.iter().all(|rank| rank.launch.is_some()),
        _ => false,
    }
}

/// The order of ranks: those that ran out of memory first, then those with the highest peaks.
fn severity(profile: &Profile, rank: &Rank) -> (bool, Reverse<Option<u64>>) {
    (oom::fatal(rank).is_none(), Reverse(highest_peak(profile, rank)))
}

/// The files of several ranks: those that ran out of memory first, then those with the highest peaks.
fn by_severity(profiles: &[Profile]) -> Vec<&Profile> {
    let mut sorted = by_numbers_in_names(profiles);
    sorted.sort_by_cached_key(|profile| {
        let worst = profile.ranks.iter().map(|rank| severity(profile, rank)).min();
        worst.unwrap_or((true, Reverse(None)))
    });
    sorted
}

/// The files by the numbers in their names, if the names are otherwise equal.
fn by_numbers_in_names(profiles: &[Profile]) -> Vec<&Profile> {
    let name = |profile: &Profile| {
        let name = Path::new(&profile.source.file).file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    let words = |profile: &Profile| -> Vec<String> {
        let name = name(profile);
        let words = name.split(|letter: char| letter.is_ascii_digit()).filter(|word| !word.is_empty());
        words.map(str::to_owned).collect()
    };
    let mut sorted: Vec<&Profile> = profiles.iter().collect();
    if profiles.windows(2).all(|pair| words(&pair[0]) == words(&pair[1])) {
        sorted.sort_by_cached_key(|profile| {
            let name = name(profile);
            let numbers =
                name.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
            numbers.map(Part::of).collect::<Vec<_>>()
        });
    }
    sorted
}

/// The order of rank labels: by number, so that `1,2` comes before `1,10`. A part that is not a number comes after all
/// numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RankOrder(Vec<Part>);

impl RankOrder {
    /// The place of a label.
    pub fn of(label: &str) -> Self {
        Self(label.split(',').map(|part| Part::of(part.trim())).collect())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Number(u64),
    Text(String),
}

impl Part {
    fn of(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Text(text.to_owned()), Self::Number)
    }
}

#[cfg(test)]
mod tests {
    use ttmem_model::{Builder, Event, RankEvent, RankId, Sink, StrId};

    use super::*;

    #[test]
    fn ranks_are_sorted_by_number() {
        let mut labels = ["x", "2,30", "10", "10,1", "a", "2", "1,10", "1,2"];
        labels.sort_by_cached_key(|label| RankOrder::of(label));
        assert_eq!(labels, ["1,2", "1,10", "2", "2,30", "10", "10,1", "a", "x"]);
    }

    /// The order of files with these names and the labels of their ranks.
    fn order<'a>(files: &[(&'a str, &[&str])]) -> Vec<&'a str> {
        let profile = |(file, labels): &(&str, &[&str])| {
            let id = |index| StrId::new(index).unwrap_or_else(|| panic!("a small number is an id"));
            let mut events = vec![Event::Text("DRAM".into())];
            let labels =
                if labels.is_empty() { vec![None] } else { labels.iter().copied().map(Some).collect() };
            for (index, label) in labels.into_iter().enumerate() {
                events.extend(label.map(|label| Event::Text(label.into())));
                events.push(Event::Rank { label: label.map(|_| id(index + 1)) });
                let pool = RankEvent::Pool { name: id(0), banks: Some(1), quantum: 0 };
                events.extend(RankId::new(index).map(|rank| Event::Of(rank, pool)));
            }
            let mut sink = Builder::new();
            for event in events {
                assert!(sink.take(event).is_ok());
            }
            let mut profile = sink.finish();
            profile.source.file = (*file).to_owned();
            profile
        };
        let profiles: Vec<Profile> = files.iter().map(profile).collect();
        let names = files_in_order(&profiles).into_iter().map(|profile| profile.source.file.clone());
        names.filter_map(|name| files.iter().map(|(file, _)| *file).find(|file| *file == name)).collect()
    }

    #[test]
    fn the_ranks_of_a_file_stay_together() {
        assert_eq!(order(&[("b", &["2"]), ("a", &["10"]), ("c", &["1"])]), ["c", "b", "a"]);
        assert_eq!(order(&[("b", &["1,0", "1,1"]), ("a", &["1,0", "1,1"])]), ["b", "a"]);
        // A file without a tag does not change the order of the others.
        assert_eq!(order(&[("b", &["2"]), ("x", &[]), ("c", &["1"])]), ["c", "x", "b"]);
    }

    #[test]
    fn files_without_tags_are_sorted_by_the_numbers_in_their_names() {
        let names = [("d/rank1.log", &[][..]), ("d/rank10.log", &[]), ("d/rank2.log", &[])];
        assert_eq!(order(&names), ["d/rank1.log", "d/rank2.log", "d/rank10.log"]);
        assert_eq!(order(&[("b2.log", &[]), ("a1.log", &[])]), ["b2.log", "a1.log"]);
        assert_eq!(order(&[("2/a.log", &[]), ("1/a.log", &[])]), ["2/a.log", "1/a.log"]);
    }
}
