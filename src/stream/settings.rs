//! The required settings of the stream, and what each weaker setting would lose.

use std::time::Duration;

use serde_json::{Value, json};
use wal::Ancestor;

use super::lease_term::TTL;
use super::message::{HEADERS_BYTES, MESSAGE_BYTES_MAX};
use crate::base::hex::hex;

/// Names of a journal's stream, subject and buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Name of the stream.
    pub stream: String,
    /// The stream's only subject.
    pub subject: String,
    /// Name of the bucket with the writer's lease.
    pub bucket: String,
    /// Name of the object store of the snapshots, and of the bucket with their list.
    pub snapshots: String,
}

/// Maximum length of a journal's name.
const NAME_MAX: usize = 32;

impl Names {
    /// Returns the names for the journal with this name.
    ///
    /// # Errors
    /// When the name is invalid.
    pub fn of(name: &str) -> Result<Self, String> {
        let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_fit) {
            return Err(format!(
                "it has to be 1 to {NAME_MAX} letters, digits, - or _"
            ));
        }
        Ok(Self {
            stream: format!("CAREBOOK_{name}"),
            subject: format!("carebook.journal.{name}"),
            bucket: format!("CAREBOOK_LEASE_{name}"),
            snapshots: format!("CAREBOOK_SNAPSHOTS_{name}"),
        })
    }
}

/// How long the servers must recognize a repeated message: longer than messages are repeated.
const DUPLICATE_WINDOW_SECONDS: i64 = 60;
const NANOS: i64 = 1_000_000_000;

/// Returns the settings of a new stream.
#[must_use]
pub fn wanted(names: &Names, replicas: u64, bytes_max: u64) -> Value {
    json!({
        "name": names.stream,
        "subjects": [names.subject],
        "retention": "limits",
        "storage": "file",
        "num_replicas": replicas,
        "discard": "new",
        "max_bytes": bytes_max,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "max_consumers": -1,
        "max_age": 0,
        "duplicate_window": 2 * DUPLICATE_WINDOW_SECONDS * NANOS,
        "deny_delete": true,
        "allow_direct": false,
        "allow_rollup_hdrs": false,
        "description": "The journal of carebook: not to be edited",
    })
}

/// Metadata key that marks a stream into which a directory is being imported.
const IMPORT: &str = "carebook-import";

/// Returns these settings, with the mark of an unfinished import.
#[must_use]
pub fn importing(config: &Value) -> Value {
    let mut marked = config.clone();
    marked["metadata"][IMPORT] = json!("unfinished");
    marked
}

/// Returns these settings, without the mark.
#[must_use]
pub fn imported(config: &Value) -> Value {
    let mut config = config.clone();
    if let Some(metadata) = config["metadata"].as_object_mut() {
        metadata.remove(IMPORT);
    }
    config
}

/// Metadata key for the logs that the stream's log continues.
const ANCESTORS: &str = "carebook-restored-from";

/// Returns these settings for a stream whose log continues these logs.
#[must_use]
pub fn going_on_from(config: &Value, ancestors: &[Ancestor]) -> Value {
    let mut config = config.clone();
    if !ancestors.is_empty() {
        let each = ancestors
            .iter()
            .map(|one| format!("{}:{}", hex(&one.log_id), one.upto));
        config["metadata"][ANCESTORS] = json!(each.collect::<Vec<_>>().join(","));
    }
    config
}

/// Returns the logs that the stream's log continues, the oldest first; `None` when that entry cannot be read.
#[must_use]
pub fn ancestors(config: &Value) -> Option<Vec<Ancestor>> {
    let Some(text) = config["metadata"][ANCESTORS].as_str() else {
        return Some(Vec::new());
    };
    let each = text.split(',').map(|one| {
        let (id, upto) = one.split_once(':')?;
        let id = (id.len() == 32).then(|| u128::from_str_radix(id, 16).ok())??;
        Some(Ancestor {
            log_id: id.to_be_bytes(),
            upto: upto.parse().ok()?,
        })
    });
    each.collect()
}

/// Whether an import is unfinished.
#[must_use]
pub fn is_importing(config: &Value) -> bool {
    !config["metadata"][IMPORT].is_null()
}

/// Least room that the bucket of the lease must have for an entry, and for all, in bytes.
const LEASE_BYTES: i64 = 16 << 10;

/// Returns each setting of the lease's bucket with which the lease would not be forgotten in time, or not be renewed.
fn lease_limits(config: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let age = Duration::from_nanos(config["max_age"].as_u64().unwrap_or(0));
    if age != TTL {
        faults.push(format!("max_age is {age:?}, and has to be {TTL:?}"));
    }
    for name in ["max_msg_size", "max_bytes"] {
        let bytes = config[name].as_i64().unwrap_or(0);
        if bytes > 0 && bytes < LEASE_BYTES {
            faults.push(format!(
                "{name} is {bytes}, and has to be {LEASE_BYTES} or more, or not set"
            ));
        }
    }
    faults
}

