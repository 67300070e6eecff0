//! `carebook token`: signs a token, or makes a key to sign with. For tests and demonstrations; in
//! production the identity provider does both.

pub mod signing;

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::base::actor::ActorKind;
use crate::cli::token::signing::{Claims, SigningAlgorithm, SigningError, SigningKey};
use crate::cli::whole_file::make_as;
use crate::http::token::{IDENTIFIER_CHARS_MAX, TOKEN_BYTES_MAX};

/// The issuer of tokens that are signed here, and the one that `serve --demo` expects. Nobody can own a name under
/// `.invalid` (RFC 2606), so it cannot be mistaken for a real provider.
pub const DEFAULT_ISSUER: &str = "https://carebook.invalid/demo";
/// The audience of tokens that are signed here, and the one that `serve` expects by default.
pub const DEFAULT_AUDIENCE: &str = "carebook";

/// Name of the file with the private key that `keygen` writes.
pub const KEY_FILE: &str = "key.pem";
/// Name of the file with the public key set that `keygen` writes.
pub const KEY_SET_FILE: &str = "jwks.json";

/// Maximum size of a key file, in bytes: an RSA key of 8192 bits takes about 6 KiB.
const KEY_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum lifetime of a token, ten years: a longer one is a typing error.
const TTL_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

const AFTER_HELP: &str = "\
Examples:
  Make a key, and a server that trusts it:
    carebook token keygen --out keys
    carebook serve --data data --listen 127.0.0.1:8080 --jwks keys/jwks.json \\
        --issuer https://carebook.invalid/demo --audience carebook

  A token of a mother, for one hour:
    carebook token --key keys/key.pem --sub user-1 --actor-kind mother \\
        --member-id member-1

  A token of a branch manager of two branches, in a shell variable:
    TOKEN=$(carebook token --key keys/key.pem --sub user-2 \\
        --actor-kind branch_manager --branch-profile-id branch-1 \\
        --branch-profile-id branch-2 --ttl 15m)

Exit codes: 0 done, 1 failed (a sentence on standard error says why), 2 wrong usage.";

const KEYGEN_AFTER_HELP: &str = "\
Examples:
  carebook token keygen --out keys
  carebook token keygen --out keys-rsa --algorithm rs256

Existing files are never overwritten. A key.pem alone, as an interrupted run leaves it, gets its \
jwks.json. key.pem is a secret, readable by its owner only; jwks.json is public and goes to \
`carebook serve --jwks`. Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// Sign a token for tests and demos, or make a key to sign with.
///
/// Prints the signed token and nothing else. The key's kind (P-256, Ed25519 or RSA) decides the
/// algorithm, and the token names the key by its RFC 7638 thumbprint, as `keygen` does.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = AFTER_HELP
)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: Option<TokenCommand>,

    /// The private key: a PEM file in PKCS#8 form, such as key.pem of `keygen`
    #[arg(long, value_name = "FILE", required = true)]
    key: Option<PathBuf>,

    /// The user id that the token speaks for
    #[arg(long, value_name = "ID", required = true, value_parser = identifier)]
    sub: Option<String>,

    /// What the user is
    #[arg(long, value_name = "KIND", required = true, value_parser = actor_kinds())]
    actor_kind: Option<ActorKind>,

    /// The member of a family account that the user is
    #[arg(long, value_name = "ID", value_parser = identifier)]
    member_id: Option<String>,

    /// The profile that the user acts under [default: the user id]
    #[arg(long, value_name = "ID", value_parser = identifier)]
    actor_profile_id: Option<String>,

    /// A branch that the user acts for; may be given several times
    #[arg(long, value_name = "ID", value_parser = identifier)]
    branch_profile_id: Vec<String>,

    /// A permission such as branch:create; may be given several times
    #[arg(long, value_name = "NAME", value_parser = identifier)]
    permission: Vec<String>,

    /// The user's e-mail address
    #[arg(long, value_name = "ADDRESS", value_parser = identifier)]
    email: Option<String>,

    /// Whether the e-mail address is verified [default: true when --email is given]
    #[arg(long, value_name = "BOOL")]
    email_verified: Option<bool>,

    /// Who issues the token; the server's --issuer must be the same
    #[arg(long, value_name = "ISS", default_value = DEFAULT_ISSUER, value_parser = identifier)]
    issuer: String,

    /// Whom the token is for; the server's --audience must be the same
    #[arg(long, value_name = "AUD", default_value = DEFAULT_AUDIENCE, value_parser = identifier)]
    audience: String,

    /// How long the token is valid: a number with s, m, h or d
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = parse_ttl)]
    ttl: Duration,

    /// Prints JSON: the token, and until when it is valid
    #[arg(long)]
    json: bool,
}

