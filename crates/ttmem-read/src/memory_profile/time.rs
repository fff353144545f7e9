//! Times in the file: timestamps with or without a time zone, and nanoseconds since the tracker started.

use jiff::Timestamp;
use jiff::civil::DateTime;

/// A printed timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Printed {
    /// Nanoseconds of the printed clock, in any time zone.
    wall: i128,
    /// Nanoseconds of Unix time, if a time zone was printed.
    unix: Option<i128>,
}

impl Printed {
    /// Parses `2025-01-13T10:29:45.123456`, with or without a time zone.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        // `Z` means that the local time zone is unknown, so only the printed time is used.
        let civil: DateTime = text.strip_suffix(['Z', 'z']).unwrap_or(text).parse().ok()?;
        let wall = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_nanosecond();
        Some(Self { wall, unix: text.parse().ok().map(Timestamp::as_nanosecond) })
    }
}

/// The time of an event: as printed, as counted, or both.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct When {
    pub printed: Option<Printed>,
    /// Nanoseconds since the tracker started.
    pub counted: Option<i128>,
}

impl When {
    /// Whether a time is known.
    pub fn is_known(self) -> bool {
        self.printed.is_some() || self.counted.is_some()
    }
}

/// Converts times to nanoseconds since the first of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// All timestamps have time zones and are compared by Unix time.
    has_zones: bool,
    /// The offset to subtract from a timestamp to get nanoseconds since the tracker started.
    shift: i128,
    /// The offset to subtract from those so that no time is negative.
    start: i128,
    /// The start of the tracker as Unix time.
    began: Option<i128>,
}

impl Clock {
    /// A clock for all times of a file. `began` is the Unix time when counted times start.
    pub fn new(began: Option<u64>, times: impl Iterator<Item = When> + Clone) -> Self {
        let printed = || times.clone().filter_map(|when| when.printed);
        let has_zones = printed().next().is_some() && printed().all(|printed| printed.unix.is_some());
        let mut clock = Self { has_zones, shift: 0, start: 0, began: began.map(i128::from) };
        let both = times.clone().filter_map(|when| Some(clock.reading(when.printed?) - when.counted?));
        clock.shift = match (clock.began, has_zones) {
            (Some(began), true) => began,
            // Without a time zone, events with both a printed and a counted time give the offset between the clocks. A
            // call's time is printed when it ends, so it is late by its duration, and the minimum is used.
            _ => both.min().or_else(|| printed().map(|printed| clock.reading(printed)).min()).unwrap_or(0),
        };
        if clock.began.is_none() && has_zones && times.clone().all(|when| when.counted.is_none()) {
            clock.began = Some(clock.shift);
        }
        clock.start = times.filter_map(|when| clock.since_began(when)).min().unwrap_or(0).min(0);
        clock
    }

    fn reading(&self, printed: Printed) -> i128 {
        printed.unix.filter(|_| self.has_zones).unwrap_or(printed.wall)
    }

    fn since_began(&self, when: When) -> Option<i128> {
        when.counted.or_else(|| Some(self.reading(when.printed?) - self.shift))
    }

    /// Nanoseconds since the first time in the file, or since the tracker started if that was earlier.
    pub fn time(&self, when: When) -> Option<u64> {
        u64::try_from(self.since_began(when)? - self.start).ok()
    }

    /// The Unix time of 0; `None` if no time zone was printed.
    pub fn began(&self) -> Option<u64> {
        u64::try_from(self.began? + self.start).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> When {
        When { printed: Printed::parse(text), counted: None }
    }

    fn times(began: Option<u64>, times: &[When]) -> (Option<u64>, Vec<Option<u64>>) {
        let clock = Clock::new(began, times.iter().copied());
        (clock.began(), times.iter().map(|when| clock.time(*when)).collect())
    }

    #[test]
    fn without_a_zone_order_and_differences_are_as_printed() {
        let given = ["2025-03-30T01:59:59", "2025-03-30T03:00:00.5", "nonsense"].map(printed);
        // If the clock was put forward here, only one second has passed, but the file does not say so.
        assert_eq!(times(None, &given), (None, vec![Some(0), Some(3_601_500_000_000), None]));
    }

    #[test]
    fn with_zones_time_is_unix_time() {
        let given = ["2025-01-13T10:00:00+01:00", "2025-01-13T09:00:01Z"].map(printed);
        let (began, found) = times(None, &given);
        assert_eq!(found, [Some(0), Some(1_000_000_000)]);
        assert_eq!(began, Some(1_736_758_800_000_000_000));
    }

    #[test]
    fn what_is_counted_says_where_the_printed_clock_stands() {
        let both = |text: &str, counted| When { counted: Some(counted), ..printed(text) };
        // The second one was printed when it ended, half a second after it began.
        let given = [
            both("2025-01-13T10:00:05", 5_000_000_000),
            both("2025-01-13T10:00:07.5", 7_000_000_000),
            printed("2025-01-13T10:00:06"),
        ];
        let (began, found) = times(Some(77), &given);
        assert_eq!((began, found), (Some(77), [5, 7, 6].map(|s| Some(s * 1_000_000_000)).to_vec()));
    }

    #[test]
    fn nothing_is_before_the_beginning() {
        let both = When { counted: Some(0), ..printed("2025-01-13T10:00:05") };
        let given = [both, printed("2025-01-13T10:00:03")];
        let (began, found) = times(Some(10_000_000_000), &given);
        assert_eq!((began, found), (Some(8_000_000_000), vec![Some(2_000_000_000), Some(0)]));
    }
}
