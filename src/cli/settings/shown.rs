//! Values of settings as they may be shown: without the user and the password in a URL.

use clap::error::{ContextKind, ContextValue};

/// Returns the shown value of this flag, which is written with its placeholder, such as `--nats <URL>`. The text
/// before the last `@` is left out except for a scheme, also in an invalid value, because a password may contain any
/// character.
pub(in crate::cli) fn shown(value: &str, flag: &str) -> String {
    let Some(at) = value.rfind('@') else {
        return value.to_owned();
    };
    let (login, host) = value.split_at(at);
    let names_url = ["URL", "ORIGIN", "--issuer"];
    let is_url = names_url.iter().any(|name| flag.contains(name));
    let may_be_file = flag.contains("FILE") && !login.contains(':');
    match scheme(login) {
        Some(scheme) => format!("{scheme}…{host}"),
        None if is_url && !may_be_file => format!("…{host}"),
        None => value.to_owned(),
    }
}

/// Returns the scheme of a URL, with its slashes. A colon without slashes ends a user name instead.
fn scheme(login: &str) -> Option<&str> {
    let (scheme, rest) = login.split_once(':')?;
    let slashes = rest.len() - rest.trim_start_matches('/').len();
    (slashes > 0).then(|| &login[..=scheme.len() + slashes])
}

/// Returns an error of the arguments with its values masked in this way.
pub(in crate::cli) fn masked(mut error: clap::Error) -> clap::Error {
    let flag = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(flag)) => flag.clone(),
        _ => String::new(),
    };
    let strings = error.context().filter_map(|(kind, value)| match value {
        ContextValue::String(value) => Some((kind, shown(value, &flag))),
        _ => None,
    });
    for (kind, value) in strings.collect::<Vec<_>>() {
        error.insert(kind, ContextValue::String(value));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_shown_without_anything_before_its_last_at_but_the_scheme() {
        for (value, wanted) in [
            ("nats://user:pw@h:4222", "nats://…@h:4222"),
            ("nats://user:p/w@h:4222", "nats://…@h:4222"),
            ("nats://user:p?w@h", "nats://…@h"),
            ("nats://user:p@w#@h", "nats://…@h"),
            ("nats://u:p@a,nats://v:q@b", "nats://…@b"),
            ("tls:/user:pw@h", "tls:/…@h"),
            ("user:pw@h", "…@h"),
            ("token@h", "…@h"),
            ("user:p://w@h", "…@h"),
            ("*=https://user:pw@h/in", "*=https://…@h/in"),
            ("\"nats://user:pw@h\"", "\"nats://…@h\""),
            ("nats://h:4222", "nats://h:4222"),
        ] {
            assert_eq!(shown(value, "--nats <URL>"), wanted, "{value}");
        }
    }

    #[test]
    fn values_that_are_no_url_are_shown_whole_and_credentials_never() {
        for (value, flag) in [
            ("/srv/care@book", "--data <DIR>"),
            ("/etc/keys@1.json", "--jwks <FILE|URL>"),
            ("carebook@example", "--audience <AUD>"),
            ("urn:a:b@c", "--console-resource <URI>"),
        ] {
            assert_eq!(shown(value, flag), value);
        }
        for (value, flag, wanted) in [
            (
                "https://u:p@h/keys",
                "--jwks <FILE|URL>",
                "https://…@h/keys",
            ),
            ("u:p@h/keys", "--jwks <FILE|URL>", "…@h/keys"),
            ("https://u:p@h", "--issuer <ISS>", "https://…@h"),
            ("u:p@h", "--issuer <ISS>", "…@h"),
            ("u:p@h", "--issuer", "…@h"),
            ("https://u:p@h", "--cors-origin <ORIGIN>", "https://…@h"),
        ] {
            assert_eq!(shown(value, flag), wanted);
        }
    }
}