#[derive(Subcommand)]
enum TokenCommand {
    /// Make a key: key.pem (secret) and jwks.json (public)
    Keygen(KeygenArgs),
}

/// Arguments of `carebook token keygen`.
#[derive(Args)]
#[command(after_help = KEYGEN_AFTER_HELP)]
struct KeygenArgs {
    /// The directory to write to; created when missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// The signature algorithm
    #[arg(long, value_enum, default_value_t = SigningAlgorithm::Es256)]
    algorithm: SigningAlgorithm,

    /// Prints JSON instead of a sentence
    #[arg(long)]
    json: bool,
}

/// Why the command failed, where, and what to do. The exit code is 1.
#[derive(Debug)]
pub enum TokenError {
    /// A file or directory cannot be read or written.
    Io {
        /// The attempted action, such as "read the key file".
        attempt: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The key file cannot be used.
    KeyFile {
        /// The path of the key file.
        path: PathBuf,
        /// The fault of the key file.
        source: SigningError,
    },
    /// The key file is far too large to be one.
    KeyFileTooLarge(PathBuf),
    /// A file that would be written exists already.
    Exists(PathBuf),
    /// Making a key or a token failed.
    Signing(SigningError),
    /// The token is longer than servers accept.
    TooLong,
    /// The system clock is before 1970.
    Clock,
    /// Standard output is closed.
    Output(io::Error),
    /// Standard output is closed, after something was done.
    OutputAfter {
        /// The completed action.
        done: String,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io {
                attempt,
                path,
                source,
            } => write!(f, "cannot {attempt} {}: {source}", path.display()),
            Self::KeyFile { path, source } => write!(f, "the key file {} {source}", path.display()),
            Self::KeyFileTooLarge(path) => write!(
                f,
                "the key file {} has more than {KEY_FILE_BYTES_MAX} bytes; give a PEM file with one private key",
                path.display()
            ),
            Self::Exists(path) => write!(
                f,
                "{} exists and is not overwritten; choose another directory, or remove the file when nothing signs with its key any more",
                path.display()
            ),
            Self::Signing(source) => write!(f, "cannot make a key or token: {source}"),
            Self::TooLong => write!(
                f,
                "the token would be longer than the {TOKEN_BYTES_MAX} bytes that a server takes; name fewer branches or permissions"
            ),
            Self::Clock => f.write_str("the system clock is before 1970; set it"),
            Self::Output(source) => write!(f, "cannot write to standard output: {source}"),
            Self::OutputAfter { done, source } => {
                write!(f, "{done}; but cannot write to standard output: {source}")
            }
        }
    }
}

impl std::error::Error for TokenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::Output(source) | Self::OutputAfter { source, .. } => {
                Some(source)
            }
            Self::KeyFile { source, .. } | Self::Signing(source) => Some(source),
            Self::KeyFileTooLarge(_) | Self::Exists(_) | Self::TooLong | Self::Clock => None,
        }
    }
}

