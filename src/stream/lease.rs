//! The writer's lease: determines who may write, so that standbys know when to take over.
//!
//! The safety of writes depends on no clock: a process that takes over fences its predecessor. The lease determines
//! when to do so. Where responses rest on the lease instead of on appends, it also determines until when they may: by
//! the monotonic clock, and ending well before another process may take the lease.
//!
//! The lease is a key of a bucket whose entries the servers forget after a while. It is taken by creating the key,
//! and renewed by changing it from its last revision, so two processes never hold it at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::jetstream::kv::{self, CreateErrorKind, Store, UpdateErrorKind};
use async_nats::jetstream::stream::StorageType;
use bytes::Bytes;
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::connection::Connection;
use super::error::StreamError;
use super::handle::JournalHandle;
use super::holder::{Holder, Terms};
use super::lease_term::{LeaseTerm, MARGIN, TTL};

/// Interval of renewals.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout of one renewal.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);
/// How long a holder that gives the lease up waits for a renewal in flight.
const RENEWAL_END_TIMEOUT: Duration = Duration::from_millis(500);
/// Pause between attempts to create the key.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// For how long after an unanswered attempt the key may still be that attempt's: its request may arrive late, and the
/// key is then kept for a term.
const LATE_CLAIM_TIMEOUT: Duration = Duration::from_secs(2 * TTL.as_secs());
/// Timeout for the bucket, where the lease was not renewed for a term.
const BUCKET_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of attempts to take the lease from another process.
const SEIZE_ATTEMPTS_MAX: usize = 50;
/// Name of the key.
const KEY: &str = "writer";

/// Attempts to take the lease, all with the same value: when one of them created the key but its answer was lost, a
/// later one recognizes the key by that value and adopts it.
pub struct Claim {
    link: Arc<JournalHandle>,
    terms: Terms,
    value: Bytes,
    /// When an attempt had no answer: it may have created the key, or may still create or change it.
    unanswered: Option<Instant>,
}

impl Claim {
    /// Creates the claim of this process.
    #[must_use]
    pub fn new(link: &Arc<JournalHandle>, terms: Terms) -> Self {
        Self {
            value: terms.value(link),
            link: Arc::clone(link),
            terms,
            unanswered: None,
        }
    }

    /// Takes the lease, and waits for it up to `within`; `None` when another process holds it all the time.
    ///
    /// # Errors
    /// When the bucket cannot be used.
    pub fn take_within(&mut self, within: Duration) -> Result<Option<Lease>, StreamError> {
        let link = Arc::clone(&self.link);
        let Some(taken) = link.connection().block(self.take(within))? else {
            return Ok(None);
        };
        // A later claim is for another lease, and needs a value of its own.
        self.value = self.terms.value(&link);
        self.unanswered = None;
        Ok(Some(Lease::kept(&link, &self.terms, taken)))
    }

    async fn take(&mut self, within: Duration) -> Result<Option<Taken>, StreamError> {
        let connection = self.link.connection();
        let store = bucket(connection, self.terms.replicas).await?;
        let until = Instant::now() + within;
        loop {
            // The time of the request that creates or adopts the key: the servers count the key's term from later on.
            let sent = Instant::now();
            let made = timeout(ANSWER_TIMEOUT, store.create(KEY, self.value.clone())).await;
            let is_there = match &made {
                Ok(Err(error)) => error.kind() == CreateErrorKind::AlreadyExists,
                _ => false,
            };
            let may_be_own = self
                .unanswered
                .is_some_and(|sent| sent.elapsed() < LATE_CLAIM_TIMEOUT);
            let revision = match made {
                Ok(Ok(revision)) => Some(revision),
                Ok(Err(_)) if is_there && !may_be_own => None,
                Ok(Err(_)) | Err(_) => {
                    if !is_there {
                        self.unanswered = Some(Instant::now());
                    }
                    match adopted(connection, &store, &self.value).await {
                        Adopted::Yes(revision) => Some(revision),
                        Adopted::No => None,
                        Adopted::Unknown => {
                            // The change may have renewed the key.
                            self.unanswered = Some(Instant::now());
                            None
                        }
                    }
                }
            };
            if let Some(revision) = revision {
                return Ok(Some(Taken {
                    store,
                    value: self.value.clone(),
                    revision,
                    sent,
                }));
            }
            if Instant::now() + RETRY_PAUSE >= until {
                return Ok(None);
            }
            sleep(RETRY_PAUSE).await;
        }
    }
}

