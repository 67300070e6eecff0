//! Feeds channels: from the log's end, all together, or each with pages of its own.

use std::sync::Arc;

use uuid::Uuid;

use super::active::OWN_KIND;
use super::dispatcher::Dispatcher;
use super::tail::Tail;
use crate::domain::event::Name;
use crate::domain::event_id::EventId;
use crate::engine::feed::{NoPage, Page};
use crate::journal::events::Event;

impl Dispatcher {
    /// Takes a page of events at the log's end.
    pub(super) fn take_tail(&mut self, page: Option<Result<Page, NoPage>>) {
        let last_event = self.last_event();
        let Some(Ok(page)) = page else {
            // The reader was too slow for the log, or the log ends: every channel catches up with its own pages.
            for active in self.active.values_mut() {
                active.leave_end(last_event);
            }
            self.touched.extend(self.active.keys());
            let may_go_on = page.is_some() && !self.active.is_empty();
            self.tail = may_go_on.then(|| Tail::begin(&self.shared));
            return;
        };
        let now = self.now();
        for event in &page.events {
            if event.name.kind == OWN_KIND {
                self.pass_change(event);
            }
            let wanting = match self.wanting.get(&event.name) {
                Some(wanting) => Arc::clone(wanting),
                None => self.who_wants(event.name),
            };
            for id in wanting.iter() {
                let Some(active) = self.active.get_mut(id) else {
                    continue;
                };
                if active.is_at_end && event.id > active.examined {
                    if active.has_room(self.waiting, self.waiting_max) {
                        active.offer(event, now);
                        self.waiting += 1;
                    } else {
                        let tail = self.tail.as_ref();
                        active.leave_end(tail.map_or(last_event, |tail| tail.last_event));
                    }
                    self.touched.insert(*id);
                }
            }
            if let Some(tail) = &mut self.tail {
                tail.last_event = event.id;
            }
        }
        if let Some(tail) = &mut self.tail {
            tail.upto = page.next;
        }
    }

    /// Handles a change of a subscription in the tail: it applies to the events that follow.
    pub(super) fn pass_change(&mut self, event: &Event) {
        let id = event.subject.rsplit_once('/');
        let Some(id) = id.and_then(|(_, id)| id.parse().ok()) else {
            return;
        };
        let active = self.active.get(&id);
        if active.is_some_and(|known| known.is_at_end && event.id > known.examined) {
            self.change(id, event);
        }
    }

    /// Moves past a change of this subscription, and loads the subscription where it is not known as of that change.
    fn change(&mut self, id: Uuid, event: &Event) {
        let Some(active) = self.active.get_mut(&id) else {
            return;
        };
        active.pass_change(event);
        let is_known = active.knows_itself();
        self.wanting.clear();
        self.touched.insert(id);
        if !is_known {
            self.load(id, None);
        }
    }

    pub(super) fn who_wants(&mut self, name: Name) -> Arc<Vec<Uuid>> {
        let event_type = name.event_type();
        let wanting = self.active.iter();
        let wanting = wanting.filter(|(_, active)| active.wants(&event_type));
        let wanting: Arc<Vec<_>> = Arc::new(wanting.map(|(id, _)| *id).collect());
        self.wanting.insert(name, Arc::clone(&wanting));
        wanting
    }

    /// Takes a page for a channel that is behind.
    pub(super) fn take_page(&mut self, id: Uuid, run: u64, page: Result<Page, NoPage>) {
        let now = self.now();
        let active = self.active.get_mut(&id);
        let Some(active) = active.filter(|active| active.run == run) else {
            return;
        };
        active.is_reading = false;
        self.touched.insert(id);
        if active.is_gone {
            return;
        }
        match page {
            Ok(page) => {
                for event in &page.events {
                    if !active.has_room(self.waiting, self.waiting_max) {
                        return;
                    }
                    if active.is_own(event) {
                        self.change(id, event);
                        // The rest of the page was filtered by the former types.
                        return;
                    }
                    if active.wants(&event.event_type()) {
                        active.offer(event, now);
                        self.waiting += 1;
                    }
                    active.examined = event.id;
                }
                active.examined = page.next;
                let reaches = |end: EventId| {
                    // The last commit may have fewer events than the tail's end assumes.
                    let is_there = page.end && page.next.position >= end.position;
                    is_there || page.next >= end
                };
                active.is_at_end = self.tail.as_ref().is_some_and(|tail| reaches(tail.upto));
            }
            Err(NoPage::Gone { earliest }) => {
                active.lose(earliest.position, now);
                active.skip_to(earliest.position, now);
            }
            Err(NoPage::Future | NoPage::QueueFull | NoPage::Unavailable) => {
                // The channel is pumped again with the next tick.
                self.touched.remove(&id);
            }
        }
    }

    /// Returns the last event that was fed to the subscriptions near the log's end.
    pub(super) fn last_event(&self) -> EventId {
        self.tail
            .as_ref()
            .map(|tail| tail.last_event)
            .unwrap_or_default()
    }
}
