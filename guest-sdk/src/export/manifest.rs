//! Reads a manifest while the provider is compiled, so that its mistakes are errors of the compiler. Constant functions
//! only: a provider pays nothing for it.
//!
//! It finds what authors get wrong: broken JSON, unknown and missing keys, values of the wrong type, another version than that
//! of the crate, wildcards in paths. The host checks everything again, and more, when it loads the module.

/// Contract that this SDK is written for.
pub const CONTRACT: &str = "0.1.0";

/// Largest manifest, in bytes.
const MAX_BYTES: usize = 64 << 10;
/// Deepest nesting of values.
const MAX_DEPTH: usize = 16;

/// The version as it is put into a manifest without one.
const BEFORE: &str = "{\"version\":\"";
const AFTER: &str = "\",";

/// What stands where.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Target,
    Rule,
    ConfigKey,
    Limits,
    /// A text.
    Text,
    /// A text that has to be this one.
    Exactly(&'static str),
    /// A path of a rule.
    Path,
    /// `read` or `write`.
    Access,
    /// A number.
    Number,
    /// `true` or `false`.
    Truth,
    /// A list of these.
    ListOf(&'static Place),
    /// An object whose values are these.
    ObjectOf(&'static Place),
}

/// A key, what stands there, and whether it has to be there.
type Key = (&'static str, Place, bool);

const TARGETS: &[Key] = &[
    ("name", Place::Text, true),
    ("endpoint", Place::Text, true),
    ("auth", Place::Text, true),
    ("why", Place::Text, false),
    ("required", Place::Truth, false),
    ("rules", Place::ListOf(&Place::Rule), true),
];
const RULES: &[Key] = &[
    ("methods", Place::ListOf(&Place::Text), true),
    ("path", Place::Path, true),
    (
        "query",
        Place::ObjectOf(&Place::ListOf(&Place::Text)),
        false,
    ),
    ("form", Place::ObjectOf(&Place::ListOf(&Place::Text)), false),
    ("access", Place::Access, true),
];
const CONFIG_KEYS: &[Key] = &[
    ("key", Place::Text, true),
    ("why", Place::Text, false),
    ("required", Place::Truth, false),
];
const LIMITS: &[Key] = &[
    ("memoryMiB", Place::Number, false),
    ("memoryMib", Place::Number, false),
    ("callSeconds", Place::Number, false),
];
const ROOT: &[Key] = &[
    ("$schema", Place::Text, false),
    ("contract", Place::Exactly(CONTRACT), true),
    ("name", Place::Text, true),
    ("version", Place::Text, false),
    ("description", Place::Text, false),
    ("schemes", Place::ListOf(&Place::Text), false),
    ("targets", Place::ListOf(&Place::Target), false),
    ("annotationPrefixes", Place::ListOf(&Place::Text), false),
    ("config", Place::ListOf(&Place::ConfigKey), false),
    ("limits", Place::Limits, false),
];

impl Place {
    const fn keys(self) -> Option<&'static [Key]> {
        match self {
            Place::Root => Some(ROOT),
            Place::Target => Some(TARGETS),
            Place::Rule => Some(RULES),
            Place::ConfigKey => Some(CONFIG_KEYS),
            Place::Limits => Some(LIMITS),
            _ => None,
        }
    }
}

/// A mistake, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mistake {
    what: &'static str,
    at: usize,
}

/// Checks a manifest, and returns how long it is with a version. The version is that of the crate: it may stand in the
/// manifest, too, and is then the same.
///
/// # Panics
/// At the first mistake, with the line where it is: at compile time an error of the compiler.
pub const fn checked_length(manifest: &[u8], version: &str) -> usize {
    match check(manifest, version.as_bytes()) {
        Ok(true) => manifest.len(),
        Ok(false) => manifest.len() - 1 + BEFORE.len() + version.len() + AFTER.len(),
        Err(mistake) => fail(manifest, mistake),
    }
}

/// The manifest with the version in it; `LENGTH` is its [`checked_length`].
pub const fn with_version<const LENGTH: usize>(manifest: &[u8], version: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let mut to = 0;
    let mut from = 0;
    if LENGTH > manifest.len() {
        // Everything up to the first brace is whitespace.
        while manifest[from] != b'{' {
            bytes[to] = manifest[from];
            to += 1;
            from += 1;
        }
        from += 1;
        to = copy(&mut bytes, to, BEFORE.as_bytes());
        to = copy(&mut bytes, to, version.as_bytes());
        to = copy(&mut bytes, to, AFTER.as_bytes());
    }
    while from < manifest.len() {
        bytes[to] = manifest[from];
        to += 1;
        from += 1;
    }
    bytes
}

const fn copy(bytes: &mut [u8], mut to: usize, text: &[u8]) -> usize {
    let mut from = 0;
    while from < text.len() {
        bytes[to] = text[from];
        to += 1;
        from += 1;
    }
    to
}

/// Whether the manifest has a version.
const fn check(manifest: &[u8], version: &[u8]) -> Result<bool, Mistake> {
    if manifest.len() > MAX_BYTES {
        return Err(Mistake {
            what: "it has more than 64 KiB",
            at: 0,
        });
    }
    if std::str::from_utf8(manifest).is_err() {
        return Err(Mistake {
            what: "it is not UTF-8",
            at: 0,
        });
    }
    let mut reader = Reader {
        json: manifest,
        at: 0,
        version,
        has_version: false,
    };
    match reader.value(Place::Root, 0) {
        Err(mistake) => Err(mistake),
        Ok(()) => {
            reader.blanks();
            match reader.at == manifest.len() {
                true => Ok(reader.has_version),
                false => Err(reader.wrong("nothing may follow its last brace")),
            }
        }
    }
}

struct Reader<'a> {
    json: &'a [u8],
    at: usize,
    version: &'a [u8],
    has_version: bool,
}

