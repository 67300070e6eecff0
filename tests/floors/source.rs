//! What the source of one crate says, read with `syn`: which file uses which, and how long each is.
//!
//! A file uses another when it names something defined there, by `use` or by a path in its code or
//! in a macro's arguments. Names are followed to where they are defined: what a module only hands
//! on (`pub use`) is no use of that module, and handing on uses nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{Attribute, Item, UseTree, Visibility};

/// A file of a crate, without what is compiled for its tests alone.
#[derive(Debug)]
pub struct File {
    /// Its path below the folder of the crate's root.
    pub name: String,
    /// Its lines.
    pub lines: usize,
    /// Its functions, each with its lines from `fn` to the closing brace.
    pub functions: Vec<(String, usize)>,
}

/// A crate as its source says it.
#[derive(Debug, Default)]
pub struct Source {
    /// Its files.
    pub files: Vec<File>,
    /// Who uses whom, by the files' names, and the paths that say so.
    pub uses: BTreeMap<(String, String), BTreeSet<String>>,
}

type ModuleAt = usize;
type Segments = Vec<String>;

/// What a name means in its module.
#[derive(Clone, Debug)]
enum Name {
    Module(ModuleAt),
    /// Something defined in this file.
    Here(usize),
    /// Brought in from elsewhere.
    Import(Segments),
    /// Brought in, and handed on to others.
    HandedOn(Segments),
}

#[derive(Debug)]
struct Module {
    file: usize,
    parent: Option<ModuleAt>,
    names: BTreeMap<String, Vec<Name>>,
    globs: Vec<Segments>,
    /// The paths that its code names.
    paths: Vec<Segments>,
}

/// Where a path leads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Module(ModuleAt),
    File(usize),
}

struct Reader {
    folder: PathBuf,
    files: Vec<File>,
    modules: Vec<Module>,
}

/// Reads a crate from its root file on; every file is read that a `mod` declares.
pub fn read(root: &Path) -> Source {
    let mut reader = Reader {
        folder: root.parent().unwrap().to_owned(),
        files: Vec::new(),
        modules: Vec::new(),
    };
    let folder = reader.folder.clone();
    reader.file(root, &folder, None);
    let mut source = Source::default();
    for (at, module) in reader.modules.iter().enumerate() {
        for path in &module.paths {
            for used in reader.files_used(at, path) {
                if used != module.file {
                    let name = |file: usize| reader.files[file].name.clone();
                    let arrow = (name(module.file), name(used));
                    source
                        .uses
                        .entry(arrow)
                        .or_default()
                        .insert(path.join("::"));
                }
            }
        }
    }
    source.files = reader.files;
    source
}

impl Reader {
    /// Reads a file as a module whose own modules are in `folder`.
    fn file(&mut self, path: &Path, folder: &Path, parent: Option<ModuleAt>) -> ModuleAt {
        let text = std::fs::read_to_string(path).unwrap();
        let parsed = syn::parse_file(&text).unwrap_or_else(|fault| panic!("{path:?}: {fault}"));
        let name = path.strip_prefix(&self.folder).unwrap_or(path);
        let for_tests = parsed
            .items
            .iter()
            .filter(|item| for_tests(attributes(item)));
        let test_lines: usize = for_tests.map(|item| lines(&item.to_token_stream())).sum();
        self.files.push(File {
            name: name.to_str().unwrap().to_owned(),
            lines: text.lines().count() - test_lines,
            functions: Vec::new(),
        });
        self.module(self.files.len() - 1, parsed.items, folder, parent)
    }

    fn module(
        &mut self,
        file: usize,
        items: Vec<Item>,
        folder: &Path,
        parent: Option<ModuleAt>,
    ) -> ModuleAt {
        let at = self.modules.len();
        self.modules.push(Module {
            file,
            parent,
            names: BTreeMap::new(),
            globs: Vec::new(),
            paths: Vec::new(),
        });
        for item in items {
            if !for_tests(attributes(&item)) {
                self.item(at, item, folder);
            }
        }
        at
    }

