//! `carebook completions` and `carebook man`: shell completions and manual pages, made from the
//! program's arguments.

use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::exit::Failure;
use super::output::Output;

/// Arguments of `carebook completions`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook completions bash > /usr/share/bash-completion/completions/carebook
  carebook completions zsh > /usr/share/zsh/site-functions/_carebook
  carebook completions fish > /usr/share/fish/vendor_completions.d/carebook.fish")]
pub struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the completion script for the program, whose arguments `command` defines.
    ///
    /// # Errors
    /// When the script cannot be written.
    pub fn run(self, mut command: Command) -> Result<(), Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "carebook", &mut script);
        let mut out = Output::new();
        out.line(String::from_utf8_lossy(&script).trim_end())?;
        out.flush()
    }
}

/// Arguments of `carebook man`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  carebook man /usr/share/man/man1
  carebook man . && man -l carebook-serve.1")]
pub struct ManArgs {
    /// Where the pages are written, carebook.1 and one for each command; created when it does not
    /// exist.
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

impl ManArgs {
    /// Writes the manual pages of the program, whose arguments `command` defines.
    ///
    /// # Errors
    /// When the pages cannot be written.
    pub fn run(self, command: Command) -> Result<(), Failure> {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        std::fs::create_dir_all(&self.to)
            .and_then(|()| write_pages(&command, &self.to))
            .map_err(|error| {
                Failure::other(format!(
                    "the pages cannot be written to {}: {error}",
                    self.to.display()
                ))
            })
    }
}

fn write_pages(command: &Command, to: &Path) -> io::Result<()> {
    let page = Man::new(command.clone()).manual("carebook");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    if command.get_arguments().any(|flag| !flag.is_hide_set()) {
        page.render_options_section(&mut text)?;
    }
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(more) = command.get_after_help() {
        sections(&more.to_string()).to_writer(&mut text)?;
    }
    std::fs::write(to.join(page.get_filename()), text)?;
    for part in command.get_subcommands() {
        write_pages(part, to)?;
    }
    Ok(())
}

/// Formats the text after the flags in a help: titles that end in a colon, indented lines verbatim, and paragraphs.
fn sections(more: &str) -> Roff {
    let mut page = Roff::new();
    let mut is_verbatim = false;
    for line in more.lines() {
        let is_indented = line.starts_with("  ");
        if is_indented != is_verbatim {
            page.control(if is_indented { "nf" } else { "fi" }, []);
            is_verbatim = is_indented;
        }
        match line.strip_suffix(':').filter(|_| !is_indented) {
            Some(title) if title.len() < 20 => {
                page.control("SH", [title.to_uppercase().as_str()]);
            }
            _ if line.is_empty() => {
                page.control("PP", []);
            }
            _ => {
                page.text([roman(line)]);
            }
        }
    }
    if is_verbatim {
        page.control("fi", []);
    }
    page
}
