//! Where the console is served, and to whom.

use carebook::base::actor::ActorKind;
use serde_json::json;

use crate::support::{Answer, Client, Server, World, actor, run};
use crate::walk::demonstration;

fn ask(client: &mut Client, path: &str) -> Answer {
    client.request("GET", path, &[], b"")
}

#[test]
fn it_is_nowhere_unless_asked_for_and_on_the_listener_for_inside() {
    let world = World::new();
    let server = Server::start(&world);
    let refused = ask(&mut server.client(), "/console");
    assert_eq!(refused.json()["code"], "route_not_found");
    assert_eq!(server.stop(), Some(0));

    let server = Server::start_with(&world, &["--internal-listen", "127.0.0.1:0"]);
    assert_eq!(ask(&mut server.client(), "/console").status, 404);
    let mut inside = Client::connect(server.internal.as_ref().unwrap());
    assert_eq!(ask(&mut inside, "/console").status, 200);
    // What it asks is there, for who has a token.
    assert_eq!(ask(&mut inside, "/settlement-statements").status, 401);
    let listed = inside.get("/settlement-statements", &world.headquarters());
    assert_eq!(listed.status, 200);
    assert_eq!(server.stop(), Some(0));

    let server = Server::start_with(&world, &["--console"]);
    assert_eq!(ask(&mut server.client(), "/console").status, 200);
    assert_eq!(server.stop(), Some(0));

    let off = ["--internal-listen", "127.0.0.1:0", "--console", "off"];
    let server = Server::start_with(&world, &off);
    let mut inside = Client::connect(server.internal.as_ref().unwrap());
    assert_eq!(ask(&mut inside, "/console").status, 404);
    assert_eq!(ask(&mut inside, "/settlement-statements").status, 404);
}

#[test]
fn the_page_may_load_from_here_alone_and_nobody_may_frame_it() {
    let world = World::new();
    let server = Server::start_with(&world, &["--console"]);
    let mut client = server.client();
    let page = ask(&mut client, "/console");
    let rest = page.text().split_once("src=\"").unwrap().1;
    let script = rest.split_once('"').unwrap().0.to_owned();
    for (path, media) in [
        ("/console", "text/html; charset=utf-8"),
        ("/console/", "text/html; charset=utf-8"),
        (&script, "text/javascript; charset=utf-8"),
    ] {
        let answer = ask(&mut client, path);
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(answer.header("content-type"), Some(media));
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';"));
        assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
        for lax in ["unsafe", "*", "http", "data:"] {
            assert!(!policy.contains(lax), "{policy}");
        }
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("x-frame-options", "DENY"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{path}: {name}");
        }
    }
    let kept = ask(&mut client, &script);
    let kept = kept.header("cache-control").unwrap();
    assert!(kept.contains("immutable"), "{kept}");
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let other = client.request("POST", "/console", &[], b"");
    assert_eq!(other.status, 405);
    assert_eq!(
        ask(&mut client, "/console/files/../../Cargo.toml").status,
        404
    );
}

#[test]
fn the_link_of_a_demonstration_signs_in_once() {
    let world = World::new();
    let (server, printed) = demonstration(&world);
    let code = printed.split_once("/console#link=").unwrap().1;
    let code = code.split_whitespace().next().unwrap();
    let mut client = server.client();
    let mut sign_in = |code: &str| {
        let body = json!({"code": code}).to_string();
        let headers = [("Content-Type", "application/json")];
        client.request("POST", "/console/sign-ins", &headers, body.as_bytes())
    };
    let guessed = sign_in("a");
    assert_eq!(
        (guessed.status, &guessed.json()["code"]),
        (403, &json!("link_unknown"))
    );
    let given = sign_in(code);
    assert_eq!(given.status, 200);
    assert_eq!(given.header("cache-control"), Some("no-store"));
    let actors = given.json()["actors"].as_array().unwrap().clone();
    assert_eq!(actors.len(), ActorKind::ALL.len());
    let again = sign_in(code);
    assert_eq!(
        (again.status, &again.json()["code"]),
        (403, &json!("link_used"))
    );
    let token = actors[4]["token"].as_str().unwrap();
    assert_eq!(client.get("/console/figures", token).status, 200);
}

#[test]
fn without_a_demonstration_no_link_signs_in() {
    let world = World::new();
    let server = Server::start_with(&world, &["--console"]);
    let headers = [("Content-Type", "application/json")];
    let body = br#"{"code": "a"}"#;
    let answer = server
        .client()
        .request("POST", "/console/sign-ins", &headers, body);
    assert_eq!(answer.status, 404);
    let told = ask(&mut server.client(), "/console/settings.json").json();
    assert_eq!(
        (&told["link"], &told["provider"]),
        (&json!(false), &json!(null))
    );
}

#[test]
fn figures_are_for_headquarters_with_the_permission() {
    let world = World::new();
    let server = Server::start_with(&world, &["--console"]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, "/console/figures").status, 401);
    let without = world.headquarters();
    assert_eq!(client.get("/console/figures", &without).status, 403);
    let mut manager = actor(ActorKind::BranchManager, "manager-1");
    manager.permissions = vec!["figures:read".into()];
    let manager = world.token(&manager);
    assert_eq!(client.get("/console/figures", &manager).status, 403);
    let mut headquarters = actor(ActorKind::HeadquartersAdministrator, "hq-1");
    headquarters.permissions = vec!["figures:read".into()];
    let headquarters = world.token(&headquarters);
    client.get("/settlement-statements/nothing", &headquarters);
    let answer = client.get("/console/figures", &headquarters);
    assert!(answer.position().is_some(), "{answer:?}");
    let figures = answer.json();
    assert_eq!(figures["ready"], true);
    assert_eq!(figures["refusals"]["not_found"], 1);
    assert_eq!(figures["refusals"]["permission_denied"], 2);
    assert_eq!(figures["keys"]["inUse"].as_array().unwrap().len(), 1);
    assert_eq!(figures["kept"]["logSeconds"], 7 * 24 * 3_600);
}

#[test]
fn a_search_by_identifier_or_code_finds_only_what_the_reader_may_read() {
    let world = World::new();
    let server = Server::start_with(&world, &["--console"]);
    let mut client = server.client();
    let headquarters = world.headquarters();
    let body = world.deposit_request("code 1/2", "key-1");
    let made = client.post("/settlement-deposit-requests", &headquarters, &body);
    let id = made.json()["statementId"].as_str().unwrap().to_owned();
    let path = format!("settlement-statements/{}", id.replace('-', "%2D"));
    for asked in ["code%201%2F2", &id] {
        let found = client.get(&format!("/console/found?id={asked}"), &headquarters);
        // It says on what it rests, as every read does: a writer that was replaced tells nothing.
        assert!(found.position() >= made.position(), "{found:?}");
        let found = found.json();
        assert_eq!(
            found["found"],
            json!([{"read": "read_statement", "path": path}])
        );
    }
    let stranger = world.manager("another-branch");
    let found = client.get("/console/found?id=code%201%2F2", &stranger);
    assert_eq!(found.json()["found"], json!([]));
    assert_eq!(ask(&mut client, "/console/found?id=a").status, 401);
    let wrong = client.get("/console/found?name=a", &headquarters);
    assert_eq!(wrong.status, 400);
}

#[test]
fn a_client_of_the_provider_needs_a_provider() {
    let (code, _, told) = run(&[
        "serve",
        "--data",
        "/nowhere",
        "--jwks",
        "nowhere.json",
        "--issuer",
        "nobody",
        "--console-client-id",
        "console",
        "--console",
    ]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--console-client-id"), "{told}");
}