/// A lease that was just taken.
struct Taken {
    store: Store,
    value: Bytes,
    revision: u64,
    /// When the request for the lease was sent.
    sent: Instant,
}

/// Outcome of an attempt to adopt the key.
enum Adopted {
    Yes(u64),
    /// The key does not have the value, as far as is known.
    No,
    /// The key has the value, and it is not known whether it was changed.
    Unknown,
}

/// Outcome of a renewal.
enum Renewed {
    Yes(u64),
    /// The key has another revision, or does not exist.
    No,
    /// It is not known, for this reason.
    Unknown(String),
}

/// A lease that this process holds, until it gives the lease up.
pub struct Lease {
    term: Arc<LeaseTerm>,
    store: Store,
    value: Bytes,
    revision: watch::Receiver<u64>,
    stop: watch::Sender<bool>,
    keeping: JoinHandle<()>,
}

/// Returns the bucket; creates it where it does not exist.
async fn bucket(connection: &Connection, replicas: usize) -> Result<Store, StreamError> {
    let name = &connection.names().bucket;
    let context = connection.context();
    let refused = |error: &dyn std::fmt::Display| StreamError::Refused {
        what: format!("the bucket {name} of the writer's lease cannot be used: {error}"),
    };
    if let Ok(store) = context.get_key_value(name).await {
        let stream = format!("KV_{name}");
        connection.keeps(&stream, replicas as u64).await?;
        return Ok(store);
    }
    let config = kv::Config {
        bucket: name.clone(),
        description: "The writer's lease of a journal of carebook: not to be edited".to_owned(),
        history: 1,
        max_age: TTL,
        storage: StorageType::File,
        num_replicas: replicas,
        ..kv::Config::default()
    };
    let made = context.create_key_value(config).await;
    made.map_err(|error| refused(&error))
}

impl Lease {
    /// Takes the lease, and waits for it up to `within`; `None` when another process holds it all the time.
    ///
    /// # Errors
    /// When the bucket cannot be used.
    pub fn take_within(
        link: &Arc<JournalHandle>,
        terms: &Terms,
        within: Duration,
    ) -> Result<Option<Self>, StreamError> {
        Claim::new(link, terms.clone()).take_within(within)
    }

    /// Returns the holder of the lease beside this process; `None` when there is none. An address at which this process
    /// serves itself is left out: the holder there was one before it, whose entry the servers have not forgotten yet.
    ///
    /// # Errors
    /// When the servers do not answer.
    pub fn other_holder(
        link: &JournalHandle,
        terms: &Terms,
    ) -> Result<Option<Holder>, StreamError> {
        let connection = link.connection();
        let found = connection.block(entry(connection))?;
        let holder = found.and_then(|(_, value)| Holder::read(&value));
        let other = holder.filter(|holder| holder.process != link.process());
        Ok(other.map(|holder| Holder {
            address: holder.address.filter(|its| *its != terms.address),
            ..holder
        }))
    }

