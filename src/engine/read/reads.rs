//! Reads: of the state at one instant, sent once that is durable.

use crate::base::actor::Actor;
use crate::domain::read::{Read, ReadRequest, Representation};
use crate::domain::rejection::Rejection;
use crate::domain::resource::ReadView;
use crate::engine::core::{CommandResult, MayAct, Shared};
use crate::engine::limits::repeats::Repeats;

impl Shared {
    pub(in crate::engine) async fn read(
        &self,
        read: Read,
        actor: &Actor,
        path: &[(&str, &str)],
    ) -> Result<(Representation, u64), CommandResult> {
        let may_act = self.may_act(&actor.subject).await?;
        let (found, position) = self.read_now(read, actor, path, may_act).await?;
        if self.lanes.wait(position).await.is_err() {
            return Err(CommandResult::Unavailable);
        }
        self.may_still_act(may_act).await?;
        found
            .map(|found| (found, position))
            .map_err(|rejection| CommandResult::Refused {
                rejection: Box::new(rejection),
                position,
            })
    }

    /// Reads at one instant.
    pub(in crate::engine) async fn read_now<T>(
        &self,
        read: Read<T>,
        actor: &Actor,
        path: &[(&str, &str)],
        may_act: MayAct,
    ) -> Result<(Result<T, Rejection>, u64), CommandResult> {
        let mut repeats = Repeats::default();
        loop {
            let read = {
                let durable_before = self.journal.durable();
                let view = ReadView::new(&self.tables);
                self.read_lifecycle(Some(may_act), &view).map(|()| {
                    let found = read(&ReadRequest {
                        actor,
                        path,
                        view: &view,
                        now: self.clock.now(),
                        access_checked: false,
                    });
                    let read_set = Self::read_set(durable_before, &view);
                    let position = self.position_of(&read_set);
                    self.is_valid_at_one_instant(&read_set)
                        .then_some((found, position))
                })
            };
            match read {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(refused) => return Err(self.refuse(refused.0, refused.1).await),
            }
            if repeats.rest().await.is_err() {
                return Err(CommandResult::Unavailable);
            }
        }
    }
}
