//! Points in time and calendar days, as values. No clock is read here: `now` is passed in.

use std::cell::Cell;
use std::fmt;

use chrono::{DateTime, Datelike, Duration, NaiveDate};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
///
/// It is parsed from any RFC 3339 form whose year is 1 to 9999; fractions beyond milliseconds are cut,
/// a leap second and a space instead of `T` are rejected. It is written in UTC with three digits of
/// milliseconds and `Z`. Records contain the number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// 0001-01-01T00:00:00Z, the first point that can be written with four digits and no sign.
const FIRST_MILLIS: i64 = -62_135_596_800_000;
/// 9999-12-31T23:59:59.999Z, the last point that can be written so.
const LAST_MILLIS: i64 = 253_402_300_799_999;
/// 0001-01-01 and 9999-12-31, in days.
const FIRST_DAY: i32 = -719_162;
const LAST_DAY: i32 = 2_932_896;
const DAY_MILLIS: i64 = 86_400_000;

impl Timestamp {
    /// The point `millis` milliseconds after the epoch, clamped to the years 1 to 9999.
    #[must_use]
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.clamp(FIRST_MILLIS, LAST_MILLIS))
    }

    /// Milliseconds since the epoch.
    #[must_use]
    pub fn millis(self) -> i64 {
        self.0
    }

    /// This point, `seconds` later (earlier when negative).
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self::from_millis(self.0.saturating_add(seconds.saturating_mul(1_000)))
    }

    /// Returns the calendar day in Seoul (UTC+9 all year), where the users of the service live.
    #[must_use]
    pub fn seoul_date(self) -> Date {
        const SEOUL_OFFSET_MILLIS: i64 = 9 * 3_600_000;
        let days = (self.0 + SEOUL_OFFSET_MILLIS).div_euclid(DAY_MILLIS);
        // In Seoul, the last nine hours of 9999 (UTC) are in the year 10000: they count as 9999-12-31.
        Date(i32::try_from(days).map_or(LAST_DAY, |day| day.min(LAST_DAY)))
    }

    /// Parses an RFC 3339 date-time; `None` for anything else, and outside the years 1 to 9999.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        // chrono accepts a space for `T`, a leap second, and U+2212 for the sign of an offset; the service
        // does not.
        let has_t = matches!(bytes.get(10), Some(b'T' | b't'));
        if !has_t || bytes.get(17..19) == Some(b"60") || !text.is_ascii() {
            return None;
        }
        let millis = DateTime::parse_from_rfc3339(text).ok()?.timestamp_millis();
        (FIRST_MILLIS..=LAST_MILLIS)
            .contains(&millis)
            .then_some(Self(millis))
    }

    /// Returns what `take` makes of the text `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    fn written<R>(self, take: impl FnOnce(&str) -> R) -> R {
        let place = usize::try_from(self.0).unwrap_or(0);
        INSTANTS.with(|recent| written(recent, place, self, || self.write().0, take))
    }

    fn write(self) -> Written<24> {
        // Every timestamp is in the years 1 to 9999, so its day fits.
        let day = Date(i32::try_from(self.0.div_euclid(DAY_MILLIS)).unwrap_or(0));
        let millis = u32::try_from(self.0.rem_euclid(DAY_MILLIS)).unwrap_or(0);
        let seconds = millis / 1_000;
        let mut text = Written(*b"0000-00-00T00:00:00.000Z");
        day.written(|day| text.0[..10].copy_from_slice(day.as_bytes()));
        text.digits(11, 2, seconds / 3_600);
        text.digits(14, 2, seconds / 60 % 60);
        text.digits(17, 2, seconds % 60);
        text.digits(20, 3, millis % 1_000);
        text
    }
}

/// Number of texts that each thread caches, of timestamps and of dates.
const WRITTEN: usize = 8;

/// The texts that were written last, each in the slot of its value.
type Recent<T> = [Cell<Option<(T, String)>>; WRITTEN];

