//! The environment variables of settings.

use std::ffi::OsString;

use clap::Command;

use super::settings_file::{FILE_FLAG, in_a_file, similar};

/// Prefix of the environment variable for a flag.
const PREFIX: &str = "CAREBOOK_";
/// Beginnings, after the prefix, of the names of other variables: the token of a client, and those that Kubernetes sets
/// for a service that is called `carebook`.
const FOREIGN_PREFIXES: [&str; 3] = ["TOKEN", "PORT", "SERVICE_"];

/// Returns the environment variable for a flag.
pub(super) fn variable(flag: &str) -> String {
    let name = flag.to_ascii_uppercase().replace('-', "_");
    format!("{PREFIX}{name}")
}

/// Returns a sentence for each of these variables whose name looks like that of a setting, and is none.
pub(super) fn unknown(serve: &Command, given: impl Iterator<Item = OsString>) -> Vec<String> {
    let known = in_a_file(serve).map(|(name, _)| variable(name));
    let known: Vec<_> = known.chain([variable(FILE_FLAG)]).collect();
    let mut names: Vec<_> = given
        .filter_map(|name| name.into_string().ok())
        .filter(|name| !known.contains(name))
        .collect();
    names.sort_unstable();
    names
        .iter()
        .filter_map(|name| unknown_variable(serve, name))
        .collect()
}

fn unknown_variable(serve: &Command, name: &str) -> Option<String> {
    let rest = name.strip_prefix(PREFIX)?;
    if FOREIGN_PREFIXES.iter().any(|other| rest.starts_with(other)) {
        return None;
    }
    let flag = rest.to_ascii_lowercase().replace('_', "-");
    Some(match similar(serve, &flag) {
        Some(similar) => format!(
            "the environment variable {name} sets nothing; there is {}",
            variable(&similar)
        ),
        None => format!("the environment variable {name} sets nothing"),
    })
}
