//! The environment, as a value. No other part of the libraries reads it from the process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;

/// All variables that Gular's programs read, so that a test can set each of them. [`Env::get`] looks
/// for a variable here first where debug assertions are on.
pub const VARIABLES: [&str; 65] = [
    // Tokens and credentials.
    "BEARER_TOKEN",
    "BEARER_TOKEN_FILE",
    "TOKEN",
    "_CONDOR_CREDS",
    "REGISTRY_AUTH_FILE",
    "DOCKER_CONFIG",
    // The network.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "X509_CERT_DIR",
    "HTTPS_PROXY",
    "https_proxy",
    "http_proxy",
    "NO_PROXY",
    "no_proxy",
    "NEAREST_CACHE",
    "PELICAN_NEAREST_CACHE",
    "PELICAN_CLIENT_PREFERREDCACHES",
    // Folders.
    "GULAR_CACHE",
    "GULAR_IMAGE_CACHE",
    "HOME",
    "PATH",
    "LD_LIBRARY_PATH",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "_CONDOR_SCRATCH_DIR",
    "SLURM_TMPDIR",
    // The job and its end.
    "_CONDOR_JOB_AD",
    "_CONDOR_MACHINE_AD",
    "SLURM_JOB_ID",
    "SLURM_JOB_END_TIME",
    // Ranks.
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_RANK",
    "SLURM_STEP_ID",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_LOCAL_RANK",
    "MV2_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_SIZE",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "_CONDOR_PROCNO",
    "_CONDOR_NPROCS",
    // A screen, on which a browser may open.
    "DISPLAY",
    "WAYLAND_DISPLAY",
    // Libraries that compute.
    "OMP_NUM_THREADS",
    "LIBTORCH",
    "ATEN_CPU_CAPABILITY",
    "ONEDNN_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    // Cargo sets it for programs that it starts; `gular image build` starts cargo by it.
    "CARGO",
];

/// Variables that lead to tokens and to nothing else. One that is itself a token, given by mistake,
/// is hidden in results, too.
pub const FOR_TOKENS: [&str; 5] =
    ["BEARER_TOKEN", "BEARER_TOKEN_FILE", "TOKEN", "XDG_RUNTIME_DIR", "_CONDOR_CREDS"];

/// Environment variables by name.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Env(BTreeMap<String, String>);

impl Env {
    /// Reads the environment of this process, without values that are not UTF-8.
    #[must_use]
    pub fn process() -> Self {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self(std::env::vars_os().filter_map(text).collect())
    }

    /// Makes an environment of only these variables.
    #[must_use]
    pub fn from_pairs(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    /// The value of `name`, one of [`VARIABLES`]; an empty one counts as not set.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        debug_assert!(VARIABLES.contains(&name) || name.is_empty(), "VARIABLES lacks `{name}`");
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The names of all variables, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }
}

impl fmt::Debug for Env {
    /// Shows names alone, since a value may be a token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_has_an_environment() {
        assert!(Env::process().get("PATH").is_some());
    }

    #[test]
    fn values_do_not_show() {
        let env = Env::from_pairs(&[("BEARER_TOKEN", "secret"), ("TOKEN", "")]);
        assert_eq!(env.get("BEARER_TOKEN"), Some("secret"));
        assert_eq!(env.get("TOKEN"), None);
        assert!(!format!("{env:?}").contains("secret"));
    }
}
