//! Certificate and key from files, into what rustls needs.
//!
//! Invariant: a server that starts has a certificate that fits its key; TLS 1.2 and 1.3 only, by
//! the ring provider, whatever other provider the process may have installed.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::TlsFiles;
use crate::error::Error;

/// Reads the files.
///
/// # Errors
/// A file is missing, is not PEM, or certificate and key do not belong together.
pub fn load(files: &TlsFiles) -> Result<Arc<ServerConfig>, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error: &dyn std::fmt::Display| Error::Tls(path, error.to_string())
    };
    let chain = CertificateDer::pem_file_iter(&files.cert)
        .and_then(|certs| certs.collect::<Result<Vec<_>, _>>())
        .map_err(|e| failed(&files.cert)(&e))?;
    if chain.is_empty() {
        return Err(failed(&files.cert)(&"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| failed(&files.key)(&e))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|e| failed(&files.key)(&e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
