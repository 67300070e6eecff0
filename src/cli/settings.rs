//! Where the settings of `carebook serve` come from: its flags, then the environment, then a file,
//! then the defaults.
//!
//! What the file says goes in front of the flags as if it were typed there, unless a flag or the
//! environment says it already. So a value means the same wherever it stands, and is judged alike.

use std::any::TypeId;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use serde_json::{Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::exit::Failure;
use super::output::Output;
use super::table::{Column, Growing, left};

/// What stands before a flag's name in its environment variable.
const VARIABLE_PREFIX: &str = "CAREBOOK_";
/// Flags that are no settings: neither in the file nor in the environment.
const NO_SETTINGS: [&str; 4] = ["check", "json", "help", "version"];
/// The flag that names the file. A file names no other file.
const FILE_FLAG: &str = "config";
/// A file of settings has at most this many bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The command whose flags are settings.
const SERVE: &str = "serve";

/// What is printed of each setting.
const COLUMNS: [Column; 3] = [left("setting"), left("value"), left("from")];

/// The flags of settings.
#[derive(Args)]
pub struct SettingsArgs {
    /// A file of settings, TOML: names of flags without the dashes, true for a flag without a
    /// value, an array for one that may be repeated. Flags come before the environment, that before
    /// the file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Judges the settings without starting: prints each with its value and where it comes from.
    /// Keys and certificates are read, the data directory is not.
    #[arg(long)]
    check: bool,
    /// Prints JSON instead of a table.
    #[arg(long, requires = "check")]
    json: bool,
    /// Where each setting comes from.
    #[arg(skip)]
    settings: Vec<Setting>,
}

impl SettingsArgs {
    /// Whether they are only judged.
    #[must_use]
    pub(super) fn only_checks(&self) -> bool {
        self.check
    }

    /// The file, where one is named.
    #[must_use]
    pub(super) fn file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// Where each setting comes from.
    pub(super) fn come_from(&mut self, settings: Vec<Setting>) {
        self.settings = settings;
    }

    /// Prints that they are good, and what they are.
    ///
    /// # Errors
    /// When that cannot be printed.
    pub(super) fn print(&self) -> Result<(), Failure> {
        let mut out = Output::new();
        if self.json {
            let settings: Vec<_> = self.settings.iter().map(Setting::json).collect();
            let checked = json!({"settings": settings});
            out.line(format_args!("{checked:#}"))?;
            return out.flush();
        }
        let mut table = Growing::new(&COLUMNS);
        for setting in &self.settings {
            table.row(&mut out, setting.row().into())?;
        }
        table.print(&mut out)?;
        out.line("these settings can be used")?;
        out.flush()
    }
}

/// A setting that has a value, and where that comes from.
#[derive(Debug)]
pub(super) struct Setting {
    name: String,
    values: Vec<String>,
    kind: Kind,
    is_list: bool,
    origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Origin {
    Flag,
    Environment(String),
    File { line: usize },
    Default,
}

impl Origin {
    fn name(&self) -> &'static str {
        match self {
            Self::Flag => "flag",
            Self::Environment(_) => "environment",
            Self::File { .. } => "file",
            Self::Default => "default",
        }
    }
}

impl Setting {
    fn json(&self) -> Value {
        let typed = |value: &String| match self.kind {
            Kind::Switch => json!(value == "true"),
            Kind::Number => serde_json::from_str(value).unwrap_or_else(|_| json!(value)),
            Kind::Text => json!(value),
        };
        let mut values = self.values.iter().map(typed);
        let value = match self.is_list {
            true => values.collect(),
            false => values.next().unwrap_or_default(),
        };
        let mut shown = json!({"name": self.name, "value": value, "from": self.origin.name()});
        match &self.origin {
            Origin::Environment(variable) => shown["variable"] = json!(variable),
            Origin::File { line } => shown["line"] = json!(line),
            Origin::Flag | Origin::Default => {}
        }
        shown
    }

    fn row(&self) -> [String; 3] {
        let origin = match &self.origin {
            Origin::Environment(variable) => variable.clone(),
            Origin::File { line } => format!("line {line}"),
            other => other.name().to_owned(),
        };
        [self.name.clone(), self.values.join(", "), origin]
    }
}

/// A value as it may be shown: an address without who logs in there.
fn shown(value: &OsStr) -> String {
    let value = value.to_string_lossy();
    if let Some((scheme, rest)) = value.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
        if let Some(login) = host.rfind('@') {
            return format!("{scheme}://…{}", &rest[login..]);
        }
    }
    value.into_owned()
}

