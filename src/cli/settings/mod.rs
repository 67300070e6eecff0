//! The sources of the settings of `carebook serve`, by precedence: its flags, the environment, a file, the defaults.
//!
//! Settings of the file are inserted before the flags as if they were typed there, unless a flag or the environment
//! sets them already. So a value means the same in each source, and has the same checks.

mod settings_file;
pub(super) mod shown;
mod variables;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command};
use serde_json::{Value, json};

use super::exit::Failure;
use super::output::Output;
use super::stderr::print_to_stderr;
use super::table::{Column, Growing, left, whole};
use settings_file::{FILE_FLAG, FromFile, Kind, NO_SETTINGS, in_a_file, is_list, read, settings};
use shown::shown;
use variables::variable;

/// The command whose flags are settings.
const SERVE: &str = "serve";

/// Advice for a missing `--jwks`.
const INSTEAD_OF_KEYS: &str = "--jwks is not needed where --issuer is the https URL of an identity provider: its keys are \
    found there";

/// The columns of the printed settings.
const COLUMNS: [Column; 3] = [whole("setting"), left("value"), left("from")];

/// The flags of settings.
#[derive(Args)]
pub struct SettingsArgs {
    /// A file of settings, TOML: names of flags without the dashes, true for a flag without a
    /// value, an array for one that may be repeated. Flags come before the environment, that before
    /// the file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Checks the settings without starting: prints each with its value and where it comes from.
    /// Keys and certificates are read, the data directory is not. Run it as the service's user.
    #[arg(long)]
    check: bool,
    /// Prints JSON instead of a table.
    #[arg(long, requires = "check")]
    json: bool,
    /// Where each setting comes from.
    #[arg(skip)]
    settings: Vec<Setting>,
    /// Warnings about unknown environment variables.
    #[arg(skip)]
    unknown: Vec<String>,
}

impl SettingsArgs {
    /// Whether the settings are only checked.
    #[must_use]
    pub(super) fn only_checks(&self) -> bool {
        self.check
    }

    /// Logs that a file was read, and which environment variables set nothing.
    pub(super) fn log(&self) {
        if let Some(file) = &self.config {
            tracing::info!(file = %file.display(), "settings were read");
        }
        for sentence in &self.unknown {
            tracing::warn!("{sentence}");
        }
    }

    /// Stores the settings with their sources, and the warnings about unknown environment variables.
    pub(super) fn set_sources(&mut self, settings: Vec<Setting>, unknown: Vec<String>) {
        self.settings = settings;
        self.unknown = unknown;
    }