thread_local! {
    /// Texts of timestamps: a response contains its commit's time several times, and other times of its
    /// resource.
    static INSTANTS: Recent<Timestamp> = const { [const { Cell::new(None) }; WRITTEN] };
    /// Texts of dates: most are the same few days, and computing a day's month takes most of the time
    /// that it takes to write one.
    static DAYS: Recent<Date> = const { [const { Cell::new(None) }; WRITTEN] };
}

/// Returns what `take` makes of the text of `value`: the cached text, or the one that `write` makes.
fn written<T: Copy + PartialEq, const N: usize, R>(
    recent: &Recent<T>,
    place: usize,
    value: T,
    write: impl FnOnce() -> [u8; N],
    take: impl FnOnce(&str) -> R,
) -> R {
    let place = &recent[place % WRITTEN];
    let text = match place.take() {
        Some((known, text)) if known == value => text,
        other => {
            let mut text = other.map(|(_, text)| text).unwrap_or_default();
            text.clear();
            text.push_str(std::str::from_utf8(&write()).unwrap_or_default());
            text
        }
    };
    let taken = take(&text);
    place.set(Some((value, text)));
    taken
}

/// A text of `N` ASCII characters. Every response has several times, and formatting them with `fmt`
/// takes ten times as long.
#[derive(Clone, Copy)]
struct Written<const N: usize>([u8; N]);

impl<const N: usize> Written<N> {
    /// Writes `count` decimal digits of `number` at `at`.
    fn digits(&mut self, at: usize, count: usize, mut number: u32) {
        for place in self.0[at..at + count].iter_mut().rev() {
            // The remainder is one digit, so it fits.
            *place = b'0' + u8::try_from(number % 10).unwrap_or(0);
            number /= 10;
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(|text| f.write_str(text))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.written(|text| serializer.serialize_str(text))
        } else {
            serializer.serialize_newtype_struct("Instant", &self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::parse(&text).ok_or_else(|| de::Error::custom("not an RFC 3339 date-time"))
        } else {
            #[derive(Deserialize)]
            #[serde(rename = "Instant")]
            struct Millis(i64);
            Millis::deserialize(deserializer).map(|millis| Self::from_millis(millis.0))
        }
    }
}

/// A calendar day, `YYYY-MM-DD`, of the years 1 to 9999. Records contain the days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i32);

impl Date {
    /// The day with this year, month and day of the month; `None` when there is no such day.
    #[must_use]
    pub fn new(year: i32, month: u32, day: u32) -> Option<Self> {
        if !(1..=9999).contains(&year) {
            return None;
        }
        let date = NaiveDate::from_ymd_opt(year, month, day)?;
        let days = date.signed_duration_since(NaiveDate::default()).num_days();
        i32::try_from(days).ok().map(Self)
    }

    /// Returns the day `days` days after 1970-01-01; `None` outside the years 1 to 9999.
    fn from_days(days: i32) -> Option<Self> {
        (FIRST_DAY..=LAST_DAY).contains(&days).then_some(Self(days))
    }

    /// Parses `YYYY-MM-DD`; `None` for any other form and for a day that does not exist.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() != 10 || bytes[4] != b'-' || bytes[7] != b'-' {
            return None;
        }
        let number = |range: std::ops::Range<usize>| -> Option<u32> {
            bytes[range].iter().try_fold(0_u32, |sum, byte| {
                byte.is_ascii_digit()
                    .then(|| sum * 10 + u32::from(byte - b'0'))
            })
        };
        Self::new(
            i32::try_from(number(0..4)?).ok()?,
            number(5..7)?,
            number(8..10)?,
        )
    }

    /// Returns what `take` makes of the text `YYYY-MM-DD`.
    fn written<R>(self, take: impl FnOnce(&str) -> R) -> R {
        let place = usize::try_from(self.0).unwrap_or(0);
        DAYS.with(|recent| written(recent, place, self, || self.write().0, take))
    }

    fn write(self) -> Written<10> {
        let date = NaiveDate::default().checked_add_signed(Duration::days(i64::from(self.0)));
        // Every date is in the years 1 to 9999, so the sum exists.
        let date = date.unwrap_or_default();
        let mut text = Written(*b"0000-00-00");
        text.digits(0, 4, date.year().unsigned_abs());
        text.digits(5, 2, date.month());
        text.digits(8, 2, date.day());
        text
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.written(|text| f.write_str(text))
    }
}

