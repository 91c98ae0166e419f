//! A reader of JSON that runs while a provider is compiled.

use super::keys::{Key, Place, missing};
use super::{CONTRACT, MAX_DEPTH, Mistake, fits};

/// Reads JSON from its beginning to its end.
pub(super) struct Reader<'a> {
    pub(super) json: &'a [u8],
    pub(super) at: usize,
    pub(super) version: &'a [u8],
    pub(super) has_version: bool,
}

impl Reader<'_> {
    pub(super) const fn wrong(&self, what: &'static str) -> Mistake {
        Mistake { what, at: self.at }
    }

    const fn next(&self) -> Option<u8> {
        match self.at < self.json.len() {
            true => Some(self.json[self.at]),
            false => None,
        }
    }

    pub(super) const fn blanks(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.next() {
            self.at += 1;
        }
    }

    /// Reads the next character if it is this one, and returns whether it was.
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

    pub(super) const fn value(&mut self, place: Place, depth: usize) -> Result<(), Mistake> {
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
                    let what = "unknown key; v0.2/manifest.schema.json of the contract has all";
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
            Place::Contract => {
                let (begin, _) = self.json.split_at(to);
                let (_, stated) = begin.split_at(from);
                if fits(stated, CONTRACT.as_bytes()) {
                    return Ok(());
                }
                "this SDK is written for another version of the contract, which its README names"
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

    /// Reads a string; returns where it begins and ends.
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

    /// Whether the bytes in this range are this text.
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
