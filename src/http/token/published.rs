//! Published signatures, with which each algorithm is tested before the service listens. A library that rejects them,
//! or accepts others too, must not verify tokens (RFC 8725 section 3.1 leaves that to it).

use super::key_set::{Judged, KeyKind, judge_key};
use super::refusal::VerifierError;

/// A published token with the key that signed it: RFC 7515 A.2 and A.3, RFC 8037 A.4.
#[derive(Clone, Copy)]
pub(super) struct Vector {
    pub(super) kind: KeyKind,
    pub(super) jwk: &'static str,
    pub(super) message: &'static str,
    pub(super) signature: &'static str,
}

/// One vector for each algorithm.
pub(super) const VECTORS: [Vector; 3] = [
    Vector {
        kind: KeyKind::P256,
        jwk: r#"{"kty":"EC","crv":"P-256","kid":"published",
            "x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
        message: "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        signature: "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
    },
    Vector {
        kind: KeyKind::Ed25519,
        jwk: r#"{"kty":"OKP","crv":"Ed25519","kid":"published",
            "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
        message: "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
        signature: "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
    },
    Vector {
        kind: KeyKind::Rsa,
        jwk: r#"{"kty":"RSA","kid":"published","e":"AQAB",
            "n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"}"#,
        message: "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
        signature: "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
    },
];

impl Vector {
    /// Whether the signature is accepted for its message, and rejected for another one.
    pub(super) fn holds(&self) -> bool {
        let Ok(Judged::Used(_, key)) = judge_key(self.jwk) else {
            return false;
        };
        let other = format!("{}A", self.message);
        key.kind == self.kind
            && key.signed(self.message, self.signature)
            && !key.signed(&other, self.signature)
    }
}

/// Tests each algorithm.
///
/// # Errors
/// [`VerifierError::Algorithm`], when an algorithm verifies wrongly.
pub(super) fn try_all() -> Result<(), VerifierError> {
    match VECTORS.iter().find(|vector| !vector.holds()) {
        Some(vector) => Err(VerifierError::Algorithm(vector.kind.name())),
        None => Ok(()),
    }
}
