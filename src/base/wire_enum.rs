//! Enumerations whose values have names in JSON.

/// Declares an enumeration with the JSON name of each value: `as_str`, `parse`, reading from a
/// request (`not_allowed` for another name) and writing. JSON contains the name; records contain
/// one byte, the value's number in the order of declaration. So new values go at the end, and with
/// a new version of each kind of resource that uses the enumeration.
#[macro_export]
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $( $(#[$value_meta:meta])* $value:ident = $word:literal ),+ $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(::serde::Serialize, ::serde::Deserialize)]
        $vis enum $name {
            $( $(#[$value_meta])* #[serde(rename = $word)] $value ),+
        }

        #[allow(dead_code)]
        impl $name {
            /// Every value, in the order of declaration.
            $vis const ALL: [Self; [$(stringify!($value)),+].len()] = [$(Self::$value),+];

            /// The name in JSON.
            #[must_use]
            $vis const fn as_str(self) -> &'static str {
                match self { $( Self::$value => $word ),+ }
            }

            /// The value with this name.
            #[must_use]
            $vis fn parse(word: &str) -> Option<Self> {
                match word { $( $word => Some(Self::$value), )+ _ => None }
            }
        }

        impl $crate::base::json::FromJson for $name {
            fn read(
                value: &$crate::base::json::Json<'_>,
                at: &mut $crate::base::json::Reader,
            ) -> Option<Self> {
                let word = at.text(value)?;
                match Self::parse(word) {
                    Some(value) => Some(value),
                    None => at.fault($crate::base::json::FaultCode::NotAllowed),
                }
            }

            fn read_straight(from: &mut $crate::base::json::Scanner<'_>) -> Option<Self> {
                from.by_text(|word, _| Self::parse(word))
            }

            fn shape() -> $crate::base::json::Shape {
                $crate::base::json::Shape::Words(vec![$($word),+])
            }
        }

        $crate::schema_of_shape!(named $name);
    };
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use crate::base::codec;

    wire_enum! {
        /// For the test.
        enum Colour {
            /// r
            Red = "red",
            /// g
            Green = "green",
        }
    }

    #[test]
    fn a_value_is_its_word_in_json_and_its_number_in_records() {
        assert_eq!(serde_json::to_string(&Colour::Green).unwrap(), "\"green\"");
        assert_eq!(codec::encode(&Colour::Green), [1]);
        assert_eq!(codec::decode::<Colour>(&[0]).unwrap(), Colour::Red);
        assert!(codec::decode::<Colour>(&[2]).is_err());
    }
}
