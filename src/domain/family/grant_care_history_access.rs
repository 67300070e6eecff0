//! A mother lets a member of her family read the care history of one of her reservations.
//!
//! Resource: the book of the grantee's access grants for the booking. Rejections, in the order
//! tested: the actor is no mother whom the token names (403); the family account is unknown, the
//! grantee is not in it, the booking is unknown (404); account or booking is another mother's
//! (403); the scopes are not exactly the one there is, the grant would be over already, an active
//! one shares a scope (409). The mother who grants is the actor, never a field of the body.

use super::care_history_authority::{
    CareHistoryAccessGranted, CareHistoryAuthority, CareHistoryAuthorityEvent, CareHistoryGrant,
    CareHistoryGrantBody, CareHistoryGrantEntered, CareHistoryGrantEvent, SUMMARY,
};
use super::grant::{GrantTerms, evidence, is_only};
use crate::base::actor::ActorKind;
use crate::base::digest::Digest;
use crate::base::text::{BookingId, FamilyAccountId, Ident, MemberId};
use crate::base::time::Timestamp;
use crate::domain::example::Example;
#[cfg(test)]
use crate::domain::ladder::{Case, Ladder};
use crate::domain::operation::{Commit, Context, Decision, Operation, to_json};
use crate::domain::reference::kinds::family_account::FamilyAccount;
use crate::domain::reference::kinds::reservation_booking::ReservationBooking;
use crate::domain::rejection::{Declared, Rejection};
use crate::domain::resource::Resource;
use crate::{json_object, module_doc, path_and_body, rejections};

json_object! {
    /// The body of the request.
    pub struct Body {
        /// Who may read.
        pub grantee_member_id: MemberId = "granteeMemberId",
        /// The booking.
        pub reservation_booking_id: BookingId = "reservationBookingId",
        /// What may be read.
        pub scopes: Vec<Ident> = "scopes" known [SUMMARY],
        /// The point from which on nothing may be read.
        pub expires_at: Timestamp = "expiresAt",
    }
}

path_and_body! {
    /// The request: the account in its path, and its body.
    pub struct Command {
        /// The family account.
        pub family_account_id: FamilyAccountId = "familyAccountId",
        body: Body,
    }
}

rejections! {
    /// Why no access is granted.
    pub enum Reason {
        /// Authority by token.
        NotPermitted = Forbidden "permission_denied" []
            "Only a mother, named as a member by her token, may grant access to care history.",
        /// The account is unknown.
        FamilyAccountNotFound = Missing "family_account_not_found" []
            "There is no family account with this identifier.",
        /// The grantee is not in the account.
        GranteeNotFound = Missing "grantee_not_found" []
            "The family account has no such member.",
        /// The booking is unknown.
        ReservationBookingNotFound = Missing "reservation_booking_not_found" []
            "There is no reservation booking with this identifier.",
        /// Authority by resource.
        NotThisMother = Forbidden "permission_denied" []
            "The family account or the reservation booking is another mother's.",
        /// The scopes are not the one there is.
        GrantScopeConflict = Conflict "grant_scope_conflict" ["scopes"]
            "The scopes asked for are not those that can be granted.",
        /// It would be over already.
        GrantExpiryConflict = Conflict "grant_expiry_conflict" ["expiresAt"]
            "The grant would have expired already.",
        /// An active one shares a scope.
        GrantOverlap = Conflict "grant_overlap"
            ["granteeMemberId", "reservationBookingId", "scopes"]
            "An active grant of this member for this booking shares a scope.",
    }
}

/// The operation.
pub struct GrantCareHistoryAccess;

impl Operation for GrantCareHistoryAccess {
    type Command = Command;
    type Resource = CareHistoryAuthority;
    type Answer = CareHistoryGrantBody<'static>;

    const DOC: &'static str = module_doc!("grant_care_history_access.rs");
    const REJECTIONS: &'static [Declared] = Reason::TABLE;

