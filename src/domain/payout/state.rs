//! A receipt state: how events change it, how it is shown.

use serde::{Deserialize, Serialize};

use crate::base::digest::Digest;
use crate::base::revision::Revision;
use crate::base::text::{AssignmentKey, BookingId, CaregiverId, Ident, PayoutInstructionId, Text};
use crate::base::time::Timestamp;
use crate::domain::listing::{Filter, List, by_few, by_many, is};
use crate::domain::resource::{Kind, Resource};
use crate::domain::response_body::response_body;
use crate::{public_events, wire_enum};

wire_enum! {
    /// What is known of the receipt. Before anything is, it is `unrecorded`, which no read shows.
    pub enum ReceiptState {
        /// An exception was repaired.
        Repaired = "repaired",
        /// The branch has acknowledged the deposit.
        Acknowledged = "acknowledged",
    }
}

wire_enum! {
    /// What became of the last command.
    pub enum ReceiptStatus {
        /// A repair was recorded.
        Recorded = "recorded",
        /// A deposit was acknowledged.
        Acknowledged = "acknowledged",
    }
}

impl ReceiptState {
    /// Returns the status that belongs to it.
    #[must_use]
    pub fn status(self) -> ReceiptStatus {
        match self {
            Self::Repaired => ReceiptStatus::Recorded,
            Self::Acknowledged => ReceiptStatus::Acknowledged,
        }
    }
}

/// A payout, as a command names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payout {
    /// The booking.
    pub reservation_booking_id: BookingId,
    /// The assignment under contract.
    pub contract_assignment_key: AssignmentKey,
    /// The instruction to pay.
    pub caregiver_payout_instruction_id: PayoutInstructionId,
    /// The role in which the caregiver serves.
    pub caregiver_role: Ident,
    /// The place in the order of handoffs, from 1 on.
    pub handoff_order: i64,
    /// The caregiver, if named.
    pub caregiver_id: Option<CaregiverId>,
}

impl Payout {
    /// The parts of its receipt state's identifier.
    #[must_use]
    pub fn id(&self) -> [&str; 3] {
        [
            &self.reservation_booking_id,
            &self.contract_assignment_key,
            &self.caregiver_payout_instruction_id,
        ]
    }

    /// The key of its receipt state.
    #[must_use]
    pub fn key(&self) -> Digest {
        PayoutReceipt::KIND.key(&self.id())
    }
}

/// The recorded receipt of a payout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayoutReceipt {
    /// The payout, as the last command named it.
    pub payout: Payout,
    /// The number of commits that it has seen.
    pub revision: Revision,
    /// Its state.
    pub receipt_state: ReceiptState,
    /// The reason, in the words of the last command.
    pub reason: Option<Text>,
    /// The profile of the last command's actor.
    pub actor_profile_id: Box<str>,
    /// The time of the event, as the last command reported it.
    pub occurred_at: Timestamp,
    /// The deposit, once it is acknowledged.
    pub deposit: Option<Deposit>,
}

/// A deposit that its branch has acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deposit {
    /// When it was made.
    pub occurred_at: Timestamp,
    /// When it was acknowledged.
    pub acknowledged_at: Timestamp,
    /// The profile of the actor who acknowledged it.
    pub actor_profile_id: Box<str>,
    /// The branch's note.
    pub memo: Option<Text>,
}

/// The event that an exception is repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptRepaired {
    /// The payout.
    pub payout: Payout,
    /// The actor's profile.
    pub actor_profile_id: Box<str>,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// The reason, in the actor's words.
    pub reason: Text,
}

/// The event that a deposit is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DepositAcknowledged {
    /// The payout.
    pub payout: Payout,
    /// The actor's profile.
    pub actor_profile_id: Box<str>,
    /// When the deposit was made.
    pub occurred_at: Timestamp,
    /// The branch's note.
    pub memo: Option<Text>,
    /// The reason, in the actor's words.
    pub reason: Option<Text>,
}