impl Reader<'_> {
    const fn wrong(&self, what: &'static str) -> Mistake {
        Mistake { what, at: self.at }
    }

    const fn next(&self) -> Option<u8> {
        match self.at < self.json.len() {
            true => Some(self.json[self.at]),
            false => None,
        }
    }

    const fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.next() {
            self.at += 1;
        }
    }

    /// Whether this character is next; it is then read.
    const fn takes(&mut self, letter: u8) -> bool {
        self.blanks();
        match self.next() {
            Some(next) if next == letter => {
                self.at += 1;
                true
            }
            _ => false,
        }
    }

    const fn value(&mut self, place: Place, depth: usize) -> Result<(), Mistake> {
        if depth > MAX_DEPTH {
            return Err(self.wrong("it is nested too deeply"));
        }
        self.blanks();
        if let Some(keys) = place.keys() {
            return self.object(keys, depth);
        }
        match place {
            Place::ListOf(item) => self.list(*item, depth),
            Place::ObjectOf(value) => self.any_object(*value, depth),
            Place::Number => self.number(),
            Place::Truth => self.truth(),
            _ => self.text_of(place),
        }
    }

    const fn object(&mut self, keys: &[Key], depth: usize) -> Result<(), Mistake> {
        let begin = self.at;
        if !self.takes(b'{') {
            return Err(self.wrong("expected an object here"));
        }
        let mut seen = 0_u32;
        if !self.takes(b'}') {
            loop {
                self.blanks();
                let at = self.at;
                let (from, to) = match self.text() {
                    Ok(range) => range,
                    Err(mistake) => return Err(mistake),
                };
                let mut index = 0;
                while index < keys.len() && !self.is(from, to, keys[index].0.as_bytes()) {
                    index += 1;
                }
                if index == keys.len() {
                    let what = "unknown key; v0.1/manifest.schema.json of the contract has all";
                    return Err(Mistake { what, at });
                }
                if seen & (1 << index) != 0 {
                    return Err(Mistake {
                        what: "this key is there twice",
                        at,
                    });
                }
                seen |= 1 << index;
                if !self.takes(b':') {
                    return Err(self.wrong("expected a colon here"));
                }
                let is_version = self.is(from, to, b"version");
                self.blanks();
                let value_at = self.at;
                if let Err(mistake) = self.value(keys[index].1, depth + 1) {
                    return Err(mistake);
                }
                if is_version && depth == 0 {
                    self.has_version = true;
                    if !self.is(value_at + 1, self.at - 1, self.version) {
                        let what = "the version is not that of Cargo.toml: leave it out, and the macro puts it in";
                        return Err(Mistake { what, at: value_at });
                    }
                }
                if self.takes(b'}') {
                    break;
                }
                if !self.takes(b',') {
                    return Err(self.wrong("expected a comma or a closing brace here"));
                }
            }
        }
        let mut index = 0;
        while index < keys.len() {
            if keys[index].2 && seen & (1 << index) == 0 {
                return Err(Mistake {
                    what: missing(keys[index].0),
                    at: begin,
                });
            }
            index += 1;
        }
        Ok(())
    }

    const fn any_object(&mut self, value: Place, depth: usize) -> Result<(), Mistake> {
        if !self.takes(b'{') {
            return Err(self.wrong("expected an object here"));
        }
        if self.takes(b'}') {
            return Ok(());
        }
        loop {
            self.blanks();
            if let Err(mistake) = self.text() {
                return Err(mistake);
            }
            if !self.takes(b':') {
                return Err(self.wrong("expected a colon here"));
            }
            if let Err(mistake) = self.value(value, depth + 1) {
                return Err(mistake);
            }
            if self.takes(b'}') {
                return Ok(());
            }
            if !self.takes(b',') {
                return Err(self.wrong("expected a comma or a closing brace here"));
            }
        }
    }

    const fn list(&mut self, item: Place, depth: usize) -> Result<(), Mistake> {
        if !self.takes(b'[') {
            return Err(self.wrong("expected a list here"));
        }
        let begin = self.at;
        if self.takes(b']') {
            return match item {
                Place::Rule => Err(Mistake {
                    what: "a target needs at least one rule",
                    at: begin,
                }),
                _ => Ok(()),
            };
        }
        loop {
            if let Err(mistake) = self.value(item, depth + 1) {
                return Err(mistake);
            }
            if self.takes(b']') {
                return Ok(());
            }
            if !self.takes(b',') {
                return Err(self.wrong("expected a comma or a closing bracket here"));
            }
        }
    }

    const fn number(&mut self) -> Result<(), Mistake> {
        let begin = self.at;
        while let Some(b'0'..=b'9') = self.next() {
            self.at += 1;
        }
        match self.at > begin {
            true => Ok(()),
            false => Err(self.wrong("expected a whole number here")),
        }
    }

    const fn truth(&mut self) -> Result<(), Mistake> {
        let begin = self.at;
        while let Some(b'a'..=b'z') = self.next() {
            self.at += 1;
        }
        match self.is(begin, self.at, b"true") || self.is(begin, self.at, b"false") {
            true => Ok(()),
            false => Err(Mistake {
                what: "expected true or false here",
                at: begin,
            }),
        }
    }

    const fn text_of(&mut self, place: Place) -> Result<(), Mistake> {
        let at = self.at;
        let (from, to) = match self.text() {
            Ok(range) => range,
            Err(mistake) => return Err(mistake),
        };
        let what = match place {
            Place::Exactly(text) if !self.is(from, to, text.as_bytes()) => {
                "this SDK is written for another version of the contract: 0.1.0"
            }
            Place::Access if !self.is(from, to, b"read") && !self.is(from, to, b"write") => {
                "access is read or write"
            }
            Place::Path => match self.path(from, to) {
                Some(what) => what,
                None => return Ok(()),
            },
            _ => return Ok(()),
        };
        Err(Mistake { what, at })
    }

    const fn path(&self, from: usize, to: usize) -> Option<&'static str> {
        if from == to || self.json[from] != b'/' {
            return Some("a path begins with /");
        }
        let mut at = from;
        while at < to {
            if self.json[at] == b'*' {
                return Some("there are no wildcards; {name} stands for exactly one segment");
            }
            at += 1;
        }
        None
    }

    /// Reads a text; returns where it begins and ends.
    const fn text(&mut self) -> Result<(usize, usize), Mistake> {
        if !self.takes(b'"') {
            return Err(self.wrong("expected a text in double quotes here"));
        }
        let from = self.at;
        loop {
            match self.next() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok((from, self.at - 1));
                }
                Some(b'\\') => self.at += 2,
                Some(0..0x20) | None => return Err(self.wrong("the text does not end here")),
                Some(_) => self.at += 1,
            }
        }
    }

    /// Whether these bytes are this text.
    const fn is(&self, from: usize, to: usize, text: &[u8]) -> bool {
        if to - from != text.len() {
            return false;
        }
        let mut index = 0;
        while index < text.len() {
            if self.json[from + index] != text[index] {
                return false;
            }
            index += 1;
        }
        true
    }
}

