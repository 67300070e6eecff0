//! `GET /docs`: a page that shows the API document and can try its requests. Everything in it is
//! served from here, and its policy forbids the browser to load anything else.

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};

use super::read::conditional::Unchanging;
use super::response::Answer;

/// A file of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocsFile {
    /// The page itself.
    Page,
    /// The script that starts Swagger UI.
    Start,
    /// Swagger UI.
    Script,
    /// The style sheet.
    Style,
}

/// Allows scripts, styles and requests of this service and pictures in the style sheet, and nothing else.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);

impl DocsFile {
    /// All files, in the order of their declaration.
    const ALL: [Self; 4] = [Self::Page, Self::Start, Self::Script, Self::Style];

    /// Returns the file's media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Page => "text/html; charset=utf-8",
            Self::Start | Self::Script => "text/javascript; charset=utf-8",
            Self::Style => "text/css; charset=utf-8",
        }
    }

    fn content(self) -> &'static [u8] {
        match self {
            Self::Page => include_bytes!("../../assets/docs/index.html"),
            Self::Start => include_bytes!("../../assets/docs/start.js"),
            Self::Script => include_bytes!("../../assets/swagger-ui/swagger-ui-bundle.js"),
            Self::Style => include_bytes!("../../assets/swagger-ui/swagger-ui.css"),
        }
    }

    /// Returns the answer to a request for the file.
    #[must_use]
    pub(super) fn answer(self, request: &HeaderMap) -> Answer {
        static FILES: LazyLock<[Unchanging; 4]> = LazyLock::new(|| {
            DocsFile::ALL.map(|file| Unchanging::new(Bytes::from_static(file.content())))
        });
        let mut answer = FILES[self as usize].answer(request);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.media_type()));
        headers.insert(CONTENT_SECURITY_POLICY, POLICY);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        answer
    }
}
