//! Reads: what stands at one instant, told once that is durable.

use super::core::{MayAct, Reply, Shared};
use super::repeats::Repeats;
use crate::base::actor::Actor;
use crate::domain::read::{Found, Read, ReadRequest};
use crate::domain::rejection::Rejection;
use crate::domain::resource::View;

impl Shared {
    pub(super) async fn read(
        &self,
        read: Read,
        actor: &Actor,
        path: &[(&str, &str)],
    ) -> Result<(Found, u64), Reply> {
        let may_act = self.may_act(&actor.subject).await?;
        let (found, position) = self.read_now(read, actor, path, may_act).await?;
        if self.lanes.wait(position).await.is_err() {
            return Err(Reply::Unavailable);
        }
        self.may_still_act(may_act).await?;
        found
            .map(|found| (found, position))
            .map_err(|rejection| Reply::Refused {
                rejection: Box::new(rejection),
                position,
            })
    }

    /// Reads what stands at one instant.
    pub(super) async fn read_now(
        &self,
        read: Read,
        actor: &Actor,
        path: &[(&str, &str)],
        may_act: MayAct,
    ) -> Result<(Result<Found, Rejection>, u64), Reply> {
        let mut repeats = Repeats::default();
        loop {
            let read = {
                let durable_before = self.journal.durable();
                let view = View::new(&self.tables);
                self.read_lifecycle(Some(may_act), &view).map(|()| {
                    let found = read(&ReadRequest {
                        actor,
                        path,
                        view: &view,
                        now: self.clock.now(),
                    });
                    let basis = Self::basis(durable_before, &view);
                    let position = self.rests_on(&basis);
                    self.stood(&basis).then_some((found, position))
                })
            };
            match read {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(refused) => return Err(self.refuse(refused.0, refused.1).await),
            }
            if repeats.rest().await.is_err() {
                return Err(Reply::Unavailable);
            }
        }
    }
}