/// What a setting is in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// True or false.
    Switch,
    /// A number.
    Number,
    /// Anything else.
    Text,
}

impl Kind {
    fn of(flag: &Arg) -> Self {
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

    /// The value as the flag would have it.
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
fn is_list(flag: &Arg) -> bool {
    matches!(flag.get_action(), ArgAction::Append)
}

/// The flags of `serve` that a file may set, by their names.
fn in_a_file(serve: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let named = serve.get_arguments();
    let named = named.filter_map(|flag| flag.get_long().map(|name| (name, flag)));
    named.filter(|(name, _)| !NO_SETTINGS.contains(name) && *name != FILE_FLAG)
}

/// One setting of `carebook serve`, as documents tell of it.
#[derive(Debug)]
pub struct Known {
    /// Its name in a file; with two dashes before it, the flag.
    pub name: String,
    /// What it is for, a paragraph.
    pub help: String,
    /// What stands for its value, such as `DURATION`.
    pub value: Option<String>,
    /// Whether it is a flag without a value: true or false in a file.
    pub is_switch: bool,
    /// Its default, as it stands in a file.
    pub default: Option<String>,
    /// Its environment variable.
    pub variable: String,
    /// Whether it may be repeated: an array in a file.
    pub is_list: bool,
    /// Whether it is written without quotes.
    pub is_bare: bool,
    /// Whether it is in no help: for tests.
    pub is_hidden: bool,
}

/// Every setting that may stand in a file, in the order of the help.
#[must_use]
pub fn known(command: &Command) -> Vec<Known> {
    let serve = command.find_subcommand(SERVE);
    let flags = serve.into_iter().flat_map(in_a_file);
    let known = flags.map(|(name, flag)| {
        let kind = Kind::of(flag);
        let quoted = |text: &OsStr| match kind {
            Kind::Text => format!("{:?}", text.to_string_lossy()),
            _ => text.to_string_lossy().into_owned(),
        };
        let default = match kind {
            Kind::Switch => Some("false".to_owned()),
            _ => flag.get_default_values().first().map(|text| quoted(text)),
        };
        let help = flag.get_long_help().or(flag.get_help());
        let names = flag.get_value_names().unwrap_or_default();
        Known {
            name: name.to_owned(),
            help: help.map(ToString::to_string).unwrap_or_default(),
            value: names.first().map(ToString::to_string),
            is_switch: kind == Kind::Switch,
            default,
            variable: variable(name),
            is_list: is_list(flag),
            is_bare: kind != Kind::Text,
            is_hidden: flag.is_hide_set(),
        }
    });
    known.collect()
}

fn variable(flag: &str) -> String {
    let name = flag.to_ascii_uppercase().replace('-', "_");
    format!("{VARIABLE_PREFIX}{name}")
}

/// The command, each flag of whose `serve` can also be set by an environment variable. One that is
/// empty counts as not set, and so does a switch's that is false.
#[must_use]
pub(super) fn with_environment(command: Command) -> Command {
    command.mut_subcommand(SERVE, |serve| serve.mut_args(by_variable))
}

fn by_variable(flag: Arg) -> Arg {
    let named = flag.get_long().filter(|name| !NO_SETTINGS.contains(name));
    let Some(name) = named.map(str::to_owned) else {
        return flag;
    };
    let kind = Kind::of(&flag);
    // Neither an empty one nor a switch's that is off is a value.
    let is_empty = std::env::var_os(variable(&name)).is_some_and(|value| value.is_empty());
    if is_empty || environment(&name, kind) == Environment::Off {
        return flag;
    }
    let flag = flag.env(variable(&name)).hide_env_values(true);
    match kind {
        Kind::Switch => flag.value_parser(BoolishValueParser::new()),
        Kind::Number | Kind::Text => flag,
    }
}

/// What the environment says of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Environment {
    Nothing,
    /// A switch is off.
    Off,
    Value,
}

fn environment(name: &str, kind: Kind) -> Environment {
    const FALSE: [&str; 6] = ["n", "no", "f", "false", "off", "0"];
    let Some(value) = std::env::var_os(variable(name)).filter(|value| !value.is_empty()) else {
        return Environment::Nothing;
    };
    let is_false = FALSE.iter().any(|known| value.eq_ignore_ascii_case(known));
    match kind {
        Kind::Switch if is_false => Environment::Off,
        _ => Environment::Value,
    }
}

/// The arguments of the program, with what a file of settings adds to them.
pub(super) struct Given {
    /// As if all were typed.
    pub(super) arguments: Vec<OsString>,
    file: PathBuf,
    from_file: Vec<FromFile>,
}

struct FromFile {
    name: String,
    line: usize,
    arguments: Vec<OsString>,
}

impl Given {
    /// Reads the file that the arguments or the environment name, if any.
    ///
    /// # Errors
    /// Exit code 2, with each fault of the file and its line.
    pub(super) fn read(command: &Command, arguments: Vec<OsString>) -> Result<Self, Failure> {
        let typed = Self {
            arguments,
            file: PathBuf::new(),
            from_file: Vec::new(),
        };
        // What is wrong with the arguments is told later, by whoever reads them all.
        let mut command = command.clone();
        // Flags are named with their values only after this.
        command.build();
        let lenient = command.clone().ignore_errors(true);
        let Ok(matches) = lenient.try_get_matches_from(&typed.arguments) else {
            return Ok(typed);
        };
        let (Some(flags), Some(serve)) = (
            matches.subcommand_matches(SERVE),
            command.find_subcommand(SERVE),
        ) else {
            return Ok(typed);
        };
        let Some(file) = flags.get_one::<PathBuf>(FILE_FLAG) else {
            return Ok(typed);
        };
        let unreadable = |why: &dyn std::fmt::Display| {
            Failure::Arguments(format!("--config {} cannot be read: {why}", file.display()))
        };
        let text = read(file).map_err(|error| unreadable(&error))?;
        let text = String::from_utf8(text).map_err(|_| unreadable(&"it is not UTF-8"))?;
        let mut from_file = settings(serve, &text).map_err(|faults| {
            let lines = faults.iter().map(|fault| fault.at(file));
            Failure::Arguments(lines.collect::<Vec<_>>().join("\n"))
        })?;
        from_file.retain(|setting| !is_said(serve, flags, &setting.name));
        let mut all = typed.arguments;
        let place = all.iter().position(|argument| argument == SERVE);
        let place = place.map_or(all.len(), |place| place + 1);
        let added = from_file.iter().flat_map(|setting| &setting.arguments);
        all.splice(place..place, added.cloned().collect::<Vec<_>>());
        Ok(Self {
            arguments: all,
            file: file.clone(),
            from_file,
        })
    }

