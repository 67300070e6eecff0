//! A branch is created, and its first manager invited.

use carebook::base::actor::{Actor, ActorKind};
use carebook::domain::branch::business_registration::BusinessRegistrationNumber;
use serde_json::{Value, json};

use crate::support::good::{Good, row_named};
use crate::support::stage::{
    Stage, assert_faults, assert_reads, assert_refused, assert_unreadable, take_id, take_time,
    with, without,
};

const PATH: &str = "/admin/branches";

fn good(stage: &Stage) -> Good {
    Good::of(row_named("create_branch"), stage)
}

fn organization(stage: &Stage) -> Value {
    let answer = stage.client().get("/organization", &stage.headquarters());
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[test]
fn a_branch_is_created_whole_and_those_concerned_read_it() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let before = organization(&stage);
    let created = good.carried_out(&mut client, &hq).json();

    let mut rest = created.clone();
    let id = take_id(&mut rest, "/branchId");
    take_id(&mut rest, "/auditEventId");
    let operator = take_id(&mut rest, "/operatorIdentity/operatorIdentityId");
    take_id(&mut rest, "/membershipFeePolicy/membershipFeePolicyId");
    let fingerprint = rest["commandFingerprint"].take();
    let fingerprint = fingerprint.as_str().unwrap();
    assert_eq!(fingerprint.len(), 64);
    let is_lower_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    assert!(fingerprint.bytes().all(is_lower_hex));
    let effects = rest["sideEffects"].clone();
    let number = |index: usize| effects[index]["outboxMessageId"].as_i64().unwrap();
    assert!(number(0) < number(1) && number(1) < number(2), "{effects}");
    let effect = |index: usize, kind: &str| json!({"kind": kind, "status": "completed", "outboxMessageId": number(index)});
    let identity = effect(0, "operator_identity");
    let relationship = effect(1, "authorization_relationship");
    let invitation = effect(2, "manager_invitation");
    let revision = good.body["expectedOrganizationRevision"].as_i64().unwrap() + 1;
    let expected = json!({
        "commandId": stage.id("command-1"),
        "actorId": stage.id("headquarters-1"),
        "reason": "A branch for the south.",
        "commandFingerprint": null,
        "branchId": null,
        "branchCode": format!("BR{}", stage.number),
        "revision": 1,
        "organizationRevision": revision,
        "lifecycleStatus": "active",
        "managerInvitationStatus": "pending",
        "authorizationRelationshipStatus": "applied",
        "authorizationRelationships": [
            {"object": format!("branch/{id}"), "relation": "parent", "subject": "headquarters"},
            {
                "object": format!("branch/{id}"),
                "relation": "operator",
                "subject": format!("operator-identity/{operator}"),
            },
        ],
        "membershipFeePolicyStatus": "recorded",
        "sideEffects": [identity, relationship, invitation],
        "auditEventId": null,
        "outcomeStatus": "completed",
        "idempotentReplay": false,
        "repair": null,
        "allowedNextActions": ["accept_manager_invitation"],
        "operatorIdentity": {
            "operatorIdentityId": null,
            "operatorIdentityDisposition": "created",
            "sideEffects": [identity],
        },
        "managerMembership": {
            "managerMembershipId": null,
            "managerMembershipStatus": null,
            "sideEffects": [],
        },
        "managerInvitation": {
            "managerInvitationStatus": "pending",
            "sideEffects": [invitation],
            "allowedNextActions": ["accept_manager_invitation"],
        },
        "authorizationRelationship": {
            "authorizationRelationshipStatus": "applied",
            "sideEffects": [relationship],
        },
        "membershipFeePolicy": {
            "membershipFeePolicyId": null,
            "membershipFeePolicyRevision": 1,
            "membershipFeePolicyStatus": "recorded",
            "sideEffects": [],
        },
    });
    assert_eq!(rest, expected);

    let after = organization(&stage);
    assert_eq!(after["organizationRevision"], revision);
    let count = before["branchCount"].as_i64().unwrap() + 1;
    assert_eq!(
        after,
        json!({"organizationRevision": revision, "branchCount": count})
    );
    assert_reads(
        &mut client,
        &hq,
        "/organization",
        &revision.to_string(),
        &after,
    );
    for kind in [
        ActorKind::Mother,
        ActorKind::BranchManager,
        ActorKind::SystemWorkflow,
    ] {
        let refused = client.get("/organization", &stage.token_of(kind));
        assert_refused(&refused, 403, "permission_denied", &[]);
    }

    // The manager is the one who is invited.
    let path = format!("{PATH}/{id}");
    for reader in [&hq, &stage.manager()] {
        assert_reads(&mut client, reader, &path, "1", &created);
    }
    let uninvited = Actor {
        email_verified: false,
        ..stage.actor(ActorKind::BranchManager)
    };
    for stranger in [stage.token(&uninvited), stage.mother(), stage.workflow()] {
        assert_unreadable(&mut client, &stranger, &path);
    }
    // The branch's profile is at its first revision, without an update.
    let profile = format!("/branch-office-profiles/{id}");
    let mut first = client.get(&profile, &hq).json();
    assert_reads(&mut client, &hq, &profile, "1", &first);
    take_time(&mut first, "/effectiveAt");
    assert_eq!(
        first,
        json!({
            "revisionId": null,
            "branchOfficeProfileId": id,
            "revisionNumber": 1,
            "factGroup": "profile",
            "actorId": null,
            "reason": null,
            "effectiveAt": null,
        })
    );
}

