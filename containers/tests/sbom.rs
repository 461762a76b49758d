//! The software bill of materials, checked against the rules of SPDX 2.3.

use std::collections::{BTreeMap, BTreeSet};

use gular_containers::sbom::{Crate, Sbom, SbomProgram, crates, spdx};
use gular_containers::{Package, Sha256, UnixTime};
use serde_json::Value;

const LOCK: &str = r#"
version = 4

[[package]]
name = "train"
version = "0.1.0"
dependencies = ["tch", "rand 0.9.1", "local"]

[[package]]
name = "local"
version = "0.2.0"
dependencies = ["rand 0.8.5 (registry+https://github.com/rust-lang/crates.io-index)"]

[[package]]
name = "tch"
version = "0.24.0+x"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
dependencies = ["train-not"]

[[package]]
name = "train-not"
version = "1.0.0"
source = "git+https://example.org/x?rev=1#0123"
dependencies = ["tch"]

[[package]]
name = "rand"
version = "0.8.5"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

[[package]]
name = "rand"
version = "0.9.1"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"

[[package]]
name = "unused"
version = "1.0.0"
"#;

/// A digest that is one digit, 64 times.
fn sha256(digit: char) -> Sha256 {
    digit.to_string().repeat(64).parse().unwrap()
}

fn deb(name: &str, version: &str) -> Package {
    Package {
        name: name.to_owned(),
        version: version.to_owned(),
        arch: Some("amd64".to_owned()),
        bytes: 1,
        sha256: sha256('0'),
        urls: Vec::new(),
        license: None,
    }
}

fn wheel(name: &str, license: Option<&str>) -> Package {
    Package {
        name: name.to_owned(),
        version: "2.11.0+cpu".to_owned(),
        arch: None,
        bytes: 1,
        sha256: sha256('1'),
        license: license.map(str::to_owned),
        urls: vec!["https://files.pythonhosted.org/x.whl".to_owned()],
    }
}

fn document(time: i64) -> Value {
    let debs = [
        deb("libstdc++6", "12.2.0-14+deb12u1"),
        deb("libstdc--6", "12.2.0-14-deb12u1"),
        deb("attr", "1:2.5~1"),
    ];
    let wheels = [
        wheel("torch", Some("BSD-3-Clause")),
        wheel("NVIDIA_cudnn", Some("LicenseRef-NVIDIA-Proprietary")),
        wheel("nvidia-nccl", Some("NVIDIA Proprietary Software")),
        wheel("odd", Some("")),
        wheel("two", Some("(MIT OR Apache-2.0) AND Zlib")),
        wheel("none", None),
    ];
    let program = SbomProgram { name: "train".to_owned(), version: None, sha256: sha256('2') };
    let crates = crates(LOCK, Some("train")).unwrap();
    let sbom = Sbom {
        name: "train",
        time: UnixTime(time),
        tool: "gular-0.1.0",
        debs: &debs,
        wheels: &wheels.iter().collect::<Vec<_>>(),
        base: Some(sha256('4').into()),
        program: Some(&program),
        crates: &crates,
    };
    assert_eq!(spdx(&sbom), spdx(&sbom.clone()));
    serde_json::from_str(&spdx(&sbom)).unwrap()
}

/// Returns the text of a field, which must exist.
fn field<'a>(of: &'a Value, name: &str) -> &'a str {
    of[name].as_str().ok_or_else(|| format!("{name} of {of}")).unwrap()
}

fn is_id(text: &str, start: &str) -> bool {
    text.strip_prefix(start).is_some_and(|rest| {
        !rest.is_empty() && rest.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c))
    })
}