impl TokenArgs {
    /// Runs the command as of `now`, with `out` for standard output.
    pub fn run(self, now: SystemTime, out: &mut dyn Write) -> Result<(), TokenError> {
        if let Some(TokenCommand::Keygen(args)) = self.command {
            return args.run(out);
        }
        let (as_json, ttl) = (self.json, self.ttl);
        let token = self.sign(now)?;
        if as_json {
            let expires = humantime::format_rfc3339_seconds(now + ttl).to_string();
            let signed = json!({"token": token, "expiresAt": expires});
            return writeln!(out, "{signed:#}").map_err(TokenError::Output);
        }
        writeln!(out, "{token}").map_err(TokenError::Output)
    }

    fn sign(self, now: SystemTime) -> Result<String, TokenError> {
        let required = "the parser demands it where there is no subcommand";
        let key = read_key(&self.key.expect(required))?;
        let now = now
            .duration_since(UNIX_EPOCH)
            .map_err(|_| TokenError::Clock)?;
        let claims = Claims {
            member_id: self.member_id,
            actor_profile_id: self.actor_profile_id,
            branch_profile_ids: self.branch_profile_id,
            permissions: self.permission,
            email_verified: self.email_verified.or(self.email.as_ref().map(|_| true)),
            email: self.email,
            ..Claims::new(
                &self.issuer,
                &self.audience,
                &self.sub.expect(required),
                self.actor_kind.expect(required),
                now.as_secs(),
                self.ttl.as_secs(),
            )
        };
        let token = key.sign(&claims).map_err(TokenError::Signing)?;
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        Ok(token)
    }
}

impl KeygenArgs {
    fn run(&self, out: &mut dyn Write) -> Result<(), TokenError> {
        let KeyFiles { kid, is_new } = keygen(&self.out, self.algorithm)?;
        let (key, key_set) = (self.out.join(KEY_FILE), self.out.join(KEY_SET_FILE));
        let (shown, shown_set) = (key.display(), key_set.display());
        let done = match is_new {
            true => format!("wrote {shown} (secret) and {shown_set} (public), key {kid}"),
            false => format!("wrote {shown_set} (public) for {shown}, which was there, key {kid}"),
        };
        let written = if self.json {
            let made = json!({
                "key": key.display().to_string(),
                "keySet": key_set.display().to_string(),
                "kid": kid,
            });
            writeln!(out, "{made:#}")
        } else {
            writeln!(out, "{done}")
        };
        written
            .and_then(|()| out.flush())
            .map_err(|source| TokenError::OutputAfter { done, source })
    }
}

