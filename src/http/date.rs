//! The `Date` of responses.
//!
//! hyper keeps its own on each thread until the clock has passed it: where the clock is set back, for as
//! long as it had run ahead. This one, for what is answered in hyper's place, is always the clock's.

use std::cell::RefCell;

use httpdate::fmt_http_date;
use hyper::header::HeaderValue;

use crate::base::time::Instant;
use crate::engine::clock::time_of;

thread_local! {
    /// The last value, and of which second it is; at first of none.
    static LAST: RefCell<(i64, HeaderValue)> =
        const { RefCell::new((i64::MIN, HeaderValue::from_static(""))) };
}

/// This time as the value of `Date`, which begins with the year 1970.
#[must_use]
pub(super) fn date(now: Instant) -> HeaderValue {
    let second = now.millis() / 1_000;
    LAST.with_borrow_mut(|(known, value)| {
        if *known != second {
            (*known, *value) = (second, written(now));
        }
        value.clone()
    })
}

fn written(now: Instant) -> HeaderValue {
    let text = fmt_http_date(time_of(now));
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_date_is_the_clock_s_also_where_that_is_set_back() {
        let second = 1_795_788_835_000;
        let day = 86_400_000;
        for (millis, expected) in [
            (second, "Fri, 27 Nov 2026 14:13:55 GMT"),
            (second + 999, "Fri, 27 Nov 2026 14:13:55 GMT"),
            (second + 1_000, "Fri, 27 Nov 2026 14:13:56 GMT"),
            (second + day, "Sat, 28 Nov 2026 14:13:55 GMT"),
            (second + 1_000, "Fri, 27 Nov 2026 14:13:56 GMT"),
            (second - 1, "Fri, 27 Nov 2026 14:13:54 GMT"),
            (second - 365 * day, "Thu, 27 Nov 2025 14:13:55 GMT"),
        ] {
            assert_eq!(date(Instant::from_millis(millis)), expected);
        }
    }

    #[test]
    fn a_time_that_no_date_can_have_is_the_nearest_that_one_can() {
        for (millis, expected) in [
            (i64::MIN, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (-1, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (i64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(date(Instant::from_millis(millis)), expected);
        }
    }
}