#[test]
fn a_replay_is_answered_200_and_says_so() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &hq);
    // The number with dashes, and the revision that is stale by now, are the facts of the key.
    let number = BusinessRegistrationNumber::sample(stage.number);
    let number = number.digits();
    let dashed = format!("{}-{}-{}", &number[..3], &number[3..5], &number[5..]);
    let body = with(
        good.body.clone(),
        "/businessIdentity/registrationNumber",
        json!(dashed),
    );
    for body in [&good.body, &body] {
        let again = good.send(&mut client, &hq, body);
        assert_eq!(again.status, 200, "{again:?}");
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        let expected = with(first.json(), "/idempotentReplay", json!(true));
        assert_eq!(again.json(), expected);
    }
    let reused = good.send(&mut client, &hq, &good.other);
    assert_refused(&reused, 409, "idempotency_key_reused", &[]);
}

#[test]
fn refusals_come_in_their_order_and_leave_nothing_behind() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let first = good.carried_out(&mut client, &hq).json();
    let current = first["organizationRevision"].clone();
    let second = format!("second-{}", stage.number);
    let fresh = with(
        good.body.clone(),
        "/expectedOrganizationRevision",
        current.clone(),
    );
    let fresh = with(fresh, "/commandId", json!(second));
    let fresh = with(
        fresh,
        "/branchCode",
        json!(format!("SECOND_{}", stage.number)),
    );
    let fresh = with(
        fresh,
        "/managerInvitation/email",
        json!(format!("{second}@example.com")),
    );
    let number = BusinessRegistrationNumber::sample(200_000_000 + stage.number);
    let number = number.digits();
    let fresh = with(fresh, "/businessIdentity/registrationNumber", json!(number));

    // From the last rejection to the first, one more thing is wrong in each.
    let taken = |pointer: &str| good.body.pointer(pointer).unwrap().clone();
    let shouted = json!(
        taken("/managerInvitation/email")
            .as_str()
            .unwrap()
            .to_uppercase()
    );
    let stale = json!(current.as_i64().unwrap() - 1);
    let mut body = fresh.clone();
    for (pointer, value, code, path) in [
        (
            "/commandId",
            taken("/commandId"),
            "command_id_reused",
            "commandId",
        ),
        (
            "/managerInvitation/email",
            shouted,
            "invitation_conflict",
            "managerInvitation.email",
        ),
        (
            "/branchCode",
            taken("/branchCode"),
            "branch_code_conflict",
            "branchCode",
        ),
        (
            "/businessIdentity/registrationNumber",
            taken("/businessIdentity/registrationNumber"),
            "business_identity_conflict",
            "businessIdentity.registrationNumber",
        ),
        (
            "/expectedOrganizationRevision",
            stale,
            "organization_revision_stale",
            "expectedOrganizationRevision",
        ),
    ] {
        body = with(body, pointer, value);
        let refused = client.post_keyed(PATH, &hq, "second", &body);
        assert_refused(&refused, 409, code, &[path]);
        if code == "organization_revision_stale" {
            let message = refused.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains(&current.to_string()), "{message}");
        }
    }
    let unpermitted = Actor {
        permissions: vec!["payment:administer".into()],
        ..good.actor.clone()
    };
    let refused = client.post_keyed(PATH, &stage.token(&unpermitted), "second", &body);
    assert_refused(&refused, 403, "permission_denied", &[]);
    assert_eq!(organization(&stage)["organizationRevision"], current);

    // The permission is what counts, whatever the kind; and the key is free.
    let permitted = Actor {
        kind: ActorKind::BranchManager,
        ..good.actor.clone()
    };
    let done = client.post_keyed(PATH, &stage.token(&permitted), "second", &fresh);
    assert_eq!(done.status, 201, "{done:?}");
}