    const EXAMPLE: Example = Example {
        actor: ActorKind::Mother,
        path: &["family-account-1"],
        body: r#"{
  "granteeMemberId": "member-family-1",
  "reservationBookingId": "reservation-booking-1",
  "scopes": ["summary"],
  "expiresAt": "2099-01-01T00:00:00Z"
}"#,
        changed_value: ("/granteeMemberId", r#""member-family-2""#),
        needs_facts: &[
            ("reservation-booking", "reservation-booking-1"),
            ("family-account", "family-account-1"),
        ],
        unique_ids: &["family-account-1", "reservation-booking-1"],
        id_in_response: "reservation-booking-1",
        ..Example::NEW
    };

    #[cfg(test)]
    fn ladder() -> Ladder {
        use crate::domain::reference::Fact;
        Ladder::of(&[ActorKind::Mother])
            .then(Reason::NotPermitted, |case| {
                case.by(ActorKind::FamilyMember)
            })
            .then(Reason::FamilyAccountNotFound, Case::at_unknown)
            .then(Reason::GranteeNotFound, |case| {
                case.set("/granteeMemberId", "stranger")
            })
            .then(Reason::ReservationBookingNotFound, |case| {
                case.set("/reservationBookingId", "unknown")
            })
            .then(Reason::NotThisMother, |case| {
                case.alter("family-account-1", |account: &mut Fact<FamilyAccount>| {
                    account.facts.mother_member_id = MemberId::from_trusted("another");
                })
            })
            .then(Reason::GrantScopeConflict, |case| {
                case.set("/scopes", vec!["everything"])
            })
            .then(Reason::GrantExpiryConflict, |case| {
                case.set("/expiresAt", "2026-01-01T00:00:00Z")
            })
            .then(Reason::GrantOverlap, |case| case.done_before(|_| ()))
    }

    fn target(command: &Command, _: &Context<'_>) -> Option<Digest> {
        let id = [
            command.body.reservation_booking_id.as_str(),
            command.body.grantee_member_id.as_str(),
        ];
        Some(CareHistoryAuthority::KIND.key(&id))
    }

