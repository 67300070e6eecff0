//! A message's place in a trace.

use carebook::base::hex::hex;

use crate::support::{Server, World};
use crate::traces::{attempts, endpoint, text};
use crate::webhooks::receiver::Receiver;

use super::{Nats, ask_for_deposit, assert_published, told};

#[test]
fn a_message_tells_the_place_of_its_publication_in_a_trace_of_its_own() {
    let Some(nats) = Nats::started() else {
        return;
    };
    nats.make_stream();
    let collector = Receiver::start();
    let world = World::new();
    let (url, endpoint) = (nats.url(), endpoint(collector.port));
    let arguments = ["--nats", &url, "--otlp-endpoint", &endpoint];
    let server = Server::start_with(&world, &[&arguments[..], &["--trace-sample", "1"]].concat());
    let mut client = server.client();
    for number in 0..3 {
        assert!(ask_for_deposit(&world, &mut client, number));
    }
    assert_published(&nats, &told(&world, &server));
    let places = nats.places();
    let spans = attempts(&collector, "event publication", places.len());
    assert!(places.len() >= 3);
    for (id, place) in &places {
        let told = spans.iter().find(|span| {
            let of = text(&span.attributes, "messaging.message.id");
            of.as_deref() == Some(id)
        });
        let span = told.unwrap();
        let own = format!("00-{}-{}-01", hex(&span.trace_id), hex(&span.span_id));
        assert_eq!(place.as_deref(), Some(&*own));
        assert_eq!((span.kind, &span.status), (4, &None));
        assert!(span.parent_span_id.is_empty());
        let system = text(&span.attributes, "messaging.system");
        assert_eq!(system.as_deref(), Some("nats"));
    }
    let traces: std::collections::BTreeSet<_> = spans.iter().map(|span| &span.trace_id).collect();
    assert_eq!(traces.len(), spans.len());
}

#[test]
fn without_a_collector_a_message_tells_of_no_trace() {
    let Some(nats) = Nats::started() else {
        return;
    };
    nats.make_stream();
    let world = World::new();
    let server = Server::start_with(&world, &["--nats", &nats.url()]);
    assert!(ask_for_deposit(&world, &mut server.client(), 0));
    assert_published(&nats, &told(&world, &server));
    let places = nats.places();
    assert!(
        places.iter().all(|(_, place)| place.is_none()),
        "{places:?}"
    );
}