/// What can happen to a receipt state. New events go at the end: records store their index, and each has a
/// line in `public_events!`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum PayoutReceiptEvent {
    /// An exception is repaired.
    Repaired(Box<ReceiptRepaired>),
    /// A deposit is acknowledged.
    DepositAcknowledged(Box<DepositAcknowledged>),
}

impl Resource for PayoutReceipt {
    const KIND: Kind = Kind {
        tag: 107,
        name: "payout-receipt-state",
    };
    const ID_PARTS: usize = 3;
    type Event = PayoutReceiptEvent;
    const LIST: Option<List<Self>> = Some(
        List::<Self>::by(&[
            by_few(Filter::Booking, |it| is(&it.payout.reservation_booking_id)),
            by_many(Filter::Status, |it| is(it.receipt_state.as_str())),
        ])
        .bound(
            |it| Some(&it.payout.reservation_booking_id),
            &[Filter::Branch, Filter::Mother],
        ),
    );

    fn apply(state: Option<Self>, event: &PayoutReceiptEvent, at: Timestamp) -> Self {
        let revision = state
            .as_ref()
            .map_or(Revision::FIRST, |state| state.revision.next());
        let before = state.as_ref().map(|state| state.payout.key());
        let deposit = state.and_then(|state| state.deposit);
        let next = match event {
            PayoutReceiptEvent::Repaired(repaired) => Self {
                payout: repaired.payout.clone(),
                revision,
                receipt_state: ReceiptState::Repaired,
                reason: Some(repaired.reason.clone()),
                actor_profile_id: repaired.actor_profile_id.clone(),
                occurred_at: repaired.occurred_at,
                deposit,
            },
            PayoutReceiptEvent::DepositAcknowledged(acknowledged) => {
                assert!(deposit.is_none(), "a deposit is acknowledged once");
                Self {
                    payout: acknowledged.payout.clone(),
                    revision,
                    receipt_state: ReceiptState::Acknowledged,
                    reason: acknowledged.reason.clone(),
                    actor_profile_id: acknowledged.actor_profile_id.clone(),
                    occurred_at: acknowledged.occurred_at,
                    deposit: Some(Deposit {
                        occurred_at: acknowledged.occurred_at,
                        acknowledged_at: at,
                        actor_profile_id: acknowledged.actor_profile_id.clone(),
                        memo: acknowledged.memo.clone(),
                    }),
                }
            }
        };
        assert!(
            before.is_none_or(|before| before == next.payout.key()),
            "a receipt state stays that of its payout"
        );
        next
    }

    fn id(&self) -> Vec<String> {
        self.payout
            .id()
            .into_iter()
            .map(ToString::to_string)
            .collect()
    }

    fn revision(&self) -> Revision {
        self.revision
    }

    fn validate(&self) -> Result<(), String> {
        if self.revision < Revision::FIRST {
            return Err(format!("a receipt state at revision {}", self.revision));
        }
        if self.payout.handoff_order < 1 {
            return Err(format!("handoff order {}", self.payout.handoff_order));
        }
        if self.receipt_state == ReceiptState::Acknowledged && self.deposit.is_none() {
            return Err("acknowledged without a deposit".to_owned());
        }
        Ok(())
    }
}

public_events! {
    PayoutReceipt by PayoutReceiptEvent, read at "caregiver-payout-receipt-states/{}/{}/{}",
        revision own;

    /// The receipt of a caregiver's payout is to be repaired.
    Repaired(repaired) => "repaired" {
        "caregiverRole": Ident = repaired.payout.caregiver_role,
        "handoffOrder": i64 = repaired.payout.handoff_order,
        "caregiverId": Option<CaregiverId> = repaired.payout.caregiver_id,
        "occurredAt": Timestamp = repaired.occurred_at,
    },
    /// The branch has acknowledged that the payout is deposited.
    DepositAcknowledged(acknowledged) => "deposit-acknowledged" {
        "caregiverRole": Ident = acknowledged.payout.caregiver_role,
        "handoffOrder": i64 = acknowledged.payout.handoff_order,
        "caregiverId": Option<CaregiverId> = acknowledged.payout.caregiver_id,
        "occurredAt": Timestamp = acknowledged.occurred_at,
    },
}

