//! Parses a file of settings, and reports its faults.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::shown::{masked, shown};

/// Flags that are no settings, neither in a file nor in the environment.
pub(super) const NO_SETTINGS: [&str; 5] = ["check", "json", "help", "version", "commands-shed"];
/// The flag that names the file. A file cannot name another file.
pub(super) const FILE_FLAG: &str = "config";
/// Maximum size of a file of settings, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The type of a setting's value in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// True or false.
    Switch,
    /// A number.
    Number,
    /// Anything else.
    Text,
}

impl Kind {
    pub(super) fn of(flag: &Arg) -> Self {
        if matches!(flag.get_action(), ArgAction::SetTrue) {
            return Self::Switch;
        }
        let read = flag.get_value_parser().type_id();
        let numbers = [
            TypeId::of::<u8>(),
            TypeId::of::<u16>(),
            TypeId::of::<u32>(),
            TypeId::of::<u64>(),
            TypeId::of::<usize>(),
            TypeId::of::<f64>(),
        ];
        match numbers.into_iter().any(|number| read == number) {
            true => Self::Number,
            false => Self::Text,
        }
    }

    fn expected(self) -> &'static str {
        match self {
            Self::Switch => "true or false, without quotes",
            Self::Number => "a number, without quotes",
            Self::Text => "a string, in quotes",
        }
    }

    /// Returns the value as the flag's argument.
    fn text(self, value: &DeValue<'_>) -> Option<String> {
        match (self, value) {
            (Self::Switch, DeValue::Boolean(value)) => Some(value.to_string()),
            (Self::Number, DeValue::Integer(value)) => {
                let number = i128::from_str_radix(value.as_str(), value.radix());
                Some(number.map_or_else(|_| value.as_str().to_owned(), |number| number.to_string()))
            }
            (Self::Number, DeValue::Float(value)) => Some(value.as_str().to_owned()),
            (Self::Text, DeValue::String(value)) => Some(value.clone().into_owned()),
            _ => None,
        }
    }
}

/// Whether a flag may be repeated.
pub(super) fn is_list(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::Append)
}

/// Returns the flags of `serve` that a file may set, with their names.
pub(super) fn in_a_file(serve: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let named = serve.get_arguments();
    let named = named.filter_map(|flag| flag.get_long().map(|name| (name, flag)));
    named.filter(|(name, _)| !NO_SETTINGS.contains(name) && *name != FILE_FLAG)
}

/// A setting in the file, and the equivalent arguments.
pub(super) struct FromFile {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) arguments: Vec<OsString>,
}

pub(super) fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it has more than 1 MiB"));
    }
    Ok(bytes)
}

/// A fault in a file, and its line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    line: usize,
    what: String,
}

impl Fault {
    pub(super) fn at(&self, file: &Path) -> String {
        format!("{}, line {}: {}", file.display(), self.line, self.what)
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// Returns the settings in a file, in their order.
pub(super) fn settings(serve: &Command, text: &str) -> Result<Vec<FromFile>, Vec<Fault>> {
    let table = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(text.len(), |span| span.start);
        let line = line_of(text, offset);
        let what = error.message().trim_end().replace('\n', ", ");
        vec![Fault { line, what }]
    })?;
    let serve = serve.clone().mut_args(|flag| flag.env(None::<&str>));
    let (mut good, mut faults) = (Vec::new(), Vec::new());
    for (name, value) in table.get_ref() {
        let line = line_of(text, name.span().start);
        match setting(&serve, text, name.get_ref(), value) {
            Ok(arguments) => good.push(FromFile {
                name: name.get_ref().clone().into_owned(),
                line,
                arguments,
            }),
            Err((at, what)) => faults.push(Fault {
                line: at.map_or(line, |offset| line_of(text, offset)),
                what,
            }),
        }
    }
    if !faults.is_empty() {
        faults.sort_by_key(|fault| fault.line);
        return Err(faults);
    }
    good.sort_by_key(|setting| setting.line);
    Ok(good)
}

/// Returns the equivalent arguments; or a fault, with its offset if that is not the name's.
fn setting(
    serve: &Command,
    text: &str,
    name: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<OsString>, (Option<usize>, String)> {
    let Some((_, flag)) = in_a_file(serve).find(|(known, _)| *known == name) else {
        return Err((None, unknown(serve, name)));
    };
    let kind = Kind::of(flag);
    let unfit = |value: &Spanned<DeValue<'_>>, expected: &str| {
        let written = text.get(value.span()).unwrap_or_default();
        let written = shown(written, &flag.to_string());
        let written = written.lines().next().unwrap_or_default();
        let what = format!("invalid value '{written}' for '{flag}': it has to be {expected}");
        (Some(value.span().start), what)
    };
    let one = |value: &Spanned<DeValue<'_>>| {
        let text = kind
            .text(value.get_ref())
            .ok_or_else(|| unfit(value, kind.expected()))?;
        let argument = match (kind, text.as_str()) {
            (Kind::Switch, "false") => return Ok(None),
            (Kind::Switch, _) => OsString::from(format!("--{name}")),
            _ => OsString::from(format!("--{name}={text}")),
        };
        check_value(serve, &argument).map_err(|what| (Some(value.span().start), what))?;
        Ok(Some(argument))
    };
    if !is_list(flag) {
        return Ok(one(value)?.into_iter().collect());
    }
    let DeValue::Array(values) = value.get_ref() else {
        return Err(unfit(value, "an array of strings, in brackets"));
    };
    let arguments = values.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    Ok(arguments.into_iter().flatten().collect())
}

/// Returns the setting with the most similar name, if there is one.
pub(super) fn similar(serve: &Command, name: &str) -> Option<String> {
    let tried = serve
        .clone()
        .no_binary_name(true)
        .try_get_matches_from([format!("--{name}")]);
    tried.err().and_then(|error| {
        let similar = match error.get(ContextKind::SuggestedArg)? {
            ContextValue::String(similar) => similar.clone(),
            ContextValue::Strings(similar) => similar.first()?.clone(),
            _ => return None,
        };
        let similar = similar.trim_start_matches('-').to_owned();
        in_a_file(serve)
            .any(|(known, _)| known == similar)
            .then_some(similar)
    })
}

fn unknown(serve: &Command, name: &str) -> String {
    match similar(serve, name) {
        Some(similar) => format!("unknown key '{name}'; there is '{similar}'"),
        None => format!("unknown key '{name}'; `carebook serve --help` lists what there is"),
    }
}

/// Checks this argument by itself; a fault has the message that the flag would get.
fn check_value(serve: &Command, argument: &OsStr) -> Result<(), String> {
    let alone = serve
        .clone()
        .no_binary_name(true)
        .try_get_matches_from([argument]);
    let Err(error) = alone else {
        return Ok(());
    };
    match error.kind() {
        // Combinations of flags are checked with all arguments.
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => Ok(()),
        _ => {
            let text = masked(error).render().to_string();
            let sentence = text.split("\n\n").next().unwrap_or_default();
            Err(sentence.trim_start_matches("error: ").trim().to_owned())
        }
    }
}