/// Reads a private key from a PEM file.
pub fn read_key(path: &Path) -> Result<SigningKey, TokenError> {
    let failed = |source| TokenError::Io {
        attempt: "read the key file",
        path: path.into(),
        source,
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(KEY_FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > KEY_FILE_BYTES_MAX {
        return Err(TokenError::KeyFileTooLarge(path.into()));
    }
    // A binary file (such as a key in DER form) is no PEM.
    let pem = std::str::from_utf8(&bytes).map_err(|_| SigningError::NoPrivateKey);
    pem.and_then(SigningKey::from_pem)
        .map_err(|source| TokenError::KeyFile {
            path: path.into(),
            source,
        })
}

/// A key that signs, in its file, with its key set in another one.
#[derive(Debug)]
pub struct KeyFiles {
    /// The id of the key.
    pub kid: String,
    /// Whether the key was made now, and not left by an interrupted run.
    pub is_new: bool,
}

/// Makes a key and writes `key.pem` (mode 0600) and `jwks.json` to a directory, which is created if missing. Never
/// overwrites; after an error neither file is left behind. A key without a key set, which an interrupted run has
/// left, gets its key set.
pub fn keygen(directory: &Path, algorithm: SigningAlgorithm) -> Result<KeyFiles, TokenError> {
    fs::create_dir_all(directory).map_err(|source| TokenError::Io {
        attempt: "create the directory",
        path: directory.into(),
        source,
    })?;
    let key_path = directory.join(KEY_FILE);
    let key_set_path = directory.join(KEY_SET_FILE);
    // Checked first, so that a plain mistake costs no key; making the file decides.
    let exists = |path: &Path| path.symlink_metadata().is_ok();
    let left = match (exists(&key_path), exists(&key_set_path)) {
        (false, false) => None,
        (true, false) => {
            let left = read_key(&key_path).ok();
            let left = left.filter(|key| key.algorithm() == algorithm);
            Some(left.ok_or_else(|| TokenError::Exists(key_path.clone()))?)
        }
        (true, true) => return Err(TokenError::Exists(key_path)),
        (false, true) => return Err(TokenError::Exists(key_set_path)),
    };
    let is_new = left.is_none();
    let key = match left {
        Some(key) => key,
        None => {
            let key = SigningKey::generate(algorithm).map_err(TokenError::Signing)?;
            let pem = key.to_pem().map_err(TokenError::Signing)?;
            write_new(&key_path, &pem, 0o600)?;
            key
        }
    };
    let key_set = key.jwks();
    if let Err(error) = write_new(&key_set_path, &key_set, 0o644) {
        // Another run may have found the key, and made its key set.
        let is_there = fs::read_to_string(&key_set_path).is_ok_and(|there| there == key_set);
        if !is_there {
            if is_new {
                // A private key without its public part would only confuse. The first error is reported.
                let _ = fs::remove_file(&key_path);
            }
            return Err(error);
        }
    }
    Ok(KeyFiles {
        kid: key.kid().into(),
        is_new,
    })
}

/// Makes a file that must not exist yet, all of it or nothing, with its final mode from the first moment.
fn write_new(path: &Path, content: &str, mode: u32) -> Result<(), TokenError> {
    make_as(path, content, mode).map_err(|source| match source.kind() {
        io::ErrorKind::AlreadyExists => TokenError::Exists(path.into()),
        _ => TokenError::Io {
            attempt: "write",
            path: path.into(),
            source,
        },
    })
}

fn actor_kinds() -> impl TypedValueParser<Value = ActorKind> {
    PossibleValuesParser::new(ActorKind::ALL.map(ActorKind::as_str))
        .try_map(|word| word.parse::<ActorKind>())
}

/// Checks the server's rule for identifiers in claims, so that no token is signed that the server would reject.
fn identifier(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("it is blank".into());
    }
    if text.chars().count() > IDENTIFIER_CHARS_MAX {
        return Err(format!(
            "it has more than {IDENTIFIER_CHARS_MAX} characters"
        ));
    }
    Ok(text.into())
}

/// Parses a time such as `30s`, `15m`, `1h`, `2d`: from a second to ten years.
fn parse_ttl(text: &str) -> Result<Duration, String> {
    let shape = || "give a whole number and a unit: 30s, 15m, 1h or 2d".to_owned();
    let unit = text.chars().next_back().ok_or_else(shape)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        _ => return Err(shape()),
    };
    let digits = &text[..text.len() - unit.len_utf8()];
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(shape());
    }
    // A number that does not fit counts as too large.
    let number = digits.parse::<u64>().unwrap_or(u64::MAX);
    let ttl = Duration::from_secs(number.saturating_mul(seconds));
    if ttl.is_zero() || ttl > TTL_MAX {
        return Err("it must be from 1s to 3650d".into());
    }
    Ok(ttl)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};

    use crate::base::text::MemberId;

    use super::*;
    use crate::base::actor::Actor;
    use crate::cli::whole_file::unfinished;
    use crate::http::token::TokenVerifier;

    #[derive(Parser)]
    #[command(name = "token")]
    struct Command {
        #[command(flatten)]
        token: TokenArgs,
    }

    const NOW_SECONDS: u64 = 1_800_000_000;
    const NOW_MS: i64 = 1_800_000_000_000;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW_SECONDS)
    }

    fn parse(args: &[&str]) -> Result<TokenArgs, clap::Error> {
        Command::try_parse_from([&["token"], args].concat()).map(|command| command.token)
    }

    fn run(args: &[&str]) -> Result<String, TokenError> {
        let mut out = Vec::new();
        parse(args).unwrap().run(now(), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    /// Returns a directory with a key pair, and the path of the private key.
    fn keys() -> (tempfile::TempDir, String) {
        let directory = tempfile::tempdir().unwrap();
        keygen(directory.path(), SigningAlgorithm::EdDsa).unwrap();
        let key = directory.path().join(KEY_FILE);
        (directory, key.to_str().unwrap().into())
    }

    fn verifier(directory: &Path) -> TokenVerifier {
        let jwks = fs::read(directory.join(KEY_SET_FILE)).unwrap();
        TokenVerifier::new(&jwks, DEFAULT_ISSUER, DEFAULT_AUDIENCE).unwrap()
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Command::command().debug_assert();
    }

    #[test]
    fn a_token_has_what_the_arguments_say_and_nothing_else_is_printed() {
        let (directory, key) = keys();
        let printed = run(&[
            "--key",
            &key,
            "--sub",
            "user-1",
            "--actor-kind",
            "branch_manager",
            "--member-id",
            "member-1",
            "--actor-profile-id",
            "profile-1",
            "--branch-profile-id",
            "branch-1",
            "--branch-profile-id",
            "branch-2",
            "--permission",
            "branch:create",
            "--permission",
            "payment:authorize",
            "--email",
            "mina@example.org",
            "--ttl",
            "30s",
        ])
        .unwrap();
        let token = printed.strip_suffix('\n').unwrap();
        assert!(!token.contains(char::is_whitespace));
        let verifier = verifier(directory.path());
        let actor = verifier.verify(token, NOW_MS).unwrap();
        let expected = Actor {
            subject: "user-1".into(),
            kind: ActorKind::BranchManager,
            member_id: Some(MemberId::from_trusted("member-1")),
            actor_profile_id: Some("profile-1".into()),
            branch_profile_ids: vec!["branch-1".into(), "branch-2".into()],
            permissions: vec!["branch:create".into(), "payment:authorize".into()],
            email: Some("mina@example.org".into()),
            email_verified: true,
        };
        assert!(*actor == expected);
        // 30 s of lifetime, and 30 s of leeway.
        assert!(verifier.verify(token, NOW_MS + 59_999).is_ok());
        assert!(verifier.verify(token, NOW_MS + 60_000).is_err());
    }

    #[test]
    fn every_kind_of_actor_can_be_signed_for() {
        let (directory, key) = keys();
        let verifier = verifier(directory.path());
        for kind in ActorKind::ALL {
            let printed = run(&["--key", &key, "--sub", "u", "--actor-kind", kind.as_str()]);
            let actor = verifier.verify(printed.unwrap().trim(), NOW_MS).unwrap();
            assert_eq!(actor.kind, kind);
            assert_eq!(actor.profile_id(), "u");
            assert_eq!(actor.email, None);
            assert!(!actor.email_verified);
        }
    }

    #[test]
    fn an_address_can_be_signed_as_not_verified() {
        let (directory, key) = keys();
        let printed = run(&[
            "--key",
            &key,
            "--sub",
            "u",
            "--actor-kind",
            "mother",
            "--email",
            "mina@example.org",
            "--email-verified",
            "false",
        ])
        .unwrap();
        let verifier = verifier(directory.path());
        let actor = verifier.verify(printed.trim(), NOW_MS).unwrap();
        assert_eq!(actor.email.as_deref(), Some("mina@example.org"));
        assert_eq!(actor.verified_email(), None);
    }

    #[test]
    fn issuer_and_audience_are_those_given() {
        let (directory, key) = keys();
        let jwks = fs::read(directory.path().join(KEY_SET_FILE)).unwrap();
        let verifier = TokenVerifier::new(&jwks, "https://idp.example", "other").unwrap();
        let base = ["--key", &key, "--sub", "u", "--actor-kind", "mother"];
        let named = ["--issuer", "https://idp.example", "--audience", "other"];
        let printed = run(&[base.as_slice(), named.as_slice()].concat()).unwrap();
        assert!(verifier.verify(printed.trim(), NOW_MS).is_ok());
        assert!(verifier.verify(run(&base).unwrap().trim(), NOW_MS).is_err());
    }

    #[test]
    fn wrong_usage_has_exit_code_2() {
        let complete = ["--key", "k", "--sub", "u", "--actor-kind", "mother"];
        assert!(parse(&complete).is_ok());
        for missing in [0, 2, 4] {
            let mut args = complete.to_vec();
            args.drain(missing..missing + 2);
            let error = parse(&args).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::MissingRequiredArgument, "{args:?}");
            assert_eq!(error.exit_code(), 2);
        }
        let long = "x".repeat(513);
        let wrong: [&[&str]; 10] = [
            &["--ttl", "1"],
            &["--ttl", "0s"],
            &["--email-verified", "yes"],
            &["--member-id", " "],
            &["--permission", ""],
            &["--branch-profile-id", &long],
            &["--issuer", ""],
            &["--actor-kind", "admin"],
            &["--nonsense"],
            &["keygen", "--out", "x"],
        ];
        for extra in wrong {
            let error = parse(&[complete.as_slice(), extra].concat()).err().unwrap();
            assert_eq!(error.exit_code(), 2, "{extra:?}");
        }
        for keygen in [
            &["keygen"][..],
            &["keygen", "--out", "x", "--algorithm", "hs256"],
        ] {
            assert_eq!(parse(keygen).err().unwrap().exit_code(), 2, "{keygen:?}");
        }
    }

    #[test]
    fn help_shows_examples_and_the_kinds_of_actor() {
        for args in [&["--help"][..], &["keygen", "--help"]] {
            let error = parse(args).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::DisplayHelp);
            assert_eq!(error.exit_code(), 0);
            assert!(error.to_string().contains("Examples:"), "{args:?}");
        }
        let help = parse(&["--help"]).err().unwrap().to_string();
        for kind in ActorKind::ALL {
            assert!(help.contains(kind.as_str()));
        }
        assert!(AFTER_HELP.contains(DEFAULT_ISSUER) && AFTER_HELP.contains(DEFAULT_AUDIENCE));
    }

    #[test]
    fn times_are_read_with_their_unit() {
        let seconds = |text| parse_ttl(text).map(|ttl| ttl.as_secs());
        assert_eq!(seconds("30s"), Ok(30));
        assert_eq!(seconds("15m"), Ok(900));
        assert_eq!(seconds("1h"), Ok(3_600));
        assert_eq!(seconds("2d"), Ok(172_800));
        assert_eq!(seconds("3650d"), Ok(315_360_000));
        let wrong = [
            "",
            "s",
            "1",
            "1w",
            "-1s",
            "+1s",
            "1.5h",
            " 1h",
            "1h ",
            "0s",
            "3651d",
            "1é",
            "99999999999999999999s",
        ];
        for text in wrong {
            assert!(parse_ttl(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn keygen_writes_a_private_key_that_only_its_owner_can_read() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("new/keys");
        let out = directory.to_str().unwrap();
        let printed = run(&["keygen", "--out", out]).unwrap();
        let mode = |name| {
            let metadata = fs::metadata(directory.join(name)).unwrap();
            metadata.permissions().mode() & 0o777
        };
        assert_eq!(mode(KEY_FILE), 0o600);
        // The umask may remove rights, but none of the owner's.
        assert_eq!(mode(KEY_SET_FILE) & 0o600, 0o600);
        assert_eq!(mode(KEY_SET_FILE) & 0o133, 0);

        let key = read_key(&directory.join(KEY_FILE)).unwrap();
        assert_eq!(key.algorithm(), SigningAlgorithm::Es256);
        assert!(printed.contains(key.kid()));
        let jwks = fs::read_to_string(directory.join(KEY_SET_FILE)).unwrap();
        assert_eq!(jwks, key.jwks());
        assert!(!jwks.contains("\"d\""));
    }

    #[test]
    fn keygen_never_overwrites_and_leaves_nothing_behind() {
        for existing in [KEY_FILE, KEY_SET_FILE] {
            let directory = tempfile::tempdir().unwrap();
            fs::write(directory.path().join(existing), "precious").unwrap();
            let error = run(&["keygen", "--out", directory.path().to_str().unwrap()]).unwrap_err();
            let sentence = error.to_string();
            assert!(sentence.contains(existing), "{sentence}");
            assert!(sentence.contains("not overwritten"), "{sentence}");
            let names: Vec<_> = fs::read_dir(directory.path())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            assert_eq!(names, [existing]);
            let content = fs::read_to_string(directory.path().join(existing)).unwrap();
            assert_eq!(content, "precious");
        }
    }

    #[test]
    fn keygen_completes_what_an_interrupted_run_has_left() {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().to_str().unwrap();
        let (key, key_set) = (
            directory.path().join(KEY_FILE),
            directory.path().join(KEY_SET_FILE),
        );
        run(&["keygen", "--out", out]).unwrap();
        let (pem, jwks) = (fs::read(&key).unwrap(), fs::read(&key_set).unwrap());
        fs::remove_file(&key_set).unwrap();
        // With another algorithm it is another key that is asked for.
        let other = run(&["keygen", "--out", out, "--algorithm", "eddsa"]);
        assert!(matches!(other, Err(TokenError::Exists(path)) if path == key));
        assert!(!key_set.exists());
        fs::write(unfinished(&key_set), "{").unwrap();
        let printed = run(&["keygen", "--out", out]).unwrap();
        assert!(printed.contains("which was there"), "{printed}");
        assert_eq!(fs::read(&key).unwrap(), pem);
        assert_eq!(fs::read(&key_set).unwrap(), jwks);
        // Killed before the key had its name.
        fs::remove_file(&key).unwrap();
        fs::remove_file(&key_set).unwrap();
        fs::write(unfinished(&key), "-----BEGIN").unwrap();
        let printed = run(&["keygen", "--out", out]).unwrap();
        assert!(!printed.contains("which was there"), "{printed}");
        let made = read_key(&key).unwrap();
        assert_eq!(fs::read_to_string(&key_set).unwrap(), made.jwks());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_directory_of_keys_may_not_be_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "").unwrap();
        let sentence = keygen(&file, SigningAlgorithm::EdDsa)
            .unwrap_err()
            .to_string();
        assert!(
            sentence.starts_with("cannot create the directory "),
            "{sentence}"
        );
        assert!(sentence.contains(file.to_str().unwrap()), "{sentence}");
    }

    #[test]
    fn an_unfit_key_file_is_named_and_never_quoted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        let sentence = |path: &Path| read_key(path).unwrap_err().to_string();
        assert!(sentence(&path).starts_with("cannot read the key file "));
        for content in [
            &b"c2VjcmV0"[..],
            b"\xff\xfe",
            b"-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n",
        ] {
            fs::write(&path, content).unwrap();
            let sentence = sentence(&path);
            assert!(sentence.contains(path.to_str().unwrap()), "{sentence}");
            assert!(!sentence.contains("c2VjcmV0"), "{sentence}");
        }
        fs::write(&path, vec![b'x'; 70_000]).unwrap();
        assert!(sentence(&path).contains("more than 65536 bytes"));
    }

    #[test]
    fn a_token_that_no_server_would_take_is_not_printed() {
        let (_directory, key) = keys();
        let branch = "x".repeat(512);
        let mut args = vec![
            "--key",
            &key,
            "--sub",
            "u",
            "--actor-kind",
            "branch_manager",
        ];
        for _ in 0..13 {
            args.extend(["--branch-profile-id", &branch]);
        }
        assert!(matches!(run(&args), Err(TokenError::TooLong)));
    }
}
