//! Payment authority and access to care history, as the service's description has them.

use carebook::base::actor::ActorKind;
use serde_json::{Value, json};

use super::commands::{Command, Who};
use super::expected::{Answer, Expected};
use super::state::{
    Access, Delegation, Found, Held, Model, facts_of, millis, moment, n, s, seen, texts,
};

impl Model {
    /// The delegation of this payer for this booking that has not expired.
    pub fn delegation(&self, booking: &str, payer: &str) -> Option<&Delegation> {
        self.delegations.iter().find(|delegation| {
            s(&delegation.body, "reservationBookingId") == booking
                && s(&delegation.body, "payerMemberId") == payer
                && self.now < millis(s(&delegation.body, "expiresAt"))
        })
    }

    pub fn authorize_payment(&mut self, command: &Command, who: &Who) -> Expected {
        let body = &command.body;
        if who.kind != ActorKind::FamilyMember {
            return Expected::forbidden();
        }
        let Some(member) = who.member else {
            return Expected::refused(403, "member_identity_missing");
        };
        let found = self
            .delegation(s(body, "reservationBookingId"), member)
            .filter(|delegation| {
                delegation.account == s(body, "familyAccountId")
                    && delegation.body["motherMemberId"] == body["motherMemberId"]
                    && texts(&delegation.body, "scopes").contains(&s(body, "scope"))
                    && n(body, "amountKrw") <= n(&delegation.body, "maximumAuthorizedAmountKrw")
            });
        match found {
            Some(delegation) => Expected::found(200, delegation.body.clone()),
            None => Expected::refused(400, "payment_grant_missing_or_out_of_scope"),
        }
    }

    pub fn grant_payment_authority(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        let mother = s(body, "motherMemberId");
        if who.kind != ActorKind::Mother || who.member != Some(mother) {
            return Expected::forbidden();
        }
        let account_id = s(body, "familyAccountId");
        let Some(account) = self.fact("family-account", account_id) else {
            return Expected::missing("family_account_not_found");
        };
        if s(&account.facts, "motherMemberId") != mother {
            return Expected::forbidden();
        }
        let payer = s(body, "payerMemberId");
        let booking_id = s(body, "reservationBookingId");
        let booking = self.booking(booking_id);
        let booking = booking.filter(|booking| s(&booking.facts, "motherMemberId") == mother);
        let Some(booking) = booking.filter(|_| {
            texts(body, "scopes") == ["reservation_deposit"]
                && texts(&account.facts, "memberIds").contains(&payer)
        }) else {
            return Expected::conflict("delegation_scope_conflict").anywhere();
        };
        let expires_at = millis(s(body, "expiresAt"));
        if expires_at <= self.now {
            return Expected::conflict("delegation_expiry_conflict").anywhere();
        }
        if self.delegation(booking_id, payer).is_some() {
            return Expected::conflict("delegation_overlap").anywhere();
        }
        let evidence = evidence(
            answer,
            &[
                format!("family-account/{account_id}@{}", account.revision),
                format!("reservation-booking/{booking_id}@{}", booking.revision),
            ],
        );
        let id = self.new_id(answer, "/paymentDelegationId");
        let view = json!({
            "paymentDelegationId": id,
            "payerMemberId": payer,
            "motherMemberId": mother,
            "scopes": ["reservation_deposit"],
            "grantedByMemberId": mother,
            "grantedAt": moment(self.now),
            "expiresAt": moment(expires_at),
            "maximumAuthorizedAmountKrw": body["maximumAuthorizedAmountKrw"],
            "reservationBookingId": booking_id,
            "revokedAt": null,
            "delegationRevision": 1,
            "authorityEvidence": evidence,
            "revokedByMemberId": null,
            "revocationReasonCode": null,
        });
        self.delegations.push(Delegation {
            id: id.as_str().unwrap_or_default().to_owned(),
            account: account_id.to_owned(),
            body: view.clone(),
        });
        Expected::done(201, view)
    }

