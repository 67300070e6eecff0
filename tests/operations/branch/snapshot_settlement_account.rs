//! A branch's settlement account is frozen for a statement.

use carebook::base::actor::{Actor, ActorKind};
use serde_json::json;

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_time, with,
};

const PATH: &str = "/branch-settlement-account-statement-snapshots";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("snapshot_settlement_account"), stage)
}

#[test]
fn a_snapshot_is_taken_whole_and_never_changes() {
    let stage = Stage::new();
    let good = good(&stage);
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &stage.manager());
    let mut rest = first.json();
    take_time(&mut rest, "/snapshotForStatementAt");
    let expected = stage.named(json!({
        "snapshotId": "snapshot-1",
        "settlementStatementId": "statement-1",
        "branchOfficeProfileId": "branch-seoul-1",
        "branchOfficeProfileRevision": 1,
        "settlementAccountId": "settlement-account-1",
        "settlementAccountRevision": 1,
        "purpose": "branch_settlement",
        "bankName": "한빛은행",
        "accountHolder": "서울산후케어 주식회사",
        "maskedAccountReference": "110-***-***456",
        "verificationState": "verified",
        "effectiveFrom": "2025-01-01",
        "effectiveUntil": null,
        "snapshotForStatementAt": null,
        "snapshotForStatementByActorId": "manager-1",
        "idempotencyKey": "key-1",
    }));
    assert_eq!(rest, expected);

    let mut facts = stage.sample("settlement-account", "settlement-account-1");
    facts["bankName"] = json!("다른은행");
    stage.fact("settlement-account", "settlement-account-1", 2, facts);
    let path = format!("{PATH}/{}", stage.id("snapshot-1"));
    let position = first.position().unwrap().to_string();
    for kind in [
        ActorKind::BranchManager,
        ActorKind::HeadquartersAdministrator,
        ActorKind::HeadquartersFinanceOperator,
    ] {
        assert_reads(
            &mut client,
            &stage.token_of(kind),
            &path,
            &position,
            &first.json(),
        );
    }
    let elsewhere = Actor {
        branch_profile_ids: vec!["elsewhere".into()],
        ..good.actor.clone()
    };
    for stranger in [stage.token(&elsewhere), stage.mother(), stage.workflow()] {
        assert_unreadable(&mut client, &stranger, &path);
    }
    let again = good.send(&mut client, &stage.manager(), &good.body);
    assert_eq!((again.status, again.text()), (201, first.text()));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
}

#[test]
fn a_snapshot_s_identifier_finds_it_again_for_the_one_who_took_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &manager);
    let second = with(good.body.clone(), "/idempotencyKey", json!("second"));
    for _ in 0..2 {
        let again = client.post(PATH, &manager, &second);
        assert_eq!((again.status, again.text()), (201, first.text()));
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
    }
    let taken = with(second.clone(), "/snapshotId", json!("other"));
    let reused = client.post(PATH, &manager, &taken);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
    let other_facts = with(good.other.clone(), "/idempotencyKey", json!("third"));
    let conflict = client.post(PATH, &manager, &other_facts);
    assert_refused(&conflict, 409, "snapshot_id_conflict", &["snapshotId"]);
    let colleague = stage.token_of(ActorKind::HeadquartersFinanceOperator);
    let conflict = client.post(PATH, &colleague, &good.body);
    assert_refused(&conflict, 409, "snapshot_id_conflict", &["snapshotId"]);
    let fresh = with(other_facts, "/snapshotId", json!(stage.id("snapshot-3")));
    assert_eq!(client.post(PATH, &manager, &fresh).status, 201);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let manager = stage.manager();
    let mut client = stage.client();
    let elsewhere = json!({"branchOfficeProfileId": "elsewhere", "purpose": "p", "bankName": "b",
        "accountHolder": "h", "maskedAccountReference": "m", "verificationState": "pending",
        "effectiveFrom": "2025-01-01"});
    stage.fact("settlement-account", "settlement-account-9", 3, elsewhere);

    let unverified = with(
        good.body.clone(),
        "/settlementAccountId",
        json!(stage.id("settlement-account-2")),
    );
    let places = ["settlementAccountId"];
    let answer = good.send(&mut client, &manager, &unverified);
    assert_refused(&answer, 409, "settlement_account_unverified", &places);
    let stale = with(unverified, "/expectedSettlementAccountRevision", json!(2));
    let answer = good.send(&mut client, &manager, &stale);
    assert_refused(
        &answer,
        409,
        "revision_stale",
        &["expectedSettlementAccountRevision"],
    );
    for account in [stage.id("settlement-account-9"), "unknown".to_owned()] {
        let body = with(stale.clone(), "/settlementAccountId", json!(account));
        let answer = good.send(&mut client, &manager, &body);
        assert_refused(&answer, 409, "settlement_account_conflict", &places);
    }
    // A branch without a profile, which headquarters may settle for.
    let nowhere = with(stale, "/branchOfficeProfileId", json!("nowhere"));
    let answer = good.send(&mut client, &stage.headquarters(), &nowhere);
    let both = ["branchOfficeProfileId", "settlementAccountId"];
    assert_refused(&answer, 409, "settlement_account_conflict", &both);
    let answer = good.send(&mut client, &manager, &nowhere);
    assert_refused(&answer, 403, "permission_denied", &[]);
    for kind in ActorKind::ALL {
        let may = matches!(
            kind,
            ActorKind::BranchManager
                | ActorKind::HeadquartersAdministrator
                | ActorKind::HeadquartersFinanceOperator
        );
        if !may {
            let actor = Actor {
                kind,
                ..good.actor.clone()
            };
            let answer = good.send(&mut client, &stage.token(&actor), &good.body);
            assert_refused(&answer, 403, "permission_denied", &[]);
        }
    }
    let blank = with(good.body.clone(), "/snapshotId", json!(" "));
    let blank = with(blank, "/idempotencyKey", json!(""));
    let faults = [("snapshotId", "blank"), ("idempotencyKey", "too_short")];
    assert_faults(&good.send(&mut client, &manager, &blank), 400, &faults);
    good.carried_out(&mut client, &manager);
}
