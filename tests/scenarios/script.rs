//! The language of scenarios: lines of words. Reads and refuses; plays nothing.

/// One line of a scenario that is not transcript.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// The line as it is in the file.
    pub(crate) text: String,
    /// The words; none in comments and blank lines.
    pub(crate) words: Vec<String>,
}

/// The beginnings of transcript lines.
const TRANSCRIPT: [&str; 5] = ["> ", "< ", "~ ", "= ", "| "];

/// Reads a scenario and drops its transcript.
pub(crate) fn read(text: &str) -> Result<Vec<Line>, String> {
    if !text.starts_with("# ") {
        return Err("a scenario begins with a comment that states the law".to_owned());
    }
    Ok(text
        .lines()
        .filter(|line| !TRANSCRIPT.iter().any(|mark| line.starts_with(mark)))
        .map(|line| Line {
            text: line.to_owned(),
            words: if line.starts_with('#') {
                Vec::new()
            } else {
                line.split_whitespace().map(str::to_owned).collect()
            },
        })
        .collect())
}

impl Line {
    /// The word at `index`.
    pub(crate) fn word(&self, index: usize) -> Result<&str, String> {
        let word = self.words.get(index).map(String::as_str);
        word.ok_or_else(|| format!("{:?} has too few words", self.text))
    }

    /// The line that begins with the word at `index`.
    pub(crate) fn from(&self, index: usize) -> Line {
        Line {
            text: self.text.clone(),
            words: self.words.get(index..).unwrap_or_default().to_vec(),
        }
    }

    /// Everything from the word at `index` on.
    pub(crate) fn rest(&self, index: usize) -> String {
        self.words
            .iter()
            .skip(index)
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The words `key=value` from `index` on.
    pub(crate) fn pairs(&self, index: usize) -> Result<Vec<(&str, &str)>, String> {
        self.words
            .iter()
            .skip(index)
            .map(|word| {
                word.split_once('=')
                    .ok_or_else(|| format!("{word:?} in {:?} is not key=value", self.text))
            })
            .collect()
    }
}