    fn item(&mut self, at: ModuleAt, item: Item, folder: &Path) {
        let file = self.modules[at].file;
        match item {
            Item::Mod(module) => {
                let name = module.ident.to_string();
                let inner = folder.join(&name);
                let child = match module.content {
                    Some((_, items)) => self.module(file, items, &inner, Some(at)),
                    None => {
                        let beside = folder.join(format!("{name}.rs"));
                        let (path, inner) = match path_attribute(&module.attrs) {
                            Some(path) => {
                                let own = self.folder.join(&self.files[file].name);
                                let path = own.parent().unwrap().join(path);
                                let inner = path.parent().unwrap().to_owned();
                                (path, inner)
                            }
                            None if beside.exists() => (beside, inner),
                            None => (inner.join("mod.rs"), inner),
                        };
                        self.file(&path, &inner, Some(at))
                    }
                };
                self.name(at, name, Name::Module(child));
            }
            Item::Use(item) => {
                let handed_on = !matches!(item.vis, Visibility::Inherited);
                self.imports(at, &item.tree, &mut Vec::new(), handed_on);
            }
            Item::Macro(item) => {
                let exported = item
                    .attrs
                    .iter()
                    .any(|one| one.path().is_ident("macro_export"));
                if let Some(name) = &item.ident {
                    let name = name.to_string();
                    self.name(at, name.clone(), Name::Here(file));
                    if exported && at != 0 {
                        self.name(0, name, Name::Here(file));
                    }
                }
                self.code(at, item.to_token_stream());
            }
            item => {
                if let Some(name) = defined(&item) {
                    self.name(at, name, Name::Here(file));
                }
                self.code(at, item.to_token_stream());
            }
        }
    }

    fn name(&mut self, at: ModuleAt, name: String, meaning: Name) {
        self.modules[at]
            .names
            .entry(name)
            .or_default()
            .push(meaning);
    }

