//! Which form of `/flagz` and `/statusz` a client asks for, by the rules of the API server's library (apiserver,
//! endpoints/handlers/negotiation): text unless the header `Accept` names a version of the object, and nothing if it
//! accepts neither.

/// API group of the objects.
pub(super) const GROUP: &str = "config.k8s.io";

/// The form in which a page is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Plain text for people.
    Text,
    /// The object in this version of [`GROUP`].
    Object(Encoding, Version),
}

/// The encoding of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Json,
    Yaml,
}

/// A version of the objects. Both have the same fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// Deprecated, as upstream's.
    V1Alpha1,
    V1Beta1,
}

impl Version {
    /// The version as in `apiVersion`, after the group.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Version::V1Alpha1 => "v1alpha1",
            Version::V1Beta1 => "v1beta1",
        }
    }
}

/// The forms that are offered, in upstream's order: of several that a range covers, the first counts.
const OFFERED: [(&str, &str, Option<Encoding>); 3] = [
    ("application", "json", Some(Encoding::Json)),
    ("application", "yaml", Some(Encoding::Yaml)),
    ("text", "plain", None),
];

/// The forms that are offered, as the text of a 406 answer.
pub(super) const ACCEPTED: &str =
    "only the following media types are accepted: application/json, application/yaml, text/plain";

/// One media range of the header.
struct Range<'a> {
    kind: &'a str,
    subtype: &'a str,
    /// The parameters, without `q`.
    parameters: Vec<(&'a str, &'a str)>,
    weight: f32,
}

/// The form for a request with this `Accept` header, of the page whose object is of this kind. `None`: there is no form
/// that the client accepts.
pub(super) fn form(accept: &str, kind: &str) -> Option<Form> {
    if accept.trim().is_empty() {
        return Some(Form::Text);
    }
    let mut ranges: Vec<Range<'_>> = accept.split(',').filter_map(range).collect();
    // The sort is stable: of equal weights the first counts.
    ranges.sort_by(|one, other| {
        let is_wide = |range: &Range<'_>| (range.kind == "*", range.subtype == "*");
        let weights = other.weight.total_cmp(&one.weight);
        weights.then_with(|| is_wide(one).cmp(&is_wide(other)))
    });
    ranges.iter().find_map(|range| {
        let mut offered = OFFERED.iter().filter(|(kind, subtype, _)| {
            let is_kind = range.kind == *kind || range.kind == "*" && range.subtype == "*";
            is_kind && (range.subtype == *subtype || range.subtype == "*")
        });
        offered.find_map(|(_, _, encoding)| allowed(range, *encoding, kind))
    })
}

/// The form that a range asks for; `None` if its parameters name another one.
fn allowed(range: &Range<'_>, encoding: Option<Encoding>, kind: &str) -> Option<Form> {
    let mut object = [None; 3];
    for (name, value) in &range.parameters {
        match *name {
            "g" => object[0] = Some(*value),
            "v" => object[1] = Some(*value),
            "as" => object[2] = Some(*value),
            // The object cannot be watched, and has no version of the server's.
            "stream" | "sv" => return None,
            _ => {}
        }
    }
    let version = match object[1] {
        Some("v1alpha1") => Version::V1Alpha1,
        _ => Version::V1Beta1,
    };
    match encoding {
        None => (object == [None; 3]).then_some(Form::Text),
        Some(encoding) => (object == [Some(GROUP), Some(version.as_str()), Some(kind)])
            .then_some(Form::Object(encoding, version)),
    }
}

/// Reads a media range. `None`: the text is none. Parameters without a value are left out.
fn range(text: &str) -> Option<Range<'_>> {
    let mut parts = text.split(';').map(str::trim);
    let (kind, subtype) = match parts.next()? {
        "*" => ("*", "*"),
        range => range.split_once('/')?,
    };
    if subtype.is_empty() || subtype.contains('/') {
        return None;
    }
    let mut range = Range {
        kind: kind.trim(),
        subtype: subtype.trim(),
        parameters: Vec::new(),
        weight: 1.0,
    };
    for part in parts {
        match part
            .split_once('=')
            .map(|(name, value)| (name.trim(), value.trim()))
        {
            None | Some((_, "")) => {}
            Some(("q", weight)) => range.weight = weight.parse().unwrap_or(0.0),
            Some(parameter) => range.parameters.push(parameter),
        }
    }
    Some(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_074_an_object_is_answered_where_group_version_and_kind_name_it() {
        let beta = |encoding| Some(Form::Object(encoding, Version::V1Beta1));
        let json = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
        for (accept, expected) in [
            ("", Some(Form::Text)),
            (" ", Some(Form::Text)),
            ("*/*", Some(Form::Text)),
            ("*", Some(Form::Text)),
            ("text/*", Some(Form::Text)),
            ("text/plain", Some(Form::Text)),
            ("text/plain;charset=utf-8", Some(Form::Text)),
            ("text/html,*/*;q=0.8", Some(Form::Text)),
            (json, beta(Encoding::Json)),
            (
                "application/json; as=Statusz; g=config.k8s.io; v=v1beta1",
                beta(Encoding::Json),
            ),
            (
                "application/yaml;v=v1beta1;g=config.k8s.io;as=Statusz",
                beta(Encoding::Yaml),
            ),
            (
                "application/json;v=v1alpha1;g=config.k8s.io;as=Statusz",
                Some(Form::Object(Encoding::Json, Version::V1Alpha1)),
            ),
            (
                "*/*;v=v1beta1;g=config.k8s.io;as=Statusz",
                beta(Encoding::Json),
            ),
            ("application/json", None),
            ("application/yaml", None),
            ("application/*", None),
            ("text/html", None),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/json;v=v1beta1;g=config.k8s.io;as=Flagz", None),
            ("application/json;v=v1beta1;g=config.k8s.io", None),
            ("application/json;v=v1beta1;as=Statusz", None),
            ("application/json;g=config.k8s.io;as=Statusz", None),
            ("application/json;v=v1;g=config.k8s.io;as=Statusz", None),
            ("application/json;v=v1beta1;g=apps;as=Statusz", None),
            ("text/plain;v=v1beta1;g=config.k8s.io;as=Statusz", None),
            (
                "application/json;v=v1beta1;g=config.k8s.io;as=Statusz;stream=watch",
                None,
            ),
            ("nonsense", None),
        ] {
            assert_eq!(form(accept, "Statusz"), expected, "{accept:?}");
        }
        for (accept, expected) in [
            (format!("text/plain;q=0.5,{json}"), beta(Encoding::Json)),
            (format!("{json};q=0.5,text/plain"), Some(Form::Text)),
            (format!("application/json,{json}"), beta(Encoding::Json)),
            (format!("*/*,{json}"), beta(Encoding::Json)),
        ] {
            assert_eq!(form(&accept, "Statusz"), expected, "{accept:?}");
        }
    }
}