/// The mistake for a key that is missing.
const fn missing(key: &str) -> &'static str {
    match key.as_bytes() {
        b"contract" => "the key \"contract\" is missing",
        b"name" => "the key \"name\" is missing in this object",
        b"endpoint" => "the key \"endpoint\" is missing in this target",
        b"auth" => "the key \"auth\" is missing in this target",
        b"rules" => "the key \"rules\" is missing in this target",
        b"methods" => "the key \"methods\" is missing in this rule",
        b"path" => "the key \"path\" is missing in this rule",
        b"access" => "the key \"access\" is missing in this rule",
        b"key" => "the key \"key\" is missing in this object",
        _ => "a key is missing in this object",
    }
}

/// Ends with the mistake and the line where it is.
const fn fail(manifest: &[u8], mistake: Mistake) -> ! {
    let mut message = [b' '; 240];
    let mut end = copy(&mut message, 0, b"the manifest: ");
    end = copy(&mut message, end, mistake.what.as_bytes());
    if mistake.at > 0 {
        end = copy(&mut message, end, b": ");
        let mut at = mistake.at;
        while at < manifest.len() && manifest[at] != b'\n' && end < message.len() {
            // Letters beyond ASCII might be cut in two.
            message[end] = if manifest[at].is_ascii() {
                manifest[at]
            } else {
                b'?'
            };
            at += 1;
            end += 1;
        }
    }
    let (message, _) = message.split_at(end);
    match std::str::from_utf8(message) {
        Ok(message) => panic!("{}", message),
        Err(_) => panic!("the manifest has a mistake"),
    }
}

#[cfg(test)]
mod tests;