    fn imports(&mut self, at: ModuleAt, tree: &UseTree, before: &mut Segments, handed_on: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.imports(at, &path.tree, before, handed_on);
                before.pop();
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.imports(at, tree, before, handed_on);
                }
            }
            UseTree::Glob(_) => self.modules[at].globs.push(before.clone()),
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                let path = match name.as_str() {
                    "self" => before.clone(),
                    _ => before.iter().cloned().chain([name]).collect(),
                };
                let last = path.last().unwrap().clone();
                self.import(at, last, path, handed_on);
            }
            UseTree::Rename(name) => {
                let mut path = before.clone();
                path.push(name.ident.to_string());
                self.import(at, name.rename.to_string(), path, handed_on);
            }
        }
    }

    fn import(&mut self, at: ModuleAt, name: String, path: Segments, handed_on: bool) {
        if handed_on {
            self.name(at, name, Name::HandedOn(path));
        } else {
            self.modules[at].paths.push(path.clone());
            self.name(at, name, Name::Import(path));
        }
    }

    /// Collects the paths of code, its inner imports and its functions. Attributes are code too,
    /// and what a macro is given: it may name things.
    fn code(&mut self, at: ModuleAt, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut place = 0;
        while place < tokens.len() {
            match &tokens[place] {
                TokenTree::Group(group) => self.code(at, group.stream()),
                TokenTree::Ident(word) if word == "use" => {
                    let end = tokens[place..].iter().position(|token| is(token, ';'));
                    let end = place + end.unwrap_or(0);
                    let inner: TokenStream = tokens[place + 1..end.max(place + 1)]
                        .iter()
                        .cloned()
                        .collect();
                    // `use<'a>` in a type is no import.
                    if let Ok(tree) = syn::parse2::<UseTree>(inner) {
                        self.imports(at, &tree, &mut Vec::new(), false);
                        place = end;
                    }
                }
                TokenTree::Ident(_) => {
                    self.function(at, &tokens[place..]);
                    let segments = segments(&tokens[place..]);
                    place += 3 * (segments.len() - 1);
                    self.modules[at].paths.push(segments);
                }
                _ => {}
            }
            place += 1;
        }
    }

    /// Takes down a function that starts here.
    fn function(&mut self, at: ModuleAt, tokens: &[TokenTree]) {
        let [TokenTree::Ident(word), TokenTree::Ident(name), rest @ ..] = tokens else {
            return;
        };
        if word != "fn" {
            return;
        }
        let braces = |token: &&TokenTree| matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        let body = rest.iter().take_while(|token| !is(token, ';')).find(braces);
        if let Some(body) = body {
            let lines = body.span().end().line - word.span().start().line + 1;
            let file = self.modules[at].file;
            self.files[file].functions.push((name.to_string(), lines));
        }
    }

    /// The files that a path of a module's code uses.
    fn files_used(&self, at: ModuleAt, path: &Segments) -> Vec<usize> {
        let places = match path.as_slice() {
            // A word alone may be a variable; it is a use where a glob or a handing on brings it.
            [word] if !self.is_imported(at, word) => Vec::new(),
            _ => self.places(at, path, 0),
        };
        let file = |place: Place| match place {
            Place::File(file) => Some(file),
            // A module by itself: what is used of it is named beside it.
            Place::Module(_) => None,
        };
        places.into_iter().filter_map(file).collect()
    }

    fn is_imported(&self, at: ModuleAt, word: &str) -> bool {
        match self.modules[at].names.get(word) {
            Some(meanings) => {
                let handed_on = |one: &Name| matches!(one, Name::HandedOn(_));
                meanings.iter().any(handed_on)
            }
            None => true,
        }
    }

    /// Where a path leads that is written in this module.
    fn places(&self, at: ModuleAt, path: &[String], depth: usize) -> Vec<Place> {
        let Some((first, rest)) = path.split_first() else {
            return Vec::new();
        };
        // Globs may bring each other in.
        if depth > 16 {
            return Vec::new();
        }
        let firsts = match first.as_str() {
            "crate" => vec![Place::Module(0)],
            "self" => vec![Place::Module(at)],
            "super" => {
                let parent = self.modules[at].parent;
                parent.map(Place::Module).into_iter().collect()
            }
            name => self.named(at, name, depth + 1),
        };
        let mut places = firsts;
        for segment in rest {
            // A function may have a module's name; a path goes on in the module.
            if places.iter().any(|place| matches!(place, Place::Module(_))) {
                places.retain(|place| matches!(place, Place::Module(_)));
            }
            places = places
                .into_iter()
                .flat_map(|place| match place {
                    Place::Module(at) if segment == "super" => {
                        let parent = self.modules[at].parent;
                        parent.map(Place::Module).into_iter().collect()
                    }
                    Place::Module(at) => match self.named(at, segment, depth + 1) {
                        // What a macro makes has no name that is seen here.
                        nothing
                            if nothing.is_empty()
                                && !self.modules[at].names.contains_key(segment) =>
                        {
                            vec![Place::File(self.modules[at].file)]
                        }
                        places => places,
                    },
                    // Something of a type's.
                    file @ Place::File(_) => vec![file],
                })
                .collect();
        }
        places
    }

    /// What a name means in a module.
    fn named(&self, at: ModuleAt, name: &str, depth: usize) -> Vec<Place> {
        let module = &self.modules[at];
        if let Some(meanings) = module.names.get(name) {
            let mut places = Vec::new();
            for meaning in meanings {
                match meaning {
                    Name::Module(child) => places.push(Place::Module(*child)),
                    Name::Here(file) => places.push(Place::File(*file)),
                    // A path that starts with the name it brings in is another crate's.
                    Name::Import(path) | Name::HandedOn(path) if path[0] == name => {}
                    Name::Import(path) | Name::HandedOn(path) => {
                        places.extend(self.places(at, path, depth + 1));
                    }
                }
            }
            return places;
        }
        let mut places = Vec::new();
        for glob in &module.globs {
            for place in self.places(at, glob, depth + 1) {
                if let Place::Module(other) = place
                    && other != at
                {
                    places.extend(self.named(other, name, depth + 1));
                }
            }
        }
        places
    }
}

/// The path that starts at a word.
fn segments(tokens: &[TokenTree]) -> Segments {
    let mut path = vec![tokens[0].to_string()];
    let mut rest = &tokens[1..];
    while let [one, two, TokenTree::Ident(next), after @ ..] = rest
        && is(one, ':')
        && is(two, ':')
    {
        path.push(next.to_string());
        rest = after;
    }
    path
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(one) if one.as_char() == sign)
}

fn lines(tokens: &TokenStream) -> usize {
    let span = tokens.span();
    span.end().line - span.start().line + 1
}

fn for_tests(attributes: &[Attribute]) -> bool {
    let mut attributes = attributes.iter();
    attributes.any(|one| one.to_token_stream().to_string().replace(' ', "") == "#[cfg(test)]")
}

/// The path of a module's file, where an attribute names it.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|one| one.path().is_ident("path"))?;
    let syn::Meta::NameValue(pair) = &attribute.meta else {
        return None;
    };
    let text = pair.value.to_token_stream().to_string();
    Some(text.trim_matches('"').to_owned())
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::ExternCrate(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// The name that an item gives.
fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}