    /// Takes the lease from its holder. Also returns the time until which that holder's responses may rest on the
    /// lease; `None` where no holder's do.
    ///
    /// # Errors
    /// When the bucket cannot be used, or other processes take the lease as well.
    pub fn seize(
        link: &Arc<JournalHandle>,
        terms: &Terms,
    ) -> Result<(Self, Option<Instant>), StreamError> {
        let connection = link.connection();
        connection.block(async {
            let store = bucket(connection, terms.replicas).await?;
            let value = terms.value(link);
            // Covers every holder that was seen, since an attempt whose answer was lost may have taken the lease.
            let mut relied = false;
            let mut had_other_key = false;
            for _ in 0..SEIZE_ATTEMPTS_MAX {
                let sent = Instant::now();
                let found = entry(connection).await?;
                let before = found.as_ref().filter(|(_, found)| *found != value);
                let before = before.and_then(|(_, found)| Holder::read(found));
                relied |= before.as_ref().is_some_and(|before| before.relies);
                let other = before.and_then(|before| terms.have_other_key_than(&before));
                had_other_key |= other.unwrap_or(false);
                let taken = match &found {
                    Some((revision, _)) => {
                        let changed = store.update(KEY, value.clone(), *revision);
                        timeout(ANSWER_TIMEOUT, changed).await.map(Result::ok)
                    }
                    None => {
                        let made = store.create(KEY, value.clone());
                        timeout(ANSWER_TIMEOUT, made).await.map(Result::ok)
                    }
                };
                if let Ok(Some(revision)) = taken {
                    if had_other_key {
                        Terms::warn_of_other_key();
                    }
                    let until = relied.then(|| Instant::now() + TTL.saturating_sub(MARGIN));
                    let taken = Taken {
                        store,
                        value,
                        revision,
                        sent,
                    };
                    return Ok((Self::kept(link, terms, taken), until));
                }
                sleep(RETRY_PAUSE).await;
            }
            Err(StreamError::Refused {
                what: "the writer's lease is taken by others again and again".to_owned(),
            })
        })
    }

    fn kept(link: &Arc<JournalHandle>, terms: &Terms, taken: Taken) -> Self {
        let Taken {
            store,
            value,
            revision,
            sent,
        } = taken;
        let term = Arc::new(LeaseTerm::default());
        term.renewed(sent);
        link.set_lease(Arc::clone(&term), terms.relies);
        let (stop, stopped) = watch::channel(false);
        let (revisions, current) = watch::channel(revision);
        let keeping = Keeping {
            term: Arc::clone(&term),
            store: store.clone(),
            value: value.clone(),
            link: Arc::clone(link),
            replicas: terms.replicas,
            revisions,
        };
        let keeping = link.connection().handle().spawn(keeping.run(stopped));
        Self {
            term,
            store,
            value,
            revision: current,
            stop,
            keeping,
        }
    }

    /// Returns the term of the lease.
    #[must_use]
    pub fn term(&self) -> &Arc<LeaseTerm> {
        &self.term
    }

    /// Gives the lease up, so that another process may take it at once. Where that fails, the servers forget the
    /// lease in time.
    pub fn give_up(mut self, connection: &Connection) {
        self.term.lost();
        self.stop.send_replace(true);
        connection.block(async {
            // A renewal in flight is the last one.
            if timeout(RENEWAL_END_TIMEOUT, &mut self.keeping)
                .await
                .is_err()
            {
                self.keeping.abort();
            }
            let _ = timeout(ANSWER_TIMEOUT, self.delete(connection)).await;
        });
    }

    /// Deletes this process's entry, whatever its revision: the answer to the last renewal may have been lost.
    async fn delete(&self, connection: &Connection) {
        let mut revision = *self.revision.borrow();
        loop {
            let deleted = self.store.delete_expect_revision(KEY, Some(revision)).await;
            if deleted.is_ok() {
                return;
            }
            match entry(connection).await {
                Ok(Some((now, found))) if found == self.value => revision = now,
                Ok(_) => return,
                Err(_) => sleep(RETRY_PAUSE).await,
            }
        }
    }
}

