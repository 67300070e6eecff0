//! Deliveries over TLS: whom the service trusts.

use super::*;

/// A server that trusts these certificates (PEM) besides the system's, and one event that is to be
/// delivered to `url`.
fn told(certificates: &str, url: &str) -> (House, Value) {
    let world = World::new();
    let file = world.path("trusted.pem");
    std::fs::write(&file, certificates).unwrap();
    let arguments = [&NEAR[..], &["--ca-file", file.to_str().unwrap()]].concat();
    let house = House::on(world, &arguments);
    let subscription = house.subscribe(url, &["carebook.reference-fact.*"]);
    house.fact("a", 1);
    (house, subscription)
}

#[test]
fn a_receiver_whose_certificate_is_trusted_is_told_over_tls() {
    let (receiver, certificate) = Receiver::secured();
    let url = format!("https://localhost:{}/", receiver.port);
    let (house, subscription) = told(&certificate, &url);
    let came = receiver.wait_for(1);
    assert_eq!(taken(&came), [(subject("a"), 1)]);
    assert_eq!(
        came[0].signed_by(subscription["secret"].as_str().unwrap()),
        1
    );
    let read = house.wait(&subscription, |read| read["waiting"] == 0);
    assert_eq!(read["lastFailure"], Value::Null);
}

#[test]
fn a_certificate_that_nobody_vouches_for_or_of_another_name_gets_nothing() {
    let (receiver, certificate) = Receiver::secured();
    let (_other, of_other) = Receiver::secured();
    let not_trusted = "its certificate is not trusted";
    let of_another = "its certificate is for another name";
    for (trusted, host, error) in [
        (&of_other, "localhost", not_trusted),
        (&certificate, "127.0.0.1", of_another),
    ] {
        let url = format!("https://{host}:{}/", receiver.port);
        let (house, subscription) = told(trusted, &url);
        let read = house.wait(&subscription, |read| !read["lastFailure"].is_null());
        let failure = &read["lastFailure"];
        assert_eq!(failure["status"], Value::Null);
        assert_eq!(failure["error"], error, "{host}");
    }
    assert_eq!(receiver.came().len(), 0);
}

#[test]
fn plain_http_to_a_tls_port_and_tls_to_a_plain_port_fail_and_say_so() {
    let (secured, certificate) = Receiver::secured();
    let plain = Receiver::start();
    for url in [
        format!("http://localhost:{}/", secured.port),
        format!("https://localhost:{}/", plain.port),
    ] {
        let (house, subscription) = told(&certificate, &url);
        let read = house.wait(&subscription, |read| !read["lastFailure"].is_null());
        assert_eq!(read["lastFailure"]["status"], Value::Null, "{url}");
    }
    assert_eq!((secured.came().len(), plain.came().len()), (0, 0));
}
