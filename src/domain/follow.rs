//! What is said of an event that cannot follow on the state of its resource.

use std::fmt;

/// Returns the name of an event, without its content: messages of faults end up where personal data
/// must not be.
pub(crate) fn event_name(event: &impl fmt::Debug) -> String {
    let shown = format!("{event:?}");
    let name = shown.split(|letter: char| !letter.is_alphanumeric()).next();
    name.unwrap_or_default().to_owned()
}

/// Panics, since the event cannot follow on the state of the resource.
///
/// # Panics
/// Always.
#[track_caller]
pub(crate) fn cannot_follow(event: &impl fmt::Debug, resource: &str, exists: bool) -> ! {
    panic!(
        "{} cannot follow on {resource} that {}",
        event_name(event),
        match exists {
            true => "exists",
            false => "does not exist",
        }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Thing {
        _owner: &'static str,
    }

    #[test]
    fn the_name_of_an_event_tells_nothing_of_what_is_in_it() {
        assert_eq!(event_name(&Thing { _owner: "Mina" }), "Thing");
        assert_eq!(event_name(&Some("Mina")), "Some");
    }
}