    /// Which of the flags that an error speaks of stand in the file, a line each.
    pub(super) fn explain(&self, error: &clap::Error) -> Vec<String> {
        let text = error.render().to_string();
        let faults = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<_> = faults
            .split(|character: char| !(character.is_alphanumeric() || character == '-'))
            .collect();
        let named = self.from_file.iter().filter(|setting| {
            let flag = format!("--{}", setting.name);
            words.contains(&flag.as_str())
        });
        let line = |setting: &FromFile| {
            format!(
                "{}, line {}: --{} is set here",
                self.file.display(),
                setting.line,
                setting.name
            )
        };
        named.map(line).collect()
    }

    /// Every setting that has a value.
    pub(super) fn settings(&self, command: &Command, matches: &ArgMatches) -> Vec<Setting> {
        let (Some(flags), Some(serve)) = (
            matches.subcommand_matches(SERVE),
            command.find_subcommand(SERVE),
        ) else {
            return Vec::new();
        };
        let setting = |(name, flag): (&str, &Arg)| {
            let id = flag.get_id().as_str();
            let from_file = self.from_file.iter().find(|setting| setting.name == name);
            let kind = Kind::of(flag);
            let is_off = environment(name, kind) == Environment::Off;
            let origin = match (flags.value_source(id)?, from_file) {
                (ValueSource::DefaultValue, _) if is_off => Origin::Environment(variable(name)),
                (ValueSource::EnvVariable, _) => Origin::Environment(variable(name)),
                (_, Some(setting)) => Origin::File { line: setting.line },
                (ValueSource::CommandLine, None) => Origin::Flag,
                _ => Origin::Default,
            };
            if flag.is_hide_set() && origin == Origin::Default {
                return None;
            }
            let values = match kind {
                Kind::Switch => vec![flags.get_flag(id).to_string()],
                _ => flags.get_raw(id)?.map(shown).collect(),
            };
            Some(Setting {
                name: name.to_owned(),
                values,
                kind,
                is_list: is_list(flag),
                origin,
            })
        };
        in_a_file(serve).filter_map(setting).collect()
    }
}

/// Whether a flag or the environment says it.
fn is_said(serve: &Command, flags: &ArgMatches, name: &str) -> bool {
    let mut named = in_a_file(serve).filter(|(known, _)| *known == name);
    named.any(|(_, flag)| {
        let typed = flags.value_source(flag.get_id().as_str());
        typed == Some(ValueSource::CommandLine)
            || environment(name, Kind::of(flag)) != Environment::Nothing
    })
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(file)?
        .take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it has more than 1 MiB"));
    }
    Ok(bytes)
}

