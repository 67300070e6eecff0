//! Dry runs: what an operation would answer, and nothing committed. That they answer as the real
//! ones for every command of the model is in `tests/model`.

use carebook::base::actor::ActorKind;
use carebook::catalogue::{Invalid, OPERATIONS, ProblemShape, READS};
use serde_json::json;

use crate::support::good::Good;
use crate::support::stage::{Stage, theatre};

#[test]
fn a_dry_run_of_every_operation_commits_nothing_however_often_and_the_command_can_follow() {
    for row in OPERATIONS {
        let stage = Stage::new();
        let mut client = stage.client();
        let mut good = Good::of(row, &stage);
        let token = good.token(&stage);
        let path = good.path.clone();
        good.path = format!("{path}?dryRun=true&other=1");
        for _ in 0..3 {
            let rehearsed = good.carried_out(&mut client, &token);
            assert_eq!(
                rehearsed.header("carebook-dry-run"),
                Some("true"),
                "{}",
                row.name
            );
            assert!(rehearsed.position().is_some(), "{}", row.name);
        }
        good.path = path;
        let done = good.carried_out(&mut client, &token);
        assert_eq!(done.header("carebook-dry-run"), None);
        // Its key is taken now, for a dry run too.
        if good.row.key != carebook::catalogue::KeySource::None {
            good.path = format!("{}?dryRun=true", good.path);
            let replayed = good.send(&mut client, &token, &good.body);
            assert_eq!(
                replayed.header("idempotent-replayed"),
                Some("true"),
                "{}",
                row.name
            );
            assert_eq!(replayed.header("carebook-dry-run"), Some("true"));
            let reused = good.send(&mut client, &token, &good.other);
            assert_eq!(reused.status, 409, "{}: {reused:?}", row.name);
        }
    }
}

#[test]
fn a_refusal_of_a_dry_run_says_that_it_is_one() {
    let stage = Stage::new();
    let mut client = stage.client();
    let path = "/settlement-deposit-requests?dryRun=true";
    let nobody = client.request("POST", path, &[], b"{}");
    assert_eq!(
        (nobody.status, nobody.header("carebook-dry-run")),
        (401, Some("true"))
    );
    let invalid = client.post(path, &stage.token_of(ActorKind::Mother), &json!({}));
    assert_eq!(
        (invalid.status, invalid.header("carebook-dry-run")),
        (400, Some("true"))
    );
}

#[test]
fn what_asks_for_a_dry_run_in_another_way_is_invalid_with_what_else_is() {
    let stage = Stage::new();
    let mut client = stage.client();
    for row in OPERATIONS {
        let mut good = Good::of(row, &stage);
        let token = good.token(&stage);
        let path = good.path.clone();
        let status = match row.invalid {
            Invalid::BadRequest => 400,
            Invalid::Unprocessable => 422,
        };
        for query in [
            "dryRun=false",
            "dryRun=",
            "dryRun=TRUE",
            "dryRun=true&dryRun=true",
        ] {
            good.path = format!("{path}?{query}");
            let answer = good.send(&mut client, &token, &json!({"unknown": 1}));
            assert_eq!(answer.status, status, "{} {query}: {answer:?}", row.name);
            if row.problem == ProblemShape::Full {
                let faults = answer.faults();
                let dry_run = ("query.dryRun".to_owned(), "not_allowed".to_owned());
                assert!(faults.contains(&dry_run), "{faults:?}");
                assert!(
                    faults.iter().any(|(path, _)| path == "unknown"),
                    "{faults:?}"
                );
            }
        }
    }
}

#[test]
fn nothing_but_an_operation_has_dry_runs() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    let token = theatre.world.workflow();
    for row in READS {
        let path = row.path.replace(['{', '}'], "");
        let answer = client.get(&format!("{path}?dryRun=true"), &token);
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
    }
    let facts = client.post(
        "/reference-facts?dryRun=true",
        &token,
        &json!({"facts": []}),
    );
    assert_eq!(facts.status, 400, "{facts:?}");
    assert_eq!(client.get("/events?dryRun=true", &token).status, 400);
}