/// Returns the current entry, from the stream's leader: its revision and its value, which is empty where the lease
/// was given up.
async fn entry(connection: &Connection) -> Result<Option<(u64, Bytes)>, StreamError> {
    let name = &connection.names().bucket;
    let subject = format!("STREAM.MSG.GET.KV_{name}");
    let body = json!({"last_by_subj": format!("$KV.{name}.{KEY}")});
    connection.stored(&subject, &body).await
}

/// Adopts the key if it has this value: an earlier attempt created it, and the answer was lost. Changes the key, so
/// that nobody else can have that revision and the servers count its term from here on; returns the new revision.
async fn adopted(connection: &Connection, store: &Store, value: &Bytes) -> Adopted {
    let found = timeout(ANSWER_TIMEOUT, entry(connection)).await;
    let revision = match found {
        Ok(Ok(Some((revision, found)))) if found == *value => revision,
        _ => return Adopted::No,
    };
    let changed = store.update(KEY, value.clone(), revision);
    match timeout(ANSWER_TIMEOUT, changed).await {
        Ok(Ok(revision)) => Adopted::Yes(revision),
        Ok(Err(_)) | Err(_) => Adopted::Unknown,
    }
}

/// Renews a lease.
struct Keeping {
    term: Arc<LeaseTerm>,
    store: Store,
    value: Bytes,
    link: Arc<JournalHandle>,
    /// Minimum number of copies of the bucket.
    replicas: usize,
    revisions: watch::Sender<u64>,
}

