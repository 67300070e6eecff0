//! The table of the kinds of facts, each with the resource that receives them. It depends on the
//! resources, so they cannot use it: an operation that needs facts of any kind gets [`revision_of`] in
//! its context.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value, json};

use super::reference::Fact;
use super::reference::kinds::{
    actor, candidate_snapshot, consent_version, extension_eligibility, family_account,
    final_review_projection, payment_product_plan, payout_instruction, regional_benefit_policy,
    relationship, reservation_booking, reservation_financial_facts, settlement_account,
};
use super::reference::put::{AnyFactKind, FactRevision, FactsOf};
use crate::base::json::{FromJson as _, Side};
use crate::base::revision::Revision;
use crate::domain::branch::office_profile::BranchOfficeProfile;
use crate::domain::mother::state::MotherProfile;
use crate::domain::payment::gateway_subject::PaymentSubject;
use crate::domain::payment::obligation::Obligation;
use crate::domain::reservation::adjustment::PaymentChangeAdjustment;
use crate::domain::reservation::draft::ReservationDraft;
use crate::domain::resource::ReadView;

/// The kinds of facts, each with the resource that receives them.
pub static FACTS: &[&dyn AnyFactKind] = &[
    &FactsOf::<Fact<actor::ActorFact>>::NEW,
    &FactsOf::<Fact<family_account::FamilyAccount>>::NEW,
    &FactsOf::<Fact<reservation_booking::ReservationBooking>>::NEW,
    &FactsOf::<MotherProfile>::NEW,
    &FactsOf::<Fact<consent_version::ConsentVersionFact>>::NEW,
    &FactsOf::<ReservationDraft>::NEW,
    &FactsOf::<Fact<final_review_projection::FinalReviewProjectionFact>>::NEW,
    &FactsOf::<Fact<extension_eligibility::ExtensionEligibilityFact>>::NEW,
    &FactsOf::<Fact<payment_product_plan::PaymentProductPlan>>::NEW,
    &FactsOf::<Obligation>::NEW,
    &FactsOf::<Fact<candidate_snapshot::CandidateSnapshotFact>>::NEW,
    &FactsOf::<Fact<payout_instruction::PayoutInstructionFact>>::NEW,
    &FactsOf::<Fact<reservation_financial_facts::ReservationFinancialFact>>::NEW,
    &FactsOf::<Fact<regional_benefit_policy::RegionalBenefitPolicyFact>>::NEW,
    &FactsOf::<PaymentChangeAdjustment>::NEW,
    &FactsOf::<BranchOfficeProfile>::NEW,
    &FactsOf::<Fact<settlement_account::SettlementAccountFact>>::NEW,
    &FactsOf::<Fact<relationship::Relationship>>::NEW,
    &FactsOf::<PaymentSubject>::NEW,
];

/// Stands for the schema of a fact of any kind in a response.
pub struct AnyFact;

impl JsonSchema for AnyFact {
    fn schema_name() -> Cow<'static, str> {
        "ReferenceFact".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        let FactSchemas { kinds, by_kind } = fact_schemas(Side::Response, schemas);
        json_schema!({"oneOf": kinds, "discriminator": by_kind})
    }
}

/// The schemas of a fact of each kind.
pub struct FactSchemas {
    /// References to them, for a `oneOf`.
    pub kinds: Vec<Value>,
    /// The rule by which a receiver knows the kind (the Discriminator Object of `OpenAPI`).
    pub by_kind: Value,
}

/// Makes the schemas of a fact of each kind, each with a name of its own: `ActorFact` in responses and
/// `ActorFactToPut` in requests, with their facts in `ActorFacts` and `ActorFactsToPut`.
pub fn fact_schemas(side: Side, schemas: &mut SchemaGenerator) -> FactSchemas {
    let end = match side {
        Side::Request => "ToPut",
        Side::Response => "",
    };
    let named_kinds = FACTS.iter().map(|kind| {
        let name: String = kind.kind().name.split('-').map(capital).collect();
        let facts = named(
            format!("{name}Facts{end}"),
            kind.shape().schema(side),
            schemas,
        );
        let fact = fact_schema(*kind, facts, side);
        (
            kind.kind().name,
            named(format!("{name}Fact{end}"), fact, schemas),
        )
    });
    let named_kinds: Vec<_> = named_kinds.collect();
    let mapping: Map<_, _> = named_kinds
        .iter()
        .map(|(kind, to)| ((*kind).to_owned(), to["$ref"].clone()))
        .collect();
    FactSchemas {
        kinds: named_kinds.into_iter().map(|(_, to)| to).collect(),
        by_kind: json!({"propertyName": "kind", "mapping": mapping}),
    }
}

/// Adds the schema under this name, and returns a reference to it.
fn named(name: String, schema: Value, schemas: &mut SchemaGenerator) -> Value {
    let place = format!("#{}/{name}", schemas.settings().definitions_path);
    let before = schemas.definitions_mut().insert(name, schema);
    debug_assert!(before.is_none(), "two schemas have one name");
    json!({ "$ref": place })
}