impl Serialize for Date {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            self.written(|text| serializer.serialize_str(text))
        } else {
            serializer.serialize_newtype_struct("Date", &self.0)
        }
    }
}

impl<'de> Deserialize<'de> for Date {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = String::deserialize(deserializer)?;
            Self::parse(&text).ok_or_else(|| de::Error::custom("not a calendar day"))
        } else {
            #[derive(Deserialize)]
            #[serde(rename = "Date")]
            struct Days(i32);
            let Days(days) = Days::deserialize(deserializer)?;
            Self::from_days(days).ok_or_else(|| de::Error::custom("not a day of years 1 to 9999"))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn date_times_are_read_in_every_offset_and_written_in_utc_milliseconds() {
        for (input, output) in [
            ("2026-11-20T09:00:00+09:00", "2026-11-20T00:00:00.000Z"),
            ("2026-11-20t00:00:00z", "2026-11-20T00:00:00.000Z"),
            ("2026-11-20T00:00:00.1239Z", "2026-11-20T00:00:00.123Z"),
            ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
            ("1969-12-31T23:59:59.9999Z", "1969-12-31T23:59:59.999Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(
                Timestamp::parse(input).unwrap().to_string(),
                output,
                "{input}"
            );
        }
    }

    #[test]
    fn strings_that_are_no_rfc_3339_date_time_are_rejected() {
        for input in [
            "",
            "2026-11-20",
            "2026-11-20 00:00:00Z",
            "2026-11-20T00:00:00",
            "2026-11-20T00:00:60Z",
            "2016-12-31T23:59:60Z",
            "2026-02-30T00:00:00Z",
            "2026-11-20T24:00:00Z",
            "0001-01-01T00:00:00+09:00",
            "9999-12-31T23:59:59-09:00",
            "+2026-11-20T00:00:00Z",
            "2026-11-20T00:00:00\u{2212}09:00",
        ] {
            assert_eq!(Timestamp::parse(input), None, "{input}");
        }
    }

    #[test]
    fn days_that_exist_come_back_as_they_went_in_and_others_are_refused() {
        for day in ["2024-02-29", "0001-01-01", "9999-12-31", "1970-01-01"] {
            assert_eq!(Date::parse(day).unwrap().to_string(), day);
        }
        for day in [
            "2023-02-29",
            "2026-13-01",
            "2026-00-10",
            "0000-01-01",
            "2026-1-01",
            "2026-01-0x",
        ] {
            assert_eq!(Date::parse(day), None, "{day}");
        }
    }

    #[test]
    fn times_are_written_as_chrono_writes_them() {
        let step = 1_234_567_890_123;
        let edges = [FIRST_MILLIS, -1, 0, 951_782_400_000, LAST_MILLIS];
        let all = (FIRST_MILLIS..=LAST_MILLIS).step_by(step / 64).chain(edges);
        for millis in all {
            let time = DateTime::from_timestamp_millis(millis).unwrap();
            let text = time.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
            // The second time, the text comes from the cache.
            for _ in 0..2 {
                assert_eq!(Timestamp(millis).to_string(), text);
            }
        }
        for (day, text) in [(FIRST_DAY, "0001-01-01"), (LAST_DAY, "9999-12-31")] {
            assert_eq!(Date(day).to_string(), text);
        }
        assert_eq!(Date::from_days(FIRST_DAY - 1), None);
        assert_eq!(Date::from_days(LAST_DAY + 1), None);
    }

    #[test]
    fn a_day_begins_at_midnight_in_seoul() {
        let day = |text| Timestamp::parse(text).unwrap().seoul_date().to_string();
        assert_eq!(day("2026-11-19T14:59:59.999Z"), "2026-11-19");
        assert_eq!(day("2026-11-19T15:00:00Z"), "2026-11-20");
        assert_eq!(
            day("9999-12-31T23:59:59Z"),
            "9999-12-31",
            "there is no later"
        );
    }
}
