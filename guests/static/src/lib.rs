//! The provider for machines without a cloud: bare metal, a laptop, the other half of a hybrid cluster. Its knowledge
//! about nodes is one document of the operator's, and it can send no request at all: its manifest names no target.
//!
//! In reading order: [`document`] (text → rules; all mistakes at once), `fields` (typed access to a parsed document),
//! [`rule`] (which nodes a rule matches, and the instance that it describes; pure) and [`find`] (one rule for each
//! node, or none).

pub mod document;
mod fields;
pub mod find;
pub mod rule;

use ccm_guest::{Config, Error, FindReply, Instances, Node, Provider};

use document::Document;

/// The static provider with its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Static {
    document: Document,
}

impl Provider for Static {
    fn init(config: &Config) -> Result<Static, Error> {
        let document = Document::read(config)?;
        Ok(Static { document })
    }
}

impl Instances for Static {
    fn find(&self, nodes: Vec<Node>) -> Result<FindReply, Error> {
        let lookups = nodes.iter().map(|node| find::look_up(&self.document, node));
        Ok(FindReply::new(lookups.collect()))
    }
}

ccm_guest::export_provider! {
    provider: Static,
    interfaces: [instances],
    manifest: "manifest.json",
}
