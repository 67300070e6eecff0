//! From a workload to the server that it is asked of, and to its requests.

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::check::Request;
use crate::commands::FIRST;
use crate::kinds::{Like, Workload};
use crate::mix;
use crate::moved::moved;
use crate::peers;
use crate::server::{Server, Start};
use crate::shapes;
use crate::stage::Stage;
use crate::template::{Template, headquarters};
use crate::workload;

/// Starts what it is asked of.
///
/// # Errors
/// When it does not start.
pub(crate) fn start(workload: Workload, start: &Start) -> Result<Server, String> {
    match workload {
        Workload::Limit(_) => start.limit(moved(start)?),
        Workload::Postgres(form) => peers::start_postgres(start, form),
        _ => start.service(),
    }
}

/// So many requests of the workload, none of which was sent before.
///
/// # Errors
/// When the server does not do what comes before.
pub(crate) fn requests(
    stage: &mut Stage,
    workload: Workload,
    count: usize,
    seed: u64,
) -> Result<Vec<Request>, String> {
    let mut random = StdRng::seed_from_u64(seed ^ stage.next_number() as u64);
    match workload {
        Workload::Operation(name) => {
            let numbers = stage.numbers(count);
            workload::requests(name, stage.server(), &numbers)
        }
        Workload::Mixed => {
            let numbers = stage.numbers(count);
            mix::requests(stage, &numbers, seed)
        }
        Workload::Hot(resources) => {
            stage.bookings(resources)?;
            Ok(stage.charges(count, || resources / 2))
        }
        Workload::Spread(resources) => {
            stage.bookings(resources)?;
            Ok(stage.charges(count, || random.random_range(0..resources)))
        }
        Workload::Replays => {
            let numbers = stage.numbers(count);
            stage.replays(&numbers)
        }
        Workload::Refusals => {
            stage.offices()?;
            let template = Template::stale_update(stage.server());
            let resources = stage.resources;
            let numbers = stage.numbers(count).into_iter();
            let refuse = |number| template.fill(number - FIRST, random.random_range(0..resources));
            Ok(numbers.map(refuse).collect())
        }
        Workload::DryRuns => {
            let template = Template::dry_deposit(&headquarters(stage.server()));
            let numbers = stage.numbers(count).into_iter();
            Ok(numbers
                .map(|number| template.fill(number - FIRST, 0))
                .collect())
        }
        Workload::Reads => stage.reads(count, &mut random),
        Workload::Postgres(form) => {
            let numbers = stage.numbers(count);
            let asked = numbers.iter().map(|&number| {
                peers::request(form, number, || random.random_range(0..form.resources()))
            });
            Ok(asked.collect())
        }
        Workload::Limit(like) => {
            let (template, expected) = match like {
                Like::Deposit => {
                    let token = headquarters(stage.server());
                    (Template::request_deposit(&token), &shapes::BARE_DEPOSIT)
                }
                Like::Charge => (Template::finalize_charge(), &shapes::BARE_CHARGE),
            };
            let numbers = stage.numbers(count).into_iter();
            let ask = |number| {
                let mut request = template.fill(number - FIRST, 0);
                (request.echo, request.expected) = (0..0, expected);
                request
            };
            Ok(numbers.map(ask).collect())
        }
    }
}
