//! `ccm provider status`: shows a cluster's `Provider` objects. Read-only.

mod table;

use anyhow::{Context as _, bail};
use ccm_delivery::record::provider_resource;
use kube::api::{DynamicObject, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::arguments::{Status, StatusForm};
use super::{Verdict, cluster, output};

/// Reads the objects and describes them.
pub(super) async fn status(options: &Status) -> anyhow::Result<Verdict> {
    let (client, unreadable) = cluster::client(&options.cluster).await?;
    read(options, client).await.context(unreadable)
}

async fn read(options: &Status, client: Client) -> anyhow::Result<Verdict> {
    let api: Api<DynamicObject> = Api::all_with(client, &provider_resource());
    let listed = api.list(&ListParams::default()).await;
    let mut objects = match listed {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => bail!(
            "the cluster has no kind Provider (CRD providers.wasm-ccm.dev): without it the manager keeps these records in memory, and only its log tells"
        ),
        Err(error) => {
            return Err(error).context("the cluster's providers cannot be listed");
        }
    };
    if let Some(name) = &options.name {
        objects.retain(|object| object.metadata.name.as_ref() == Some(name));
        if objects.is_empty() {
            bail!("the cluster has no provider {name:?}");
        }
    }
    Ok(Verdict::yes(match options.output {
        StatusForm::Json => {
            let items: Vec<_> = objects.iter().map(as_json).collect();
            output::json(&json!({ "providers": items }))
        }
        StatusForm::Text => table::describe(&objects, false),
        StatusForm::Wide => table::describe(&objects, true),
    }))
}

/// The object without fields that only the API server uses.
fn as_json(object: &DynamicObject) -> Value {
    json!({
        "name": object.metadata.name,
        "created": object.metadata.creation_timestamp,
        "annotations": object.metadata.annotations,
        "status": object.data.get("status"),
    })
}
