//! Times in seconds since 1970, such as an image's creation time.

use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time: seconds since 1970 in UTC, negative before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixTime(pub i64);

impl UnixTime {
    /// The time for a field of 32 bits, as SquashFS has: from 1970 to 2106, and one of these two
    /// for times outside.
    pub fn clamped_to_u32(self) -> u32 {
        u32::try_from(self.0.max(0)).unwrap_or(u32::MAX)
    }

    /// The time for a field that holds none before 1970, as those of a tar.
    pub fn clamped_to_u64(self) -> u64 {
        u64::try_from(self.0).unwrap_or(0)
    }

    /// `2026-07-11T10:16:37Z`, as RFC 3339 writes it.
    pub(crate) fn rfc3339(self) -> String {
        let (days, rest) = (self.0.div_euclid(86_400), self.0.rem_euclid(86_400));
        // Days since 0000-03-01, in eras of 400 years (146,097 days).
        let days = days + 719_468;
        let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let of_year = day - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let date = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        let year = era * 400 + year + i64::from(month <= 2);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        format!("{year:04}-{month:02}-{date:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// The time of `2026-07-11T10:16:37.5Z`, without the part of a second; `None` in another zone.
    pub(crate) fn parse_rfc3339(text: &str) -> Option<Self> {
        let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
        let numbers = |text: &str, by: char| -> Option<[i64; 3]> {
            let number = |text: &str| text.parse::<u32>().ok().map(i64::from);
            let numbers: Option<Vec<i64>> = text.split(by).map(number).collect();
            numbers?.try_into().ok()
        };
        let [year, month, day] = numbers(date, '-')?;
        let [hour, minute, second] = numbers(time.split('.').next()?, ':')?;
        let sound = (1970..10_000).contains(&year) && (1..=12).contains(&month);
        if !sound || !(1..=31).contains(&day) || hour > 23 || minute > 59 || second > 60 {
            return None;
        }
        // Years begin in March, so that a leap day is the last of one.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days =
            365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
        // 719,468 days lie between the first of March of the year 0 and 1970.
        Some(Self((days - 719_468) * 86_400 + hour * 3600 + minute * 60 + second))
    }
}

impl From<u32> for UnixTime {
    fn from(seconds: u32) -> Self {
        Self(seconds.into())
    }
}

impl From<SystemTime> for UnixTime {
    /// A time before 1970 becomes 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs().try_into().unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written() {
        for (seconds, text) in [
            (-1, "1969-12-31T23:59:59Z"),
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(UnixTime(seconds).rfc3339(), text);
        }
    }

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59Z", Some(951_868_799)),
            ("2026-07-11T10:16:37.123Z", Some(1_783_764_997)),
            ("2026-07-11T10:16:37+02:00", None),
            ("2026-13-11T10:16:37Z", None),
            ("1969-12-31T00:00:00Z", None),
            ("2026-07--1T10:16:37Z", None),
            ("2026-07-11T10:-6:37Z", None),
            ("2026-07-11", None),
            ("99999999999999999999-01-01T00:00:00Z", None),
        ] {
            assert_eq!(UnixTime::parse_rfc3339(text), expected.map(UnixTime), "{text}");
        }
    }
}
