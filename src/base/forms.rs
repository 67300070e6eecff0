//! Traces the forms in which values are stored, from their `Deserialize` implementations: for the
//! list of all stored types, which a test compares.
//!
//! Everything is read through `Deserialize`. So a deserializer that returns zeros and notes each
//! request learns each field with its name, type and place. It can give one answer to each request,
//! so enumerations take several passes: each pass chooses the variant that was chosen least often,
//! until every variant of every enumeration was chosen.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// The form of a value: a word such as `u64`, the name of a type, or a combination of these.
type Form = String;

/// Fields by their names, in order.
type Members = Vec<(String, Form)>;

/// The form of a type that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Named {
    /// A newtype: one value under a name.
    Of(Form),
    /// A struct: fields, in order.
    Members(Members),
    /// An enumeration: variants, in order, each with its fields, once it was traced.
    Variants(Vec<(String, Option<Members>)>),
}

/// All named types that the traced types contain.
#[derive(Default)]
pub(crate) struct Forms {
    named: RefCell<BTreeMap<String, Named>>,
    /// How often each variant was chosen.
    chosen: RefCell<BTreeMap<(String, usize), usize>>,
}

impl Forms {
    /// Traces a type and returns its form.
    pub(crate) fn trace<T: DeserializeOwned>(&self) -> Form {
        self.trace_by(|tracer| T::deserialize(tracer).map(drop))
    }

    /// Traces like [`Forms::trace`], with a function that reads such a type.
    ///
    /// # Panics
    /// When the type does not have a fixed form.
    pub(crate) fn trace_by(&self, read: impl Fn(Tracer<'_>) -> Result<(), Wrong>) -> Form {
        for _ in 0..100_000 {
            let form = RefCell::default();
            read(Tracer {
                forms: self,
                form: &form,
            })
            .unwrap_or_else(|wrong| panic!("{wrong}"));
            if self.is_complete() {
                return form.into_inner();
            }
        }
        panic!("not all of its variants can be reached");
    }

    fn is_complete(&self) -> bool {
        let named = self.named.borrow();
        named.values().all(|named| match named {
            Named::Variants(variants) => variants.iter().all(|(_, members)| members.is_some()),
            _ => true,
        })
    }

    /// Returns the named types in order of their names, each with its fields below it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let member = |(name, form): &(String, Form)| match name.parse::<usize>() {
            Ok(_) => form.clone(),
            Err(_) => format!("{name}: {form}"),
        };
        for (name, named) in self.named.borrow().iter() {
            match named {
                Named::Of(form) => lines.push(format!("{name} = {form}")),
                Named::Members(members) => {
                    lines.push(name.clone());
                    lines.extend(members.iter().map(|one| format!("  {}", member(one))));
                }
                Named::Variants(variants) => {
                    lines.push(format!("{name}, one of"));
                    for (number, (variant, members)) in variants.iter().enumerate() {
                        lines.push(format!("  {number} {variant}"));
                        let members = members.iter().flatten();
                        lines.extend(members.map(|one| format!("      {}", member(one))));
                    }
                }
            }
        }
        lines
    }

    /// Notes a named type; two types of one name have to be the same.
    fn note(&self, name: &str, named: Named) {
        let mut all = self.named.borrow_mut();
        let known = all.entry(name.to_owned()).or_insert_with(|| named.clone());
        assert_eq!(
            *known, named,
            "two stored types of one resource are both called {name}"
        );
    }

    /// Reads fields one after the other, and returns the value with the fields' forms.
    fn members<'de, V: Visitor<'de>>(
        &self,
        names: Vec<String>,
        visitor: V,
    ) -> Result<(V::Value, Members), Wrong> {
        let forms: Vec<RefCell<Form>> = names.iter().map(|_| RefCell::default()).collect();
        let sequence = Sequence {
            forms: self,
            rest: forms.iter(),
        };
        let value = visitor.visit_seq(sequence)?;
        let forms = forms.into_iter().map(RefCell::into_inner);
        Ok((value, names.into_iter().zip(forms).collect()))
    }
}

/// Why a type has no fixed form.
#[derive(Debug)]
pub(crate) struct Wrong(String);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

impl Error for Wrong {
    fn custom<T: fmt::Display>(what: T) -> Self {
        Self(what.to_string())
    }
}

