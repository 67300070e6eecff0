//! `/console`: a web page for operators, and its files.
//!
//! The console is a site of its own and no part of the API: a page, static modules below a path that contains the
//! digest of all of them, and the page's settings. The page gets its data from the API, with the token of the
//! signed-in user; nothing here accesses the engine.

pub mod figures;
mod files;
pub mod sign_in_link;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY, VARY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use hyper::{StatusCode, Uri};
use serde_json::{Value, json};

use self::sign_in_link::SignInLink;
use super::read::conditional::{has_tag, tag_of};
use super::response::{self, Answer, tagged};

/// The console's path.
pub const PATH: &str = "/console";
/// The page's file, which names its modules by the digest of all files.
const PAGE: &str = "index.html";
/// The placeholder in the page for the folder of the modules.
const FOLDER: &str = "/console/files";
/// The beginning of the tag in the page that starts the modules.
const START: &str = "<script type=\"module\"";
/// Number of the digest's hexadecimal digits in that folder's name.
const DIGITS: usize = 16;

const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const PERMISSIONS: HeaderName = HeaderName::from_static("permissions-policy");

/// The settings with which a browser signs in at the identity provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrowserClient {
    /// The provider: `https` URL of an issuer with a discovery document.
    pub issuer: String,
    /// The console's client id.
    pub client_id: String,
    /// The scopes that are requested.
    pub scope: String,
    /// The resource that a token is requested for (RFC 8707), if the provider requires it.
    pub resource: Option<String>,
}

/// The console's settings.
#[derive(Debug, Default)]
pub struct ConsoleSettings {
    /// The provider at which users sign in; without it they paste a token.
    pub provider: Option<BrowserClient>,
    /// The retention settings, for operators.
    pub kept: Value,
    /// The link that signs in once, with the tokens that it yields.
    pub link: Option<SignInLink>,
}

/// The console.
pub struct Console {
    settings: ConsoleSettings,
    policy: HeaderValue,
    site: OnceLock<Site>,
}

/// The kind of a request below the console's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsolePart<'p> {
    /// The page.
    Page,
    /// The settings that the page reads at its start.
    Settings,
    /// A sign-in with a link.
    SignIns,
    /// The figures of the service.
    Figures,
    /// The resources with an identifier.
    Found,
    /// A file.
    File(&'p str),
}

impl<'p> ConsolePart<'p> {
    /// Returns the part at a path; `None` outside of the console's paths.
    #[must_use]
    pub fn at(path: &'p str) -> Option<Self> {
        let rest = path.strip_prefix(PATH)?;
        Some(match rest {
            "" | "/" => Self::Page,
            "/settings.json" => Self::Settings,
            "/sign-ins" => Self::SignIns,
            "/figures" => Self::Figures,
            "/found" => Self::Found,
            _ => Self::File(rest.strip_prefix('/')?),
        })
    }

    /// Returns the methods that this part allows.
    #[must_use]
    pub fn methods(self) -> &'static str {
        match self {
            Self::SignIns => "POST, OPTIONS",
            _ => "GET, HEAD, OPTIONS",
        }
    }
}

impl Console {
    /// Creates the console of a service with these settings.
    #[must_use]
    pub fn new(settings: ConsoleSettings) -> Self {
        let provider = settings.provider.as_ref();
        let provider = provider.and_then(|provider| origin(&provider.issuer));
        Self {
            policy: policy(provider.as_deref()),
            settings,
            site: OnceLock::new(),
        }
    }

    /// Returns the page or a file; `None` if the file does not exist.
    #[must_use]
    pub fn file(&self, part: ConsolePart<'_>, headers: &HeaderMap) -> Option<Answer> {
        let site = self.site.get_or_init(Site::embedded);
        let file = match part {
            ConsolePart::Page => &site.page,
            ConsolePart::File(path) => site.files.get(path)?,
            _ => return None,
        };
        let mut answer = file.answer(headers);
        self.guard(&mut answer);
        Some(answer)
    }

