//! Which members of states, events, answers and messages say something about a person. The one
//! list of them: what shows data to people who need not see that (`carebook inspect`) asks here.
//!
//! A member that stands in neither list is hidden where it is text: somebody who adds one and
//! forgets this file hides too much, not too little.

/// What a member's value is to somebody who may not see personal data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Shown, unless its text looks like a contact ([`looks_personal`]).
    Plain,
    /// Nothing of it is shown, whatever it holds.
    Hidden,
    /// Numbers are shown, and text that can only be an identifier or a time; other text is not.
    IfCode,
}

/// Why a member is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// What somebody is called. Businesses too: many carry their owner's name.
    Name,
    /// How somebody is reached.
    Contact,
    /// Where somebody lives or works, or the region of it.
    Address,
    /// When somebody was born.
    Birth,
    /// Whose bank account, and which.
    Bank,
    /// A number in a register that leads to a person or to a business of one.
    Register,
    /// Text of somebody's own: people write names, numbers and health into it.
    FreeText,
    /// Members of the sender's choice: nobody knows what is in them.
    Open,
    /// A word to search for, which may be a name or a number.
    Search,
}

/// The members that are hidden, each with the reason.
pub const HIDDEN: &[(&str, Why)] = &[
    ("fullName", Why::Name),
    ("displayName", Why::Name),
    ("legalName", Why::Name),
    ("accountHolder", Why::Bank),
    ("accountNumberDisplay", Why::Bank),
    ("maskedAccountReference", Why::Bank),
    ("bankName", Why::Bank),
    ("email", Why::Contact),
    ("contactEmail", Why::Contact),
    ("phoneNumber", Why::Contact),
    ("primaryPhoneNumber", Why::Contact),
    ("normalizedValue", Why::Contact),
    ("contact", Why::Contact),
    ("address", Why::Address),
    ("addressLine", Why::Address),
    ("postalCode", Why::Address),
    ("roadAddress", Why::Address),
    ("detailAddress", Why::Address),
    ("serviceAddressLevel1", Why::Address),
    ("serviceAddressLevel2", Why::Address),
    ("serviceAddressLevel3", Why::Address),
    ("level1", Why::Address),
    ("level2", Why::Address),
    ("level3", Why::Address),
    ("birthDate", Why::Birth),
    ("businessIdentity", Why::Register),
    ("registrationNumber", Why::Register),
    ("registrationIdentityReference", Why::Register),
    ("businessRegistrationReference", Why::Register),
    ("reason", Why::FreeText),
    ("memo", Why::FreeText),
    ("message", Why::FreeText),
    ("messageToBranch", Why::FreeText),
    ("headOfficePrivateMemo", Why::FreeText),
    ("resultMessage", Why::FreeText),
    ("acknowledgementNote", Why::FreeText),
    ("description", Why::FreeText),
    ("providerMessage", Why::FreeText),
    ("gatewayMessage", Why::FreeText),
    ("fileName", Why::FreeText),
    ("storageObjectKey", Why::FreeText),
    ("externalRecipientCode", Why::FreeText),
    ("providerContext", Why::Open),
    ("reviewedFacts", Why::Open),
    ("components", Why::Open),
    ("metadata", Why::Open),
    ("searchKey", Why::Search),
    ("searchKeys", Why::Search),
    // The event of a search: its value is the word.
    ("searched", Why::Search),
];

/// Endings of members that hold identifiers, times, amounts and words of our own.
const PLAIN_ENDINGS: &[&str] = &[
    "Id",
    "Ids",
    "At",
    "On",
    "Until",
    "From",
    "Start",
    "End",
    "Revision",
    "Krw",
    "Kind",
    "Status",
    "State",
    "Purpose",
    "Purposes",
    "Fingerprint",
    "Method",
    "Code",
    "Codes",
    "Action",
    "Actions",
    "Lifecycle",
    "Timing",
    "Basis",
    "Target",
    "Targets",
];

/// Other members that hold identifiers and words of our own.
const PLAIN: &[&str] = &[
    "id",
    "kind",
    "state",
    "status",
    "action",
    "role",
    "caregiverRole",
    "scope",
    "scopes",
    "paymentDelegationScope",
    "purpose",
    "lifecycle",
    "intent",
    "creationOutcome",
    "method",
    "bucket",
    "displayMethodName",
    "serviceType",
    "relation",
    "object",
    "subject",
    "ownerSubject",
    "acceptedBySubject",
    "authorityEvidence",
    "evidence",
    "evidenceKey",
    "sourceEvidenceKey",
    "sourceEvidenceKeys",
    "sourceReferenceKey",
    "settlementLineKey",
    "projectedSettlementLineKeys",
    "matchingRequestKey",
    "assignmentKey",
    "filledBy",
    "latest",
    "targetAssignmentKey",
    "previousAssignmentKey",
    "contractAssignmentKey",
    "replacementOfAssignmentKey",
    "idempotencyKey",
    "policyKey",
    "policyVersion",
    "versionLabel",
    "providerRoutingKey",
    "providerName",
    "fieldPath",
    "completeness",
    "profileCompleteness",
    "collection",
    "collectionChannel",
    "exportFormat",
    "storageBucket",
    "contentSha256",
    "merchantOfRecord",
    "receiptIssuer",
    "settlementParticipation",
    "decision",
    "fact",
    "captureSource",
    "verificationAuthority",
    "jurisdiction",
    "disposition",
    "operatorIdentityDisposition",
    "authorizationRelationship",
    "operatorIdentity",
    "managerInvitation",
    "acknowledgementSide",
    "side",
    "financialStage",
    "topic",
];