impl Keeping {
    async fn run(self, mut stopped: watch::Receiver<bool>) {
        // Whether the failed renewal was logged.
        let mut is_told = false;
        loop {
            tokio::select! {
                () = sleep(RENEWAL_INTERVAL) => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
            if self.link.ended().is_some() {
                return;
            }
            let sent = Instant::now();
            // A renewal is not interrupted, since giving the lease up needs the last revision.
            match self.renew().await {
                Renewed::Yes(revision) => {
                    self.revisions.send_replace(revision);
                    self.term.renewed(sent);
                    is_told = false;
                }
                Renewed::No => self.make_again(sent).await,
                Renewed::Unknown(why) => self.handle_unknown_renewal(sent, why, &mut is_told).await,
            }
        }
    }

    async fn renew(&self) -> Renewed {
        let revision = *self.revisions.borrow();
        let changed = self.store.update(KEY, self.value.clone(), revision);
        match timeout(ANSWER_TIMEOUT, changed).await {
            Ok(Ok(revision)) => Renewed::Yes(revision),
            Ok(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => Renewed::No,
            Ok(Err(error)) => Renewed::Unknown(error.to_string()),
            Err(_) => Renewed::Unknown("no answer".to_owned()),
        }
    }

    /// Handles a renewal whose outcome is not known. Once none has succeeded for a term, the bucket itself may be gone.
    /// Where no other process waits for the lease, nobody else creates it, and the next one that starts would depose
    /// this process.
    async fn handle_unknown_renewal(&self, sent: Instant, why: String, is_told: &mut bool) {
        let is_recent = self.term.age().is_some_and(|age| age <= TTL);
        let connection = self.link.connection();
        if is_recent || !connection.is_up() {
            return;
        }
        let made = timeout(BUCKET_TIMEOUT, bucket(connection, self.replicas)).await;
        let is_told = std::mem::replace(is_told, true);
        let why = match made {
            Ok(Ok(_)) => {
                self.make_again(sent).await;
                if !is_told {
                    tracing::warn!(
                        error = %why,
                        "the writer's lease was not renewed for a term: its bucket is checked"
                    );
                }
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => why,
        };
        if !is_told {
            tracing::warn!(error = %why, "the writer's lease was not renewed: another process may take over");
        }
    }

    /// Handles a refused renewal: the lease expired, or another process has it, or an earlier renewal succeeded whose
    /// answer was lost. Another holder will fence this process, which then ends. Until then, this process only stops
    /// relying on the lease, and for good: the other one may have written and given the lease up.
    async fn make_again(&self, sent: Instant) {
        self.term.lost();
        match entry(self.link.connection()).await {
            Ok(Some((revision, found))) if found == self.value => {
                // The next renewal continues from this revision.
                self.revisions.send_replace(revision);
                return;
            }
            Ok(_) => {}
            Err(_) => return,
        }
        // Noted before the key is created: that answer may be lost, and the value would then be found as if no other
        // process had held the lease.
        self.term.breaks();
        let made = self.store.create(KEY, self.value.clone());
        if let Ok(Ok(revision)) = timeout(ANSWER_TIMEOUT, made).await {
            self.revisions.send_replace(revision);
            self.term.renewed(sent);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::fake::Fake;
    use super::super::maintenance::hold;
    use super::*;

    fn terms() -> Terms {
        Terms {
            address: "127.0.0.1:1".to_owned(),
            webhook_key: "0123456789abcdef".to_owned(),
            relies: false,
            replicas: 1,
        }
    }

    #[test]
    fn a_lease_made_despite_lost_responses_is_recognised_and_no_other_is() {
        let fake = Fake::with_room(1 << 20);
        let [one, two] = [1, 2].map(|number| hold(fake.connection(), "node", [number; 16]));
        let terms = Terms {
            address: "127.0.0.1:1".to_owned(),
            webhook_key: "0123456789abcdef".to_owned(),
            relies: false,
            replicas: 1,
        };
        // The lost answers are those to the creation, and to the change that makes it certain.
        for lost in [1, 2] {
            fake.kept.lock().lost = lost;
            let taken = Lease::take_within(&one, &terms, Duration::from_secs(6)).unwrap();
            let lease = taken.unwrap();
            assert!(lease.term().holds());
            // Another process does not take it for its own, nor does this one in another attempt.
            for link in [&two, &one] {
                let taken = Lease::take_within(link, &terms, Duration::from_millis(300));
                assert!(taken.unwrap().is_none());
            }
            lease.give_up(one.connection());
            fake.kept.lock().key = None;
        }
    }

    #[test]
    fn a_claim_recognises_a_lease_made_before_its_last_call_ended_only_once() {
        let fake = Fake::with_room(1 << 20);
        let link = hold(fake.connection(), "node", [1; 16]);
        let mut claim = Claim::new(&link, terms());
        // The answers to making it, and to the change that makes it certain.
        fake.kept.lock().lost = 2;
        let soon = Duration::from_millis(300);
        assert!(claim.take_within(soon).unwrap().is_none());
        assert!(fake.kept.lock().key.is_some(), "it was made");
        let began = Instant::now();
        let lease = claim.take_within(soon).unwrap().unwrap();
        // Its time is that of the change which was answered.
        assert!(lease.term().holds());
        assert!(lease.term().age().unwrap() <= began.elapsed());
        // One that is held already is not taken a second time.
        assert!(claim.take_within(soon).unwrap().is_none());
        lease.give_up(link.connection());
    }

    #[test]
    fn a_claim_recognises_its_key_for_a_term_after_a_lost_change_response() {
        let fake = Fake::with_room(1 << 20);
        let link = hold(fake.connection(), "node", [1; 16]);
        let mut claim = Claim::new(&link, terms());
        // It was made a while ago, and the answer was lost. So is that to the change which is to make it certain.
        let before = Instant::now();
        claim.unanswered = before.checked_sub(LATE_CLAIM_TIMEOUT / 2);
        assert!(claim.unanswered.is_some());
        {
            let mut kept = fake.kept.lock();
            (kept.key, kept.lost) = (Some((1, claim.value.to_vec())), 1);
        }
        let soon = Duration::from_millis(300);
        assert!(claim.take_within(soon).unwrap().is_none());
        assert_eq!(fake.kept.lock().lost, 0);
        let revision = fake.kept.lock().key.as_ref().map(|(revision, _)| *revision);
        assert_eq!(revision, Some(2), "it was changed");
        assert!(
            claim
                .unanswered
                .is_some_and(|unanswered| unanswered > before)
        );
        let lease = claim.take_within(soon).unwrap().unwrap();
        assert!(lease.term().holds());
        lease.give_up(link.connection());
    }

    #[test]
    fn seizing_a_lease_waits_only_for_a_holder_that_may_still_respond() {
        for relies in [false, true] {
            let fake = Fake::with_room(1 << 20);
            let [one, two] = [1, 2].map(|number| hold(fake.connection(), "node", [number; 16]));
            let terms = Terms {
                address: "127.0.0.1:1".to_owned(),
                webhook_key: "0123456789abcdef".to_owned(),
                relies,
                replicas: 1,
            };
            let held = Lease::take_within(&one, &terms, Duration::from_secs(6)).unwrap();
            assert!(held.unwrap().term().holds());
            let (seized, until) = Lease::seize(&two, &terms).unwrap();
            assert!(seized.term().holds());
            assert_eq!(until.is_some(), relies, "{until:?}");
            let known = TTL.saturating_sub(MARGIN);
            assert!(until.is_none_or(|until| until <= Instant::now() + known));
        }
    }

    #[test]
    fn a_lease_kept_for_another_time_is_not_taken_and_its_setting_is_named() {
        let fake = Fake::with_room(1 << 20);
        let link = hold(fake.connection(), "node", [1; 16]);
        let faults = || link.connection().weaker_beside(1).unwrap();
        assert_eq!(faults(), Vec::<String>::new());
        fake.kept.lock().age = Duration::from_secs(60);
        let taken = Lease::take_within(&link, &terms(), Duration::from_millis(300));
        let Err(StreamError::Weak { stream, .. }) = taken else {
            panic!("it was taken");
        };
        assert_eq!(stream, "KV_CAREBOOK_LEASE_tests");
        let faults = faults();
        assert!(
            matches!(faults.as_slice(), [fault] if fault.contains("max_age is 60s")),
            "{faults:?}"
        );
    }

    /// Takes the lease; nothing renews it by itself.
    fn taken(link: &Arc<JournalHandle>, terms: Terms) -> Keeping {
        let mut claim = Claim::new(link, terms);
        let taken = link.connection().block(claim.take(Duration::from_secs(6)));
        let taken = taken.unwrap().unwrap();
        let (revisions, _) = watch::channel(taken.revision);
        Keeping {
            term: Arc::default(),
            store: taken.store,
            value: taken.value,
            link: Arc::clone(link),
            replicas: 1,
            revisions,
        }
    }

    #[test]
    fn a_lease_whose_bucket_is_gone_for_a_term_is_recreated_but_not_trusted() {
        let fake = Fake::with_room(1 << 20);
        let link = hold(fake.connection(), "node", [1; 16]);
        let connection = link.connection();
        let keeping = taken(&link, terms());
        {
            let mut kept = fake.kept.lock();
            (kept.key, kept.has_no_bucket) = (None, true);
        }
        let mut is_told = false;
        let renewed = connection.block(keeping.renew());
        assert!(matches!(renewed, Renewed::Unknown(_)));
        for (age, is_made) in [(TTL / 2, false), (TTL + RENEWAL_INTERVAL, true)] {
            let sent = Instant::now();
            keeping.term.renewed(sent.checked_sub(age).unwrap());
            let why = "no answer".to_owned();
            connection.block(keeping.handle_unknown_renewal(sent, why, &mut is_told));
            let kept = fake.kept.lock();
            let value = kept.key.as_ref().map(|(_, value)| value.clone());
            assert_eq!(value, is_made.then(|| keeping.value.to_vec()), "{age:?}");
            assert_eq!((kept.has_no_bucket, is_told), (!is_made, is_made));
        }
        let renewed = connection.block(keeping.renew());
        assert!(matches!(renewed, Renewed::Yes(2)));
        assert!(!keeping.term.holds());
    }

    #[test]
    fn a_recreated_lease_is_not_relied_on_even_if_the_response_was_lost() {
        let fake = Fake::with_room(1 << 20);
        let link = hold(fake.connection(), "node", [1; 16]);
        let connection = link.connection();
        let terms = Terms {
            address: "127.0.0.1:1".to_owned(),
            webhook_key: "0123456789abcdef".to_owned(),
            relies: true,
            replicas: 1,
        };
        let keeping = taken(&link, terms);
        keeping.term.renewed(Instant::now());
        assert!(keeping.term.holds());
        {
            let mut kept = fake.kept.lock();
            (kept.key, kept.lost) = (None, 1);
        }
        connection.block(keeping.make_again(Instant::now()));
        {
            let kept = fake.kept.lock();
            assert!(
                kept.key.is_some() && kept.lost == 0,
                "it was made, and the answer lost"
            );
        }
        connection.block(keeping.make_again(Instant::now()));
        keeping.term.renewed(Instant::now());
        assert!(!keeping.term.holds());
    }

    #[test]
    fn a_holder_that_does_not_state_it_is_taken_to_rely_on_its_lease() {
        let relies = |value: &str| Holder::read(value.as_bytes()).unwrap().relies;
        assert!(relies("{\"node\":\"a\",\"relies\":true}"));
        assert!(!relies("{\"node\":\"a\",\"relies\":false}"));
        assert!(relies("{\"node\":\"a\"}"));
        assert_eq!(Holder::read(b"no JSON"), None);
    }

    #[test]
    fn a_different_webhook_key_is_detected_if_the_lease_states_one() {
        let fake = Fake::with_room(1 << 20);
        let link = hold(fake.connection(), "node", [1; 16]);
        let terms = |key: &str| Terms {
            address: String::new(),
            webhook_key: key.to_owned(),
            relies: false,
            replicas: 1,
        };
        let holder = Holder::read(&terms("0123456789abcdef").value(&link)).unwrap();
        let other = |key: &str| terms(key).have_other_key_than(&holder);
        assert_eq!(other("0123456789abcdef"), Some(false));
        assert_eq!(other("0123456789abcdee"), Some(true));
        let older = Holder::read(b"{\"node\":\"a\",\"address\":\"https://a.example\"}").unwrap();
        assert_eq!(terms("0123456789abcdef").have_other_key_than(&older), None);
    }

    #[test]
    fn neither_a_process_nor_its_predecessor_at_its_address_is_the_writer() {
        let fake = Fake::with_room(1 << 20);
        let [one, two] = [1, 2].map(|number| hold(fake.connection(), "node", [number; 16]));
        let terms = |address: &str| Terms {
            address: address.to_owned(),
            webhook_key: "0123456789abcdef".to_owned(),
            relies: false,
            replicas: 1,
        };
        let (a, b) = (terms("http://a.example"), terms("http://b.example"));
        assert_eq!(Lease::other_holder(&one, &a), Ok(None));
        // Such an entry is left where the answer to its creation was lost.
        fake.kept.lock().key = Some((1, a.value(&one).to_vec()));
        assert_eq!(Lease::other_holder(&one, &a), Ok(None));
        let at = |terms: &Terms| {
            let holder = Lease::other_holder(&two, terms).unwrap().unwrap();
            assert_eq!(a.have_other_key_than(&holder), Some(false));
            holder.address
        };
        assert_eq!(at(&a), None);
        assert_eq!(at(&b).as_deref(), Some("http://a.example"));
    }

    #[test]
    fn a_holder_that_names_no_address_has_none() {
        let address = |value: &str| Holder::read(value.as_bytes()).unwrap().address;
        let said = address("{\"address\":\"https://a.example\"}");
        assert_eq!(said.as_deref(), Some("https://a.example"));
        for value in ["{}", "{\"address\":\"\"}", "{\"address\":7}"] {
            assert_eq!(address(value), None, "{value}");
        }
    }
}
