//! `Carebook-Min-Position`: a read that has to reflect a position, such as the client's own write.

use hyper::header::{HeaderMap, HeaderName};

use crate::base::actor::Actor;
use crate::base::json::FaultCode;
use crate::domain::rejection::Rejection;
use crate::engine::Engine;
use crate::engine::position_waiters::Reached;
use crate::http::response::{Answer, Problems};

const MIN_POSITION: HeaderName = HeaderName::from_static("carebook-min-position");
/// The header's path in faults.
const PATH: &str = "header.Carebook-Min-Position";

/// Waits until the engine has reached the position that a request of the actor names, if it names one.
///
/// # Errors
/// The answer, when the header is invalid, too many requests wait already, or the wait timed out.
pub(in crate::http) async fn come_to(
    engine: &Engine,
    actor: &Actor,
    headers: &HeaderMap,
    problems: Problems,
) -> Result<(), Box<Answer>> {
    // Shortcut for the many requests without the header.
    if !headers.contains_key(MIN_POSITION) {
        return Ok(());
    }
    let position = asked(headers)
        .map_err(|code| Box::new(problems.rejected(&Rejection::invalid_at(PATH, code))))?;
    come_to_position(engine, actor, position, problems).await
}

/// Waits on a standby until it has the position from which a request of the actor goes on, if it names one: it may be
/// from the writer, whose commits arrive here a moment later.
///
/// # Errors
/// The answer, when too many requests wait already, or the wait timed out.
pub(in crate::http) async fn come_to_place(
    engine: &Engine,
    actor: &Actor,
    position: Option<u64>,
    problems: Problems,
) -> Result<(), Box<Answer>> {
    match position {
        // No log reaches a position beyond.
        Some(position) if engine.is_standby() && i64::try_from(position).is_ok() => {
            come_to_position(engine, actor, position, problems).await
        }
        _ => Ok(()),
    }
}

/// Waits until the engine has reached this position.
async fn come_to_position(
    engine: &Engine,
    actor: &Actor,
    position: u64,
    problems: Problems,
) -> Result<(), Box<Answer>> {
    match engine.reached(&actor.subject, position).await {
        Reached::Yes => Ok(()),
        Reached::No => Err(Box::new(problems.not_reached(engine.durable()))),
        Reached::QueueFull => Err(Box::new(problems.overloaded())),
    }
}

/// Parses the position: sent once, in decimal digits, at most 2^63 - 1.
fn asked(headers: &HeaderMap) -> Result<u64, FaultCode> {
    let mut values = headers.get_all(MIN_POSITION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(FaultCode::NotUnique);
    };
    let text = value.to_str().map_err(|_| FaultCode::Pattern)?;
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(FaultCode::Pattern);
    }
    // No log reaches a position beyond, so a request for one would wait in vain.
    let position: i64 = text.parse().map_err(|_| FaultCode::OutOfRange)?;
    Ok(position.unsigned_abs())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_told_once_in_digits_of_64_bits_with_a_sign() {
        let asked = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(MIN_POSITION, value.parse().unwrap());
            }
            asked(&headers)
        };
        assert_eq!(asked(&["0"]), Ok(0));
        assert_eq!(asked(&["01"]), Ok(1));
        assert_eq!(asked(&["9223372036854775807"]), Ok(i64::MAX.unsigned_abs()));
        for beyond in [
            "9223372036854775808",
            "18446744073709551615",
            "18446744073709551616",
        ] {
            assert_eq!(asked(&[beyond]), Err(FaultCode::OutOfRange), "{beyond}");
        }
        assert_eq!(asked(&["1", "1"]), Err(FaultCode::NotUnique));
        for bad in ["", "+1", "-1", "1.0", "1 2", "one", "0x1", "1,1"] {
            assert_eq!(asked(&[bad]), Err(FaultCode::Pattern), "{bad}");
        }
    }
}
