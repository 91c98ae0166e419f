//! The keys of a manifest and the kinds of their values. The contract's schema has the same; a test compares the two.

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Root,
    Target,
    Rule,
    Absence,
    ConfigKey,
    Limits,
    /// Any string.
    Text,
    /// The version of the contract.
    Contract,
    /// The path of a rule.
    Path,
    /// `read` or `write`.
    Access,
    /// A non-negative integer.
    Number,
    /// `true` or `false`.
    Truth,
    /// A list of values of this kind.
    ListOf(&'static Place),
    /// An object whose values are of this kind.
    ObjectOf(&'static Place),
}

/// A key, the kind of its value, and whether it is required.
pub(super) type Key = (&'static str, Place, bool);

const TARGETS: &[Key] = &[
    ("name", Place::Text, true),
    ("endpoint", Place::Text, false),
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
    ("absence", Place::ListOf(&Place::Absence), false),
];
const ABSENCE: &[Key] = &[
    ("status", Place::Number, true),
    ("contains", Place::Text, true),
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
    ("contract", Place::Contract, true),
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
    pub(super) const fn keys(self) -> Option<&'static [Key]> {
        match self {
            Place::Root => Some(ROOT),
            Place::Target => Some(TARGETS),
            Place::Rule => Some(RULES),
            Place::Absence => Some(ABSENCE),
            Place::ConfigKey => Some(CONFIG_KEYS),
            Place::Limits => Some(LIMITS),
            _ => None,
        }
    }
}

/// The message for a required key that is missing.
pub(super) const fn missing(key: &str) -> &'static str {
    match key.as_bytes() {
        b"contract" => "the key \"contract\" is missing",
        b"name" => "the key \"name\" is missing in this object",
        b"auth" => "the key \"auth\" is missing in this target",
        b"rules" => "the key \"rules\" is missing in this target",
        b"methods" => "the key \"methods\" is missing in this rule",
        b"path" => "the key \"path\" is missing in this rule",
        b"access" => "the key \"access\" is missing in this rule",
        b"status" => "the key \"status\" is missing in this absence",
        b"contains" => "the key \"contains\" is missing in this absence",
        b"key" => "the key \"key\" is missing in this object",
        _ => "a key is missing in this object",
    }
}
