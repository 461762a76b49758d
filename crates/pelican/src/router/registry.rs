//! The registry of a federation: it lists the namespaces, also those whose origins are away.
//!
//! ```text
//! director: 404, no origin ─▶ REGISTRY/api/v1.0/registry_ui/namespaces ─▶ [{"prefix": "/ns"}, …]
//! ```
//!
//! A director says the same of a namespace whose origin is away and of one that does not exist. It
//! may help to ask again only for the first.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hyper::Method;
use tokio::time::timeout;

use crate::http::{Request, Role, Server};
use crate::path::below;
use crate::route::Place;
use crate::router::Router;
use crate::router::routes::Director;
use crate::{Error, Url};

/// Where a registry lists namespaces; its own web pages use this, and it needs no token.
const LIST: &str = "/api/v1.0/registry_ui/namespaces";

/// Some 10,000 namespaces with their keys and contacts.
const MAX_LIST_BYTES: usize = 16 << 20;

/// How long the registry may take. Without its answer, the namespace may exist.
const HASTE: Duration = Duration::from_secs(10);

/// Below these a registry lists servers, which have no objects there.
const OF_SERVERS: [&str; 2] = ["/caches", "/origins"];

impl Router {
    /// Returns the error for `url`, for which `director` knows no origin.
    pub(crate) async fn without_origin(&self, url: &Url, director: &Server, said: String) -> Error {
        let shown = url.to_string();
        let known = timeout(HASTE, self.registered(url.authority())).await.ok().flatten();
        match known {
            Some(known) if !known.iter().any(|prefix| below(url.path(), prefix).is_some()) => {
                let nearest = nearest(url.path(), &known).map(str::to_owned);
                Error::NoNamespace { url: shown, host: url.authority().to_owned(), nearest }
            }
            _ => Error::NoOrigin { url: shown, director: director.to_string(), said },
        }
    }

    /// Returns the namespaces that the federation's registry lists; `None` if it does not say.
    async fn registered(&self, authority: &str) -> Option<Arc<Vec<String>>> {
        let kept = &self.routes.registered.0;
        let known = kept.lock().unwrap_or_else(PoisonError::into_inner).get(authority).cloned();
        if known.is_some() {
            return known;
        }
        let Ok(Director::At { registry: Some(registry), .. }) = self.director(authority).await
        else {
            return None;
        };
        let Place { server, target } = registry;
        let target = format!("{}{LIST}", target.trim_end_matches('/'));
        let request = Request::new(Method::GET, &server, target).role(Role::Director);
        let response = self.http.send(&request).await.ok()?;
        if response.status != 200 {
            response.finish().await;
            return None;
        }
        let found = Arc::new(parse(&response.read(MAX_LIST_BYTES).await.ok()?)?);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.insert(authority.to_owned(), Arc::clone(&found));
        Some(found)
    }
}

/// Returns the namespaces in a registry's list; `None` if it is not such a list, or has none.
fn parse(json: &[u8]) -> Option<Vec<String>> {
    let list: Vec<serde_json::Value> = serde_json::from_slice(json).ok()?;
    let prefix = |entry: &serde_json::Value| Some(entry.get("prefix")?.as_str()?.to_owned());
    let mut all: Vec<String> = list.iter().map(prefix).collect::<Option<_>>()?;
    all.retain(|prefix| OF_SERVERS.iter().all(|servers| below(prefix, servers).is_none()));
    all.retain(|prefix| prefix.starts_with('/'));
    (!all.is_empty()).then_some(all)
}

/// Returns the namespace that the path was probably meant to begin with, if one is similar.
fn nearest<'a>(path: &str, namespaces: &'a [String]) -> Option<&'a str> {
    let distance = |namespace: &str| {
        let n_segments = namespace.split('/').count();
        let start: Vec<&str> = path.split('/').take(n_segments).collect();
        let start = start.join("/").to_lowercase();
        strsim::damerau_levenshtein(&start, &namespace.to_lowercase())
    };
    // A third of its letters: more is another word.
    let near = namespaces.iter().map(|namespace| (distance(namespace), namespace));
    let near = near.filter(|(distance, namespace)| *distance <= namespace.len() / 3);
    near.min().map(|(_, namespace)| namespace.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_without_its_servers() {
        let list = br#"[{"id": 1, "prefix": "/caches/c"}, {"id": 2, "prefix": "/ospool/ap20"}]"#;
        assert_eq!(parse(list), Some(vec!["/ospool/ap20".to_owned()]));
        for other in [&b"[]"[..], b"{}", b"[{}]", b"<html>", br#"[{"prefix": "/origins/o"}]"#] {
            assert_eq!(parse(other), None);
        }
    }

    #[test]
    fn the_nearest_namespace_is_a_similar_one() {
        let known = ["/ospool/ap20", "/ospool/ap21", "/mylab"].map(str::to_owned);
        let check = |path: &str, expected| assert_eq!(nearest(path, &known), expected, "{path}");
        check("/mylib/x", Some("/mylab"));
        check("/MyLab", Some("/mylab"));
        check("/opsool/ap21/data/x", Some("/ospool/ap21"));
        check("/chtc/x", None);
        check("/", None);
    }
}