    /// Returns the settings that the page reads at its start.
    #[must_use]
    pub fn told(&self) -> Answer {
        let provider = self.settings.provider.as_ref().map(|provider| {
            json!({
                "issuer": provider.issuer,
                "clientId": provider.client_id,
                "scope": provider.scope,
                "resource": provider.resource,
            })
        });
        let told = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "provider": provider,
            "link": self.settings.link.is_some(),
        });
        let mut answer = response::json(StatusCode::OK, told.to_string());
        self.guard(&mut answer);
        let none = HeaderValue::from_static("no-store");
        answer.headers_mut().insert(CACHE_CONTROL, none);
        answer
    }

    /// Returns the link that signs in once, if there is one.
    #[must_use]
    pub fn link(&self) -> Option<&SignInLink> {
        self.settings.link.as_ref()
    }

    /// Returns the retention settings.
    #[must_use]
    pub fn kept(&self) -> &Value {
        &self.settings.kept
    }

    /// Adds the headers that restrict what the page may load, and that forbid every page to embed it.
    fn guard(&self, answer: &mut Answer) {
        let headers = answer.headers_mut();
        headers.insert(CONTENT_SECURITY_POLICY, self.policy.clone());
        for (name, value) in [
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (X_FRAME_OPTIONS, "DENY"),
            (REFERRER_POLICY, "no-referrer"),
            (OPENER, "same-origin"),
            (RESOURCE, "same-origin"),
            (
                PERMISSIONS,
                "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}

/// Returns the content security policy: modules, styles and requests of this service, and requests to the provider if
/// users sign in there. No inline code, no code made from text, and no framing.
fn policy(provider: Option<&str>) -> HeaderValue {
    let connect = provider.map_or_else(String::new, |origin| format!(" {origin}"));
    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
         connect-src 'self'{connect}; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    );
    HeaderValue::try_from(policy).unwrap_or(HeaderValue::from_static("default-src 'none'"))
}

/// Returns the scheme, host and port of a URL.
fn origin(url: &str) -> Option<String> {
    let url: Uri = url.parse().ok()?;
    let authority = url.authority().filter(|it| !it.as_str().contains('@'))?;
    Some(format!("{}://{authority}", url.scheme_str()?))
}

/// All files, ready to be sent.
struct Site {
    page: Ready,
    /// The files, by their paths below the console's.
    files: BTreeMap<String, Ready>,
}

impl Site {
    /// Builds the site from the files in the program.
    fn embedded() -> Self {
        let mut hasher = blake3::Hasher::new();
        for (path, content) in files::FILES {
            hasher.update(path.as_bytes()).update(&[0]);
            hasher.update(blake3::hash(content).as_bytes());
        }
        let digest = &hasher.finalize().to_hex()[..DIGITS];
        let page = files::FILES.iter().find(|(path, _)| *path == PAGE);
        let page = page.map_or(String::new(), |(_, page)| {
            let page = String::from_utf8_lossy(page);
            let page = page.replace(START, &format!("{}{START}", preloads()));
            page.replace(FOLDER, &format!("{FOLDER}/{digest}"))
        });
        let files = files::FILES.iter().filter(|(path, _)| *path != PAGE);
        let files = files.map(|(path, content)| {
            let ready = Ready::new(path, Bytes::from_static(content), true);
            (format!("files/{digest}/{path}"), ready)
        });
        Self {
            page: Ready::new(PAGE, page.into(), false),
            files: files.collect(),
        }
    }
}

/// Returns a link for each module, so that a browser requests all of them at once, and not each only when the module
/// that imports it has come.
fn preloads() -> String {
    let paths = files::FILES.iter().map(|(path, _)| path);
    paths
        .filter(|path| path.ends_with(".js"))
        .map(|path| format!("<link rel=\"modulepreload\" href=\"{FOLDER}/{path}\">\n"))
        .collect()
}

/// A file that does not change while the program runs.
struct Ready {
    media: HeaderValue,
    plain: Bytes,
    packed: Bytes,
    tag: String,
    /// Whether the name changes with the content, so that a browser may cache the file forever.
    is_for_ever: bool,
}

impl Ready {
    fn new(path: &str, plain: Bytes, is_for_ever: bool) -> Self {
        Self {
            media: HeaderValue::from_static(media_type(path)),
            packed: packed(&plain),
            tag: tag_of(&plain),
            plain,
            is_for_ever,
        }
    }

    fn answer(&self, headers: &HeaderMap) -> Answer {
        let is_packed = takes_gzip(headers);
        let tag = match is_packed {
            true => format!("{}-gzip", self.tag),
            false => self.tag.clone(),
        };
        let mut answer = if has_tag(headers, &tag) {
            response::empty(StatusCode::NOT_MODIFIED)
        } else {
            let body = if is_packed { &self.packed } else { &self.plain };
            let mut answer = Answer::new(body.clone().into());
            answer
                .headers_mut()
                .insert(CONTENT_TYPE, self.media.clone());
            answer
        };
        answer = tagged(answer, &tag);
        let headers = answer.headers_mut();
        let kept = match self.is_for_ever {
            true => "public, max-age=31536000, immutable",
            false => "no-cache",
        };
        headers.insert(CACHE_CONTROL, HeaderValue::from_static(kept));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
        if is_packed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        answer
    }
}

/// Returns the content, compressed. It is written into memory only, so no write fails.
fn packed(content: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let written = encoder.write_all(content);
    let packed = written.and_then(|()| encoder.finish());
    packed.unwrap_or_default().into()
}

/// Whether the client accepts gzip (RFC 9110 12.5.3): named, with a weight above zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    headers.get_all(ACCEPT_ENCODING).iter().any(|value| {
        let mut codings = value.to_str().unwrap_or_default().split(',');
        codings.any(|coding| {
            let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
            name.trim().eq_ignore_ascii_case("gzip")
                && weight.trim().parse().is_ok_and(|weight: f32| weight > 0.0)
        })
    })
}

