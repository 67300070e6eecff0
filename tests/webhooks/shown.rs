//! What operators are shown of deliveries.

use super::*;

/// The value of a series, by its name with its labels.
fn figure(house: &House, series: &str) -> f64 {
    let page = house.client().request("GET", "/metrics", &[], b"");
    page.metric(series)
}

#[test]
fn metrics_show_each_subscription_and_readiness_all_while_it_stays_ready() {
    let house = House::with(&NEAR[..2]);
    let ready = || house.client().request("GET", "/readyz", &[], b"");
    assert_eq!(ready().json(), json!({"status": "ready"}));
    let bad = Receiver::deciding(|_, _| Reply::Status(500, "Retry-After: 1000\r\n"));
    let good = Receiver::start();
    let failing = house.subscribe(&bad.url(), &["carebook.reference-fact.*"]);
    let well = house.subscribe(&good.url(), &["carebook.reference-fact.*"]);
    for revision in 1..=3 {
        house.fact("a", revision);
    }
    house.wait(&failing, |read| {
        read["status"] == "failing" && read["waiting"] == 3
    });
    // Figures are those of the last tick.
    house.wait_for_figures(&failing, |of| of("waiting") == 3.0);
    house.wait_for_figures(&well, |of| {
        of("attempts_total") == 3.0 && of("waiting") == 0.0
    });
    assert_eq!(figure(&house, "carebook_webhook_subscriptions"), 2.0);
    assert_eq!(figure(&house, "carebook_webhooks_waiting"), 3.0);
    assert_eq!(figure(&house, "carebook_webhooks_dead"), 0.0);
    let of = |name: &str, subscription: &Value| {
        let id = subscription["subscriptionId"].as_str().unwrap();
        figure(&house, &format!("{name}{{subscription=\"{id}\"}}"))
    };
    for (subscription, waiting, attempts, failures) in
        [(&failing, 3.0, 1.0, 1.0), (&well, 0.0, 3.0, 0.0)]
    {
        assert_eq!(of("carebook_webhook_waiting", subscription), waiting);
        assert_eq!(of("carebook_webhook_dead", subscription), 0.0);
        assert_eq!(
            of("carebook_webhook_attempts_total", subscription),
            attempts
        );
        assert_eq!(
            of("carebook_webhook_failures_total", subscription),
            failures
        );
        assert!(of("carebook_webhook_attempt_seconds_total", subscription) > 0.0);
        let oldest = of("carebook_webhook_oldest_seconds", subscription);
        assert_eq!(oldest > 0.0, waiting > 0.0, "{oldest}");
    }
    let answer = ready();
    assert_eq!(answer.status, 200);
    let told = json!({"subscriptions": 2, "failing": 1, "waiting": 3, "dead": 0});
    assert_eq!(answer.json()["webhooks"], told);
}