/// Reads a value and notes its form.
pub(crate) struct Tracer<'a> {
    forms: &'a Forms,
    form: &'a RefCell<Form>,
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|number| number.to_string()).collect()
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn listed(members: &[(String, Form)]) -> String {
    let forms: Vec<_> = members.iter().map(|(_, form)| form.as_str()).collect();
    match forms.as_slice() {
        // No stored type has a floating-point number, but arrays of bytes are encoded as some
        // (`crate::base::array`).
        ["f64", rest @ ..] if rest.iter().all(|form| *form == "f64") => {
            format!("[u8; {}]", 8 * forms.len())
        }
        [first, rest @ ..] if rest.iter().all(|form| form == first) => {
            format!("[{first}; {}]", forms.len())
        }
        _ => format!("({})", forms.join(", ")),
    }
}

/// Defines how values without parts are read.
macro_rules! plain {
    ($($read:ident $form:literal $visit:ident($($value:expr)?);)*) => { $(
        fn $read<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
            *self.form.borrow_mut() = $form.to_owned();
            visitor.$visit($($value)?)
        }
    )* };
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Wrong;

    plain! {
        deserialize_bool "bool" visit_bool(false);
        deserialize_i8 "i8" visit_i8(0);
        deserialize_i16 "i16" visit_i16(0);
        deserialize_i32 "i32" visit_i32(0);
        deserialize_i64 "i64" visit_i64(0);
        deserialize_i128 "i128" visit_i128(0);
        deserialize_u8 "u8" visit_u8(0);
        deserialize_u16 "u16" visit_u16(0);
        deserialize_u32 "u32" visit_u32(0);
        deserialize_u64 "u64" visit_u64(0);
        deserialize_u128 "u128" visit_u128(0);
        deserialize_f32 "f32" visit_f32(0.0);
        deserialize_f64 "f64" visit_f64(0.0);
        deserialize_char "char" visit_char('a');
        deserialize_str "string" visit_borrowed_str("");
        deserialize_string "string" visit_borrowed_str("");
        // 16 bytes, as many as an identifier has.
        deserialize_bytes "bytes" visit_borrowed_bytes(&[0; 16]);
        deserialize_byte_buf "bytes" visit_borrowed_bytes(&[0; 16]);
        deserialize_unit "nothing" visit_unit();
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let form = RefCell::default();
        let value = visitor.visit_some(Tracer {
            form: &form,
            ..self
        })?;
        *self.form.borrow_mut() = format!("optional {}", form.into_inner());
        Ok(value)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        self.deserialize_tuple_struct(name, 0, visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let form = RefCell::default();
        let value = visitor.visit_newtype_struct(Tracer {
            form: &form,
            ..self
        })?;
        self.forms.note(name, Named::Of(form.into_inner()));
        *self.form.borrow_mut() = name.to_owned();
        Ok(value)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let (value, members) = self.forms.members(numbers(1), visitor)?;
        *self.form.borrow_mut() = format!("list of {}", members[0].1);
        Ok(value)
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let (value, members) = self.forms.members(numbers(count), visitor)?;
        *self.form.borrow_mut() = listed(&members);
        Ok(value)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let (value, members) = self.forms.members(numbers(count), visitor)?;
        self.forms.note(name, Named::Members(members));
        *self.form.borrow_mut() = name.to_owned();
        Ok(value)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        let forms = [RefCell::default(), RefCell::default()];
        let map = Sequence {
            forms: self.forms,
            rest: forms.iter(),
        };
        let value = visitor.visit_map(map)?;
        let [key, of] = forms.map(RefCell::into_inner);
        *self.form.borrow_mut() = format!("map of {key} to {of}");
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let (value, members) = self.forms.members(names(fields), visitor)?;
        self.forms.note(name, Named::Members(members));
        *self.form.borrow_mut() = name.to_owned();
        Ok(value)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let chosen = {
            let mut chosen = self.forms.chosen.borrow_mut();
            let mut often = |variant| *chosen.entry((name.to_owned(), variant)).or_default();
            let variant = (0..variants.len()).min_by_key(|variant| often(*variant));
            let variant = variant.ok_or_else(|| Wrong(format!("{name} has no variants")))?;
            *chosen.entry((name.to_owned(), variant)).or_default() += 1;
            variant
        };
        *self.form.borrow_mut() = name.to_owned();
        let members = RefCell::default();
        let value = visitor.visit_enum(Variant {
            forms: self.forms,
            number: u32::try_from(chosen).map_err(Wrong::custom)?,
            members: &members,
        })?;
        let mut all = self.forms.named.borrow_mut();
        let all_names: Vec<_> = variants
            .iter()
            .map(|name| ((*name).to_owned(), None))
            .collect();
        let known = all
            .entry(name.to_owned())
            .or_insert(Named::Variants(all_names));
        let Named::Variants(known) = known else {
            panic!("two stored types of one resource are both called {name}");
        };
        let (word, known) = &mut known[chosen];
        let members = members.into_inner();
        let same =
            *word == variants[chosen] && known.as_ref().is_none_or(|known| *known == members);
        assert!(
            same,
            "two stored types of one resource are both called {name}"
        );
        *known = Some(members);
        Ok(value)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Wrong> {
        Err(Wrong("an identifier is asked for".to_owned()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        self.deserialize_any(visitor)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Wrong> {
        Err(Wrong(
            "whatever there is is asked for: it has no fixed form".to_owned(),
        ))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Returns one value for each form that is to be noted.
struct Sequence<'a> {
    forms: &'a Forms,
    rest: std::slice::Iter<'a, RefCell<Form>>,
}

impl<'de> SeqAccess<'de> for Sequence<'_> {
    type Error = Wrong;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Wrong> {
        let forms = self.forms;
        let next = self.rest.next();
        next.map(|form| seed.deserialize(Tracer { forms, form }))
            .transpose()
    }
}

impl<'de> MapAccess<'de> for Sequence<'_> {
    type Error = Wrong;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Wrong> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Wrong> {
        let value = self.next_element_seed(seed)?;
        value.ok_or_else(|| Wrong("a key has no value".to_owned()))
    }
}

/// Returns one variant.
struct Variant<'a> {
    forms: &'a Forms,
    number: u32,
    members: &'a RefCell<Members>,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Wrong;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Wrong> {
        let number: U32Deserializer<Wrong> = self.number.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Wrong;

    fn unit_variant(self) -> Result<(), Wrong> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Wrong> {
        let form = RefCell::default();
        let tracer = Tracer {
            forms: self.forms,
            form: &form,
        };
        let value = seed.deserialize(tracer)?;
        *self.members.borrow_mut() = vec![("0".to_owned(), form.into_inner())];
        Ok(value)
    }

    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Wrong> {
        let (value, members) = self.forms.members(numbers(count), visitor)?;
        *self.members.borrow_mut() = members;
        Ok(value)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let (value, members) = self.forms.members(names(fields), visitor)?;
        *self.members.borrow_mut() = members;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;

    use super::*;
    use crate::base::codec::Blob;
    use crate::base::digest::Digest;
    use crate::base::time::Timestamp;

    crate::wire_enum! {
        /// For the test.
        enum Colour {
            /// r
            Red = "red",
            /// g
            Green = "green",
        }
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Thing {
        id: uuid::Uuid,
        at: Option<Timestamp>,
        amounts: BTreeMap<String, i64>,
        happened: Vec<Happened>,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    enum Happened {
        Nothing,
        Painted(Colour),
        Moved { to: Digest, with: (u8, Blob) },
    }

    #[test]
    fn every_member_word_and_variant_is_told_in_its_order() {
        let forms = Forms::default();
        assert_eq!(forms.trace::<Thing>(), "Thing");
        let lines = forms.lines();
        let told: Vec<_> = lines.iter().map(String::as_str).collect();
        let expected = [
            "Colour, one of",
            "  0 red",
            "  1 green",
            "Digest = [u8; 16]",
            "Happened, one of",
            "  0 Nothing",
            "  1 Painted",
            "      Colour",
            "  2 Moved",
            "      to: Digest",
            "      with: (u8, bytes)",
            "Instant = i64",
            "Thing",
            "  id: bytes",
            "  at: optional Instant",
            "  amounts: map of string to i64",
            "  happened: list of Happened",
        ];
        assert_eq!(told, expected);
    }
}
