//! Authentication: finds the actor whose token a request carries.

use std::sync::Arc;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};

use super::caller::Caller;
use super::request::body::shed;
use super::response::{Answer, Problems};
use super::service::Service;
use super::token::{Bearer, Newer, Recalled, TokenRefusal, bearer, challenge};
use crate::base::actor::Actor;

impl Service {
    /// Returns the actor whose token the request carries, or the 401 response.
    pub(super) async fn actor(
        &self,
        caller: &Caller,
        headers: &HeaderMap,
        problems: Problems,
    ) -> Result<Arc<Actor>, Box<Answer>> {
        let refused = |refusal: TokenRefusal| {
            self.verifier.refused().count(refusal);
            tracing::debug!(code = refusal.code(), "a token was rejected");
            Box::new(problems.unauthenticated(challenge(true)))
        };
        let values = headers.get_all(AUTHORIZATION).iter();
        let mut values = values.map(HeaderValue::as_bytes).fuse();
        let (first, second) = (values.next(), values.next());
        if let (Some(only), None) = (first, second) {
            let now = self.engine.now().millis();
            if let Some(actor) = self.verifier.recall_last(&caller.last_token, only, now) {
                return Ok(actor);
            }
        }
        let (header, token) = match bearer(first.into_iter().chain(second)) {
            Bearer::Token(token) => (first.unwrap_or_default(), token),
            Bearer::Missing => {
                self.verifier.refused().count_missing();
                return Err(Box::new(problems.unauthenticated(challenge(false))));
            }
            Bearer::Malformed => {
                self.verifier.refused().count_malformed();
                return Err(Box::new(problems.unauthenticated(challenge(true))));
            }
        };
        let mut recalled = self.verifier.recall(token, self.engine.now().millis());
        if let Recalled::Refused(TokenRefusal::KeyUnknown) = recalled {
            // Boxed, because it is rare: otherwise the future of every request would reserve memory for it.
            match Box::pin(self.verifier.newer_keys()).await {
                Newer::Looked => {
                    recalled = self.verifier.recall(token, self.engine.now().millis());
                }
                Newer::TooMany => return Err(Box::new(Box::pin(shed(problems)).await)),
            }
        }
        let units = match recalled {
            Recalled::Good(known) => return Ok(caller.last_token.keep(header, known)),
            Recalled::Refused(refusal) => return Err(refused(refusal)),
            Recalled::GoodBefore => {
                let now = self.engine.now().millis();
                return self.verifier.verify(token, now).map_err(refused);
            }
            Recalled::Unknown { units } => units,
        };
        let Some(turn) = Box::pin(caller.peer.turn(units)).await else {
            return Err(Box::new(Box::pin(shed(problems)).await));
        };
        // The time is read again, because the request has waited.
        let verified = self.verifier.verify(token, self.engine.now().millis());
        match &verified {
            Ok(_) => turn.was_good(),
            Err(refusal) => turn.was_bad(*refusal == TokenRefusal::SignatureInvalid),
        }
        verified.map_err(refused)
    }
}
