//! The contents of the messages that ask other systems for the side effects of a branch's creation.

use serde::Serialize;
use uuid::Uuid;

use super::onboarding::{SideEffect, SideEffectKind, SideEffectStatus};
use super::state::{BusinessIdentity, Founding, RelationshipTuple};
use crate::base::text::{BranchCode, NonBlankText};

/// The content of a message, with the status of its side effect in the commit: a message whose side
/// effect is completed there is not sent. The receiver does not get the status.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Recorded<'a> {
    branch_id: Uuid,
    status: SideEffectStatus,
    #[serde(flatten)]
    content: Content<'a>,
}

/// Returns the message of this side effect as it is recorded.
pub(super) fn recorded(founding: &Founding, side_effect: &SideEffect) -> impl Serialize {
    Recorded {
        branch_id: founding.branch_id,
        status: side_effect.status,
        content: content(founding, side_effect.kind),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    #[serde(rename_all = "camelCase")]
    OperatorIdentity {
        operator_identity_id: Uuid,
        branch_code: &'a BranchCode,
        legal_name: &'a NonBlankText,
        display_name: &'a NonBlankText,
        business_identity: &'a BusinessIdentity,
    },
    #[serde(rename_all = "camelCase")]
    AuthorizationRelationship {
        authorization_relationships: [RelationshipTuple; 2],
    },
    #[serde(rename_all = "camelCase")]
    ManagerInvitation {
        invitation_id: Uuid,
        email: &'a str,
        display_name: &'a NonBlankText,
    },
}

fn content(founding: &Founding, kind: SideEffectKind) -> Content<'_> {
    match kind {
        SideEffectKind::OperatorIdentity => Content::OperatorIdentity {
            operator_identity_id: founding.operator_identity_id,
            branch_code: &founding.branch_code,
            legal_name: &founding.legal_name,
            display_name: &founding.display_name,
            business_identity: &founding.business_identity,
        },
        SideEffectKind::AuthorizationRelationship => Content::AuthorizationRelationship {
            authorization_relationships: founding.relationships(),
        },
        SideEffectKind::ManagerInvitation => Content::ManagerInvitation {
            invitation_id: founding.invitation_id,
            email: &founding.invitee.email,
            display_name: &founding.invitee.display_name,
        },
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples::{SILENT, created_with, minted};
    use crate::domain::outbox::message::Message;

    #[test]
    fn receivers_are_told_all_that_they_need_and_no_status() {
        let (scenario, answer) = created_with(SILENT);
        let told: Vec<Value> = [6, 7, 8]
            .map(|number| {
                let message = scenario
                    .view(|view| Message::of_number(view, number))
                    .unwrap();
                let path = format!("admin/branches/{}", minted(1));
                assert_eq!(*message.resource, path);
                serde_json::from_slice(&message.unsettled.unwrap().body.0).unwrap()
            })
            .into();
        assert_eq!(
            told,
            [
                json!({
                    "branchId": minted(1),
                    "operatorIdentityId": minted(4),
                    "branchCode": "SEOUL-1",
                    "legalName": "서울산후케어 주식회사",
                    "displayName": "서울 1지점",
                    "businessIdentity":
                        {"jurisdiction": "KR", "registrationNumber": "1248100998"},
                }),
                json!({
                    "branchId": minted(1),
                    "authorizationRelationships": answer["authorizationRelationships"],
                }),
                json!({
                    "branchId": minted(1),
                    "invitationId": minted(3),
                    "email": "Mina.Kim@Example.org",
                    "displayName": "김 미나",
                }),
            ]
        );
    }

    #[test]
    fn messages_of_the_embedded_directory_are_born_taken() {
        let (scenario, _) = super::super::samples::created();
        for number in [6, 7, 8] {
            let message = scenario
                .view(|view| Message::of_number(view, number))
                .unwrap();
            assert!(message.is_taken() && message.unsettled.is_none());
        }
    }
}