response_body! {
    /// A receipt state as its readers see it.
    #[schemars(rename = "CaregiverPayoutReceipt")]
    pub struct PayoutReceiptBody<'a> from (receipt: &'a PayoutReceipt) {
        let payout = &receipt.payout;
    } as {
        reservation_booking_id: &'a BookingId = &payout.reservation_booking_id,
        contract_assignment_key: &'a AssignmentKey = &payout.contract_assignment_key,
        caregiver_payout_instruction_id: &'a PayoutInstructionId =
            &payout.caregiver_payout_instruction_id,
        receipt_state: ReceiptState = receipt.receipt_state,
        revision: Revision = receipt.revision,
        status: ReceiptStatus = receipt.receipt_state.status(),
        reason: Option<&'a Text> = receipt.reason.as_ref(),
        actor_profile_id: Option<&'a str> = Some(&receipt.actor_profile_id),
        occurred_at: Option<Timestamp> = Some(receipt.occurred_at),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn payout() -> Payout {
        Payout {
            reservation_booking_id: BookingId::from_trusted("booking-1"),
            contract_assignment_key: AssignmentKey::from_trusted("contract-1"),
            caregiver_payout_instruction_id: PayoutInstructionId::from_trusted("instruction-1"),
            caregiver_role: Ident::from_trusted("primary"),
            handoff_order: 1,
            caregiver_id: None,
        }
    }

    fn acknowledged() -> PayoutReceipt {
        let event = PayoutReceiptEvent::DepositAcknowledged(Box::new(DepositAcknowledged {
            payout: payout(),
            actor_profile_id: "manager-1".into(),
            occurred_at: Timestamp::from_millis(1),
            memo: Some(Text::from_trusted("counted")),
            reason: None,
        }));
        PayoutReceipt::apply(None, &event, Timestamp::from_millis(2))
    }

    #[test]
    fn an_acknowledged_deposit_outlives_a_repair() {
        let acknowledged = acknowledged();
        assert_eq!(acknowledged.revision, Revision::FIRST);
        let event = PayoutReceiptEvent::Repaired(Box::new(ReceiptRepaired {
            payout: payout(),
            actor_profile_id: "hq-1".into(),
            occurred_at: Timestamp::from_millis(3),
            reason: Text::from_trusted("Sent back."),
        }));
        let repaired = PayoutReceipt::apply(
            Some(acknowledged.clone()),
            &event,
            Timestamp::from_millis(4),
        );
        assert_eq!(repaired.revision.number(), 2);
        assert_eq!(repaired.receipt_state, ReceiptState::Repaired);
        assert_eq!(&*repaired.actor_profile_id, "hq-1");
        let deposit = repaired.deposit.clone().unwrap();
        assert_eq!(deposit.acknowledged_at, Timestamp::from_millis(2));
        assert_eq!(deposit.memo, Some(Text::from_trusted("counted")));
        assert_eq!(repaired.deposit, acknowledged.deposit);
        assert_eq!(repaired.validate(), Ok(()));
    }

    #[test]
    fn a_state_that_cannot_be_is_told() {
        let mut receipt = acknowledged();
        receipt.deposit = None;
        assert!(receipt.validate().unwrap_err().contains("deposit"));
        let mut receipt = acknowledged();
        receipt.revision = Revision::NONE;
        assert!(receipt.validate().unwrap_err().contains("revision 0"));
        let mut receipt = acknowledged();
        receipt.payout.handoff_order = 0;
        assert!(receipt.validate().unwrap_err().contains("handoff"));
    }

    #[test]
    #[should_panic(expected = "stays that of its payout")]
    fn an_event_of_another_payout_does_not_follow() {
        let mut other = payout();
        other.contract_assignment_key = AssignmentKey::from_trusted("contract-2");
        let event = PayoutReceiptEvent::Repaired(Box::new(ReceiptRepaired {
            payout: other,
            actor_profile_id: "hq-1".into(),
            occurred_at: Timestamp::default(),
            reason: Text::from_trusted("x"),
        }));
        PayoutReceipt::apply(Some(acknowledged()), &event, Timestamp::default());
    }
}
