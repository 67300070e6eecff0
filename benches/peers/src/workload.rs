//! The commands that the peers are driven with, and the check of the answers.

use std::collections::{HashMap, HashSet};
use std::fmt;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde::Deserialize;
use serde_json::json;

/// Which resource each command is on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// One of so many, drawn uniformly; they are there before the clock starts.
    Spread(u32),
    /// All commands on one.
    Hot,
    /// A new one for each command.
    Fresh,
}

impl Form {
    /// Resources that are there before the clock starts.
    pub(crate) fn preloaded(self) -> u32 {
        match self {
            Self::Spread(resources) => resources,
            Self::Hot => 1,
            Self::Fresh => 0,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spread(resources) => write!(formatter, "spread over {resources} resources"),
            Self::Hot => write!(formatter, "hot, one resource"),
            Self::Fresh => write!(formatter, "fresh, a resource for each command"),
        }
    }
}

/// What a peer is driven with.
#[derive(Args)]
pub(crate) struct Drive {
    /// Connections, each with one command in flight.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) connections: usize,
    /// Commands while the clock runs.
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub(crate) commands: usize,
    /// Commands before the clock starts.
    #[arg(long, value_name = "N", default_value_t = 2_000)]
    pub(crate) warm_up: usize,
    /// Spreads the commands over this many resources.
    #[arg(long, value_name = "N", default_value_t = 10_000, conflicts_with_all = ["hot", "fresh"])]
    pub(crate) resources: u32,
    /// All commands on one resource.
    #[arg(long, conflicts_with = "fresh")]
    pub(crate) hot: bool,
    /// A new resource for each command.
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Determines which resources are drawn.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Prints one line of JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Drive {
    pub(crate) fn form(&self) -> Form {
        if self.hot {
            Form::Hot
        } else if self.fresh {
            Form::Fresh
        } else {
            Form::Spread(self.resources.max(1))
        }
    }

    /// Resources of all commands, by number, warm-up included.
    pub(crate) fn draw(&self) -> Vec<u32> {
        let mut state = self.seed;
        (0..u32::MAX)
            .take(self.warm_up + self.commands)
            .map(|number| match self.form() {
                Form::Spread(resources) => {
                    let drawn = next_random(&mut state) % u64::from(resources);
                    u32::try_from(drawn).expect("below a number of 32 bits")
                }
                Form::Hot => 0,
                Form::Fresh => number,
            })
            .collect()
    }
}

/// `SplitMix64`: small, and good enough to draw from.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The name of a resource, the same for preloaded ones.
pub(crate) fn resource(number: u32) -> String {
    format!("resource-{number}")
}

/// The idempotency key of a command.
pub(crate) fn key(number: usize) -> String {
    format!("key-{number}")
}

/// The body of a command on a resource, about 450 bytes.
pub(crate) fn command_body(number: usize) -> String {
    json!({
        "idempotencyKey": key(number),
        "statementKind": "head_office_to_branch",
        "branchProfileId": "branch-1",
        "settlementPeriodStart": "2026-10-01",
        "settlementPeriodEnd": "2026-10-31",
        "remittanceAccountSnapshot": {
            "remittanceAccountSnapshotId": "remittance-1",
            "bankName": "Bank",
            "accountHolder": "Head Office",
            "accountNumberDisplay": "110-***-000123",
            "capturedAt": "2026-11-01T00:00:00Z",
        },
        "actorKind": "headquarters_administrator",
        "actorProfileId": "hq-1",
    })
    .to_string()
}

/// The body that carebook's own bench sends to `POST /settlement-deposit-requests`.
pub(crate) fn deposit_body(number: usize) -> String {
    json!({
        "statementCode": format!("STATEMENT-{number}"),
        "statementKind": "head_office_to_branch",
        "branchProfileId": "branch-1",
        "settlementPeriodStart": "2026-10-01",
        "settlementPeriodEnd": "2026-10-31",
        "remittanceAccountSnapshot": {
            "remittanceAccountSnapshotId": "remittance-1",
            "bankName": "Bank",
            "accountHolder": "Head Office",
            "accountNumberDisplay": "110-***-000123",
            "capturedAt": "2026-11-01T00:00:00Z",
            "sourceReferenceKey": null,
        },
        "actorKind": "headquarters_administrator",
        "actorProfileId": "hq-1",
        "idempotencyKey": key(number),
        "messageToBranch": null,
        "headOfficePrivateMemo": null,
    })
    .to_string()
}

#[derive(Deserialize)]
struct Advanced {
    resource: String,
    revision: u64,
    command: Command,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Command {
    idempotency_key: String,
}

/// Checks that each answer is that to its command, and that the commands on a resource together
/// advanced it one revision each, none lost and none twice. `answers` are the numbers of the
/// commands and the bodies of their answers.
pub(crate) fn check_commands(
    resources: &[u32],
    preloaded: u32,
    answers: &[(usize, Vec<u8>)],
) -> anyhow::Result<()> {
    ensure!(answers.len() == resources.len(), "answers are missing");
    let mut revisions: HashMap<u32, Vec<u64>> = HashMap::new();
    for (number, body) in answers {
        let text = || String::from_utf8_lossy(body).into_owned();
        let answer: Advanced = serde_json::from_slice(body).with_context(text)?;
        ensure!(answer.command.idempotency_key == key(*number), text());
        let on = *resources.get(*number).with_context(text)?;
        ensure!(answer.resource == resource(on), text());
        revisions.entry(on).or_default().push(answer.revision);
    }
    for (number, mut revisions) in revisions {
        revisions.sort_unstable();
        // A preloaded resource starts with its first revision.
        let before = u64::from(number < preloaded);
        let expected = (before + 1..).take(revisions.len());
        ensure!(
            revisions.iter().copied().eq(expected),
            "{}: {revisions:?}",
            resource(number)
        );
    }
    Ok(())
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Opened {
    statement_id: String,
    statement_code: String,
    revision: u64,
    transition_audits: Vec<Command>,
}

/// Checks that each answer is that to its deposit, with a statement of its own.
pub(crate) fn check_deposits(count: usize, answers: &[(usize, Vec<u8>)]) -> anyhow::Result<()> {
    ensure!(answers.len() == count, "answers are missing");
    let mut ids = HashSet::new();
    for (number, body) in answers {
        let text = || String::from_utf8_lossy(body).into_owned();
        let answer: Opened = serde_json::from_slice(body).with_context(text)?;
        ensure!(answer.revision == 1, text());
        ensure!(
            answer.statement_code == format!("STATEMENT-{number}"),
            text()
        );
        ensure!(answer.transition_audits.len() == 1, text());
        ensure!(
            answer.transition_audits[0].idempotency_key == key(*number),
            text()
        );
        ensure!(ids.insert(answer.statement_id), text());
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn answer(number: usize, on: u32, revision: u64) -> (usize, Vec<u8>) {
        let body = json!({
            "resource": resource(on),
            "revision": revision,
            "command": {"idempotencyKey": key(number)},
        });
        (number, body.to_string().into_bytes())
    }

    #[test]
    fn revisions_without_a_gap_pass_in_any_order() {
        let answers = [answer(1, 0, 3), answer(0, 0, 2), answer(2, 5, 1)];
        check_commands(&[0, 0, 5], 1, &answers).unwrap();
    }

    #[test]
    fn a_lost_or_doubled_command_is_found() {
        let both = [answer(0, 0, 2), answer(1, 0, 2)];
        assert!(check_commands(&[0, 0], 1, &both).is_err());
        let gap = [answer(0, 0, 2), answer(1, 0, 4)];
        assert!(check_commands(&[0, 0], 1, &gap).is_err());
        assert!(check_commands(&[0, 0], 1, &[answer(0, 0, 2)]).is_err());
        assert!(check_commands(&[0], 1, &[answer(0, 1, 1)]).is_err());
        assert!(check_commands(&[0], 1, &[answer(1, 0, 2)]).is_err());
    }

    #[test]
    fn resources_are_drawn_evenly_and_again_the_same() {
        let drive = Drive {
            connections: 1,
            commands: 9_000,
            warm_up: 1_000,
            resources: 10,
            hot: false,
            fresh: false,
            seed: 7,
            json: false,
        };
        let drawn = drive.draw();
        assert_eq!(drawn, drive.draw());
        for resource in 0..10 {
            let count = drawn.iter().filter(|drawn| **drawn == resource).count();
            assert!((850..1_150).contains(&count), "{resource}: {count}");
        }
    }
}