/// The member's name as it is in JSON: `full_name` and `FullName` are `fullName`.
fn json_name(member: &str) -> String {
    let mut name = String::with_capacity(member.len());
    let mut upper = false;
    for (index, letter) in member.char_indices() {
        match letter {
            '_' => upper = true,
            _ if index == 0 => name.push(letter.to_ascii_lowercase()),
            _ if upper => {
                name.push(letter.to_ascii_uppercase());
                upper = false;
            }
            _ => name.push(letter),
        }
    }
    name
}

/// What the value of the member so named is, in JSON's spelling or the code's.
#[must_use]
pub fn shown(member: &str) -> Shown {
    let name = json_name(member);
    if HIDDEN.iter().any(|(hidden, _)| *hidden == name) {
        return Shown::Hidden;
    }
    if PLAIN.contains(&name.as_str()) || PLAIN_ENDINGS.iter().any(|end| name.ends_with(end)) {
        return Shown::Plain;
    }
    Shown::IfCode
}

/// Whether text is, or has in it, what can be an e-mail address or a phone number. Identifiers are
/// opaque and some systems put such things into them.
#[must_use]
pub fn looks_personal(text: &str) -> bool {
    if uuid::Uuid::try_parse(text).is_ok() || is_time(text) {
        return false;
    }
    text.contains('@') && !is_versioned_key(text) || has_phone_number(text)
}

/// `privacy@2025-01`: the identifier of a consent version is no address.
fn is_versioned_key(text: &str) -> bool {
    let digits = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || b".-".contains(&byte))
    };
    matches!(text.split_once('@'), Some((_, version)) if !version.is_empty() && digits(version))
}

/// A date, or a point in time as it is written here.
fn is_time(text: &str) -> bool {
    use crate::base::time::{Date, Instant};
    Date::parse(text).is_some() || Instant::parse(text).is_some()
}

/// Whether digits that may be grouped by hyphens, dots, blanks and brackets make a phone number: 8
/// to 15 of them after a plus sign, 9 to 11 that begin with a zero, or nothing but 8 to 15 digits.
fn has_phone_number(text: &str) -> bool {
    let is_separator = |letter: char| matches!(letter, '-' | '.' | ' ' | '(' | ')' | '/');
    let mut digits = 0;
    let (mut plus, mut zero) = (false, false);
    let mut before = None;
    let is_number = |digits: usize, plus: bool, zero: bool| {
        plus && (8..=15).contains(&digits) || zero && (9..=11).contains(&digits)
    };
    for letter in text.chars() {
        if letter.is_ascii_digit() {
            if digits == 0 {
                plus = before == Some('+');
                zero = letter == '0' && !before.is_some_and(char::is_alphabetic);
            }
            digits += 1;
        } else if digits == 0 || !is_separator(letter) {
            // Digits run into letters in hexadecimal, not in phone numbers.
            if is_number(digits, plus, zero && !letter.is_alphabetic()) {
                return true;
            }
            digits = 0;
        }
        before = Some(letter);
    }
    if is_number(digits, plus, zero) {
        return true;
    }
    let all = text
        .chars()
        .all(|letter| letter.is_ascii_digit() || is_separator(letter) || letter == '+');
    all && (8..=15).contains(&text.chars().filter(char::is_ascii_digit).count())
}

/// Whether text can only be an identifier or a time: a UUID, hexadecimal digits of a hash, a point
/// in time.
#[must_use]
pub fn is_code(text: &str) -> bool {
    use crate::base::time::Instant;
    let hash = matches!(text.len(), 32 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    hash || uuid::Uuid::try_parse(text).is_ok() || Instant::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_in_every_spelling() {
        for name in ["fullName", "full_name", "FullName"] {
            assert_eq!(shown(name), Shown::Hidden, "{name}");
        }
        assert_eq!(
            shown("postal_code"),
            Shown::Hidden,
            "although it ends as a code does"
        );
        assert_eq!(shown("statement_code"), Shown::Plain);
        assert_eq!(
            shown("nicknameOfTheCat"),
            Shown::IfCode,
            "nobody has said what it is"
        );
    }

    #[test]
    fn no_member_is_both_hidden_and_plain_or_listed_twice() {
        for (index, (name, _)) in HIDDEN.iter().enumerate() {
            assert!(!PLAIN.contains(name), "{name}");
            assert!(
                HIDDEN[..index].iter().all(|(other, _)| other != name),
                "{name}"
            );
            assert_eq!(*name, json_name(name));
        }
        for name in PLAIN {
            assert_eq!(*name, json_name(name));
        }
    }

    #[test]
    fn addresses_and_numbers_are_seen_wherever_they_stand() {
        for text in [
            "mina@example.org",
            "user:mina@example.org",
            "+821012345678",
            "member+821012345678x",
            "010-1234-5678",
            "tel 010 1234 5678",
            "01012345678",
            "02-345-6789",
            "12345678",
            "110-234-567890",
        ] {
            assert!(looks_personal(text), "{text}");
        }
        for text in [
            "hq-1",
            "key-17",
            "payment-20261120",
            "0199aa00-0000-7000-8000-000000000001",
            "01990000-0000-7000-8000-000000000001",
            "2026-11-20",
            "2026-11-20T00:00:00.000Z",
            "privacy@2025-01",
            "branch-seoul-1",
            "S-1",
        ] {
            assert!(!looks_personal(text), "{text}");
        }
    }
}