/// Returns the media type for the file's extension.
fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use hyper::body::Body as _;

    use super::*;

    fn console(provider: Option<BrowserClient>) -> Console {
        Console::new(ConsoleSettings {
            provider,
            ..ConsoleSettings::default()
        })
    }

    #[test]
    fn a_path_beside_the_consoles_is_not_the_consoles() {
        for (path, part) in [
            ("/console", Some(ConsolePart::Page)),
            ("/console/", Some(ConsolePart::Page)),
            ("/console/sign-ins", Some(ConsolePart::SignIns)),
            (
                "/console/files/1/a.js",
                Some(ConsolePart::File("files/1/a.js")),
            ),
            ("/consoles", None),
            ("/console.js", None),
            ("/healthz", None),
        ] {
            assert_eq!(ConsolePart::at(path), part, "{path}");
        }
    }

    #[test]
    fn the_page_names_its_files_by_their_digest_and_they_are_there() {
        let console = console(None);
        let site = Site::embedded();
        let page = String::from_utf8(site.page.plain.to_vec()).unwrap();
        let mut named = 0;
        for rest in page.split("\"/console/").skip(1) {
            let path = rest.split('"').next().unwrap();
            let file = console.file(ConsolePart::File(path), &HeaderMap::new());
            assert!(file.is_some(), "{path}");
            named += 1;
        }
        // Every module is preloaded, so that none is requested late.
        let modules = files::FILES
            .iter()
            .filter(|(path, _)| path.ends_with(".js"));
        assert_eq!(
            page.matches("rel=\"modulepreload\"").count(),
            modules.count()
        );
        assert!(named >= 4, "{page}");
        let no_file = ConsolePart::File("files/0000000000000000/main.js");
        assert!(console.file(no_file, &HeaderMap::new()).is_none());
    }

    #[test]
    fn all_files_of_the_console_have_250_kib_packed_at_most() {
        let site = Site::embedded();
        let all = site.files.values().chain([&site.page]);
        let bytes: usize = all.map(|file| file.packed.len()).sum();
        assert!(bytes <= 250 << 10, "{bytes} bytes");
    }

    #[test]
    fn a_file_comes_packed_to_who_takes_that_and_is_kept_for_ever() {
        let console = console(None);
        let site = Site::embedded();
        let path = site.files.keys().find(|path| path.ends_with("/main.js"));
        let part = ConsolePart::File(path.unwrap());
        let asked = |encoding: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(encoding));
            console.file(part, &headers).unwrap()
        };
        let (plain, packed) = (asked("gzip;q=0, br"), asked("br, gzip"));
        assert_eq!(packed.headers()[CONTENT_ENCODING], "gzip");
        assert!(plain.headers().get(CONTENT_ENCODING).is_none());
        let length = |answer: &Answer| answer.body().size_hint().exact().unwrap();
        assert!(length(&packed) < length(&plain));
        assert_ne!(packed.headers()["etag"], plain.headers()["etag"]);
        let kept = packed.headers()[CACHE_CONTROL].to_str().unwrap();
        assert!(kept.contains("immutable"));
        let mut again = HeaderMap::new();
        again.insert("if-none-match", plain.headers()["etag"].clone());
        let same = console.file(part, &again).unwrap();
        assert_eq!(same.status(), StatusCode::NOT_MODIFIED);
    }

    #[test]
    fn the_policy_names_no_other_host_but_the_providers() {
        let text = |console: Console| console.policy.to_str().unwrap().to_owned();
        let alone = text(console(None));
        assert!(alone.contains("connect-src 'self';"), "{alone}");
        assert!(alone.contains("frame-ancestors 'none'"), "{alone}");
        for lax in ["unsafe", "*", "http", "data:", "eval"] {
            assert!(!alone.contains(lax), "{alone}");
        }
        let provider = BrowserClient {
            issuer: "https://id.example.com:8443/realms/care".into(),
            client_id: "console".into(),
            scope: "openid".into(),
            resource: None,
        };
        let with = text(console(Some(provider)));
        let names = "connect-src 'self' https://id.example.com:8443;";
        assert!(with.contains(names), "{with}");
    }
}
