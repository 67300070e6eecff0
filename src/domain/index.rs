//! The indexes: what unique keys are unique in, and what lists are of.

use crate::base::digest::Digest;

crate::wire_enum! {
    /// The indexes, unique and secondary. New ones go at the end: their numbers are hashed into keys.
    /// An index is either unique or secondary, never both.
    pub enum Index {
        /// The code of a settlement statement.
        StatementCode = "statement code",
        /// The subject that owns a mother profile.
        ProfileOwner = "profile owner",
        /// A list: the current consent versions that every mother must have accepted.
        RequiredConsents = "required consents",
        /// A list: the facts that apply one relationship of object, relation and subject.
        Relationship = "relationship",
        /// The code of a settlement data-room request.
        DataRoomRequestCode = "data-room request code",
        /// The booking that a confirmed draft extends.
        ExtensionSource = "extension source",
        /// The code of a branch.
        BranchCode = "branch code",
        /// A business: jurisdiction and number in its register.
        BusinessIdentity = "business identity",
        /// The e-mail address, in lower case, that has an invitation that is pending.
        PendingInvitation = "pending invitation",
        /// The identifier of the command that created a branch.
        BranchCommand = "branch command",
        /// A list: the branches whose invitation to one e-mail address one subject accepted.
        AcceptedInvitation = "accepted invitation",
        /// A list: the payments that the gateway finds by one search key.
        GatewaySearchKey = "gateway search key",
        /// A list: the regional benefit policies for one type of service that name exactly one place.
        RegionalBenefitPolicies = "regional benefit policies",
        /// A list with ranks: the payment-change adjustments of one booking.
        BookingAdjustments = "payment-change adjustments of a booking",
        /// A list: the messages with numbers near each other that are not settled.
        UnsettledMessages = "unsettled messages",
        /// What the sender of a message knows it by.
        MessageReference = "message reference",
        /// A list with ranks: the webhook subscriptions that there are, by their creation.
        WebhookSubscriptions = "webhook subscriptions",
        /// A list: the books of the delegations to one payer.
        PayerBooks = "books of a payer",
        /// A list: the facts that apply some relationship of one relation and subject.
        RelationshipsOfSubject = "relationships of a subject",
        /// A list: the consent versions that there ever were.
        ConsentVersions = "consent versions",
        /// A list: the payment-change adjustments that one mother has paid with one payment.
        CapturedPayment = "captured payment",
    }
}

/// A key in an index: a unique key, which one resource holds at a time, or the key of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexKey(pub Digest);

impl IndexKey {
    /// Returns the key made of `parts` in `index`.
    #[must_use]
    pub fn new(index: Index, parts: &[&str]) -> Self {
        /// Keeps digests of index keys distinct from those of resources.
        const INDEX_LABEL: u16 = 0x8000;
        Self(Digest::of(INDEX_LABEL | index as u16, parts))
    }
}
