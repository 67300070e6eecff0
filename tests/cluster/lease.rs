//! The writer's lease: giving it up frees it at once, and no process gives up another's.

use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::jetstream::kv::Store;
use bytes::Bytes;
use carebook::stream::connection::Connection;
use carebook::stream::holder::Terms;
use carebook::stream::lease::Lease;
use carebook::stream::maintenance::hold;
use carebook::stream::settings::Names;
use serde_json::json;

use super::standby::{followed, is_writer};
use super::{Cluster, ROOMY, ask_for, until};

/// Much less than the servers keep what was not given up.
const AT_ONCE: Duration = Duration::from_secs(3);

/// Does something with the bucket of the lease.
fn beside(cluster: &Cluster, work: impl AsyncFn(&Store) -> Result<(), async_nats::Error>) {
    cluster.with(async |context| work(&context.get_key_value("CAREBOOK_LEASE_tests").await?).await);
}

#[test]
fn a_lease_given_up_is_free_at_once_even_after_lost_renewal_responses() {
    let Some(cluster) = Cluster::with_journal(1, ROOMY) else {
        return;
    };
    let names = Names::of("tests").unwrap();
    let connection = Connection::open(cluster.addresses(), ConnectOptions::new(), names).unwrap();
    let [one, two] = [1, 2].map(|number| {
        let node = format!("node {number}");
        hold(Arc::clone(&connection), &node, [number; 16])
    });
    let terms = Terms {
        address: "127.0.0.1:1".to_owned(),
        webhook_key: String::new(),
        relies: false,
        replicas: 1,
    };
    for lost in [0, 1, 3] {
        for link in [&one, &two] {
            let taken = Lease::take_within(link, &terms, AT_ONCE).unwrap();
            let lease = taken.unwrap_or_else(|| panic!("it is not free: {lost}"));
            for _ in 0..lost {
                beside(&cluster, async |store| {
                    let entry = store.entry("writer").await?.unwrap();
                    store.update("writer", entry.value, entry.revision).await?;
                    Ok(())
                });
            }
            lease.give_up(&connection);
        }
    }
    let lease = Lease::take_within(&one, &terms, AT_ONCE).unwrap().unwrap();
    let others = Bytes::from_static(b"{\"node\": \"another one\"}");
    beside(&cluster, async |store| {
        store.put("writer", others.clone()).await?;
        Ok(())
    });
    lease.give_up(&connection);
    beside(&cluster, async |store| {
        assert_eq!(store.get("writer").await?, Some(others.clone()));
        Ok(())
    });
}

#[test]
fn lease_bucket_settings_that_prevent_a_takeover_are_reported() {
    let Some((cluster, _world, writer, following)) = followed(1) else {
        return;
    };
    let keeps_for = |age: Duration| {
        cluster.with(async |context| {
            let mut stream = context.get_stream("KV_CAREBOOK_LEASE_tests").await?;
            let mut config = stream.info().await?.config.clone();
            config.max_age = age;
            context.update_stream(config).await?;
            Ok(())
        });
    };
    let is_weak = || following.metric("carebook_journal_settings_weak") == 1.0;
    keeps_for(Duration::from_secs(60));
    until("the standby says so", is_weak);
    let (code, out, said) = cluster.journal("status", &["--json"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(out.contains("max_age is 60s"), "{out}");
    keeps_for(Duration::from_secs(8));
    until("the standby sees that", || !is_weak());
    assert_eq!(cluster.journal("status", &[]).0, Some(0));
    assert_eq!(writer.stop(), Some(0));
    assert_eq!(following.stop(), Some(0));
}

#[test]
fn a_standby_keeps_following_when_its_takeover_meets_changed_settings() {
    let Some((cluster, world, writer, following)) = followed(5) else {
        return;
    };
    let is_weak = || following.metric("carebook_journal_settings_weak") == 1.0;
    let held_by_another = || {
        beside(&cluster, async |store| {
            let others = Bytes::from_static(b"{\"node\": \"another one\"}");
            store.put("writer", others).await?;
            Ok(())
        });
    };
    let freed = || {
        beside(&cluster, async |store| {
            store.delete("writer").await?;
            Ok(())
        });
    };
    held_by_another();
    writer.kill();
    // It takes the lease within a tenth of a second, and looks at the settings twice a second: most of these meet the
    // change in the takeover.
    for round in 0..4 {
        cluster.change(&json!({"max_msgs": 1_000_000}));
        freed();
        until("it has seen that", is_weak);
        assert!(!is_writer(&following), "{round}");
        held_by_another();
        cluster.change(&json!({"max_msgs": -1}));
        until("it has seen that, too", || !is_weak());
    }
    freed();
    until("it takes over", || is_writer(&following));
    ask_for(&world, &following, 5..6);
    assert_eq!(following.stop(), Some(0));
    cluster.verify(&world.path("second"));
}