    /// Prints that the settings are valid, with the value and the source of each.
    ///
    /// # Errors
    /// When the output cannot be written.
    pub(super) fn print(&self) -> Result<(), Failure> {
        for sentence in &self.unknown {
            print_to_stderr(format_args!("carebook: {sentence}"));
        }
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

/// A setting that has a value, and the source of the value.
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

/// One setting of `carebook serve`, for documents.
#[derive(Debug)]
pub struct Known {
    /// The setting's name in a file; with two dashes before it, the flag.
    pub name: String,
    /// The help text, a paragraph.
    pub help: String,
    /// The placeholder of the value, such as `DURATION`.
    pub value: Option<String>,
    /// Whether the setting is a flag without a value: true or false in a file.
    pub is_switch: bool,
    /// The default, as it is written in a file.
    pub default: Option<String>,
    /// The environment variable.
    pub variable: String,
    /// Whether the setting may be repeated: an array in a file.
    pub is_list: bool,
    /// Whether the value is written without quotes in a file.
    pub is_bare: bool,
    /// Whether the setting is hidden from the help: for tests.
    pub is_hidden: bool,
}

/// Returns every setting that a file may have, in the order of the help.
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

/// Returns a sentence for each environment variable whose name looks like that of a setting, and that sets nothing.
#[must_use]
pub(super) fn unknown_variables(command: &Command) -> Vec<String> {
    let set = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = set.map(|(name, _)| name);
    let serve = command.find_subcommand(SERVE);
    serve.map_or_else(Vec::new, |serve| variables::unknown(serve, names))
}

/// Returns the command, where an environment variable can set each flag of `serve`. An empty variable counts as not
/// set, and so does one that sets a switch to false.
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
    // An empty variable is no value, nor is one that turns a switch off.
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

/// A setting's value in the environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Environment {
    Nothing,
    /// The variable turns a switch off.
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

/// The program's arguments, with the settings of a file added.
pub(super) struct Given {
    /// All arguments, as if each was typed.
    pub(super) arguments: Vec<OsString>,
    file: PathBuf,
    from_file: Vec<FromFile>,
}

impl Given {
    /// Reads the settings file that the arguments or the environment name, if any.
    ///
    /// # Errors
    /// Exit code 2, with each fault of the file and its line.
    pub(super) fn read(command: &Command, arguments: Vec<OsString>) -> Result<Self, Failure> {
        let typed = Self {
            arguments,
            file: PathBuf::new(),
            from_file: Vec::new(),
        };
        // Faults of the arguments are reported later, when all are parsed.
        let mut command = command.clone();
        // clap names flags with their values only after this call.
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
        from_file.retain(|setting| !is_set_elsewhere(serve, flags, &setting.name));
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

    /// Returns a line for each flag in an error message that the environment or the file has set, and for each of the
    /// file that requires what is missing; and the alternative to a key set.
    pub(super) fn explain(&self, command: &Command, error: &clap::Error) -> Vec<String> {
        let text = error.render().to_string();
        let faults = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<_> = faults
            .split(|character: char| !(character.is_alphanumeric() || character == '-'))
            .collect();
        let is_named = |name: &str| words.contains(&format!("--{name}").as_str());
        let serve = command.find_subcommand(SERVE).filter(|_| self.is_serve());
        let flags = serve.into_iter().flat_map(in_a_file);
        let of_environment = flags.filter(|&(name, flag)| {
            is_named(name)
                && environment(name, Kind::of(flag)) == Environment::Value
                && !self.is_typed(name)
        });
        let of_environment =
            of_environment.map(|(name, _)| format!("{}: --{name} is set here", variable(name)));
        let missing = missing(error);
        let line = |setting: &FromFile| {
            let flag = format!("--{}", setting.name);
            let (file, line) = (self.file.display(), setting.line);
            if words.contains(&flag.as_str()) {
                return Some(format!("{file}, line {line}: {flag} is set here"));
            }
            let required = self.required_by(command, setting, &missing);
            (!required.is_empty()).then(|| {
                let required = required.join(" and ");
                format!("{file}, line {line}: {flag} is set here, and requires {required}")
            })
        };
        let of_file = self.from_file.iter().filter_map(line);
        let mut lines: Vec<_> = of_environment.chain(of_file).collect();
        if missing.iter().any(|flag| flag.starts_with("--jwks ")) {
            lines.push(INSTEAD_OF_KEYS.to_owned());
        }
        lines
    }

    /// Whether the command is `serve`, whose flags have environment variables.
    fn is_serve(&self) -> bool {
        let mut typed = self.arguments.iter().skip(1);
        typed.next().is_some_and(|command| command == SERVE)
    }

    /// Whether this flag is among the arguments.
    fn is_typed(&self, name: &str) -> bool {
        let flag = format!("--{name}");
        self.arguments.iter().any(|argument| {
            let argument = argument.to_string_lossy();
            argument.split('=').next() == Some(flag.as_str())
        })
    }

    /// Returns those of the missing flags that would not be missing without this setting.
    fn required_by<'m>(
        &self,
        command: &Command,
        setting: &FromFile,
        missing: &'m [String],
    ) -> Vec<&'m str> {
        let mut arguments = self.arguments.clone();
        arguments.retain(|argument| !setting.arguments.contains(argument));
        let left = match command.clone().try_get_matches_from(arguments) {
            Ok(_) => Vec::new(),
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
                self::missing(&error)
            }
            Err(_) => return Vec::new(),
        };
        let required = missing.iter().filter(|flag| !left.contains(flag));
        required.map(String::as_str).collect()
    }

    /// Returns every setting that has a value.
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
                _ => {
                    let flag = flag.to_string();
                    let shown = |value: &OsStr| shown(&value.to_string_lossy(), &flag);
                    flags.get_raw(id)?.map(shown).collect()
                }
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

/// The flags that an error says to be missing, each with the name of its value.
fn missing(error: &clap::Error) -> Vec<String> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return Vec::new();
    }
    let text = error.render().to_string();
    let named = text.split("\n\n").next().unwrap_or_default().lines();
    let flags = named.map(str::trim).filter(|line| line.starts_with("--"));
    flags.map(str::to_owned).collect()
}

/// Whether a flag or the environment sets the setting.
fn is_set_elsewhere(serve: &Command, flags: &ArgMatches, name: &str) -> bool {
    let mut named = in_a_file(serve).filter(|(known, _)| *known == name);
    named.any(|(_, flag)| {
        let typed = flags.value_source(flag.get_id().as_str());
        typed == Some(ValueSource::CommandLine)
            || environment(name, Kind::of(flag)) != Environment::Nothing
    })
}