/// Returns the word with a capital letter.
fn capital(word: &str) -> String {
    let mut letters = word.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Returns the schema of a fact of this kind; `facts` is the schema of its facts.
fn fact_schema(kind: &dyn AnyFactKind, facts: Value, side: Side) -> Value {
    let revision = match side {
        Side::Request => FactRevision::shape().schema(side),
        // Commits here advance it beyond the bound of those that come in.
        Side::Response => json!({"type": "integer", "format": "int64", "minimum": 1}),
    };
    let mut id = kind.id_shape().schema(Side::Request);
    id["description"] = json!(kind.id());
    json!({
        "type": "object",
        "properties": {
            "kind": {"type": "string", "const": kind.kind().name},
            "id": id,
            "revision": revision,
            "facts": facts,
        },
        "required": ["kind", "id", "revision", "facts"],
        "additionalProperties": false,
    })
}

/// Returns the current revision of a fact of the kind named `kind`; `None` when there is no such fact,
/// or no such kind.
#[must_use]
pub fn revision_of(view: &ReadView<'_>, kind: &str, id: &str) -> Option<Revision> {
    let kind = FACTS.iter().find(|known| known.kind().name == kind)?;
    kind.revision(id, view)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};
    use serde_json::Value;

    use super::*;
    use crate::base::json::{Json, Reader};
    use crate::base::time::Timestamp;
    use crate::domain::reference::put::read_fact;
    use crate::domain::reference::samples;
    use crate::domain::scenario::{Scenario, Then};

    /// Pieces of random identifiers: valid ones, invalid ones, and characters that look like white
    /// space and are none.
    const PIECES: [&str; 27] = [
        "a", "z", "privacy", "0", "9", "_", ".", ":", "-", "@", "@", "@", "A", "é", "가", "😀",
        " ", "\t", "\n", "\r", "\u{85}", "\u{a0}", "\u{1680}", "\u{3000}", "\u{200b}", "\u{feff}",
        "\u{1c}",
    ];

    /// Number of pieces that labels may contain.
    const OF_LABELS: usize = 9;

    fn random_text(pieces: &[&str], random: &mut SmallRng) -> String {
        let piece = |random: &mut SmallRng| pieces[random.random_range(0..pieces.len())];
        let few = random.random_range(0..6);
        let mut all: Vec<_> = (0..few).map(|_| piece(random).to_owned()).collect();
        // Sometimes about as long as an identifier, or a part of one, may be.
        if random.random_ratio(1, 3) {
            let bounds = [120, 241, 255, 512];
            let most = bounds[random.random_range(0..bounds.len())] + 1_usize;
            let long = piece(random).repeat(most - random.random_range(0..4));
            all.insert(random.random_range(0..=all.len()), long);
        }
        all.concat()
    }

    /// Returns any text, or two labels, since among random texts there would be nearly no labels.
    fn random_id(random: &mut SmallRng) -> String {
        if random.random() {
            return random_text(&PIECES, random);
        }
        let labels = &PIECES[..OF_LABELS];
        [random_text(labels, random), random_text(labels, random)].join("@")
    }

    #[test]
    fn an_identifier_fits_the_schema_of_its_kind_exactly_when_it_is_taken() {
        let mut random = SmallRng::seed_from_u64(crate::base::testing::seed());
        for kind in FACTS {
            let name = kind.kind().name;
            let schema = fact_schema(*kind, json!({}), Side::Request)["properties"]["id"].clone();
            let validator = jsonschema::validator_for(&schema).unwrap();
            let (mut taken, mut refused) = (0, 0);
            for _ in 0..1_000 {
                let id = random_id(&mut random);
                let fact = json!({"kind": name, "id": id, "revision": 1, "facts": {}}).to_string();
                let mut at = Reader::new(Timestamp::default());
                read_fact(&Json::parse(fact.as_bytes()).unwrap(), FACTS, &mut at);
                let is_taken = at.into_faults().iter().all(|fault| fault.path != "id");
                assert_eq!(validator.is_valid(&json!(id)), is_taken, "{name} {id:?}");
                *if is_taken { &mut taken } else { &mut refused } += 1;
            }
            assert!(taken > 3 && refused > 3, "{name}: {taken} {refused}");
        }
    }

    #[test]
    fn a_fact_of_any_kind_is_found_as_it_came_in() {
        let mut service = Scenario::new();
        let world: Vec<Value> = samples::lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let mut kinds = std::collections::BTreeSet::new();
        for (revision, fact) in (3..).zip(&world) {
            let (kind, id) = (fact["kind"].as_str().unwrap(), fact["id"].as_str().unwrap());
            let of = |service: &Scenario| service.view(|view| revision_of(view, kind, id));
            assert_eq!(of(&service), None, "{kind} {id}");
            service.fact(kind, id, revision, fact["facts"].clone());
            assert_eq!(of(&service), Some(Revision::new(revision)), "{kind} {id}");
            // The read returns the fact as it came in, with null for absent fields.
            let known = FACTS
                .iter()
                .find(|known| known.kind().name == kind)
                .unwrap();
            let (_, told) = service.view(|view| known.find(id, view)).unwrap();
            let mut told: Value = serde_json::from_slice(&told).unwrap();
            let came_in = fact["facts"].as_object().unwrap();
            let told = told.as_object_mut().unwrap();
            told.retain(|name, value| !value.is_null() || came_in.contains_key(name));
            assert_eq!(told, came_in, "{kind} {id}");
            // Putting the same fact once more changes nothing.
            let again = service.put_fact(kind, id, revision, fact["facts"].clone());
            assert!(matches!(again, Then::Answered(_)), "{kind} {id}: {again:?}");
            kinds.insert(kind);
        }
        assert_eq!(kinds.len(), FACTS.len());
        service.view(|view| {
            assert_eq!(revision_of(view, "actor", "nobody"), None);
            assert_eq!(revision_of(view, "settlement-statement", "mother-1"), None);
        });
    }
}
