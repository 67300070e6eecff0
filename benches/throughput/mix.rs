//! The mixed day of a platform.
//!
//! The shares do not come from records of a real platform; they are what its rules suggest, and
//! each says why. What matters is that everything happens at once and that reads are as many as
//! commands. Branches are created and their managers come so seldom that they have no share.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde_json::{Value, json};

use crate::check::Request;
use crate::commands::{FIRST, command, facts};
use crate::server::Server;
use crate::shapes;
use crate::stage::Stage;
use crate::template::{Template, headquarters};
use crate::workload;

/// What a request of the mix does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Operation(&'static str),
    ReadStatement,
    ReadOffice,
    PutFact,
    Replay,
    Stale,
}

use What::Operation;

/// Of a thousand requests so many do this, because.
const MIX: [(u32, What, &str); 24] = [
    (
        180,
        What::ReadStatement,
        "pages of settlement are looked at far more often than they change",
    ),
    (
        150,
        What::ReadOffice,
        "every page of a branch shows its profile",
    ),
    (
        140,
        What::PutFact,
        "other systems send each change of what they own by itself",
    ),
    (20, What::Replay, "clients that were cut off ask again"),
    (
        10,
        What::Stale,
        "two people edit the same thing now and then",
    ),
    (
        60,
        Operation("confirm_reservation_draft"),
        "a reservation begins with it",
    ),
    (
        60,
        Operation("pre_register_payment"),
        "each reservation is paid for",
    ),
    (
        60,
        Operation("decide_cash_receipt_eligibility"),
        "the page of a payment asks for it",
    ),
    (
        50,
        Operation("assign_caregiver"),
        "most reservations come to have a caregiver",
    ),
    (50, Operation("finalize_charge"), "and a final charge"),
    (40, Operation("acknowledge_payout_deposit"), "and a payout"),
    (30, Operation("authorize_payment"), "families pay for some"),
    (
        20,
        Operation("grant_payment_authority"),
        "after they were allowed to",
    ),
    (15, Operation("grant_care_history_access"), "and read along"),
    (
        25,
        Operation("request_deposit"),
        "settlement: a statement for every other reservation",
    ),
    (
        25,
        Operation("acknowledge_deposit"),
        "which its branch acknowledges",
    ),
    (
        20,
        Operation("snapshot_settlement_account"),
        "with the account as it was",
    ),
    (
        10,
        Operation("capture_adjustment_payment"),
        "few payments change afterwards",
    ),
    (10, Operation("update_mother_profile"), "people move"),
    (5, Operation("repair_payout_receipt"), "an exception"),
    (5, Operation("open_data_room_request"), "an audit"),
    (5, Operation("mark_artifact_ready"), "and its files"),
    (
        5,
        Operation("update_branch_office_profile"),
        "branches change their names seldom",
    ),
    (
        5,
        Operation("administer_gateway"),
        "someone asks what became of a payment",
    ),
];

/// The mix in words, for the report.
pub(crate) fn described() -> serde_json::Value {
    let rows = MIX.iter().map(|(share, what, why)| {
        let what = match what {
            Operation(name) => (*name).to_owned(),
            other => format!("{other:?}"),
        };
        json!({"perMille": share, "what": what, "why": why})
    });
    rows.collect()
}

/// Requests of the mix with these numbers, in an order drawn with `seed`.
///
/// # Errors
/// When the server does not do what comes before.
pub(crate) fn requests(
    stage: &mut Stage,
    numbers: &[usize],
    seed: u64,
) -> Result<Vec<Request>, String> {
    assert_eq!(MIX.iter().map(|(share, ..)| share).sum::<u32>(), 1_000);
    let mut random = StdRng::seed_from_u64(seed);
    let mut of_each: Vec<Vec<usize>> = vec![Vec::new(); MIX.len()];
    for &number in numbers {
        let mut drawn = random.random_range(0..1_000);
        let row = MIX.iter().position(|(share, ..)| {
            let hit = drawn < *share;
            drawn = drawn.saturating_sub(*share);
            hit
        });
        of_each[row.expect("the shares make a thousand")].push(number);
    }
    let mut requests = Vec::with_capacity(numbers.len());
    for ((_, what, _), numbers) in MIX.iter().zip(&of_each) {
        requests.extend(requests_of(stage, *what, numbers, &mut random)?);
    }
    requests.shuffle(&mut random);
    Ok(requests)
}

fn requests_of(
    stage: &mut Stage,
    what: What,
    numbers: &[usize],
    random: &mut StdRng,
) -> Result<Vec<Request>, String> {
    match what {
        Operation(name) => workload::requests(name, stage.server(), numbers),
        What::ReadStatement => stage.reads(numbers.len(), random),
        What::ReadOffice => {
            stage.offices()?;
            let token = headquarters(stage.server());
            let read = |_: &usize| {
                let number = FIRST + random.random_range(0..stage.resources);
                let (_, body) = command("update_branch_office_profile", number, &Value::Null);
                let office = body["branchOfficeProfileId"].as_str().unwrap_or_default();
                let path = format!("/branch-office-profiles/{office}");
                Request::get(&path, &token, office, &shapes::READ_ANYTHING)
            };
            Ok(numbers.iter().map(read).collect())
        }
        What::PutFact => Ok(put_facts(stage.server(), numbers)),
        What::Replay => stage.replays(numbers),
        What::Stale => {
            stage.offices()?;
            let template = Template::stale_update(stage.server());
            let refuse = |number: &usize| {
                template.fill(number - FIRST, random.random_range(0..stage.resources))
            };
            Ok(numbers.iter().map(refuse).collect())
        }
    }
}

/// One fact each, the shares of a booking that nothing else in the mix knows.
fn put_facts(server: &Server, numbers: &[usize]) -> Vec<Request> {
    let token = server.fact_writer();
    let lines = facts("finalize_charge", numbers);
    let own = lines.iter().skip(lines.len() - numbers.len());
    let put = |fact: &String| {
        let length = fact.len();
        let bytes = format!(
            "POST /reference-facts HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/x-ndjson\r\nContent-Length: {length}\r\n\r\n{fact}"
        );
        Request::new(bytes.into_bytes(), "", &shapes::FACT_APPLIED)
    };
    own.map(put).collect()
}
