//! Determines which fields of commands, facts, states, events, responses and messages are personal data. Declarations
//! mark their fields (`personal` in [`json_object!`]); a field of the same name in a state, an event or a message
//! holds the same data. Code that shows data to people who must not see personal data (`carebook inspect`, public
//! events) uses this module.
//!
//! An undeclared field is hidden where it is text: a forgotten declaration hides too much, not too little.
//!
//! [`json_object!`]: crate::json_object

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::base::json::{Personal, Shape};
use crate::catalogue::OPERATIONS;
use crate::domain::fact_kinds::FACTS;

/// How much of a field's value a reader sees who may not see personal data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Masking {
    /// The value is shown, unless its text looks like a contact ([`looks_personal`]).
    Plain,
    /// Nothing is shown, whatever the value is.
    Hidden,
    /// Numbers are shown, and texts that can only be an identifier or a time; other texts are hidden.
    IfCode,
}

/// A field of a command or of a fact that holds personal data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonalField {
    /// Name of the operation or of the kind of facts.
    pub of: &'static str,
    /// Names of the fields on the way to it, and its own name at the end.
    pub path: Vec<&'static str>,
    /// Kind of personal data.
    pub says: Personal,
}

/// Returns the personal fields of all commands and facts, by their declarations.
#[must_use]
pub fn personal_fields() -> Vec<PersonalField> {
    let mut found = Vec::new();
    for row in OPERATIONS {
        collect(
            row.name,
            &mut Vec::new(),
            &row.operation.shape(),
            &mut found,
        );
    }
    for kind in FACTS {
        collect(kind.kind().name, &mut Vec::new(), &kind.shape(), &mut found);
    }
    found
}

fn collect(
    of: &'static str,
    path: &mut Vec<&'static str>,
    shape: &Shape,
    found: &mut Vec<PersonalField>,
) {
    match shape {
        Shape::List { of: inner, .. } | Shape::Map { of: inner, .. } => {
            collect(of, path, inner, found)
        }
        Shape::Object(fields) => {
            for field in fields {
                path.push(field.name);
                found.extend(field.personal.map(|says| PersonalField {
                    of,
                    path: path.clone(),
                    says,
                }));
                collect(of, path, &field.shape, found);
                path.pop();
            }
        }
        _ => {}
    }
}

/// The hidden fields by name: those declared personal, and `OWN`.
pub static HIDDEN: LazyLock<BTreeMap<&str, Personal>> = LazyLock::new(|| {
    let declared = personal_fields().into_iter();
    let declared = declared.filter_map(|field| Some((*field.path.last()?, field.says)));
    declared.chain(OWN.iter().copied()).collect()
});

/// Personal fields of states, events and messages that no command and no fact has.
const OWN: &[(&str, Personal)] = &[
    ("message", Personal::FreeText),
    ("resultMessage", Personal::FreeText),
    ("description", Personal::FreeText),
    ("providerMessage", Personal::FreeText),
    ("gatewayMessage", Personal::FreeText),
    // The components of a charge, whose names the sender chooses, and the metadata of audits.
    ("components", Personal::Open),
    ("metadata", Personal::Open),
    // The event of a search: its value is the search word.
    ("searched", Personal::Search),
];

/// Endings of the names of fields that hold identifiers, times, amounts and words of our own.
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

/// Names of other fields that hold identifiers and words of our own.
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

/// Converts a field's name to its form in JSON: `full_name` and `FullName` become `fullName`.
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

/// Returns how the value of a field is masked; the name may be spelled as in JSON or as in the code.
#[must_use]
pub fn shown(member: &str) -> Masking {
    let name = json_name(member);
    if HIDDEN.contains_key(name.as_str()) {
        return Masking::Hidden;
    }
    if PLAIN.contains(&name.as_str()) || PLAIN_ENDINGS.iter().any(|end| name.ends_with(end)) {
        return Masking::Plain;
    }
    Masking::IfCode
}

/// Whether a text is, or contains, a possible e-mail address or phone number. Identifiers are opaque, and some
/// systems put such data into them.
#[must_use]
pub fn looks_personal(text: &str) -> bool {
    if uuid::Uuid::try_parse(text).is_ok() || is_time(text) {
        return false;
    }
    text.contains('@') && !is_versioned_key(text) || has_phone_number(text)
}

