//! Declares response bodies together with the source of each field.

/// Declares a response body: each field once, with its type and its value. `from` lists the arguments
/// that the body is made from, followed by computations that come first; `as` lists the fields. They
/// may borrow, and their names in JSON are in camel case.
///
/// ```text
/// response_body! {
///     /// A receipt as its readers see it.
///     #[schemars(rename = "Receipt")]
///     pub struct ReceiptBody<'a> from (receipt: &'a Receipt) {
///         let payment = &receipt.payment;
///     } as {
///         payment_id: &'a PaymentId = &payment.payment_id,
///         recorded_at: Instant = receipt.recorded_at,
///     }
/// }
/// ```
macro_rules! response_body {
    (
        $(#[$about:meta])*
        $visible:vis struct $name:ident<$life:lifetime> from ($($source:ident: $of:ty),*) {
            $($first:tt)*
        } as {
            $($(#[$about_field:meta])* $field:ident: $type:ty = $value:expr,)*
        }
    ) => {
        #[derive(serde::Serialize, schemars::JsonSchema)]
        #[serde(rename_all = "camelCase")]
        $(#[$about])*
        $visible struct $name<$life> {
            $($(#[$about_field])* $field: $type,)*
        }

        impl<$life> $name<$life> {
            /// The body that this is made into.
            #[must_use]
            $visible fn new($($source: $of),*) -> Self {
                $($first)*
                Self { $($field: $value,)* }
            }
        }
    };
}
pub(crate) use response_body;
