//! Dry runs: what an operation would answer, and nothing committed. That they answer as the real
//! ones for every command of the model is in `tests/model`.

use carebook::base::actor::ActorKind;
use carebook::catalogue::{
    BodySource, Invalid, MANAGEMENT, Method, OPERATIONS, ProblemShape, READS,
};
use serde_json::json;

use crate::support::good::Good;
use crate::support::stage::{Stage, theatre};

#[test]
fn repeated_dry_runs_of_any_operation_commit_nothing_and_block_no_command() {
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
fn an_ill_formed_dry_run_is_reported_with_the_command_s_other_faults() {
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
                assert!(faults.contains(&no_dry_run()), "{faults:?}");
                assert!(
                    faults.iter().any(|(path, _)| path == "unknown"),
                    "{faults:?}"
                );
            }
        }
    }
}

#[test]
fn a_misspelt_dry_run_is_carried_out_and_not_marked_as_a_dry_run() {
    for row in OPERATIONS {
        let stage = Stage::new();
        let mut client = stage.client();
        let mut good = Good::of(row, &stage);
        let token = good.token(&stage);
        let path = good.path.clone();
        good.path = format!("{path}?dryrun=true");
        let done = good.carried_out(&mut client, &token);
        assert_eq!(done.header("carebook-dry-run"), None, "{}", row.name);
        if row.key != carebook::catalogue::KeySource::None {
            good.path = path;
            let replayed = good.send(&mut client, &token, &good.body);
            let header = replayed.header("idempotent-replayed");
            assert_eq!(header, Some("true"), "{}", row.name);
        }
    }
    for (page, words) in [
        (
            "docs/guide.md",
            "(`?dryrun=true`) is not looked at, and the command is carried out",
        ),
        (
            "docs/contract-choices.md",
            "a misspelt one (`?dryrun=true`) is the real command.",
        ),
    ] {
        let text = std::fs::read_to_string(page)
            .unwrap()
            .replace("\n  ", " ")
            .replace('\n', " ");
        assert!(text.contains(words), "{page}");
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
    let bearer = format!("Bearer {token}");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Content-Type", "application/x-ndjson"),
    ];
    let stream = client.request("POST", "/reference-facts?dryRun=true", &headers, b"{}");
    assert_eq!(stream.faults(), [no_dry_run()]);
    assert_eq!(client.get("/events?dryRun=true", &token).status, 400);
}

#[test]
fn an_unsupported_dry_run_is_reported_with_the_command_s_other_faults() {
    let theatre = theatre();
    let mut client = theatre.server.client();
    let token = theatre.world.workflow();
    let places = MANAGEMENT
        .iter()
        .filter(|row| row.body != BodySource::Query);
    let places = places.map(|row| (row.method, row.path.replace(['{', '}'], "")));
    let facts = (Method::Post, "/reference-facts".to_owned());
    for (method, path) in places.chain([facts]) {
        let method = match method {
            Method::Post => "POST",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
        };
        for query in ["dryRun=true", "dryRun=false"] {
            let path = format!("{path}?{query}");
            let answer = client.send_json(method, &path, &token, &[], &json!({"unknown": 1}));
            let faults = answer.faults();
            assert!(faults.contains(&no_dry_run()), "{path}: {faults:?}");
            let unknown = ("unknown".to_owned(), "unknown_field".to_owned());
            assert!(faults.contains(&unknown), "{path}: {faults:?}");
        }
    }
    let path = "/webhook-subscriptions/1?expectedRevision=1&dryRun=true";
    let deletion = client.send_json(
        "DELETE",
        path,
        &token,
        &[("Idempotency-Key", "k")],
        &json!({}),
    );
    assert_eq!(deletion.faults(), [no_dry_run()]);
}

fn no_dry_run() -> (String, String) {
    ("query.dryRun".to_owned(), "not_allowed".to_owned())
}