/// Whether the text is the identifier of a consent version such as `privacy@2025-01`, which is no address.
fn is_versioned_key(text: &str) -> bool {
    let digits = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_digit() || b".-".contains(&byte))
    };
    matches!(text.split_once('@'), Some((_, version)) if !version.is_empty() && digits(version))
}

/// Whether the text is a date, or a timestamp in this service's format.
fn is_time(text: &str) -> bool {
    use crate::base::time::{Date, Timestamp};
    Date::parse(text).is_some() || Timestamp::parse(text).is_some()
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
            // Digits run into letters in hexadecimal numbers, but not in phone numbers.
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

/// Whether a text can only be an identifier or a time: a UUID, the hexadecimal digits of a hash, or a timestamp.
#[must_use]
pub fn is_code(text: &str) -> bool {
    use crate::base::time::Timestamp;
    let hash = matches!(text.len(), 32 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    hash || uuid::Uuid::try_parse(text).is_ok() || Timestamp::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_found_in_every_spelling() {
        for name in ["fullName", "full_name", "FullName"] {
            assert_eq!(shown(name), Masking::Hidden, "{name}");
        }
        assert_eq!(
            shown("postal_code"),
            Masking::Hidden,
            "although it ends as a code does"
        );
        assert_eq!(shown("statement_code"), Masking::Plain);
        assert_eq!(
            shown("nicknameOfTheCat"),
            Masking::IfCode,
            "nobody has said what it is"
        );
    }

    #[test]
    fn no_member_is_both_hidden_and_plain_or_listed_twice() {
        for name in HIDDEN.keys() {
            assert!(!PLAIN.contains(name), "{name}");
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

    /// Returns every field of every command and fact: its owner, its name, its shape, and its kind of personal data.
    fn declared() -> Vec<(&'static str, &'static str, Shape, Option<Personal>)> {
        fn collect(
            of: &'static str,
            shape: Shape,
            found: &mut Vec<(&'static str, &'static str, Shape, Option<Personal>)>,
        ) {
            match shape {
                Shape::List { of: inner, .. } | Shape::Map { of: inner, .. } => {
                    collect(of, *inner, found);
                }
                Shape::Object(fields) => {
                    for field in fields {
                        found.push((of, field.name, field.shape.clone(), field.personal));
                        collect(of, field.shape, found);
                    }
                }
                _ => {}
            }
        }
        let mut found = Vec::new();
        for row in OPERATIONS {
            collect(row.name, row.operation.shape(), &mut found);
        }
        for kind in FACTS {
            collect(kind.kind().name, kind.shape(), &mut found);
        }
        found
    }

    /// Longer texts without personal data: identifiers and words of other systems.
    const NOT_PERSONAL: &[&str] = &[
        "chargebackState",
        "fieldPath",
        "kind",
        "method",
        "object",
        "ownerSubject",
        "policyVersion",
        "purpose",
        "refundState",
        "relation",
        "serviceCalendarImpactPolicyFingerprint",
        "subject",
    ];

    #[test]
    fn names_contacts_addresses_days_of_birth_and_free_text_are_marked() {
        let may_say_anything = |shape: &Shape| match shape {
            // Identifiers have at most 512 characters; longer texts, names and lines of an address are personal.
            Shape::Text { longest, form, .. } => {
                matches!(longest, 100 | 300 | 1_024 | 4_000) && form.is_empty()
                    || ["five digits", "an e-mail address"].contains(form)
                    || form.contains("8 to 15 digits")
            }
            Shape::Any => true,
            _ => false,
        };
        let unmarked: Vec<_> = declared()
            .into_iter()
            .filter(|(_, name, shape, personal)| {
                personal.is_none() && may_say_anything(shape) && !NOT_PERSONAL.contains(name)
            })
            .map(|(of, name, ..)| format!("{of}: {name}"))
            .collect();
        assert_eq!(unmarked, [""; 0]);
    }

    #[test]
    fn a_name_says_the_same_of_a_person_wherever_it_is_declared() {
        for (of, name, shape, personal) in declared() {
            assert_eq!(HIDDEN.get(name).copied(), personal, "{of}: {name}");
            // No declared text is left undecided.
            if matches!(shape, Shape::Text { .. } | Shape::Words(_)) {
                assert_ne!(shown(name), Masking::IfCode, "{of}: {name}");
            }
        }
        for (name, _) in OWN {
            assert!(
                !declared().iter().any(|(_, other, ..)| other == name),
                "{name}"
            );
        }
        assert!(personal_fields().len() > 60);
    }
}