#[test]
fn an_invalid_branch_is_refused_with_all_its_faults() {
    let stage = Stage::new();
    let good = good(&stage);
    let hq = stage.headquarters();
    let mut client = stage.client();
    let number = BusinessRegistrationNumber::sample(300_000_000 + stage.number);
    let number = number.digits();
    let last = number.as_bytes()[9] - b'0';
    let wrong_digit = format!("{}{}", &number[..9], (last + 1) % 10);
    let half_dashed = format!("{}-{}", &number[..3], &number[3..]);
    let mut all = good.body.clone();
    let mut faults = Vec::new();
    for (pointer, value, code) in [
        ("/branchCode", json!("seoul"), "pattern"),
        ("/legalName", json!(" "), "blank"),
        ("/displayName", json!(""), "too_short"),
        ("/commandId", json!("  "), "blank"),
        ("/businessIdentity/jurisdiction", json!("US"), "not_allowed"),
        (
            "/businessIdentity/registrationNumber",
            json!(wrong_digit),
            "pattern",
        ),
        ("/contact/email", json!("nobody"), "pattern"),
        ("/contact/phoneNumber", json!("0212345678"), "pattern"),
        ("/address/postalCode", json!("4805"), "pattern"),
        ("/address/roadAddress", json!("가".repeat(301)), "too_long"),
        ("/managerInvitation/email", json!("a@b@c"), "pattern"),
        ("/managerInvitation/displayName", json!("\t"), "blank"),
        ("/initialLifecycleStatus", json!("closed"), "not_allowed"),
        (
            "/initialMembershipFeePolicy/policyVersion",
            json!(" "),
            "blank",
        ),
        (
            "/initialMembershipFeePolicy/monthlyFeeAmount",
            json!(-1),
            "out_of_range",
        ),
        (
            "/initialMembershipFeePolicy/currencyCode",
            json!("USD"),
            "not_allowed",
        ),
        (
            "/initialMembershipFeePolicy/effectiveFrom",
            json!("2026-02-30"),
            "pattern",
        ),
        ("/reason", json!(""), "too_short"),
    ] {
        let path = pointer[1..].replace('/', ".");
        let body = with(good.body.clone(), pointer, value.clone());
        assert_faults(&good.send(&mut client, &hq, &body), 422, &[(&path, code)]);
        all = with(all, pointer, value);
        faults.push((path, code));
    }
    for number in [half_dashed, format!("{number}0")] {
        let body = with(
            good.body.clone(),
            "/businessIdentity/registrationNumber",
            json!(number),
        );
        let answer = good.send(&mut client, &hq, &body);
        assert_faults(
            &answer,
            422,
            &[("businessIdentity.registrationNumber", "pattern")],
        );
    }
    all = without(all, "/address/detailAddress");
    faults.push(("address.detailAddress".to_owned(), "required"));
    let faults: Vec<_> = faults
        .iter()
        .map(|(path, code)| (path.as_str(), *code))
        .collect();
    assert_faults(&good.send(&mut client, &hq, &all), 422, &faults);
    // At the bounds.
    let body = with(
        good.body.clone(),
        "/branchCode",
        json!(format!("{}-{:_<26}", stage.number % 10, stage.number)),
    );
    let body = with(
        body,
        "/initialMembershipFeePolicy/monthlyFeeAmount",
        json!(0),
    );
    let done = good.send(&mut client, &hq, &body);
    assert_eq!(done.status, 201, "{done:?}");
}
