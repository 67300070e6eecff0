//! The claims of a token, and their validation.

use crate::base::text::MemberId;
use std::time::Duration;

use serde::Deserialize;
use serde::de::Deserializer;

use super::fields::{Fields, Text};
use super::refusal::TokenRefusal;
use crate::base::actor::{Actor, ActorKind};

/// Maximum difference between the clocks of the identity provider and of this machine, in milliseconds.
pub const LEEWAY_MS: i64 = 30_000;
/// Maximum length of an identifier in a claim, in characters.
pub const IDENTIFIER_CHARS_MAX: usize = 512;
/// 9999-12-31T23:59:59Z, the latest accepted date. A later one is a mistake, such as milliseconds for seconds.
const NUMERIC_DATE_MAX_SECONDS: Duration = Duration::from_secs(253_402_300_799);

/// The accepted issuer and audience.
pub(super) struct Expected {
    pub(super) issuer: Box<str>,
    pub(super) audience: Box<str>,
}

/// Validates claims whose signature is verified. Returns the actor, and when the token expires (leeway included).
pub(super) fn judge(
    claims: &[u8],
    expected: &Expected,
    now_ms: i64,
) -> Result<(Actor, i64), TokenRefusal> {
    let claims = Fields::read(claims).ok_or(TokenRefusal::ClaimsMalformed)?;

    let issuer = claims.required::<Text>("iss")?;
    if *issuer.0 != *expected.issuer {
        return Err(TokenRefusal::IssuerMismatch);
    }
    let audience = claims.required::<Audience>("aud")?;
    if !audience.holds(&expected.audience) {
        return Err(TokenRefusal::AudienceMismatch);
    }
    let ends_ms = claims
        .required::<NumericDate>("exp")?
        .0
        .saturating_add(LEEWAY_MS);
    if now_ms >= ends_ms {
        return Err(TokenRefusal::Expired);
    }
    let latest_ms = now_ms.saturating_add(LEEWAY_MS);
    if let Some(NumericDate(not_before_ms)) = claims.present("nbf")?
        && latest_ms < not_before_ms
    {
        return Err(TokenRefusal::NotYetValid);
    }
    if let Some(NumericDate(issued_ms)) = claims.present("iat")?
        && latest_ms < issued_ms
    {
        return Err(TokenRefusal::IssuedInFuture);
    }

    let subject = claims.required::<Identifier>("sub")?.0;
    let kind = claims.required::<Text>("actor_kind")?;
    let kind = kind
        .0
        .parse::<ActorKind>()
        .map_err(|_| TokenRefusal::ActorKindUnknown)?;
    let identifiers = |list: Option<Vec<Identifier>>| {
        list.unwrap_or_default()
            .into_iter()
            .map(|id| id.0)
            .collect()
    };
    let actor = Actor {
        subject,
        kind,
        member_id: claims
            .optional("member_id")?
            .map(|Identifier(id)| MemberId::from_trusted(id)),
        actor_profile_id: claims
            .optional("actor_profile_id")?
            .map(|Identifier(id)| id),
        branch_profile_ids: identifiers(claims.optional("branch_profile_ids")?),
        permissions: identifiers(claims.optional("permissions")?),
        email: claims.optional("email")?.map(|Identifier(email)| email),
        email_verified: claims.optional("email_verified")?.unwrap_or(false),
    };
    Ok((actor, ends_ms))
}

/// A string of 1 to [`IDENTIFIER_CHARS_MAX`] characters that is not blank.
struct Identifier(Box<str>);

impl<'de> Deserialize<'de> for Identifier {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Text(text) = Text::deserialize(deserializer)?;
        // The number of bytes is checked first, because it bounds the work of counting characters.
        let fits = text.len() <= 4 * IDENTIFIER_CHARS_MAX
            && text.chars().count() <= IDENTIFIER_CHARS_MAX
            && !text.trim().is_empty();
        if !fits {
            return Err(serde::de::Error::custom("not an identifier"));
        }
        Ok(Self(text.into()))
    }
}

/// A NumericDate (RFC 7519 section 2) in milliseconds: seconds since 1970, fractions allowed.
struct NumericDate(i64);

impl<'de> Deserialize<'de> for NumericDate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Duration::try_from_secs_f64(seconds)
            .ok()
            .filter(|date| *date <= NUMERIC_DATE_MAX_SECONDS)
            .and_then(|date| i64::try_from(date.as_millis()).ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("not a date in seconds"))
    }
}

/// The `aud` claim: one name or an array of them (RFC 7519 section 4.1.3).
#[derive(Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn holds(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Many(many) => many.iter().any(|one| one == audience),
        }
    }
}