#[test]
fn the_rules_of_spdx_hold() {
    let document = document(1_700_000_000);
    assert_eq!(field(&document, "spdxVersion"), "SPDX-2.3");
    assert_eq!(field(&document, "dataLicense"), "CC0-1.0");
    assert_eq!(field(&document, "SPDXID"), "SPDXRef-DOCUMENT");
    assert!(!field(&document, "name").is_empty());
    let namespace = field(&document, "documentNamespace");
    assert!(namespace.starts_with("https://") && !namespace.contains('#'), "{namespace}");
    let info = &document["creationInfo"];
    assert_eq!(field(info, "created"), "2023-11-14T22:13:20Z");
    assert_eq!(info["creators"][0], "Tool: gular-0.1.0");

    let texts = document["hasExtractedLicensingInfos"].as_array().unwrap();
    let mut licenses =
        BTreeSet::from(["NOASSERTION", "BSD-3-Clause", "(MIT OR Apache-2.0) AND Zlib"]);
    for text in texts {
        assert!(is_id(field(text, "licenseId"), "LicenseRef-"), "{text}");
        assert!(!field(text, "extractedText").is_empty());
        assert!(licenses.insert(field(text, "licenseId")), "{text} twice");
    }
    assert_eq!(texts.len(), 3);

    let mut ids = BTreeSet::from(["SPDXRef-DOCUMENT"]);
    for package in document["packages"].as_array().unwrap() {
        assert!(is_id(field(package, "SPDXID"), "SPDXRef-"), "{package}");
        assert!(ids.insert(field(package, "SPDXID")), "{package} twice");
        assert!(!field(package, "name").is_empty());
        let place = field(package, "downloadLocation");
        assert!(place == "NOASSERTION" || place.contains("://"), "{place}");
        // Without files there is no verification code.
        assert_eq!(package["filesAnalyzed"], false);
        assert!(licenses.contains(field(package, "licenseDeclared")), "{package}");
        assert!(
            ["APPLICATION", "CONTAINER", "LIBRARY"]
                .contains(&field(package, "primaryPackagePurpose"))
        );
        for checksum in package["checksums"].as_array().into_iter().flatten() {
            assert_eq!(field(checksum, "algorithm"), "SHA256");
            assert!(field(checksum, "checksumValue").bytes().all(|b| b.is_ascii_hexdigit()));
        }
        for reference in package["externalRefs"].as_array().into_iter().flatten() {
            assert_eq!(field(reference, "referenceCategory"), "PACKAGE-MANAGER");
            assert_eq!(field(reference, "referenceType"), "purl");
            assert!(field(reference, "referenceLocator").starts_with("pkg:"));
        }
    }
    // Each element is contained in something that the document describes.
    let mut reached = BTreeSet::from(["SPDXRef-DOCUMENT"]);
    for relationship in document["relationships"].as_array().unwrap() {
        let [from, kind, to] = ["spdxElementId", "relationshipType", "relatedSpdxElement"]
            .map(|name| field(relationship, name));
        assert_eq!(kind, if from == "SPDXRef-DOCUMENT" { "DESCRIBES" } else { "CONTAINS" });
        assert!(reached.contains(from) && ids.contains(to), "{relationship}");
        reached.insert(to);
    }
    assert_eq!(reached, ids);
}

#[test]
fn packages_are_named_as_scanners_know_them() {
    let document = document(0);
    let packages = document["packages"].as_array().unwrap();
    let purl = |package: &Value| {
        package["externalRefs"][0]["referenceLocator"].as_str().map(str::to_owned)
    };
    let purls: Vec<_> = packages.iter().filter_map(purl).collect();
    assert_eq!(
        purls,
        [
            "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1?arch=amd64",
            "pkg:deb/debian/libstdc--6@12.2.0-14-deb12u1?arch=amd64",
            "pkg:deb/debian/attr@1:2.5~1?arch=amd64",
            "pkg:pypi/torch@2.11.0%2Bcpu",
            "pkg:pypi/nvidia-cudnn@2.11.0%2Bcpu",
            "pkg:pypi/nvidia-nccl@2.11.0%2Bcpu",
            "pkg:pypi/odd@2.11.0%2Bcpu",
            "pkg:pypi/two@2.11.0%2Bcpu",
            "pkg:pypi/none@2.11.0%2Bcpu",
            "pkg:cargo/rand@0.8.5",
            "pkg:cargo/rand@0.9.1",
            "pkg:cargo/tch@0.24.0%2Bx",
        ]
    );
}

#[test]
fn another_content_is_another_name_space() {
    let [a, b] = [document(1), document(2)].map(|d| field(&d, "documentNamespace").to_owned());
    assert_ne!(a, b);
}

#[test]
fn crates_are_those_that_the_program_needs() {
    let all = crates(LOCK, None).unwrap();
    assert_eq!(all.len(), 7);
    let names = |crates: &[Crate]| {
        crates.iter().map(|one| format!("{} {}", one.name, one.version)).collect::<Vec<_>>()
    };
    let of_train = crates(LOCK, Some("train")).unwrap();
    let expected = ["local 0.2.0", "rand 0.8.5", "rand 0.9.1", "tch 0.24.0+x", "train-not 1.0.0"];
    assert_eq!(names(&of_train), expected);
    let by_name: BTreeMap<_, _> = of_train.iter().map(|one| (one.name.as_str(), one)).collect();
    assert_eq!(by_name["tch"].checksum, Some(sha256('a')));
    for (text, root, says) in [
        ("[[package]]\nname = 3", None, "line 2"),
        (LOCK, Some("none"), "no package `none`"),
        ("[[package", None, "Cargo.lock"),
    ] {
        let error = crates(text, root).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}