/// What is wrong with a file, and where.
#[derive(Debug, PartialEq, Eq)]
struct Fault {
    line: usize,
    what: String,
}

impl Fault {
    fn at(&self, file: &Path) -> String {
        format!("{}, line {}: {}", file.display(), self.line, self.what)
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    before.filter(|byte| **byte == b'\n').count() + 1
}

/// What a file sets, from its first line to its last.
fn settings(serve: &Command, text: &str) -> Result<Vec<FromFile>, Vec<Fault>> {
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

/// The arguments that say the same; or what is wrong, and where that is when it is not at the name.
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
        judged(serve, &argument).map_err(|what| (Some(value.span().start), what))?;
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

fn unknown(serve: &Command, name: &str) -> String {
    let tried = serve
        .clone()
        .no_binary_name(true)
        .try_get_matches_from([format!("--{name}")]);
    let similar = tried.err().and_then(|error| {
        let similar = match error.get(ContextKind::SuggestedArg)? {
            ContextValue::String(similar) => similar.clone(),
            ContextValue::Strings(similar) => similar.first()?.clone(),
            _ => return None,
        };
        let similar = similar.trim_start_matches('-').to_owned();
        in_a_file(serve)
            .any(|(known, _)| known == similar)
            .then_some(similar)
    });
    match similar {
        Some(similar) => format!("unknown key '{name}'; there is '{similar}'"),
        None => format!("unknown key '{name}'; `carebook serve --help` lists what there is"),
    }
}

/// What is wrong with this argument by itself, in the words in which it would be told of the flag.
fn judged(serve: &Command, argument: &OsStr) -> Result<(), String> {
    let alone = serve
        .clone()
        .no_binary_name(true)
        .try_get_matches_from([argument]);
    let Err(error) = alone else {
        return Ok(());
    };
    match error.kind() {
        // What goes together is judged with the rest.
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => Ok(()),
        _ => {
            let text = error.render().to_string();
            let sentence = text.split("\n\n").next().unwrap_or_default();
            Err(sentence.trim_start_matches("error: ").trim().to_owned())
        }
    }
}