/// Returns each setting of the stream of a bucket, or of an object store, that could lose its content; of the lease's
/// bucket also each that would prevent a takeover.
pub(super) fn weaker_beside(config: &Value, names: &Names, replicas_min: u64) -> Vec<String> {
    let storage = config["storage"].as_str().unwrap_or_default();
    let replicas = config["num_replicas"].as_u64().unwrap_or(0);
    let mut faults = Vec::new();
    if storage != "file" {
        faults.push(format!("storage is {storage}, and has to be file"));
    }
    if replicas < replicas_min {
        faults.push(too_few(replicas, replicas_min));
    }
    if config["name"] == format!("KV_{}", names.bucket).as_str() {
        faults.extend(lease_limits(config));
    }
    faults
}

fn too_few(replicas: u64, replicas_min: u64) -> String {
    format!("num_replicas is {replicas}, and has to be {replicas_min} or more")
}

/// The longest message; the servers count the headers, too.
const LONGEST: usize = MESSAGE_BYTES_MAX + HEADERS_BYTES;

/// Returns the fault of a server that takes messages of `payload_max` bytes at most, if that is too few.
#[must_use]
pub fn small_payload(payload_max: usize) -> Option<String> {
    (payload_max < LONGEST).then(|| {
        format!(
            "max_payload is {payload_max} in the settings of a server itself, and has to be {LONGEST} or more in \
             those of each"
        )
    })
}

/// Returns the faults of the stream's limits: each of them would refuse a message or a purge one day, and so end every
/// writer in turn.
fn limits(config: &Value, payload_max: usize) -> Vec<String> {
    let number = |name: &str| config[name].as_i64().unwrap_or(0);
    let mut faults = Vec::new();
    for name in ["max_age", "max_msgs", "max_msgs_per_subject"] {
        if number(name) > 0 {
            faults.push(format!("{name} is {}, and must not be set", number(name)));
        }
    }
    let size = number("max_msg_size");
    if size > 0 && usize::try_from(size).is_ok_and(|size| size < LONGEST) {
        faults.push(format!(
            "max_msg_size is {size}, and has to be {LONGEST} or more, or not set"
        ));
    }
    faults.extend(small_payload(payload_max));
    if config["deny_purge"].as_bool().unwrap_or(false) {
        faults.push(
            "deny_purge must not be set; it cannot be unset: import a directory into a journal of \
             another name"
                .to_owned(),
        );
    }
    faults
}

