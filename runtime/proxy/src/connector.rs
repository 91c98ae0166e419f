//! Connector that connects directly or through a proxy. The proxy sees the name and the port of the server, and
//! otherwise only the bytes in the tunnel: TLS, which it cannot read.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::Connection;
use tower::{BoxError, Service};

use crate::Proxy;
use crate::tunnel::{ProxyError, open};

/// Connection to a server, on top of the connector `C`, which opens sockets.
#[derive(Clone)]
pub enum Connector<C> {
    /// Connects without a proxy.
    Direct(C),
    /// Connects through a proxy. Its connector has the TLS settings for proxies at `https://`.
    Through(Arc<Proxy>, HttpsConnector<C>),
}

impl<C, S> Service<Uri> for Connector<C>
where
    C: Service<Uri, Response = S>,
    C::Future: Send + 'static,
    C::Error: Into<BoxError>,
    S: Read + Write + Connection + Send + Unpin + 'static,
{
    type Response = MaybeHttpsStream<S>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        match self {
            Connector::Direct(connector) => connector.poll_ready(context).map_err(Into::into),
            Connector::Through(_, connector) => connector.poll_ready(context),
        }
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        match self {
            Connector::Direct(connector) => {
                let stream = connector.call(server);
                Box::pin(
                    async move { Ok(MaybeHttpsStream::Http(stream.await.map_err(Into::into)?)) },
                )
            }
            Connector::Through(proxy, connector) => {
                let dialled = proxy.url().map(|url| connector.call(url));
                let proxy = proxy.clone();
                Box::pin(async move {
                    let unreachable = |source: BoxError| ProxyError::Unreachable {
                        proxy: proxy.to_string(),
                        source,
                    };
                    let dialled = dialled.map_err(|error| unreachable(error.into()))?;
                    let stream = dialled.await.map_err(unreachable)?;
                    Ok(open(&proxy, stream, &server).await?)
                })
            }
        }
    }
}
