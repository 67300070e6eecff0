//! A postal address in Korea.

use super::text::{AddressLine, PostalCode};

crate::json_object! {
    /// A postal address: every line of it is required.
    pub struct Address {
        /// Five digits.
        pub postal_code: PostalCode = "postalCode" personal Address,
        /// The road and the number of the building.
        pub road_address: AddressLine = "roadAddress" personal Address,
        /// The place in the building.
        pub detail_address: AddressLine = "detailAddress" personal Address,
    }
}