/// Each setting that could lose what is acknowledged, answer with what is old, or refuse what a writer
/// appends or purges. `payload_max` is how many bytes the connected server takes in a message at most.
#[must_use]
pub fn weaker(config: &Value, names: &Names, replicas_min: u64, payload_max: usize) -> Vec<String> {
    let mut faults = Vec::new();
    let text = |name: &str| config[name].as_str().unwrap_or_default();
    let number = |name: &str| config[name].as_i64().unwrap_or(0);
    let is_set = |name: &str| config[name].as_bool().unwrap_or(false);
    let mut expect = |holds: bool, fault: String| {
        if !holds {
            faults.push(fault);
        }
    };
    for (name, word) in [
        ("retention", "limits"),
        ("storage", "file"),
        ("discard", "new"),
    ] {
        let fault = format!("{name} is {}, and has to be {word}", text(name));
        expect(text(name) == word, fault);
    }
    let replicas = config["num_replicas"].as_u64().unwrap_or(0);
    expect(replicas >= replicas_min, too_few(replicas, replicas_min));
    expect(
        config["subjects"] == json!([names.subject]),
        format!("subjects has to be {} alone", names.subject),
    );
    expect(
        is_set("deny_delete"),
        "deny_delete has to be set".to_owned(),
    );
    expect(
        number("max_bytes") > 0,
        "max_bytes has to be set: without it the servers' disks fill".to_owned(),
    );
    for name in [
        "allow_direct",
        "mirror_direct",
        "allow_rollup_hdrs",
        "allow_msg_ttl",
        "allow_msg_counter",
        "no_ack",
        "sealed",
    ] {
        expect(!is_set(name), format!("{name} must not be set"));
    }
    for name in ["mirror", "sources", "subject_transform", "republish"] {
        expect(config[name].is_null(), format!("{name} must not be set"));
    }
    expect(
        matches!(text("persist_mode"), "" | "default"),
        format!(
            "persist_mode is {}, and has to be default",
            text("persist_mode")
        ),
    );
    let known_again = number("duplicate_window") / NANOS;
    expect(
        known_again >= DUPLICATE_WINDOW_SECONDS,
        format!(
            "duplicate_window is {known_again} s, and has to be {DUPLICATE_WINDOW_SECONDS} s or more"
        ),
    );
    faults.extend(limits(config, payload_max));
    faults
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn created_settings_are_accepted_and_each_weaker_one_is_refused_by_name() {
        let names = Names::of("main").unwrap();
        let good = wanted(&names, 3, 1 << 30);
        assert!(weaker(&good, &names, 3, LONGEST).is_empty());
        for (name, value) in [
            ("retention", json!("interest")),
            ("storage", json!("memory")),
            ("discard", json!("old")),
            ("num_replicas", json!(1)),
            ("subjects", json!(["carebook.journal.main", "x"])),
            ("deny_delete", json!(false)),
            ("max_bytes", json!(-1)),
            ("max_age", json!(NANOS)),
            ("max_msgs", json!(1_000)),
            ("max_msgs_per_subject", json!(1)),
            ("max_msg_size", json!(600)),
            ("max_msg_size", json!((1 << 20) - 1)),
            ("deny_purge", json!(true)),
            ("allow_direct", json!(true)),
            ("mirror_direct", json!(true)),
            ("allow_rollup_hdrs", json!(true)),
            ("allow_msg_ttl", json!(true)),
            ("no_ack", json!(true)),
            ("sealed", json!(true)),
            ("mirror", json!({"name": "other"})),
            ("sources", json!([{"name": "other"}])),
            ("persist_mode", json!("async")),
            ("duplicate_window", json!(59 * NANOS)),
        ] {
            let mut bad = good.clone();
            bad[name] = value;
            let faults = weaker(&bad, &names, 3, LONGEST);
            assert!(
                matches!(faults.as_slice(), [fault] if fault.contains(name)),
                "{name}: {faults:?}"
            );
        }
    }

    #[test]
    fn lease_bucket_settings_that_prevent_a_takeover_are_refused_by_name() {
        let names = Names::of("main").unwrap();
        let ages = u64::try_from(TTL.as_nanos()).unwrap();
        let good = json!({
            "name": "KV_CAREBOOK_LEASE_main", "storage": "file", "num_replicas": 3, "max_age": ages,
            "max_msg_size": -1, "max_bytes": -1,
        });
        let faults = |config: &Value| weaker_beside(config, &names, 3);
        assert_eq!(faults(&good), Vec::<String>::new());
        for (name, value) in [
            ("max_age", json!(60 * NANOS)),
            ("max_age", json!(0)),
            ("max_msg_size", json!(10)),
            ("max_bytes", json!(1_000)),
            ("storage", json!("memory")),
            ("num_replicas", json!(1)),
        ] {
            let mut bad = good.clone();
            bad[name] = value;
            let found = faults(&bad);
            assert!(
                matches!(found.as_slice(), [fault] if fault.contains(name)),
                "{name}: {found:?}"
            );
        }
        // What is kept beside the journal for good has no age.
        let mut other = good.clone();
        (other["name"], other["max_age"]) = (json!("KV_CAREBOOK_SNAPSHOTS_main"), json!(0));
        assert_eq!(faults(&other), Vec::<String>::new());
    }

    #[test]
    fn a_limit_that_every_message_is_below_is_taken() {
        let names = Names::of("main").unwrap();
        for (name, value) in [
            ("max_msg_size", json!(1 << 20)),
            ("max_msg_size", json!(0)),
            ("max_msgs", json!(0)),
            ("deny_purge", json!(false)),
        ] {
            let mut config = wanted(&names, 3, 1 << 30);
            config[name] = value;
            let faults = weaker(&config, &names, 3, LONGEST);
            assert_eq!(faults, Vec::<String>::new(), "{name}");
        }
    }

    #[test]
    fn a_max_payload_below_the_longest_message_is_refused_by_name() {
        let names = Names::of("main").unwrap();
        let good = wanted(&names, 3, 1 << 30);
        let faults = weaker(&good, &names, 3, LONGEST - 1);
        assert!(
            matches!(faults.as_slice(), [fault] if fault.starts_with("max_payload is 1048575")),
            "{faults:?}"
        );
        for payload_max in [1 << 20, 8 << 20] {
            assert_eq!(weaker(&good, &names, 3, payload_max), Vec::<String>::new());
        }
    }

    #[test]
    fn a_stream_says_which_logs_its_own_goes_on_from() {
        let plain = json!({"name": "x"});
        assert_eq!(ancestors(&plain), Some(Vec::new()));
        assert_eq!(going_on_from(&plain, &[]), plain);
        let each = [(1, 9), (0xfe, u64::MAX)].map(|(id, upto)| Ancestor {
            log_id: [id; 16],
            upto,
        });
        let config = importing(&going_on_from(&plain, &each));
        assert_eq!(ancestors(&config), Some(each.to_vec()));
        for bad in ["", "a", "a:1", &format!("{}:", "0".repeat(32)), "x,y"] {
            let config = json!({"metadata": {ANCESTORS: bad}});
            assert_eq!(ancestors(&config), None, "{bad}");
        }
    }

    #[test]
    fn a_name_is_letters_digits_and_dashes() {
        assert_eq!(Names::of("a-1_B").unwrap().stream, "CAREBOOK_a-1_B");
        for bad in ["", "a.b", "a b", "a>", "ä", &"a".repeat(33)] {
            assert!(Names::of(bad).is_err(), "{bad}");
        }
    }
}