    fn decide(
        book: Option<&CareHistoryAuthority>,
        command: &Command,
        context: &Context<'_>,
    ) -> Result<Decision<CareHistoryAuthority>, Rejection> {
        let (actor, body) = (context.actor, &command.body);
        let mother = actor
            .member_id
            .as_ref()
            .filter(|_| actor.kind == ActorKind::Mother);
        let Some(mother) = mother else {
            return Err(Reason::NotPermitted.into());
        };
        let Some(account) = context
            .view
            .fact::<FamilyAccount>(&command.family_account_id)
        else {
            return Err(Reason::FamilyAccountNotFound.into());
        };
        if !account.facts.has_member(&body.grantee_member_id) {
            return Err(Reason::GranteeNotFound.into());
        }
        let booking = context
            .view
            .fact::<ReservationBooking>(&body.reservation_booking_id);
        let Some(booking) = booking else {
            return Err(Reason::ReservationBookingNotFound.into());
        };
        if account.facts.mother_member_id != *mother || booking.facts.mother_member_id != *mother {
            return Err(Reason::NotThisMother.into());
        }
        if !is_only(&body.scopes, SUMMARY) {
            return Err(Reason::GrantScopeConflict.into());
        }
        if body.expires_at <= context.now {
            return Err(Reason::GrantExpiryConflict.into());
        }
        let standing = book.and_then(|book| book.latest(&context.view));
        if standing.is_some_and(|held| {
            held.grant.is_active(context.now) && held.grant.shares_scope(&body.scopes)
        }) {
            return Err(Reason::GrantOverlap.into());
        }
        let event = CareHistoryAuthorityEvent::Entered(Box::new(CareHistoryGrantEntered {
            reservation_booking_id: body.reservation_booking_id.clone(),
            grantee_member_id: body.grantee_member_id.clone(),
            grant_id: context.new_id,
        }));
        let mut commit = Commit::new(book, event, context.at);
        let granted = CareHistoryGrantEvent::Granted(Box::new(CareHistoryAccessGranted {
            reservation_booking_id: body.reservation_booking_id.clone(),
            grantee_member_id: body.grantee_member_id.clone(),
            terms: GrantTerms {
                grant_id: context.new_id,
                family_account_id: command.family_account_id.clone(),
                mother_member_id: mother.clone(),
                scopes: body.scopes.clone(),
                expires_at: body.expires_at,
                authority_evidence: vec![evidence(&account), evidence(&booking)],
            },
        }));
        let grant = commit.create::<CareHistoryGrant>(&granted);
        commit.answer(to_json(&CareHistoryGrantBody::new(&grant)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::base::revision::Revision;
    use crate::domain::family::grant::Revocation;
    use crate::domain::family::samples::{access, family, minted, mother};
    use crate::domain::rejection::Class;
    use crate::domain::scenario::{Scenario, Then, actor, with};

    fn grant_in(service: &mut Scenario, account: &str, body: &Value) -> Then {
        service.when(
            "grant_care_history_access",
            &[("familyAccountId", account)],
            body,
        )
    }

    fn grant(service: &mut Scenario, body: &Value) -> Then {
        grant_in(service, "account-1", body)
    }

    /// Makes a service with the families, in which the first mother acts.
    fn by_mother() -> Scenario {
        let mut service = family();
        service.acting(mother());
        service
    }

    #[track_caller]
    fn assert_refused(then: Then, class: Class, code: &str, places: &[&str]) {
        let refusal = then.refusal();
        assert_eq!((refusal.class, refusal.code), (class, code));
        assert_eq!(refusal.conflicting, places);
    }

    #[test]
    fn a_mother_grants_at_revision_one_and_nobody_else_is_told() {
        let mut service = by_mother();
        let answer = grant(&mut service, &access()).committed();
        let expected = json!({
            "reservationCareHistoryAccessGrantId": minted(5),
            "granteeMemberId": "father",
            "motherMemberId": "mother-1",
            "reservationBookingId": "booking-1",
            "scopes": ["summary"],
            "grantedByMemberId": "mother-1",
            "grantedAt": "2026-11-20T12:00:00.000Z",
            "expiresAt": "2026-12-01T00:00:00.000Z",
            "revokedAt": null,
            "revision": 1,
            "authorityEvidence": ["family-account/account-1@3", "reservation-booking/booking-1@5"],
            "revokedByMemberId": null,
            "revocationReasonCode": null,
        });
        assert_eq!(answer, expected);
        assert!(service.outbox.is_empty());
        let book = service
            .state::<CareHistoryAuthority>(&["booking-1", "father"])
            .unwrap();
        assert_eq!(book.revision, Revision::FIRST);
        let id = &answer["reservationCareHistoryAccessGrantId"];
        assert_eq!(book.latest.to_string(), *id);
    }

    #[test]
    fn a_mother_whom_the_token_does_not_name_as_a_member_may_not_grant() {
        let mut service = family();
        service.acting(actor(ActorKind::Mother, "user-1"));
        let then = grant(&mut service, &access());
        assert_refused(then, Class::Forbidden, "permission_denied", &[]);
    }

    #[test]
    fn the_account_or_booking_of_another_mother_is_forbidden_before_conflicts() {
        let mut service = by_mother();
        let no_scope = with(&access(), &[("scopes", json!([]))]);
        let booking = with(&no_scope, &[("reservationBookingId", json!("booking-2"))]);
        assert_refused(
            grant(&mut service, &booking),
            Class::Forbidden,
            "permission_denied",
            &[],
        );
        let account = with(&no_scope, &[("granteeMemberId", json!("grandmother"))]);
        let then = grant_in(&mut service, "account-2", &account);
        assert_refused(then, Class::Forbidden, "permission_denied", &[]);
    }

    #[test]
    fn scopes_other_than_the_one_there_is_are_a_conflict() {
        for scopes in [
            json!([]),
            json!(["summary", "summary"]),
            json!(["review"]),
            json!(["summary", "rating"]),
        ] {
            let then = grant(&mut by_mother(), &with(&access(), &[("scopes", scopes)]));
            assert_refused(then, Class::Conflict, "grant_scope_conflict", &["scopes"]);
        }
    }

    #[test]
    fn a_grant_that_expires_at_this_moment_is_a_conflict() {
        let over = with(&access(), &[("expiresAt", json!("2026-11-20T12:00:00Z"))]);
        let then = grant(&mut by_mother(), &over);
        assert_eq!(then.code(), "grant_expiry_conflict");
    }

    #[test]
    fn a_second_grant_waits_until_the_first_is_over() {
        let mut service = by_mother();
        let brief = with(
            &access(),
            &[("expiresAt", json!("2026-11-20T12:00:00.001Z"))],
        );
        grant(&mut service, &brief).committed();
        let places = ["granteeMemberId", "reservationBookingId", "scopes"];
        let then = grant(&mut service, &access());
        assert_refused(then, Class::Conflict, "grant_overlap", &places);
        let second = grant(service.at("2026-11-20T12:00:00.001Z"), &access()).committed();
        assert_eq!(second["revision"], 1, "each grant counts for itself");
        let book = service
            .state::<CareHistoryAuthority>(&["booking-1", "father"])
            .unwrap();
        assert_eq!(book.revision, Revision::new(2));
        let id = &second["reservationCareHistoryAccessGrantId"];
        assert_eq!(book.latest.to_string(), *id);
    }

    #[test]
    fn the_thousandth_grant_costs_no_more_and_the_first_is_still_read() {
        let mut service = by_mother();
        let start = Timestamp::parse("2026-11-20T12:00:00Z").unwrap();
        let mut costs = Vec::new();
        let mut first = Value::Null;
        for number in 0..1_000 {
            let now = start.plus_seconds(number);
            let end = json!(now.plus_seconds(1).to_string());
            let brief = with(&access(), &[("expiresAt", end)]);
            let answer = grant(service.at(&now.to_string()), &brief).committed();
            costs.push(service.cost);
            if number == 0 {
                first = answer;
            }
        }
        let (least, most) = (costs[0], costs[999]);
        println!("the first grant: {least:?}, the thousandth: {most:?}");
        // A revision takes a few more bytes when it is larger.
        assert!(most.record <= least.record + 16, "{least:?}, {most:?}");
        assert!(most.states <= least.states + 16, "{least:?}, {most:?}");
        let id = first["reservationCareHistoryAccessGrantId"]
            .as_str()
            .unwrap();
        let read = service.read("read_care_history_grant", &[("id", id)]);
        assert_eq!(read.unwrap(), ("1".to_owned(), first.clone()));
    }

    #[test]
    fn another_members_grant_does_not_overlap() {
        let mut service = by_mother();
        grant(&mut service, &access()).committed();
        grant(
            &mut service,
            &with(&access(), &[("granteeMemberId", json!("aunt"))]),
        )
        .committed();
    }

    #[test]
    fn a_revoked_grant_makes_room_for_another_and_is_read_as_revoked() {
        let mut service = by_mother();
        grant(&mut service, &access()).committed();
        let book = service
            .state::<CareHistoryAuthority>(&["booking-1", "father"])
            .unwrap();
        let mut held = service.view(|view| book.latest(view)).unwrap();
        held.grant.revision = Revision::new(2);
        held.grant.revocation = Some(Revocation {
            revoked_at: Timestamp::parse("2026-11-20T12:00:00Z").unwrap(),
            revoked_by_member_id: MemberId::from_trusted("mother-1"),
            revocation_reason_code: None,
        });
        service.given(&held);
        grant(&mut service, &access()).committed();
        let id = held.grant.terms.grant_id.to_string();
        let (tag, revoked) = service
            .read("read_care_history_grant", &[("id", &id)])
            .unwrap();
        assert_eq!((tag.as_str(), &revoked["revision"]), ("2", &json!(2)));
        assert_eq!(revoked["revokedAt"], "2026-11-20T12:00:00.000Z");
        assert_eq!(revoked["revokedByMemberId"], "mother-1");
        assert_eq!(revoked["revocationReasonCode"], Value::Null);
    }
}