    pub fn grant_care_history_access(
        &mut self,
        command: &Command,
        who: &Who,
        answer: &Answer,
    ) -> Expected {
        let body = &command.body;
        // The token's member is who grants: a mother who is none may not.
        if who.kind != ActorKind::Mother || who.member.is_none() {
            return Expected::forbidden();
        }
        let account_id = &command.params[0];
        let Some(account) = self.fact("family-account", account_id) else {
            return Expected::missing("family_account_not_found");
        };
        let grantee = s(body, "granteeMemberId");
        if !texts(&account.facts, "memberIds").contains(&grantee) {
            return Expected::missing("grantee_not_found");
        }
        let booking_id = s(body, "reservationBookingId");
        let Some(booking) = self.booking(booking_id) else {
            return Expected::missing("reservation_booking_not_found");
        };
        let Some(mother) = who.member.filter(|member| {
            s(&account.facts, "motherMemberId") == *member
                && s(&booking.facts, "motherMemberId") == *member
        }) else {
            return Expected::forbidden();
        };
        if texts(body, "scopes") != ["summary"] {
            return Expected::conflict("grant_scope_conflict").anywhere();
        }
        let expires_at = millis(s(body, "expiresAt"));
        if expires_at <= self.now {
            return Expected::conflict("grant_expiry_conflict").anywhere();
        }
        let overlaps = self.grants.iter().any(|grant| {
            s(&grant.body, "granteeMemberId") == grantee
                && s(&grant.body, "reservationBookingId") == booking_id
                && self.now < millis(s(&grant.body, "expiresAt"))
        });
        if overlaps {
            return Expected::conflict("grant_overlap").anywhere();
        }
        let evidence = evidence(
            answer,
            &[
                format!("family-account/{account_id}@{}", account.revision),
                format!("reservation-booking/{booking_id}@{}", booking.revision),
            ],
        );
        let id = self.new_id(answer, "/reservationCareHistoryAccessGrantId");
        let view = json!({
            "reservationCareHistoryAccessGrantId": id,
            "granteeMemberId": grantee,
            "motherMemberId": mother,
            "reservationBookingId": booking_id,
            "scopes": ["summary"],
            "grantedByMemberId": mother,
            "grantedAt": moment(self.now),
            "expiresAt": moment(expires_at),
            "revokedAt": null,
            "revision": 1,
            "authorityEvidence": evidence,
            "revokedByMemberId": null,
            "revocationReasonCode": null,
        });
        self.grants.push(Held {
            id: id.as_str().unwrap_or_default().to_owned(),
            body: view.clone(),
            subject: who.subject.to_owned(),
            facts: facts_of(command),
            position: answer.position,
        });
        Expected::done(201, view)
    }

    pub fn read_delegation(&self, command: &Command, who: &Who) -> Found {
        let found = self
            .delegations
            .iter()
            .find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let is = |member: &str| who.member.is_some_and(|own| own == s(&found.body, member));
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::Mother => Access::when(is("motherMemberId")),
            ActorKind::FamilyMember => Access::when(is("payerMemberId")),
            _ => Access::Undetermined,
        };
        (Some((found.body.clone(), Some("1".to_owned()))), access)
    }

    pub fn read_grant(&self, command: &Command, who: &Who) -> Found {
        let found = self.grants.iter().find(|held| held.id == command.params[0]);
        let Some(found) = found else {
            return (None, Access::No);
        };
        let is = |member: &str| who.member.is_some_and(|own| own == s(&found.body, member));
        let access = match who.kind {
            ActorKind::HeadquartersAdministrator => Access::Yes,
            ActorKind::Mother => Access::when(is("motherMemberId")),
            ActorKind::FamilyMember => Access::when(is("granteeMemberId")),
            _ => Access::Undetermined,
        };
        (Some((found.body.clone(), Some("1".to_owned()))), access)
    }
}

/// The evidence in the answer, when it names at least these.
pub fn evidence(answer: &Answer, least: &[String]) -> Value {
    let found = seen(answer, "/authorityEvidence");
    let names: Vec<_> = found
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if least.iter().all(|name| names.contains(&name.as_str())) {
        found
    } else {
        json!(least)
    }
}
